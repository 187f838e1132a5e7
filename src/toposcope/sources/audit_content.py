"""The audit's checks of content: each checkpoint against the one before it, tensor by tensor.

Where a tensor has four earlier changes, the limits are those of `content_checks`. Where it has fewer, its
change is compared with those of the other tensors at the same checkpoint.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from toposcope.core.forms import listed
from toposcope.core.observations import AuditFinding
from toposcope.sources import content_checks as checks
from toposcope.sources.audit_evidence import SMALL, StepEvidence, TensorEvidence
from toposcope.sources.changes import TensorChange
from toposcope.sources.rows import MOST, MOSTLY, UNLIKE

FACTOR, BIAS_FACTOR = 4.0, 30.0
"""A tensor that was scaled by less than this is only remarked on. In healthy series of
benchmarks/audit_rates.py (0 to 19,999, on which these and the next limits were set) a spike of the rate
scaled a head by 1.5, and a warm-up a bias, which starts at 0, by 4.7."""

KEPT, KEPT_BY_MOST, LOST = 0.9, 0.99, 0.25
"""Without a history, a matrix counts as replaced if its cosine with its former values is below .25 while
that of most other matrices is above .9, and a vector if it is above .99: biases turn freely in training."""

BEGUN = 0.1
"""A tensor has begun to train if its values are this share of the typical ones: one that starts from zero
grows many times over in its first updates, and turns."""

LEAPT = 2.0
"""Rows that turned are a fault if their matrix moved, compared with its own last changes, this many times as
far as the other matrices compared with theirs. Among the series below 50,000 of benchmarks/audit_rates.py, a
spike of SGD's rate turned the rows of two; they had 1.3 and 1.4. Noise in an eighth to half of the rows had
more than 2.2 in 178 of 179 cases."""

UNLIKE_ITSELF = "no longer resembles its former values"

FEW = 8
"""A vector of fewer numbers is not judged without a history: the sign of one number is no fault."""

NEAR_ZERO = 1e-15
"""Weights whose largest value is below this have no effect in any arithmetic of a model."""

DENORMAL = float(np.finfo(np.float32).tiny)
"""Below this, float32 has no full precision, and many devices take the value for 0."""


@dataclass(slots=True)
class _PastContent:
    """The sound changes of one tensor so far, and whether it failed a check at the last checkpoint."""

    changes: deque[TensorChange] = field(default_factory=lambda: deque(maxlen=checks.LATELY))
    repeated: deque[float] = field(default_factory=lambda: deque(maxlen=checks.LATELY))
    failed: bool = False


@dataclass(frozen=True, slots=True)
class _Failed:
    """A check that failed: the kind of fault, and what is wrong with the tensor.

    `with_others` says that all tensors moved farther together, as in a spike of the rate: that is no fault of
    this one.
    """

    kind: str
    what: str
    with_others: bool = False

    @property
    def fault(self) -> str:
        return "unusual-change" if self.with_others else self.kind


@dataclass(frozen=True, slots=True)
class _Peers:
    """The changes of all matrices at a checkpoint, sorted, and their median root mean square before it.

    `leap` has how many times as far each moved as at most at its last checkpoints.
    """

    along: Sequence[float]
    cosine: Sequence[float]
    leap: Sequence[float]
    rms: float

    @classmethod
    def of(cls, known: Sequence[tuple[TensorEvidence, TensorChange, float]]) -> _Peers:
        along, cosine, leap = (
            sorted(value for value in values if not math.isnan(value))
            for values in (
                [abs(change.along) for _, change, _ in known],
                [change.cosine for _, change, _ in known],
                [leap for *_, leap in known],
            )
        )
        return cls(along, cosine, leap, float(np.median([rms(item) for item, *_ in known])) if known else 0.0)


def _median_without(values: Sequence[float], left_out: float) -> float:
    """Return the median of sorted values without one of them; NaN if nothing is left.

    >>> _median_without([1.0, 2.0, 9.0], 9.0)
    1.5
    """
    at = bisect_left(values, left_out)
    there = at < len(values) and values[at] == left_out
    count = len(values) - there
    if not count:
        return math.nan
    low, high = (values[place + (there and place >= at)] for place in ((count - 1) // 2, count // 2))
    return (low + high) / 2


@dataclass(frozen=True, slots=True)
class _TensorPair:
    """One tensor at a checkpoint and at the one before, and the changes of the others."""

    now: TensorEvidence
    before: TensorEvidence
    change: TensorChange
    past: _PastContent
    peers: _Peers

    @property
    def matrix(self) -> bool:
        return len(self.now.info.shape) > 1

    @property
    def comparable(self) -> bool:
        """Whether the tensor can be compared with the others: large enough, and no longer near 0."""
        return self.now.info.size >= FEW and rms(self.before) >= BEGUN * self.peers.rms

    @property
    def bias(self) -> bool:
        return not self.matrix and self.now.info.name.endswith("bias")

    def beyond(self, factor: float) -> bool:
        """Return whether no training scales the tensor as much between two checkpoints."""
        most = BIAS_FACTOR if self.bias else FACTOR
        return not 1 / most < abs(factor) < most

    @property
    def begins_to_move(self) -> bool:
        """Whether the tensor stood still at all of the last checkpoints, and now moves."""
        still = bool(self.past.changes) and not any(change.distance for change in self.past.changes)
        return still and self.change.distance > 0

    @property
    def leap(self) -> float:
        return _leap(self.change, self.past)

    @property
    def leaps_alone(self) -> bool:
        """Whether the tensor moved farther than before, and the others did not move as much farther."""
        others = _median_without(self.peers.leap, self.leap)
        return math.isnan(others) or not self.leap < LEAPT * others

    def peers_kept(self, least: float) -> bool:
        """Return whether the cosine of most others with their former values is so high; no if none is."""
        return _median_without(self.peers.cosine, self.change.cosine) >= least

    def history(self, name: str) -> list[float]:
        return [float(getattr(change, name)) for change in self.past.changes]


def _leap(change: TensorChange, past: _PastContent) -> float:
    """Return how many times as far a tensor moved as at most at its last four changes; NaN without these."""
    farthest = max((change.distance for change in past.changes), default=0.0)
    return change.distance / farthest if len(past.changes) == checks.LATELY and farthest else math.nan


def content(steps: Sequence[StepEvidence]) -> Iterator[AuditFinding]:
    """Find tensors that changed since the checkpoint before as no update changes them."""
    pasts: dict[str, _PastContent] = defaultdict(_PastContent)
    good = [step for step in steps if not step.error]
    for before, step in itertools.pairwise(good):
        pairs = _pairs(before, step, pasts)
        _forget_stillness(pairs)
        failed: dict[str, _Failed] = {}
        for name, pair in pairs.items():
            wrong = _judge(pair)
            back = pair.past.failed and pair.now.change2 < 0.5 * pair.now.change
            if wrong is not None and not back:
                failed[name] = wrong
            if wrong is None:
                pair.past.changes.append(pair.change)
                pair.past.repeated.append(pair.now.repeated)
            pair.past.failed = wrong is not None and not back
        yield from _findings(step, before.checkpoint.step, failed, len(pairs))


def _forget_stillness(pairs: Mapping[str, _TensorPair]) -> None:
    """Forget the history of tensors that begin to move together: stillness does not say how far they move.

    That is a frozen layer that is let go. A single tensor that moves for the first time may be a fault.
    """
    begun = [pair for pair in pairs.values() if pair.begins_to_move]
    for pair in begun if len(begun) > 1 else ():
        pair.past.changes.clear()


def _pairs(
    before: StepEvidence, step: StepEvidence, pasts: dict[str, _PastContent]
) -> dict[str, _TensorPair]:
    items = {
        name: (item, before.tensors[name], item.moved)
        for name, item in step.tensors.items()
        if item.moved is not None and not (_empty(item) or before.tensors[name].constant)
    }
    peers = _Peers.of(
        [
            (then, change, _leap(change, pasts[name]))
            for name, (now, then, change) in items.items()
            if is_large(now)
        ]
    )
    return {
        name: _TensorPair(now, then, change, pasts[name], peers)
        for name, (now, then, change) in items.items()
    }


def _empty(item: TensorEvidence) -> bool:
    """Return whether a matrix has one value throughout, which is a fault of its own."""
    return item.constant and len(item.info.shape) > 1


def is_large(item: TensorEvidence) -> bool:
    """Return whether it is a matrix with enough values to be judged."""
    return len(item.info.shape) > 1 and item.info.size >= SMALL


def rms(item: TensorEvidence) -> float:
    """Return the root mean square of its values."""
    return item.norm / math.sqrt(max(item.info.size, 1))


def _judge(pair: _TensorPair) -> _Failed | None:
    """Return the first check that fails."""
    checked = (_emptied, _faint, _scaled, *((_moved_rows,) if pair.matrix else ()), _replaced, _vanished)
    return next((failed for check in checked if (failed := check(pair)) is not None), None)


def _emptied(pair: _TensorPair) -> _Failed | None:
    what = checks.EMPTIED(pair.now.zeros, [pair.before.zeros])
    return _Failed("zero-tensor", what) if what else None


def _faint(pair: _TensorPair) -> _Failed | None:
    now, before = pair.now.largest, pair.before.largest
    if not 0 < now < DENORMAL or before < NEAR_ZERO:
        return None
    return _Failed("denormal-tensor", f"holds values near {now:.0e}, where the largest was {before:.2g}")


def _vanished(pair: _TensorPair) -> _Failed | None:
    now, before = pair.now.largest, pair.before.largest
    if not is_large(pair.now) or not 0 < now < NEAR_ZERO <= before:
        return None
    return _Failed(
        "near-zero-tensor", f"holds values of at most {now:.2g}, where the largest was {before:.2g}"
    )


def _scaled(pair: _TensorPair) -> _Failed | None:
    change, limit = pair.change, checks.SCALED_MATRIX if pair.matrix else checks.STRETCHED_VECTOR
    history = pair.history("along")
    if math.isnan(change.along):
        return None
    if len(history) >= limit.fewest:
        failed = bool(limit(change.along, history, beside=change.purity))
        failed = failed and (pair.matrix or abs(change.purity) >= checks.PURE)
    else:
        failed = _scaled_at_once(pair, history)
    if not failed:
        return None
    factor = 1 + change.along
    if abs(factor + 1) < 0.2 and pair.now.info.size >= FEW and not pair.bias:
        return _Failed("negated-tensor", "changed its sign")
    # Near 0 the projection has no digits left, but the ratio of the norms has.
    factor = change.ratio if abs(factor) < 1e-3 else factor
    what = f"was multiplied by {factor:.3g}"
    return _Failed("rescaled-tensor" if pair.beyond(factor) else "unusual-change", what)


def _scaled_at_once(pair: _TensorPair, history: Sequence[float]) -> bool:
    change = pair.change
    jumps = abs(change.purity) >= checks.PURE and not 1 / FACTOR < 1 + change.along < FACTOR
    others = _median_without(pair.peers.along, abs(change.along))
    others = 0.0 if math.isnan(others) else others
    beyond = abs(change.along) >= checks.JUMP * max(others, *map(abs, history), 0.0)
    # where all matrices grow, as in the first updates, only a factor far beyond theirs is no growth
    alone = others < checks.SCALED or abs(change.along) >= BIAS_FACTOR * others
    return jumps and beyond and alone and pair.comparable


def _moved_rows(pair: _TensorPair) -> _Failed | None:
    if swapped := pair.change.swapped_rows:
        if len(swapped) >= MOSTLY * min(pair.now.info.shape[0], MOST):
            return _Failed("permuted-tensor", "holds its rows in another order")
        return _Failed(
            "swapped-rows",
            f"has rows in each other's places ({listed([str(row) for row in swapped], most=4)})",
        )
    wrong = checks.EXCHANGED_ROWS(
        pair.change.exchanged_rows, [float(change.exchanged_rows) for change in pair.past.changes]
    )
    if wrong:
        return _Failed("exchanged-rows", wrong)
    wrong = checks.REPEATED_ROWS(pair.now.repeated, [*pair.past.repeated])
    return _Failed("copied-rows", wrong) if wrong else None


def _replaced(pair: _TensorPair) -> _Failed | None:
    change = pair.change
    if math.isnan(change.cosine):
        return None
    history = pair.history("renewed" if pair.matrix else "along")
    if len(history) < checks.LATELY:
        failed = _replaced_at_once(pair)
        if not failed and pair.matrix and change.noise_rows and pair.peers_kept(KEPT):
            return _Failed("replaced-rows", _turned(change))
    elif pair.matrix:
        return _replaced_rows(pair, history)
    else:
        failed = bool(checks.STRETCHED_VECTOR(change.along, history)) and change.cosine < UNLIKE
    if not failed:
        return None
    return _Failed("unusual-change" if pair.bias else "replaced-tensor", UNLIKE_ITSELF)


def _replaced_rows(pair: _TensorPair, history: Sequence[float]) -> _Failed | None:
    change = pair.change
    # A restless history hides rows that turn, but not that all others stand still.
    turned = bool(checks.RENEWED_ROWS(change.renewed, history, beside=change.renewed_rows))
    of_its_size = pair.now.largest < FACTOR * pair.before.largest  # a huge value is no noise
    if not turned and not (of_its_size and _replaced_at_once(pair)):
        return None
    if change.cosine < UNLIKE:
        return _Failed("replaced-tensor", UNLIKE_ITSELF)
    return _Failed("replaced-rows", _turned(change), with_others=not pair.leaps_alone)


def _turned(change: TensorChange) -> str:
    return f"has rows that no longer resemble their former values: {change.renewed:.0%}"


def _replaced_at_once(pair: _TensorPair) -> bool:
    stable = pair.peers_kept(KEPT if pair.matrix else KEPT_BY_MOST)
    return stable and pair.change.cosine < LOST and pair.comparable


def _findings(
    step: StepEvidence, since: int, failed: dict[str, _Failed], total: int
) -> Iterator[AuditFinding]:
    """Yield a finding for each tensor that failed, or one for the checkpoint where most were replaced."""
    run, at = step.checkpoint.run, step.checkpoint.step
    replaced = [
        name for name, failure in failed.items() if failure.kind in ("replaced-tensor", "replaced-rows")
    ]
    if len(replaced) > max(2, total / 2):
        text = (
            f"{len(replaced):,} of {total:,} tensors no longer resemble step {since:,}: is it of another run?"
        )
        yield AuditFinding(run, at, "", text, fault="other-weights")
        return
    for name, failure in failed.items():
        yield AuditFinding(run, at, name, f"{failure.what} since step {since:,}", fault=failure.fault)
