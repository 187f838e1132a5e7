"""What is wrong with an optimiser's moments, from the evidence of each parameter."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from toposcope.core.forms import listed
from toposcope.files.training_state.nouns import OptimizerState
from toposcope.sources.optimizer.moments import FELL, MomentEvidence, follows, log_distance
from toposcope.sources.optimizer.resumption import DISAGREES, MISSING, NOT_FINITE, Facet

ZERO_TENSORS = 0.1
"""Without an earlier checkpoint, this share of tensors whose first moment is exactly 0 is a fault: a gradient
that is exactly 0 for a whole tensor is rare."""

FOREIGN = 0.001
"""More than this share of values with |m| above its bound: in exact arithmetic none is."""

STALE = 0.01
"""More than this share of first moments, bit for bit those of an earlier checkpoint, cannot be: each update
changes them."""

_FOLLOWED = 16
"""If no more tensors' second moments fell, each is compared with the others of its shape."""
_COMPARED = 64
"""Where the decay of second moments is not stated, so many are compared at most."""
_NEARER = 0.5
"""Without the decay as evidence, both are twice as near to each other's earlier values as to their own."""


@dataclass(frozen=True, slots=True)
class MomentsHeld:
    """Moments held against an earlier checkpoint: both optimisers, the evidence, and what happened since.

    `step` is the earlier checkpoint's, `updates` how many were made since, `moved` whether weights changed,
    `name` calls a parameter by its name where that is certain, `still` has the parameters that are frozen.
    """

    now: OptimizerState
    evidence: Sequence[MomentEvidence]
    before: OptimizerState | None = None
    step: int | None = None
    updates: float = 0.0
    moved: bool = True
    trained: bool = True
    name: Callable[[str], str] = str
    still: frozenset[str] = frozenset()

    def of(self, keys: Sequence[str]) -> str:
        """Return how many tensors, with the first names."""
        names = [self.name(key) for key in keys]
        if len(keys) == len(self.evidence) > 1:
            return f"all {len(keys):,} tensors"
        return names[0] if len(keys) == 1 else f"{len(keys):,} tensors ({listed(names, most=2)})"


def moment_faults(held: MomentsHeld) -> Iterator[Facet]:
    """Yield what is wrong with the moments, the most definite first; each tensor is named once."""
    seen: set[str] = set()
    for find in (_not_finite, _negative, _swapped, _zero, _stale, _fell, _beyond):
        for facet, keys in find(held, seen):
            seen |= set(keys)
            yield facet
    yield from _missing(held)


Faulty = Iterator[tuple[Facet, Sequence[str]]]


def _moments(status: str, why: str, fault: str) -> Facet:
    return Facet("moments", status, why, fault)


def _not_finite(held: MomentsHeld, seen: set[str]) -> Faulty:
    for which in ("first", "second"):
        keys = [moment.key for moment in held.evidence if not getattr(moment, f"{which}_finite")]
        if keys:
            why = f"{which} moments of {held.of(keys)} are NaN or infinite"
            yield _moments(NOT_FINITE, why, "moments-not-finite"), keys


def _negative(held: MomentsHeld, seen: set[str]) -> Faulty:
    keys = [moment.key for moment in held.evidence if moment.negative and moment.key not in seen]
    if keys:
        yield _moments(DISAGREES, f"second moments of {held.of(keys)} are negative", "moments-negative"), keys


def _zero(held: MomentsHeld, seen: set[str]) -> Faulty:
    """Find moments that are 0 although updates were made: all of a tensor's, or values that were not 0."""
    if not held.trained:
        return
    since = "" if held.step is None else f", and were not at step {held.step:,}"
    empty = [moment for moment in held.evidence if moment.looked and moment.key not in seen]
    second = [moment for moment in empty if moment.second_zeros == 1.0]
    first = [moment for moment in empty if moment.first_zeros == 1.0 and moment not in second]
    lost = [moment for moment in second if not moment.was_zero or moment.first_zeros != 1.0]
    both = [moment for moment in lost if moment.first_zeros == 1.0]
    new = [
        moment
        for moment in first
        if held.before is not None and not moment.was_zero and not math.isnan(moment.kept)
    ]
    many = held.before is None and len(first) + len(second) >= max(1.0, ZERO_TENSORS * len(held.evidence))
    if held.before is None and not many:
        lost, both = [], []
    faulty = [*lost, *(first if many else new)]
    if faulty:
        what = "moments" if len(both) == len(faulty) else "second moments" if lost else "first moments"
        keys = [moment.key for moment in faulty]
        since = since if held.before is not None else ""
        yield _moments(DISAGREES, f"{what} of {held.of(keys)} are zero{since}", "moments-zero"), keys
    partly = [moment for moment in empty if moment not in faulty and moment.emptied > FELL]
    if partly:
        share = sum(moment.emptied for moment in partly) / len(partly)
        keys = [moment.key for moment in partly]
        why = f"{share:.0%} of the second moments of {held.of(keys)} became zero since step {held.step:,}"
        yield _moments(DISAGREES, why, "moments-zero"), keys


def _swapped(held: MomentsHeld, seen: set[str]) -> Faulty:
    """Find pairs of equal shape whose moments continue each other's, and not their own."""
    before = held.before
    if before is None:
        return
    stated = bool(held.now.betas())
    fell = [
        moment for moment in held.evidence if moment.key not in seen and (moment.fell > FELL or not stated)
    ]
    if len(fell) > (_FOLLOWED if stated else _COMPARED):  # then they are all of another step or run
        return
    swapped: set[str] = set()
    for moment in fell:
        alike = (
            other.key for other in held.evidence if other.shape == moment.shape and other.key != moment.key
        )
        for key in alike:
            if (
                not {moment.key, key} & swapped
                and key in before.parameters
                and _exchanged(held, moment.key, key)
            ):
                swapped |= {moment.key, key}
                names = [held.name(moment.key), held.name(key)]
                why = f"moments of {listed(names)} are in each other's places since step {held.step:,}"
                yield _moments(DISAGREES, why, "moments-swapped"), (moment.key, key)


def _exchanged(held: MomentsHeld, key: str, other: str) -> bool:
    """Return whether second moments are nearer to each other's earlier ones than to their own, both ways."""
    assert held.before is not None
    now, past = held.now.parameters, held.before.parameters
    decay = held.now.betas().get(key)
    if decay is not None and not follows(now[key], past[other], decay, held.updates):
        return False
    nearer = 1.0 if decay is not None else _NEARER
    return all(
        log_distance(now[a], past[b]) < nearer * log_distance(now[a], past[a])
        for a, b in ((key, other), (other, key))
    )


def _stale(held: MomentsHeld, seen: set[str]) -> Faulty:
    """Find moments, or parts of them, that are those of the earlier checkpoint although weights moved."""
    if held.before is None or not held.moved:
        return
    judged = [moment for moment in held.evidence if not math.isnan(moment.kept)]
    stale = [moment for moment in judged if moment.kept > STALE and moment.key not in seen | held.still]
    if not stale:
        return
    keys = [moment.key for moment in stale]
    whole = len(stale) == len(judged) and min(moment.kept for moment in stale) > 0.9
    if whole:
        why = f"moments are those of step {held.step:,}, although the weights moved"
        yield _moments(DISAGREES, why, "moments-of-another-step"), keys
        return
    why = f"moments of {held.of(keys)} are still those of step {held.step:,}: a shard of that step"
    yield _moments(DISAGREES, why, "shard-of-another-step"), keys


def _fell(held: MomentsHeld, seen: set[str]) -> Faulty:
    keys = [moment.key for moment in held.evidence if moment.fell > FELL and moment.key not in seen]
    if keys:
        why = (
            f"second moments of {held.of(keys)} fell since step {held.step:,} faster than they can decay: "
            "they are of another step or run"
        )
        yield _moments(DISAGREES, why, "moments-of-another-step"), keys


def _beyond(held: MomentsHeld, seen: set[str]) -> Faulty:
    keys = [moment.key for moment in held.evidence if moment.beyond > FOREIGN and moment.key not in seen]
    if keys:
        why = f"first moments of {held.of(keys)} are larger than their second moments allow"
        yield _moments(DISAGREES, why, "moments-unlike"), keys


def _missing(held: MomentsHeld) -> Iterator[Facet]:
    """Find parameters without moments that had some, or whose group has them."""
    with_moments = {key for key, parameter in held.now.parameters.items() if parameter.shape is not None}
    grouped = [key for group in held.now.groups for key in group.parameters]
    if held.before is not None:
        had = {key for key, parameter in held.before.parameters.items() if parameter.shape is not None}
        lost = [key for key in held.before.parameters if key in had - with_moments]
        if lost:
            of = f"{len(lost):,} of {len(had):,} tensors ({listed([held.name(key) for key in lost], most=2)})"
            why = f"moments of {of} are missing, which step {held.step:,} has"
            yield _moments(MISSING, why, "moments-missing")
        return
    adam = any(group.betas is not None for group in held.now.groups)
    lost = [key for key in grouped if key not in with_moments]
    if not lost or not adam or not held.trained or held.now.odd:
        return
    if len(lost) == len(grouped):
        why = "the optimiser has no moments: it was saved before its first update"
        yield _moments(MISSING, why, "moments-missing")
        return
    names = listed([held.name(key) for key in lost], most=2)
    why = f"{len(lost):,} of {len(grouped):,} parameters have no moments ({names}): no gradient yet, or lost"
    yield Facet("moments", MISSING, why, unsure=True)


def unchanged_moments(held: MomentsHeld) -> list[str]:
    """Return the parameters with first moments of the earlier checkpoint; none if a part or count changed."""
    if held.before is None:
        return []
    now, past = held.now.parameters, held.before.parameters
    stale = [moment for moment in held.evidence if moment.kept > STALE]
    whole = all(
        moment.kept == 1.0 and now[moment.key].updates == past[moment.key].updates for moment in stale
    )
    return [moment.key for moment in stale] if whole and len(stale) < len(held.evidence) else []


def usual_updates(optimizer: OptimizerState) -> float | None:
    """Return how many updates most parameters count; None if the optimiser counts none."""
    counts = [
        parameter.updates for parameter in optimizer.parameters.values() if parameter.updates is not None
    ]
    return _most(counts) if counts else None


def spread_of_updates(held: MomentsHeld) -> tuple[float | None, list[str]]:
    """Return how many updates most parameters count, and which count fewer though all once counted alike."""
    counts = {
        key: parameter.updates
        for key, parameter in held.now.parameters.items()
        if parameter.updates is not None
    }
    if not counts:
        return None, []
    usual = _most(list(counts.values()))
    behind = [key for key, count in counts.items() if count < usual and key not in held.still]
    if held.before is None or not behind:
        return usual, []
    past: Mapping[str, float] = {
        key: parameter.updates
        for key, parameter in held.before.parameters.items()
        if parameter.updates is not None
    }
    return usual, behind if len(set(past.values())) == 1 else []


def _most(values: Sequence[float]) -> float:
    """Return the most frequent value; of equally frequent ones the largest."""
    return max(sorted(set(values), reverse=True), key=list(values).count)
