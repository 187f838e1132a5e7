"""The test behind the verdict: one test of a pair over its runs, at lags of up to two checkpoints.

Under independence the sign of every product e_t f_t is arbitrary, so the null distribution of sum e_t f_t is
that of sum s_t q_t over random signs s_t, with q_t = e_t f_t / h_t^(3/8), where h_t, the part of place t that
the projections left, corrects for what they removed from the products. Its tail is the saddlepoint
approximation of Lugannani and Rice (1980) with the exact cumulant function K(u) = sum log cosh(q_t u).
Because the products are not modelled, noise whose size changes along training needs no model either. Several
runs form one test: their products are added checkpoint by checkpoint, and one sign flips all runs at a
checkpoint, so that runs which saw the same batches need not be independent of one another.

The level of 5% is divided: 68% goes to products at the same checkpoint, 3% to each of the lags 1, -1, 2 and
-2, and 20% to shared spikes (`alignment`). p is the smallest of the six, each divided by its share. r, its
interval and the lag are those of the best lag if it is below the level, else of lag 0. So an interval
excludes 0 if and only if p is at most 5%.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from toposcope.core.forms import step_text
from toposcope.statistics.trends.alignment import alignment_interval, alignment_tail
from toposcope.statistics.trends.signs import (
    ALPHA,
    LAG_SHARE,
    LAGS,
    OWN_SHARE,
    SPIKE_SHARE,
    SignTest,
    at_power_one,
    products_of,
    sign_tail,
    sign_test,
)

WIDER = 1.5
"""If both series persist, or are too short to tell, the outer end of the interval is this many times as far
from r: misjudged persistence pulls strong r towards 0. Set on autoregressions and walks with r up to .85."""
STRETCH, MOST = 3, 0.5
"""p rests on this many neighbours if this share of the sum lies in them and the others do not reach 5%."""


@dataclass(slots=True)
class RunInnovations:
    """The innovations e and f (n,) of one pair in one run; `why` says why they are not tested.

    `left` is what the projections left of each, `scaled` are the innovations over their scales (NaN without
    a scale), `excess` is the result of `persistence_left`, `note` says what was left out, and `turned` at
    which steps after the first of the run both series turned.
    """

    steps: np.ndarray
    e: np.ndarray
    f: np.ndarray
    left: tuple[np.ndarray, np.ndarray]
    scaled: tuple[np.ndarray, np.ndarray]
    why: str = ""
    note: str = ""
    turned: str = ""
    excess: float = 1.0
    persists: bool = False


@dataclass(frozen=True, slots=True)
class Joint:
    """`r` at `lag`, its interval, p and the `least` p in reach; `spikes`: only the alignment finds it.

    `doubt` says why a p below the level gives no verdict, or is empty.
    """

    r: float
    low: float
    high: float
    p: float
    least: float
    lag: int = 0
    spikes: bool = False
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class _StepSums:
    """Per step: the sums over the runs of e f and (e^2 + f^2) / 2, and the mean weight."""

    steps: np.ndarray
    product: np.ndarray
    square: np.ndarray
    weight: np.ndarray


def joint_test(runs: list[RunInnovations], *, intervals: bool = True) -> Joint:
    """Test sum e f of all runs at every lag; the interval of r inverts the reported part."""
    short = 1.0 / float(np.sqrt(np.mean([run.excess for run in runs])))
    pair = _alignable(runs)
    shares = {lag: LAG_SHARE if lag else OWN_SHARE + SPIKE_SHARE * (pair is None) for lag in LAGS}
    placed = _placed(runs)
    sums = {lag: _sums(placed, lag) for lag in LAGS}
    tests = {lag: _signs(sums[lag], short) for lag in LAGS}
    parts = {lag: tests[lag].p / shares[lag] for lag in LAGS}
    lag = min(parts, key=parts.__getitem__)
    aligned, least = alignment_tail(*pair) if pair else (np.nan, np.nan)
    reach = np.nanmin([tests[0].least / shares[0], least / SPIKE_SHARE, 1.0])
    p = min(1.0, float(np.nanmin([parts[lag], aligned / SPIKE_SHARE])))
    lag = lag if parts[lag] <= ALPHA else 0
    spikes = bool(aligned <= SPIKE_SHARE * ALPHA and parts[lag] > ALPHA)
    if spikes and pair:
        ends = alignment_interval(*pair, SPIKE_SHARE * ALPHA) if intervals else (np.nan,) * 3
        doubt = _rest_of_spikes(sums[0].steps, *pair)
    else:
        test = _signs(sums[lag], short, shares[lag] * ALPHA) if intervals else tests[lag]
        ends = test.r, test.low, test.high
        doubt = _rest(sums[lag], short, shares[lag]) if p <= ALPHA else ""
    joint = Joint(*ends, p=p, least=float(reach), lag=lag, spikes=spikes, doubt=doubt)
    return _widened(joint) if np.mean([run.persists for run in runs]) > 0.5 else joint


def _signs(sums: _StepSums, short: float, alpha: float = 0.0) -> SignTest:
    return sign_test(sums.product, sums.square, sums.weight, short=short, alpha=alpha, intervals=alpha > 0.0)


@dataclass(frozen=True, slots=True)
class _Placed:
    """Innovations at power 1 of runs that share their steps, and the share left of each: (runs, n).

    `at` (n,) has their positions among the steps of all runs.
    """

    e: np.ndarray
    f: np.ndarray
    left: tuple[np.ndarray, np.ndarray]
    at: np.ndarray


def _placed(runs: list[RunInnovations]) -> tuple[np.ndarray, list[_Placed]]:
    """Return the steps of all runs, and the runs grouped by equal steps."""
    steps = np.unique(np.concatenate([run.steps for run in runs]))
    alike = all(np.array_equal(run.steps, runs[0].steps) for run in runs[1:])
    placed = []
    for group in [runs] if alike else [[run] for run in runs]:
        e, f, left, right = (
            np.stack(rows)
            for rows in zip(
                *((at_power_one(run.e), at_power_one(run.f), *run.left) for run in group), strict=True
            )
        )
        placed.append(_Placed(e, f, (left, right), np.searchsorted(steps, group[0].steps)))
    return steps, placed


def _sums(placed: tuple[np.ndarray, list[_Placed]], lag: int) -> _StepSums:
    """Return the products of e and of f `lag` positions later, at the steps of e."""
    steps, groups = placed
    sums = np.zeros((4, len(steps)))
    for group in groups:
        runs, n = group.e.shape
        a, b = slice(max(-lag, 0), n - max(lag, 0)), slice(max(lag, 0), n - max(-lag, 0))
        left = np.sqrt(group.left[0][:, a] * group.left[1][:, b])
        added = [part.sum(axis=0) for part in products_of(group.e[:, a], group.f[:, b], left)]
        sums[:, group.at[a]] += *added, np.full(len(added[0]), float(runs))
    nonzero = sums[3] > 0
    return _StepSums(steps[nonzero], sums[0, nonzero], sums[1, nonzero], sums[2, nonzero] / sums[3, nonzero])


def _rest(sums: _StepSums, short: float, share: float) -> str:
    """Return in words the range of steps on which p rests, or an empty string."""
    total = float(sums.product.sum())
    first = _heaviest(sums.product * np.sign(total))
    there = np.zeros(len(sums.product), bool)
    there[first : first + STRETCH] = True
    part = float(sums.product[there].sum())
    if not part / total > MOST:
        return ""
    q = np.ascontiguousarray((sums.product * sums.weight)[~there])
    return "" if sign_tail(q, (total - part) * short) <= share * ALPHA else _named(sums.steps[there])


def _rest_of_spikes(steps: np.ndarray, e: np.ndarray, f: np.ndarray, left: float) -> str:
    products = np.sum(e * f, axis=0)
    total = float(products.sum())
    first = _heaviest(products * np.sign(total))
    there = slice(first, first + STRETCH)
    if not products[there].sum() / total > MOST:
        return ""
    e, f = e.copy(), f.copy()
    e[:, there], f[:, there] = 0.0, 0.0
    return "" if alignment_tail(e, f, left)[0] <= SPIKE_SHARE * ALPHA else _named(steps[there])


def _heaviest(products: np.ndarray) -> int:
    return int(np.convolve(products, np.ones(STRETCH), "valid").argmax())


def _named(steps: np.ndarray) -> str:
    return f"rests on steps {step_text(steps[0])}–{step_text(steps[-1])} alone"


def _alignable(runs: list[RunInnovations]) -> tuple[np.ndarray, np.ndarray, float] | None:
    """Return the inputs of the alignment, e and f (runs, n); None if steps differ, or a scale is missing."""
    if any(not np.array_equal(run.steps, runs[0].steps) or np.isnan(run.scaled).any() for run in runs):
        return None
    e, f = (np.stack([run.scaled[side] for run in runs]) for side in (0, 1))
    left = [float(np.sqrt(run.left[0] * run.left[1]).mean()) / run.excess for run in runs]
    return e, f, float(np.mean(left))


def _widened(joint: Joint) -> Joint:
    """Move the end of the interval that is farther from 0 `WIDER` times as far out.

    Whether the interval contains 0 does not change.
    """
    high = min(joint.r + WIDER * (joint.high - joint.r), 1.0) if joint.r > 0 else joint.high
    low = max(joint.r - WIDER * (joint.r - joint.low), -1.0) if joint.r < 0 else joint.low
    return replace(joint, low=low, high=high)
