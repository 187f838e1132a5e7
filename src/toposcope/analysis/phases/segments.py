"""Phases as segments of constant slope on log(step), with the uncertainty of every boundary."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
from scipy.stats import t as student

from toposcope.analysis.phases import partition as part
from toposcope.analysis.phases.whitening import FALSE_ALARMS, Whitened, flipped_gains, whiten
from toposcope.analysis.statistics import holm
from toposcope.analysis.table import SeriesTable
from toposcope.analysis.trends.verdicts import default_columns

LEAST_POINTS = 12
BOUNDARY_DROP = -2.0 * np.log(1.0 - np.sqrt(0.95))
"""A boundary moves within its 95% set while the cost rises by less than this times sigma^2 (7.35)."""
COLUMNS = (
    "run", "column", "segment", "start_step", "end_step", "slope", "slope_low", "slope_high", "start_low",
    "start_high", "direction", "spectral_label", "embedding_label", "false_alarm_rate", "boundary_p",
    "boundary_holm", "status", "reason",
)  # fmt: skip
_P = COLUMNS.index("boundary_p") - 2
"""Where a row of `segments` has its p-value; the adjusted one follows."""


def segment_table(
    table: SeriesTable,
    *,
    columns: Sequence[str] | None = None,
    calibrated: bool = True,
    per_run: bool = True,
    level: float = 0.95,
) -> pd.DataFrame:
    """Split every feature of every run where its slope on log(step) changes; one row per segment.

    Changes are whitened first (`phases.whitening`): noise that wanes, grows or persists gives no
    boundaries. The penalty per boundary is the one that lets 5% of the series show any boundary when the
    signs of its noise are flipped at random; 2 ln n where not `calibrated`. `false_alarm_rate` is the share
    that do, `boundary_p` the p-value of having any boundary, `boundary_holm` the same adjusted over the
    columns of a run by Holm's method. With `per_run` a series keeps its boundaries only where that is at most
    5%, so that no more than 5% of runs without a change show one in any column; the reason tells of those
    dropped.
    `slope` is the segment's whole change over its
    whole stretch of log(step), with Student's interval. `start_low` and `start_high` bound a segment's first
    step by the likelihood-ratio set of its boundary, the neighbours held fixed. `direction` is the sign of
    the slope when its interval excludes 0. Labels follow it: `spectral_label` warm-up (falling before any
    rise), entropy-seeking (rising), compression-seeking (falling after a rise); `embedding_label`
    collapse (falling), reorganisation (neither), refinement (rising).

    Examples
    --------
    >>> from toposcope.analysis.table import from_frame
    >>> step = np.arange(100, 5100, 100)
    >>> noise = np.random.default_rng(0).standard_normal(50).cumsum() * 0.01
    >>> value = np.where(step < 1000, -np.log(step), -np.log(1000) + 2 * np.log(step / 1000)) + noise
    >>> table = from_frame(pd.DataFrame({"step": step, "loss": 1.0, "f": value}))
    >>> segment_table(table)["spectral_label"].tolist()[:2]
    ['warm-up', 'entropy-seeking']
    """
    columns = default_columns(table) if columns is None else list(columns)
    rows: list[tuple[object, ...]] = []
    for run in table.run_names:
        frame = table.of_run(run)
        steps = frame["step"].to_numpy(float)
        found = [
            segments(steps, frame[column].to_numpy(float), calibrated=calibrated, level=level)
            for column in columns
        ]
        adjusted = holm(np.array([series[0][_P] for series in found], float))
        for column, series, p in zip(columns, found, adjusted, strict=True):
            if per_run and calibrated and len(series) > 1 and p > FALSE_ALARMS:
                series = _whole(steps, frame[column].to_numpy(float), len(series) - 1, level)
            rows += [(run, column, *row[: _P + 1], p, *row[_P + 2 :]) for row in series]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _whole(steps: np.ndarray, values: np.ndarray, dropped: int, level: float) -> list[tuple[object, ...]]:
    """Return the series as one segment, its boundaries dropped because its run has other columns too."""
    row = segments(steps, values, level=level, one=True)[0]
    reason = f"{dropped} boundaries dropped: not significant over the columns of the run (Holm)"
    return [(*row[:-1], reason)]


def segments(
    steps: np.ndarray,
    values: np.ndarray,
    *,
    calibrated: bool = True,
    level: float = 0.95,
    one: bool = False,
) -> list[tuple[object, ...]]:
    """Return the segments of one series as rows of `segment_table`, without run and column.

    With `one` the series stays whole. `boundary_holm` is `boundary_p`, of a single series.
    """
    inc = part.increments(steps, values)
    n = len(inc.change)
    if n < LEAST_POINTS:
        return [
            _nothing("failed", f"{n + 1} checkpoints after step 0: at least {LEAST_POINTS + 1} are needed")
        ]
    white = whiten(inc)
    if not white.usable:
        return [_nothing("degenerate", "the feature hardly ever changes: no noise level to judge by")]
    gain = part.best_gain(white.change, white.clock, part.LEAST_SEGMENT, part.MOST_BOUNDARIES)
    draws = flipped_gains(inc, white, gain)
    p = (1 + int(np.sum(draws >= gain))) / (len(draws) + 1)
    penalty = _threshold(draws) if calibrated else 2.0 * float(np.log(n))
    rate = float(np.mean(draws > penalty))
    cuts = [] if one else part.optimal_boundaries(white.change, white.clock, penalty)
    starts = [0, *cuts, n]
    sigma = _residual_sigma(white, starts)
    rows: list[tuple[object, ...]] = []
    risen = False
    for i, (a, b) in enumerate(pairwise(starts)):
        slope, low, high = _slope(inc, white, a, b, sigma, n - len(starts) + 1, level)
        direction = "rising" if low > 0 else "falling" if high < 0 else "flat"
        first, last = _boundary_set(white, inc.steps, starts, i, sigma) if i else (inc.steps[0], inc.steps[0])
        rows.append((
            i, inc.steps[a], inc.steps[b], slope, low, high, first, last, direction,
            _spectral(direction, risen), _EMBEDDING[direction], rate, p, p, "ok", "",
        ))  # fmt: skip
        risen = risen or direction == "rising"
    return rows


_EMBEDDING = {"falling": "collapse", "flat": "reorganisation", "rising": "refinement"}


def _spectral(direction: str, risen: bool) -> str:
    if direction == "rising":
        return "entropy-seeking"
    if direction == "falling":
        return "compression-seeking" if risen else "warm-up"
    return ""


def _nothing(status: str, reason: str) -> tuple[object, ...]:
    return (0, *(np.nan,) * 7, "", "", "", np.nan, np.nan, np.nan, status, reason)


def _threshold(draws: np.ndarray) -> float:
    """Return the penalty that at most 5% of the sorted draws exceed, the series itself counted among them."""
    return float(draws[int(np.ceil((1 - FALSE_ALARMS) * (len(draws) + 1))) - 1])


def _residual_sigma(inc: Whitened, starts: list[int]) -> float:
    cost = sum(_rest(inc, a, b) for a, b in pairwise(starts))
    return float(np.sqrt(cost / max(len(inc.change) - len(starts) + 1, 1)))


def _rest(inc: Whitened, a: int, b: int) -> float:
    change, clock = inc.change[a:b], inc.clock[a:b]
    slope = change @ clock / (clock @ clock)
    return float(np.sum((change - slope * clock) ** 2))


def _slope(
    inc: part.Increments, white: Whitened, a: int, b: int, sigma: float, degrees: int, level: float
) -> tuple[float, float, float]:
    """Return the mean slope of a segment, its whole change over its whole clock, with Student's interval.

    Weighting by the noise would be sharper if the slope were constant, but where a change of slope went
    unseen it would describe the quiet part alone.
    """
    span = inc.clock[a:b].sum()
    noise = white.sigma[a:b] * sigma
    lag = np.abs(np.subtract.outer(np.arange(b - a), np.arange(b - a)))
    variance = noise @ (white.phi**lag) @ noise / (1.0 - white.phi**2)
    slope = float(inc.change[a:b].sum() / span)
    half = float(student.ppf(0.5 + level / 2, max(degrees, 1)) * np.sqrt(variance) / span)
    return slope, slope - half, slope + half


def _boundary_set(
    inc: Whitened, steps: np.ndarray, starts: list[int], i: int, sigma: float
) -> tuple[float, float]:
    """Return the first and last step in the 95% likelihood-ratio set of the start of segment i."""
    a, now, b = starts[i - 1], starts[i], starts[i + 1]
    places = np.arange(a + part.LEAST_SEGMENT, b - part.LEAST_SEGMENT + 1)
    cost = np.array([_rest(inc, a, c) + _rest(inc, c, b) for c in map(int, places)])
    inside = places[cost - cost.min() <= BOUNDARY_DROP * sigma**2]
    return float(steps[min(inside.min(), now)]), float(steps[max(inside.max(), now)])
