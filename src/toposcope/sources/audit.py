"""Look for errors in a series of checkpoints before measuring it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.core.observations import AuditFinding
from toposcope.core.progress import track
from toposcope.core.repeats import together
from toposcope.core.types import Checkpoint
from toposcope.files.blobs import OUTSIDE
from toposcope.files.formats.foreign import OPTIMIZER_ALONE
from toposcope.sources.adapter_state import adapter_state
from toposcope.sources.audit_checks import CHECKS, NEWEST_CHECKS
from toposcope.sources.audit_content import FACTOR
from toposcope.sources.audit_evidence import StepEvidence, distance, gather
from toposcope.sources.coverage import Coverage, RunCoverage, WeightsBeside
from toposcope.sources.experts import KINDS, without_parts, without_usual
from toposcope.sources.optimizer.resuming import findings_of, keeps_state, resumption, without_frozen
from toposcope.sources.optimizer.resumption import Resumption
from toposcope.sources.rows import MOSTLY, exchanged_share
from toposcope.sources.series import Series

_MOST_ARRIVED = 8
"""The most checkpoints of a run, before its newest, whose training's state is judged as well."""
MAX_FOLLOWED = 64
"""The audit searches for the causes of at most this many findings about single tensors."""


@dataclasses.dataclass(frozen=True, slots=True)
class Audited:
    """The findings of an audit, faults and remarks, and which tensors they are about.

    `resume` says of the newest checkpoint of each run whether training can be resumed from it. Those that
    arrived with it come before it; their faults are no findings.
    """

    findings: list[AuditFinding]
    coverage: Coverage
    resume: tuple[Resumption, ...] = ()


def audit(
    series: Series, *, cheap: bool = False, newest: bool = False, quiet: bool = True
) -> list[AuditFinding]:
    """Return the findings of `audited`: what is wrong with a series, and what is remarkable."""
    return audited(series, cheap=cheap, newest=newest, quiet=quiet).findings


def audited(
    series: Series,
    *,
    cheap: bool = False,
    newest: bool = False,
    arrived: Collection[str] = (),
    quiet: bool = True,
) -> Audited:
    """Return what is wrong with a series, and what was checked.

    Parameters
    ----------
    series
        The checkpoints to audit.
    cheap
        Read only the headers and a sample of every tensor's rows, and compare the samples from step to step;
        this suffices to find swapped steps and tensors that were scaled or replaced. Otherwise read every
        value, for a content hash of every tensor at every step and its change from step to step.
    newest
        Judge only the newest checkpoint of every run, against the one before it.
    arrived
        Places of checkpoints from which, too, it is judged whether training can be resumed: the last few of
        a run.
    quiet
        Show no progress.

    Returns
    -------
    Audited
        Its findings are sorted by run, step and fault. Many equal findings become one, with their number,
        steps, tensors and runs.
    """
    findings = [] if newest else list(series.findings)
    seen: list[RunCoverage] = []
    resume: list[Resumption] = []
    for run in series.names:
        there = series.of_run(run)
        checkpoints = there[-2:] if newest else there
        steps = list(
            track(
                gather(series, checkpoints, cheap=cheap, quick=newest),
                f"auditing {run}",
                len(checkpoints),
                quiet=quiet,
            )
        )
        coverage = RunCoverage.of(run, steps, newest=newest)
        of_run = _of_run(series, run, steps, cheap=cheap, newest=newest)
        answer = resumption(series, run, steps, of_run, sample=cheap)
        earlier = list(_of_arrived(series, run, steps, of_run, arrived, sample=cheap))
        resume += earlier
        if answer is not None:
            resume.append(answer)
            of_run = without_frozen(of_run, steps, answer)
            of_run += findings_of(answer)
            if answer.moments_read:
                coverage = coverage.with_states_read(1 + sum(state.moments_read for state in earlier))
        seen.append(coverage)
        findings += of_run
    order = {run: index for index, run in enumerate(series.names)}
    beside = WeightsBeside(foreign=tuple(series.beside.foreign))
    for copy in series.beside.copies:
        name = copy.run.run.partition("/")[2]
        if newest:
            beside.unopened.append(name)
            continue
        of_copy = audited(Series(series.uri, [copy]), cheap=cheap, quiet=True)
        if any("contains no tensors" in finding.message for finding in of_copy.findings):
            continue
        if any(OPTIMIZER_ALONE in finding.message for finding in of_copy.findings):
            beside.optimizer.append(name)
            continue
        of_file = [finding for finding in of_copy.findings if finding.fault != "step-mismatch"]
        findings += [
            dataclasses.replace(finding, step=None, steps=()) for finding in of_file
        ]  # it states none
        (beside.alone if of_copy.coverage.checked else beside.unopened).append(name)
    linked = [finding for finding in findings if OUTSIDE in finding.message]
    same = [finding for finding in findings if finding.fault == "equals-final"]
    others = [
        finding for finding in findings if OUTSIDE not in finding.message and finding.fault != "equals-final"
    ]
    findings = together(others, lambda finding: finding.fault)
    runs = dict.fromkeys(finding.run for finding in same)  # within a run, each says the same of its step
    by_run = [
        line for run in runs for line in together([finding for finding in same if finding.run == run], most=1)
    ]
    findings += together(by_run)
    findings += together(linked, most=1)  # one link leads out of a folder for the reason of all the others
    findings.sort(
        key=lambda f: (order.get(f.run, len(order)), -1 if f.step is None else f.step, f.fault, f.tensor)
    )
    return Audited(findings, Coverage(tuple(seen), beside), tuple(resume))


def _of_arrived(
    series: Series, run: str, steps: Sequence[StepEvidence], findings: Sequence[AuditFinding],
    arrived: Collection[str], *, sample: bool,
) -> Iterator[Resumption]:  # fmt: skip
    """Yield the answers for a run's checkpoints before the newest that are among `arrived`, the last few."""
    places = [at for at, step in enumerate(steps[:-1]) if step.checkpoint.uri in arrived]
    for at in places[-_MOST_ARRIVED:]:
        answer = resumption(series, run, steps[: at + 1], findings, sample=sample)
        if answer is not None:
            yield answer


def resumptions(series: Series) -> tuple[Resumption, ...]:
    """Return whether runs that keep a training's state can be resumed from their newest checkpoint.

    A sample of their last two checkpoints is read; of runs without such a state, no tensor is.
    """
    answers = []
    for run in series.names:
        checkpoints = series.of_run(run)[-2:]
        if not any(keeps_state(checkpoint.uri) for checkpoint in checkpoints):
            continue
        steps = list(gather(series, checkpoints, cheap=True, quick=True))
        faults = _of_run(series, run, steps, cheap=True, newest=True)
        answer = resumption(series, run, steps, faults, sample=True)
        answers += [answer] if answer is not None else []
    return tuple(answers)


def _of_run(
    series: Series, run: str, steps: list[StepEvidence], *, cheap: bool, newest: bool
) -> list[AuditFinding]:
    checks = NEWEST_CHECKS if newest else CHECKS
    candidates = [finding for check in checks for finding in check(steps)]
    findings = _once(without_parts(without_usual(steps, candidates)))
    findings = without_rests(series, run, findings)
    findings = _of_adapters(series, run, findings)
    if not cheap:
        findings = _explain(series, findings)
    if newest:
        last = steps[-1].checkpoint.step
        findings = [finding for finding in findings if finding.step == last]
    findings = with_way_back(findings, [step.checkpoint.step for step in steps])
    return findings if newest else [*findings, *_metrics(series, run)]


def with_way_back(findings: list[AuditFinding], steps: Sequence[int]) -> list[AuditFinding]:
    """Add to each fault of a tensor's values the last step before it that has no fault.

    >>> found = AuditFinding("a", 20, "fc", "was multiplied by 100 since step 10", fault="rescaled-tensor")
    >>> with_way_back([found], [0, 10, 20])[0].message
    'was multiplied by 100 since step 10; go back to step 10'
    """
    faulty = {finding.step for finding in findings if not finding.is_remark}
    out = []
    for finding in findings:
        sound = [
            step for step in steps if finding.step is not None and step < finding.step and step not in faulty
        ]
        if finding.fault in _OF_VALUES and sound and "; " not in finding.message:
            finding = dataclasses.replace(
                finding, message=f"{finding.message}; go back to step {sound[-1]:,}"
            )
        out.append(finding)
    return out


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
REPLACED = (
    "replaced-tensor", "replaced-rows", "exchanged-rows", "swapped-rows", "copied-rows", "other-weights",
)  # fmt: skip

_OF_VALUES = (
    *REPLACED, "rescaled-tensor", "negated-tensor", "denormal-tensor", "near-zero-tensor", "zero-tensor",
    "constant-tensor",
    "zero-block", "non-finite", "swapped-tensors", "permuted-tensor", "transposed-tensor", "copied-tensor",
    *KINDS,
)  # fmt: skip


def _once(findings: list[AuditFinding]) -> list[AuditFinding]:
    """Keep the most definite finding on a tensor at a step: its cause, else its content, else its path."""
    vague = {"step-mismatch", *PATH_FAULTS}
    places = {(finding.step, finding.tensor) for finding in findings if finding.fault not in vague}
    causes = {
        (finding.step, finding.tensor) for finding in findings if finding.fault not in {*vague, *REPLACED}
    }
    whole = {step for step, tensor in places if not tensor}

    def is_definite(one: AuditFinding) -> bool:
        at = (one.step, one.tensor)
        if one.fault in PATH_FAULTS:
            return at not in places and one.step not in whole
        return one.fault not in REPLACED or (at not in causes and (one.step, "") not in causes)

    return [finding for finding in findings if is_definite(finding)]


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


UNEXPLAINED = ("jump", "off-path", "replaced-tensor", "replaced-rows", "exchanged-rows")


def _explain(series: Series, findings: list[AuditFinding]) -> list[AuditFinding]:
    """Add what happened to tensors that jumped or left the path, if it can be determined."""
    out = []
    followed = 0
    jumped: dict[int, list[AuditFinding]] = {}
    for finding in findings:
        if finding.fault in UNEXPLAINED and finding.tensor and finding.step is not None:
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
    visible = not 1 / FACTOR < scale < FACTOR
    if visible and distance(new, scale * old) < 0.25 * moved:
        fault, what = (
            ("negated-tensor", "changed its sign")
            if abs(scale + 1) < 0.2
            else ("rescaled-tensor", f"was scaled by {scale:.4g}")
        )
        return _with_cause(finding, fault, f"{what} since step {before.step:,}")
    if old.ndim == 2 and old.shape[0] == old.shape[1] and distance(new, old.T) < 0.5 * moved:
        return _with_cause(finding, "transposed-tensor", f"is transposed compared with step {before.step:,}")
    if np.array_equal(np.sort(new, axis=None), np.sort(old, axis=None)):
        return _with_cause(
            finding, "permuted-tensor", f"holds the values of step {before.step:,} in another order"
        )
    for part, here, there in (("rows", new, old), ("columns", new.T, old.T)):
        if new.ndim == 2 and exchanged_share(here, there) >= MOSTLY:
            text = f"holds the {part} of step {before.step:,} in another order"
            return _with_cause(finding, "permuted-tensor", text)
    return finding


def _with_cause(finding: AuditFinding, fault: str, message: str) -> AuditFinding:
    return dataclasses.replace(finding, fault=fault, message=message)
