"""What one checkpoint shows alone: values near 0, and norms far from those of the same matrix elsewhere."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from toposcope.core.observations import AuditFinding
from toposcope.sources.audit_content import NEAR_ZERO, is_large, rms
from toposcope.sources.audit_evidence import StepEvidence, TensorEvidence

FAR, SIBLINGS = 30.0, 2
"""A matrix is far from its siblings in other layers, of which there must be this many, if its root mean
square is this many times that of most of them. Layers of sound models differ by less than ten times."""

_NUMBER = re.compile(r"\d+")


def first_values(steps: Sequence[StepEvidence]) -> Iterator[AuditFinding]:
    """Find what a run's first checkpoint shows alone: values near 0, and norms far from the siblings'.

    Norms are judged only where it is the run's one checkpoint: a later one says more.
    """
    good = [step for step in steps if not step.error]
    for step in good[:1]:
        run, at = step.checkpoint.run, step.checkpoint.step
        for name, item in step.tensors.items():
            if is_large(item) and 0 < item.largest < NEAR_ZERO:
                text = f"holds values of at most {item.largest:.2g}, which no arithmetic of a model can use"
                yield AuditFinding(run, at, name, text, fault="near-zero-tensor")
        if len(good) > 1:
            continue
        for name, times, many in far_from_siblings(step.tensors):
            text = f"is {times:.3g} times as large as the {many:,} tensors of the same name in other layers"
            yield AuditFinding(run, at, name, text, fault="odd-norm")


def far_from_siblings(tensors: Mapping[str, TensorEvidence]) -> Iterator[tuple[str, float, int]]:
    """Yield the matrices whose size is far from that of the same matrix in other layers, and by how much."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, item in tensors.items():
        if is_large(item) and item.largest >= NEAR_ZERO:
            groups[_NUMBER.sub("#", name)].append(name)
    for names in groups.values():
        sizes = sorted(rms(tensors[name]) for name in names)
        for name in names if len(names) > SIBLINGS else ():
            size, others = rms(tensors[name]), len(names) - 1
            # the ratio to a sibling falls with the sibling's size: its limits lie between two sorted ones
            first = bisect_left(sizes, True, key=lambda other: size / other < FAR)
            last = bisect_left(sizes, True, key=lambda other: size / other <= 1 / FAR)
            if 2 * (others - (last - first - 1)) > others:
                yield name, _median_ratio(size, sizes), others


def _median_ratio(size: float, sizes: Sequence[float]) -> float:
    """Return the median ratio of a size to the others of ascending sizes, which it is one of.

    >>> _median_ratio(3.0, [1.0, 2.0, 3.0, 6.0])
    1.5
    """
    at, count = bisect_left(sizes, size), len(sizes) - 1
    low, high = (size / sizes[place + (place >= at)] for place in ((count - 1) // 2, count // 2))
    return (low + high) / 2
