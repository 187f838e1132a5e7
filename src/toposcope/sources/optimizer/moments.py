"""A few numbers of each parameter's moments, streamed, and of their change since an earlier checkpoint."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from toposcope.files.training_state.nouns import OptimizerState, ParameterState, StateTensor, blocks
from toposcope.sources.audit_evidence import SAMPLE_BYTES

FAINT = 1e-18
"""The square of anything smaller has no full precision in float32 (its smallest normal number is 1.2e-38)."""

ROUNDED = {4: 0.01, 8: 0.01, 2: 0.5}
"""By how much a second moment may fall below what its decay alone leaves, by bytes per value. Rounding to
float32 after each of 10,000 updates loses at most .06%; bfloat16 has 8 bits, and its rounding adds up."""

WITHIN = 1.1
"""The bound of |m| by sqrt(v) holds exactly in real numbers; a tenth is left for rounding."""


@dataclass(frozen=True, slots=True)
class MomentEvidence:
    """What the moments of one parameter show; the shares are of the values that were looked at.

    `beyond` is the share of values with a larger first moment than the second allows, `fell` that of second
    moments below what the decay since the earlier checkpoint leaves, `emptied` that of those which became
    exactly 0, and `kept` that of first moments which are bit for bit those of the earlier checkpoint. The
    last three are NaN without an earlier one.
    """

    key: str
    shape: tuple[int, ...]
    looked: int = 0
    first_finite: bool = True
    second_finite: bool = True
    first_zeros: float = math.nan
    second_zeros: float = math.nan
    negative: float = 0.0
    beyond: float = 0.0
    fell: float = math.nan
    emptied: float = math.nan
    kept: float = math.nan
    was_zero: bool = False
    """Whether the first moment was 0 throughout at the earlier checkpoint, too."""


@dataclass(slots=True)
class _Sums:
    """Counts over the blocks of one parameter."""

    looked: int = 0
    first_zeros: int = 0
    second_zeros: int = 0
    first_bad: int = 0
    second_bad: int = 0
    negative: int = 0
    beyond: int = 0
    compared: int = 0
    fell: int = 0
    emptied: int = 0
    moving: int = 0
    kept: int = 0
    before_nonzero: int = 0


def ratio_bound(betas: tuple[float, float]) -> float:
    """Return the largest |m| / sqrt(v) that Adam can reach with these decay rates; infinite without a bound.

    With m = (1-a) sum a^k g_k and v = (1-b) sum b^k g_k^2, the inequality of Cauchy and Schwarz gives
    m^2 <= v (1-a)^2 / ((1-b) (1 - a^2/b)).

    >>> round(ratio_bound((0.9, 0.999)), 2), ratio_bound((0.99, 0.9))
    (7.27, inf)
    """
    first, second = betas
    if not (0 <= first < 1 and 0 < second < 1) or first * first >= second:
        return math.inf
    return (1 - first) / math.sqrt((1 - second) * (1 - first * first / second))


def moments_of(
    now: OptimizerState, before: OptimizerState | None, updates: float, *, sample: bool
) -> Iterator[MomentEvidence]:
    """Yield the evidence of every parameter; `updates` is how many were made since the earlier checkpoint."""
    betas = now.betas()
    for key, state in now.parameters.items():
        past = before.parameters.get(key) if before is not None else None
        if past is not None and past.shape != state.shape:
            past = None
        yield evidence_of(state, past, betas.get(key), updates, sample=sample)


def evidence_of(
    state: ParameterState,
    past: ParameterState | None,
    betas: tuple[float, float] | None,
    updates: float,
    *,
    sample: bool,
) -> MomentEvidence:
    """Return the evidence of one parameter."""
    first, second = state.first, state.second
    tensor = first or second
    if tensor is None or not tensor.size:
        return MomentEvidence(state.key, state.shape or ())
    if first is not None and second is not None and first.shape != second.shape:
        return MomentEvidence(state.key, first.shape)  # a factored second moment is not read
    sums = _Sums()
    limit = ratio_bound(betas) * WITHIN if betas is not None else math.inf
    left = betas[1] ** max(updates, 0.0) if betas is not None else 0.0
    for rows in blocks(tensor, sample_rows(tensor) if sample else None):
        m = first.values(rows) if first is not None else None
        v = second.values(rows) if second is not None else None
        sums.looked += len(m if m is not None else v)  # type: ignore[arg-type]
        _alone(sums, m, v, limit)
        if past is not None:
            size = second.dtype.itemsize if second is not None else 4
            _compared(sums, m, v, past, rows, left * (1 - ROUNDED.get(size, 0.5)))
    return _evidence(state, tensor.shape, sums, past is not None)


def sample_rows(tensor: StateTensor) -> int:
    """Return how many rows make a sample."""
    per_row = max(1, tensor.size // max(tensor.shape[0], 1)) if tensor.shape else 1
    return max(3, SAMPLE_BYTES // (per_row * tensor.dtype.itemsize))


def _alone(sums: _Sums, m: np.ndarray | None, v: np.ndarray | None, limit: float) -> None:
    if m is not None:
        sums.first_zeros += int(np.count_nonzero(m == 0))
        sums.first_bad += int(np.count_nonzero(~np.isfinite(m)))
    if v is not None:
        sums.second_zeros += int(np.count_nonzero(v == 0))
        sums.second_bad += int(np.count_nonzero(~np.isfinite(v)))
        sums.negative += int(np.count_nonzero(v < 0))
    if m is not None and v is not None and math.isfinite(limit):
        with np.errstate(invalid="ignore", over="ignore"):
            size = np.abs(m)
            sums.beyond += int(np.count_nonzero((size > FAINT) & (size > limit * np.sqrt(np.abs(v)))))


def _compared(
    sums: _Sums, m: np.ndarray | None, v: np.ndarray | None, past: ParameterState,
    rows: tuple[int, int] | None, left: float,
) -> None:  # fmt: skip
    """Add what a block shows against the same block of the earlier checkpoint."""
    if v is not None and past.second is not None:
        earlier = past.second.values(rows)
        with np.errstate(invalid="ignore"):
            usable = np.isfinite(v) & np.isfinite(earlier) & (earlier > FAINT * FAINT)
            sums.compared += int(np.count_nonzero(usable))
            sums.fell += int(np.count_nonzero(usable & (v < left * earlier)))
            sums.emptied += int(np.count_nonzero(usable & (v == 0)))
    if m is not None and past.first is not None:
        earlier = past.first.values(rows)
        sums.before_nonzero += int(np.count_nonzero(earlier))
        # Decay changes a moment at every update, but a faint one may round to itself.
        moving = np.abs(earlier) > FAINT
        sums.moving += int(np.count_nonzero(moving))
        sums.kept += int(np.count_nonzero(moving & (m == earlier)))


def _evidence(state: ParameterState, shape: tuple[int, ...], sums: _Sums, past: bool) -> MomentEvidence:
    def share(count: int, of: int) -> float:
        return count / of if of else math.nan

    return MomentEvidence(
        state.key,
        shape,
        sums.looked,
        not sums.first_bad,
        not sums.second_bad,
        share(sums.first_zeros, sums.looked) if state.first is not None else math.nan,
        share(sums.second_zeros, sums.looked) if state.second is not None else math.nan,
        share(sums.negative, sums.looked),
        share(sums.beyond, sums.looked),
        share(sums.fell, sums.compared),
        share(sums.emptied, sums.compared),
        share(sums.kept, sums.moving),
        past and not sums.before_nonzero,
    )


def follows(
    state: ParameterState, past: ParameterState, betas: tuple[float, float] | None, updates: float
) -> bool:
    """Return whether second moments can have come from earlier ones of another parameter (a sample of them).

    They can if at most one value in a hundred fell faster than its decay.
    """
    evidence = evidence_of(state, past, betas, updates, sample=True)
    return not evidence.fell > FELL


def log_distance(state: ParameterState, past: ParameterState) -> float:
    """Return the median distance of two parameters' second moments on a log scale, over a sample."""
    if state.second is None or past.second is None:
        return math.inf
    distances = []
    for rows in blocks(state.second, sample_rows(state.second)):
        now, earlier = state.second.values(rows), past.second.values(rows)
        both = (now > 0) & (earlier > 0) & np.isfinite(now) & np.isfinite(earlier)
        # a value that is 0 on one side alone is as far away as can be
        far = np.count_nonzero((now > 0) != (earlier > 0))
        distances += [np.abs(np.log(now[both] / earlier[both])), np.full(far, np.inf)]
    every = np.concatenate(distances)
    return float(np.median(every)) if len(every) else math.inf


FELL = 0.01
"""More than this share of second moments below their decay cannot be: exactly computed, none falls faster."""


def same_first(now: OptimizerState, earlier: OptimizerState, still: Collection[str] = ()) -> float:
    """Return the share of parameters, of the largest few, whose first moments are those of a checkpoint.

    Those that stand `still` are left out.
    """
    shared: Mapping[str, ParameterState] = {
        key: parameter
        for key, parameter in now.parameters.items()
        if key not in still and parameter.first is not None
        if key in earlier.parameters and earlier.parameters[key].shape == parameter.shape
    }
    largest = sorted(shared, key=lambda key: -math.prod(shared[key].shape or ()))[:_LARGEST]
    if not largest:
        return 0.0
    kept = [evidence_of(shared[key], earlier.parameters[key], None, 1, sample=True).kept for key in largest]
    return sum(share > 0.5 for share in kept) / len(kept)


_LARGEST = 4
"""How many parameters are compared with each of the earlier checkpoints."""
