"""The checks of an audit: each takes a run's evidence and yields findings."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from toposcope.core.observations import AuditFinding
from toposcope.sources._audit_alone import first_values
from toposcope.sources.audit_content import content
from toposcope.sources.audit_evidence import SMALL, StepEvidence, TensorEvidence
from toposcope.sources.experts import experts
from toposcope.sources.names import BUFFERS

SPIKE = 3.0
"""A step is off the path if both distances to it are this many times the distance between its neighbours.

A straight path gives 1/2, a random walk 0.71, independent draws around a fixed point 1.
"""

TURN = 0.85
"""Steps are out of order if the distance to the step after next is below this part of that to the next.

In order, this ratio is 2 along a straight path, 1.41 along a random walk, and 1 for independent draws around
a fixed point. The limit is below all three.
"""

MAD_SIGMAS = 10.0
"""A jump lies this many robust standard deviations off the smooth course of the log change per step, ..."""

JUMP = math.log(4.0)
"""... and is at least this large in log units. Both are judged by the healthy and the faulty series of
tests/audit/planted.py, half and double of each in docs/evidence/benchmarks-limits.csv (`python -m
benchmarks.limits jumps`): as they are, 1 of 300 healthy series has a jump, and 176 of 300 steps that were
eight times as long are found. Half of `MAD_SIGMAS` gives 5 and 262, double of either at most 99."""

_DIGITS = re.compile(r"\d+")
"""What differs between the names of one tensor in two layers or experts."""

Evidence = Sequence[StepEvidence]


def _finding(step: StepEvidence, fault: str, message: str, tensor: str = "") -> AuditFinding:
    return AuditFinding(step.checkpoint.run, step.checkpoint.step, tensor, message, fault=fault)


def _readable(steps: Evidence) -> list[StepEvidence]:
    return [step for step in steps if not step.error]


def unreadable(steps: Evidence) -> Iterator[AuditFinding]:
    """Find checkpoints that cannot be read: truncated, missing shards, hostile."""
    for step in steps:
        if step.error:
            yield _finding(step, "unreadable", step.error)


def identical(steps: Evidence) -> Iterator[AuditFinding]:
    """Find steps with exactly the weights of an earlier step, or of the final one."""
    good = [step for step in _readable(steps) if step.digest]
    first: dict[str, StepEvidence] = {}
    final = good[-1].digest if good else ""
    for step in good:
        twin = first.setdefault(step.digest, step)
        if step is good[-1] and twin is not step:
            continue  # reported at the other step, as equal to the final one
        if step is not good[-1] and step.digest == final:
            yield _finding(
                step,
                "equals-final",
                f"has exactly the weights of the final step {good[-1].checkpoint.step:,}",
            )
        elif twin is not step:
            yield _finding(step, "identical", f"has exactly the weights of step {twin.checkpoint.step:,}")


def _majority(steps: list[StepEvidence], name: str) -> TensorEvidence | None:
    items = [step.tensors[name] for step in steps if name in step.tensors]
    kinds = [(item.info.shape, item.info.dtype) for item in items]
    if kinds.count(kinds[0]) == len(kinds):
        return items[0]
    return items[kinds.index(Counter(kinds).most_common(1)[0][0])]


def structure(steps: Evidence) -> Iterator[AuditFinding]:
    """Find tensors that few steps lack or few steps have, and deviating shapes and dtypes."""
    good = _readable(steps)
    counts = Counter(name for step in good for name in step.tensors)
    for name, count in counts.items():
        expected = _majority(good, name)
        typical = count * 2 > len(good)
        for step in good:
            item = step.tensors.get(name)
            if item is None:
                if typical:
                    yield _finding(
                        step, "missing-tensor", f"is missing; {count:,} of {len(good):,} steps have it", name
                    )
            elif not typical and len(good) > 2:
                yield _finding(step, "extra-tensor", f"is in only {count:,} of {len(good):,} steps", name)
            elif expected is not None and item.info.shape != expected.info.shape:
                yield _finding(
                    step,
                    "shape-change",
                    f"has shape {item.info.shape}; at the other steps it is {expected.info.shape}",
                    name,
                )
            elif expected is not None and item.info.dtype != expected.info.dtype:
                yield _finding(
                    step,
                    "dtype-change",
                    f"is {item.info.dtype}; at the other steps it is {expected.info.dtype}",
                    name,
                )


def not_loadable(steps: Evidence) -> Iterator[AuditFinding]:
    """Find tensors that a checkpoint names and that nothing can load from it: no data, not in the index.

    A buffer is not one of them: models make it again.
    """
    for step in _readable(steps):
        for name, item in step.tensors.items():
            if item.info.fault and not BUFFERS.search(name):
                yield _finding(step, item.info.fault, item.info.skip.removeprefix("it "), name)


def values(steps: Evidence) -> Iterator[AuditFinding]:
    """Find weights that are not finite, zero, or constant; blocks of zeros; lost precision."""
    good = _readable(steps)
    typical = _typical(good)
    for index, step in enumerate(good):
        for name, item in step.tensors.items():
            matrix = len(item.info.shape) > 1
            if not item.finite:
                yield _finding(step, "non-finite", "holds NaN or infinite values", name)
            elif matrix and item.constant and not index:
                continue  # weights may start from one value
            elif matrix and item.constant:
                fault, what = (
                    ("zero-tensor", "is zero throughout")
                    if item.zeros == 1.0
                    else ("constant-tensor", "holds one value")
                )
                yield _finding(step, fault, what, name)
            elif matrix and item.zeros > 0.002 + 4 * typical[name][0] and item.info.size >= SMALL:
                yield _finding(
                    step,
                    "zero-block",
                    f"{item.zeros:.1%} of its values are exactly zero, where {typical[name][0]:.1%} is usual",
                    name,
                )
            elif (
                matrix
                and item.coarse
                and not typical[name][1]
                and item.info.size >= SMALL
                and not item.constant
            ):
                yield _finding(step, "precision-loss", "was rounded to bfloat16; other steps were not", name)


def _typical(good: list[StepEvidence]) -> dict[str, tuple[float, bool]]:
    """Return per tensor the median share of zeros, and whether most steps are coarse."""
    table: dict[str, list[TensorEvidence]] = defaultdict(list)
    for step in good:
        for name, item in step.tensors.items():
            table[name].append(item)
    return {
        name: (
            statistics.median(item.zeros for item in items),
            2 * sum(item.coarse for item in items) >= len(items),
        )
        for name, items in table.items()
    }


def copies(steps: Evidence) -> Iterator[AuditFinding]:
    """Find tensors that equal another one, or themselves a step before, at few steps of the run."""
    good = _readable(steps)
    names_in_order = dict.fromkeys(name for step in good for name in step.tensors)  # files differ in order
    pairs: dict[tuple[str, str], list[StepEvidence]] = defaultdict(list)
    for step in good:
        groups: dict[str, list[str]] = defaultdict(list)
        for name in filter(step.tensors.__contains__, names_in_order):
            item = step.tensors[name]
            plain = item.finite and not item.constant  # several all-NaN tensors are not copies
            if len(item.info.shape) > 1 and plain and item.info.size >= SMALL:
                groups[item.digest].append(name)
        for names in groups.values():
            for other in names[1:]:
                pairs[(names[0], other)].append(step)
    for (first, second), where in pairs.items():
        if 2 * len(where) > len(good) and _DIGITS.sub("#", first) == _DIGITS.sub("#", second):
            yield _finding(where[0], "equal-tensors", f"is a copy of {first!r}", second)
        if 2 * len(where) <= len(good):
            for step in where:
                source, copy = _by_origin(step, first, second)
                yield _finding(step, "copied-tensor", f"is a copy of {source!r} at this step only", copy)
    for before, step in itertools.pairwise(good):
        same = [
            n
            for n, item in step.tensors.items()
            if n in before.tensors and before.tensors[n].digest == item.digest and item.finite
        ]
        if len(same) < len(step.tensors):
            for name in same:
                if len(step.tensors[name].info.shape) > 1 and _mostly_changes(good, name):
                    yield _finding(
                        step,
                        "stale-tensor",
                        f"is unchanged since step {before.checkpoint.step:,}; others moved",
                        name,
                    )


def _by_origin(step: StepEvidence, first: str, second: str) -> tuple[str, str]:
    """Return the source and the copy of two equal tensors: the copy resembles its former values less."""
    here, there = (step.tensors[name].moved for name in (first, second))
    turned = here is not None and there is not None and here.cosine < there.cosine
    return (second, first) if turned else (first, second)


def _mostly_changes(good: list[StepEvidence], name: str) -> bool:
    digests = [step.tensors[name].digest for step in good if name in step.tensors]
    moves = sum(a != b for a, b in itertools.pairwise(digests))
    return 2 * moves > len(digests) - 1


def labels(steps: Evidence) -> Iterator[AuditFinding]:
    """Find steps whose file states a different number from its name, and gaps in an even spacing."""
    for step in _readable(steps):
        inside = step.facts.step
        if inside is not None and inside != step.checkpoint.step:
            yield _finding(step, "step-mismatch", f"its file or trainer's state says step {inside:,}")
    numbers = sorted({step.checkpoint.step for step in steps})
    strides = np.diff(numbers)
    if len(strides) >= 4:
        common, count = Counter(strides.tolist()).most_common(1)[0]
        for start, stride in zip(numbers, strides.tolist(), strict=False):
            if count >= 0.8 * len(strides) and stride > common and stride % common == 0:
                run = steps[0].checkpoint.run
                first, last = start + common, start + stride - common
                gap = f"step {first:,} is" if first == last else f"steps {first:,} to {last:,} are"
                text = f"{gap} missing; the others are {common:,} apart"
                yield AuditFinding(run, first, "", text, fault="missing-step")


def path(steps: Evidence) -> Iterator[AuditFinding]:
    """Find steps that are out of order, off the path, or a jump away from the previous step."""
    good = [step for step in _readable(steps) if step.tensors]
    if len(good) < 4:
        return
    faults_by_place = {(item.step, item.fault): item for item in _course(good, _whole(good), "")}
    names = [
        n
        for n, item in good[0].tensors.items()
        if item.info.size >= SMALL and all(n in s.tensors for s in good)
    ]
    single: dict[tuple[int | None, str], list[AuditFinding]] = defaultdict(list)
    for name in names:
        for finding in _course(good, _Track.of([step.tensors[name] for step in good]), name):
            single[(finding.step, finding.fault)].append(finding)
    for key, findings in single.items():
        if 2 * len(findings) <= len(names):
            faults_by_place.pop(key, None)
            yield from findings
        elif key not in faults_by_place:
            first = findings[0]
            text = f"{len(findings):,} tensors: {first.message}"
            yield AuditFinding(first.run, first.step, "", text, fault=first.fault)
    yield from faults_by_place.values()


@dataclass(frozen=True, slots=True)
class _Track:
    """Norms and changes along a run, of one tensor or of all together."""

    norm: np.ndarray
    change: np.ndarray
    change2: np.ndarray

    @classmethod
    def of(cls, items: Sequence[TensorEvidence]) -> _Track:
        return cls(
            *(np.array([getattr(item, key) for item in items]) for key in ("norm", "change", "change2"))
        )


def _whole(good: list[StepEvidence]) -> _Track:
    def total(key: str) -> np.ndarray:
        rows = [
            [getattr(item, key) for item in step.tensors.values() if item.norm == item.norm] for step in good
        ]
        return np.array([math.sqrt(sum(value * value for value in row)) for row in rows])

    return _Track(total("norm"), total("change"), total("change2"))


def _course(good: list[StepEvidence], track: _Track, tensor: str) -> Iterator[AuditFinding]:
    what = "the checkpoint" if not tensor else "it"
    spikes = _spikes(track)
    for index in spikes:
        text = f"{what} lies off the path between its neighbours: is it from another run or damaged?"
        yield _finding(good[index], "off-path", text, tensor)
    near = {index + offset for index in spikes for offset in (0, 1)}
    if not tensor:
        for index in _turns(track):
            if not near & {index, index - 1, index + 1}:
                last, next_ = good[index - 1].checkpoint.step, good[index + 1].checkpoint.step
                text = f"step {next_:,} is nearer to step {last:,} than this one: were they swapped?"
                yield _finding(good[index], "out-of-order", text)
    for index, ratio in _jumps(good, track):
        if index not in near:
            text = f"{what} moved {ratio:.3g} times as far as the steps around it"
            yield _finding(good[index], "jump", text, tensor)


def _spikes(track: _Track) -> list[int]:
    """Return the interior steps that are much farther from both neighbours than these are from each other."""
    places = []
    for index in range(1, len(track.norm) - 1):
        shorter, around = min(track.change[index], track.change[index + 1]), track.change2[index + 1]
        if shorter > SPIKE * around and shorter > 1e-6 * track.norm[index]:
            places.append(index)
    return places


def _turns(track: _Track) -> list[int]:
    """Return the steps that would lie nearer to those around them if swapped with the next step."""
    places = []
    for index in range(1, len(track.norm) - 2):
        first = track.change2[index + 1] < TURN * track.change[index]
        second = track.change2[index + 2] < TURN * track.change[index + 2]
        if first and second:
            places.append(index)
    return places


def _jumps(good: list[StepEvidence], track: _Track) -> Iterator[tuple[int, float]]:
    """Yield the steps whose log change per step leaves the smooth course, with the ratio to it.

    The course at a step is the median of the three changes on either side. The first and last three steps
    lack these neighbours and are not judged; training normally starts with a leap.
    """
    strides = np.diff([step.checkpoint.step for step in good])
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.log(track.change[1:] / track.norm[1:]) - 0.5 * np.log(np.maximum(strides, 1))
    change[~np.isfinite(change)] = np.nan
    n = len(change)
    if n < 8:
        return
    residual = np.full(n, np.nan)
    for at in range(3, n - 3):
        frame = np.delete(change[at - 3 : at + 4], 3)
        if np.isfinite(frame).sum() >= 4 and np.isfinite(change[at]):
            residual[at] = change[at] - np.nanmedian(frame)
    finite = residual[np.isfinite(residual)]
    if len(finite) < 2:
        return
    spread = 1.4826 * float(np.median(np.abs(finite - np.median(finite))))
    for at in range(n):
        if np.isfinite(residual[at]) and residual[at] > max(MAD_SIGMAS * spread, JUMP):
            yield at + 1, math.exp(residual[at])


CHECKS: tuple[Callable[[Evidence], Iterator[AuditFinding]], ...] = (
    unreadable,
    labels,
    identical,
    structure,
    not_loadable,
    values,
    copies,
    content,
    first_values,
    experts,
    path,
)

NEWEST_CHECKS = tuple(check for check in CHECKS if check is not path)
"""The checks that judge a checkpoint with no more than the one before it."""
