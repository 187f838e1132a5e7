"""Look for errors in a series of checkpoints before measuring it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.core.observations import AuditFinding
from toposcope.core.progress import track
from toposcope.core.repeats import together
from toposcope.core.types import Checkpoint
from toposcope.sources.adapter_state import adapter_state
from toposcope.sources.audit_checks import CHECKS
from toposcope.sources.audit_evidence import distance, gather
from toposcope.sources.series import Series

MAX_FOLLOWED = 64
"""The audit searches for the causes of at most this many findings about single tensors."""


def audit(series: Series, *, cheap: bool = False, quiet: bool = True) -> list[AuditFinding]:
    """Return what is wrong with a series; an empty list if nothing is.

    Parameters
    ----------
    series
        The checkpoints to audit.
    cheap
        Read only the headers and a sample of every tensor's rows, and compare the samples from step to step;
        this suffices to find swapped steps. Otherwise read every value, for a content hash of every tensor at
        every step and its change from step to step.
    quiet
        Show no progress.

    Returns
    -------
    list of AuditFinding
        Sorted by run, step and fault. Many equal findings become one, with their number, steps, tensors and
        runs.
    """
    found = list(series.findings)
    for run in series.names:
        steps = list(
            track(gather(series, run, cheap=cheap), f"auditing {run}", len(series.of_run(run)), quiet=quiet)
        )
        own = _once([finding for check in CHECKS for finding in check(steps)])
        own = without_rests(series, run, own)
        own = _of_adapters(series, run, own)
        found += own if cheap else _explain(series, own)
        found += _metrics(series, run)
    order = {run: index for index, run in enumerate(series.names)}
    found = together(found, lambda finding: finding.fault)
    return sorted(
        found,
        key=lambda f: (order.get(f.run, len(order)), -1 if f.step is None else f.step, f.fault, f.tensor),
    )


def _of_adapters(series: Series, run: str, findings: list[AuditFinding]) -> list[AuditFinding]:
    """Return the findings on a run of adapters, including adapters that change nothing.

    An unchanged matrix is not a finding, because targets may stay untrained. A run may also begin with zero
    changes.
    """
    checkpoints = series.of_run(run)
    more = []
    for checkpoint in checkpoints[1:] or checkpoints:
        try:
            state = adapter_state(series, checkpoint)
        except SourceError:  # already a finding
            continue
        if state is None:
            return findings
        more += [fault for fault in state.faults if fault.fault == "zero-adapter"]
    return [*(finding for finding in findings if finding.fault != "zero-tensor"), *more]


PATH_FAULTS = ("off-path", "jump", "out-of-order")


def _once(findings: list[AuditFinding]) -> list[AuditFinding]:
    """Drop the finding that a tensor left its path if it is known to be zero, missing or not finite."""
    known = {
        (f.step, f.tensor) for f in findings if f.fault not in PATH_FAULTS and f.fault != "step-mismatch"
    }
    whole = {step for step, tensor in known if not tensor}
    return [
        finding
        for finding in findings
        if finding.fault not in PATH_FAULTS
        or ((finding.step, finding.tensor) not in known and finding.step not in whole)
    ]


def without_rests(series: Series, run: str, findings: list[AuditFinding]) -> list[AuditFinding]:
    """Drop findings of equal weights if every learning rate recorded in between is zero.

    This happens in a warm-up that begins at zero, and after a schedule has reached zero.
    """
    steps = [checkpoint.step for checkpoint in series.of_run(run)]
    between = {"identical": dict(zip(steps[1:], itertools.pairwise(steps), strict=False))}
    between["equals-final"] = {step: (step, steps[-1]) for step in steps}
    if not any(finding.fault in between for finding in findings):
        return findings
    try:
        rates = series.metrics(run)
    except SourceError:
        return findings

    def rested(finding: AuditFinding) -> bool:
        start, stop = between.get(finding.fault, {}).get(finding.step or 0, (0, 0))
        inside = rates.loc[(rates["step"] >= start) & (rates["step"] < stop), "learning_rate"]
        return len(inside) > 0 and bool((inside == 0).all())

    return [finding for finding in findings if not rested(finding)]


def _metrics(series: Series, run: str) -> Iterator[AuditFinding]:
    """Return findings on a loss history that is not finite, or out of order."""
    try:
        raw = series.raw_steps(run)
        losses = series.metrics(run)
    except SourceError as error:
        yield AuditFinding(run, None, "", str(error), fault="unreadable-metrics")
        return
    if any(b < a for a, b in itertools.pairwise(raw)):
        text = "the steps of its loss history are out of order"
        yield AuditFinding(run, None, "", text, fault="unsorted-metrics")
    if len(set(raw)) < len(raw):
        yield AuditFinding(run, None, "", "its loss history has a step twice", fault="duplicate-metrics")
    bad = losses.loc[np.isinf(losses["loss"].astype(float)), "step"]
    for step in bad:
        yield AuditFinding(run, int(step), "", "the loss recorded here is infinite", fault="non-finite-loss")


def _explain(series: Series, findings: list[AuditFinding]) -> list[AuditFinding]:
    """Add what happened to tensors that jumped or left the path, if it can be determined."""
    out = []
    followed = 0
    jumped: dict[int, list[AuditFinding]] = {}
    for finding in findings:
        if finding.fault in ("jump", "off-path") and finding.tensor and finding.step is not None:
            jumped.setdefault(finding.step, []).append(finding)
    for finding in findings:
        if finding.step in jumped and finding in jumped[finding.step] and followed < MAX_FOLLOWED:
            followed += 1
            finding = _what_happened(series, finding, [other.tensor for other in jumped[finding.step]])
        out.append(finding)
    return out


def _what_happened(series: Series, finding: AuditFinding, others: list[str]) -> AuditFinding:
    checkpoints = series.of_run(finding.run)
    index = next(i for i, checkpoint in enumerate(checkpoints) if checkpoint.step == finding.step)
    before, now = checkpoints[index - 1], checkpoints[index]
    try:
        with series.reading(before) as old, series.reading(now) as new:
            previous, current = old.read(finding.tensor), new.read(finding.tensor)
            moved = distance(current, previous)
            for other in others:
                info = old.infos().get(other)
                alike = other != finding.tensor and info is not None and info.shape == previous.shape
                if alike and distance(current, old.read(other)) < 0.5 * moved:
                    text = f"holds what {other!r} held at step {before.step:,}"
                    return _with_cause(finding, "swapped-tensors", text)
    except SourceError:
        return finding
    return _transformed(finding, previous, current, moved, before)


def _transformed(
    finding: AuditFinding, previous: np.ndarray, current: np.ndarray, moved: float, before: Checkpoint
) -> AuditFinding:
    old, new = previous.astype(np.float64), current.astype(np.float64)
    scale = float((new * old).sum() / max(float((old * old).sum()), 1e-300))
    if distance(new, scale * old) < 0.25 * moved:
        fault, what = (
            ("negated-tensor", "changed its sign")
            if abs(scale + 1) < 0.2
            else ("rescaled-tensor", f"was scaled by {scale:.4g}")
        )
        return _with_cause(finding, fault, f"{what} since step {before.step:,}")
    if old.ndim == 2 and old.shape[0] == old.shape[1] and distance(new, old.T) < 0.5 * moved:
        return _with_cause(finding, "transposed-tensor", f"is transposed compared with step {before.step:,}")
    if distance(np.sort(new, axis=None), np.sort(old, axis=None)) < 0.2 * moved:
        return _with_cause(
            finding, "permuted-tensor", f"holds the values of step {before.step:,} in another order"
        )
    return finding


def _with_cause(finding: AuditFinding, fault: str, message: str) -> AuditFinding:
    return dataclasses.replace(finding, fault=fault, message=message)
