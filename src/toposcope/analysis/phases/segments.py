"""Phases as segments between bends: where a series leaves every smooth trend, with what that is worth."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
from scipy.linalg import toeplitz
from scipy.stats import t as student

from toposcope.analysis.phases.bends import LEAST_SEGMENT, Design, Scan, design, scan, smooth_gain, why_not
from toposcope.analysis.phases.reference import FALSE_ALARMS, Reference, false_alarms, reference
from toposcope.analysis.statistics import holm
from toposcope.analysis.table import SeriesTable
from toposcope.analysis.trends.verdicts import default_columns

MOST_BENDS = 8
BOUNDARY_DROP = -2.0 * np.log(1.0 - np.sqrt(0.95))
"""A bend moves within its 95% set while the squares rise by less than this times sigma^2 (7.35)."""
SHARP_DROP = 3.84
"""A bend is sharp where every turn over `SHARP_WIDTH` checkpoints or more costs this times sigma^2."""
SHARP_WIDTH = 3
COLUMNS = (
    "run", "column", "segment", "start_step", "end_step", "slope", "slope_low", "slope_high", "start_low",
    "start_high", "kind", "direction", "spectral_label", "embedding_label", "false_alarm_rate", "boundary_p",
    "boundary_holm", "status", "reason",
)  # fmt: skip
_P = COLUMNS.index("boundary_p") - 2
"""Where a row of `segments` has its p-value; the adjusted one follows."""


def segment_table(
    table: SeriesTable,
    *,
    columns: Sequence[str] | None = None,
    per_run: bool = True,
    level: float = 0.95,
) -> pd.DataFrame:
    """Split every feature of every run where it bends beyond a smooth trend; one row per segment.

    A bend is a change of the slope on log(step) that the smooth trends of training (constant, line, powers of
    the step, log step) cannot follow, beyond noise that may persist, wane or grow (`phases.bends`).
    `boundary_p` is the p-value of having any, against simulated series without one at the same steps
    (`phases.reference`); `boundary_holm` the same adjusted over the columns of a run by Holm's method. With
    `per_run` a series keeps its bends only where that is at most 5%, and the reason tells of those dropped.
    `false_alarm_rate` is simulated too, for these steps: the highest share in which a series on its own
    shows a bend, over five kinds of plain curve that the reference was not made of.

    `kind` of a segment's start: "bend", or "sharp change" where no turn over three checkpoints or more fits
    as well. `slope` is the segment's whole change over its whole stretch of log(step), with Student's
    interval. `start_low` and `start_high` bound a segment's first step by the likelihood-ratio set of its
    bend, the others held fixed. `direction` is the sign of the slope when its interval excludes 0. Labels
    follow it: `spectral_label` warm-up (falling before any rise), entropy-seeking (rising),
    compression-seeking (falling after a rise); `embedding_label` collapse (falling), reorganisation
    (neither), refinement (rising).

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
        found = [segments(steps, frame[column].to_numpy(float), level=level) for column in columns]
        adjusted = holm(np.array([series[0][_P] for series in found], float))
        for column, series, p in zip(columns, found, adjusted, strict=True):
            if per_run and len(series) > 1 and p > FALSE_ALARMS:
                series = _whole(steps, frame[column].to_numpy(float), len(series) - 1, level)
            rows += [(run, column, *row[: _P + 1], p, *row[_P + 2 :]) for row in series]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _whole(steps: np.ndarray, values: np.ndarray, dropped: int, level: float) -> list[tuple[object, ...]]:
    """Return the series as one segment, its bends dropped because its run has other columns too."""
    row = segments(steps, values, level=level, one=True)[0]
    reason = f"{dropped} bends dropped: not significant over the columns of the run (Holm)"
    return [(*row[:-1], reason)]


def segments(
    steps: np.ndarray, values: np.ndarray, *, level: float = 0.95, one: bool = False
) -> list[tuple[object, ...]]:
    """Return the segments of one series as rows of `segment_table`, without run and column.

    With `one` the series stays whole. `boundary_holm` is `boundary_p`, of a single series. Step 0, whose
    logarithm is -inf, and values that are not finite are left out.
    """
    keep = (steps > 0) & np.isfinite(values)
    steps, values = np.asarray(steps, float)[keep], np.asarray(values, float)[keep]
    if len(steps) < 2:
        return [_nothing("failed", f"{len(steps)} checkpoints after step 0")]
    grid = design(steps)
    reason = why_not(grid, values)
    if reason:
        return [_nothing("failed" if "checkpoints" in reason else "degenerate", reason)]
    change = np.diff(values)
    bends, p = _search(grid, change, reference(steps))
    if one:
        bends = ()
    last = scan(grid, change, bends)
    starts = [0, *sorted(bends), len(change)]
    rows: list[tuple[object, ...]] = []
    risen = False
    for i, (a, b) in enumerate(pairwise(starts)):
        slope, low, high = _slope(grid, change, last, a, b, level)
        direction = "rising" if low > 0 else "falling" if high < 0 else "flat"
        first, end, kind = (steps[0], steps[0], "")
        if i:
            first, end, kind = _bend(grid, change, a, tuple(place for place in bends if place != a))
        rows.append((
            i, steps[a], steps[b], slope, low, high, first, end, kind, direction,
            _spectral(direction, risen), _EMBEDDING[direction], false_alarms(steps), p, p, "ok", "",
        ))  # fmt: skip
        risen = risen or direction == "rising"
    return rows


def _search(grid: Design, change: np.ndarray, known: Reference) -> tuple[tuple[int, ...], float]:
    """Return the bends, the strongest first, and the p-value of the first; each is tested beyond those."""
    bends: tuple[int, ...] = ()
    first = 1.0
    while len(bends) < MOST_BENDS:
        found = scan(grid, change, bends)
        one, two = known.p_values(found.gain, found.pair_gain, found.persistence)
        first = first if bends else min(one, two)
        places = (found.place,) if one <= two else found.pair
        near = any(abs(new - old) < LEAST_SEGMENT for new in places for old in bends)
        if min(one, two) > FALSE_ALARMS or near:
            break
        bends = (*bends, *places)
    return bends, first


def _bend(grid: Design, change: np.ndarray, place: int, others: tuple[int, ...]) -> tuple[float, float, str]:
    """Return the 95% set of a bend, the `others` held fixed, and whether it is sharp."""
    found = scan(grid, change, others)
    profile, noise = found.profile, found.residual**2
    top = profile[place]
    between = [other for other in others if other < place], [other for other in others if other > place]
    index = np.arange(len(profile))
    inside = index[np.nan_to_num(profile, nan=-np.inf) >= top - BOUNDARY_DROP * noise]
    inside = inside[(inside > max(between[0], default=0)) & (inside < min(between[1], default=len(profile)))]
    widest = max(len(change) // 3, SHARP_WIDTH + 1)
    smooth = smooth_gain(grid, change, others, found, range(SHARP_WIDTH, widest))
    kind = "sharp change" if top - smooth > SHARP_DROP * noise else "bend"
    return float(grid.steps[min(inside.min(), place)]), float(grid.steps[max(inside.max(), place)]), kind


_EMBEDDING = {"falling": "collapse", "flat": "reorganisation", "rising": "refinement"}


def _spectral(direction: str, risen: bool) -> str:
    if direction == "rising":
        return "entropy-seeking"
    if direction == "falling":
        return "compression-seeking" if risen else "warm-up"
    return ""


def _nothing(status: str, reason: str) -> tuple[object, ...]:
    return (0, *(np.nan,) * 7, "", "", "", "", np.nan, np.nan, np.nan, status, reason)


def _slope(
    grid: Design, change: np.ndarray, found: Scan, a: int, b: int, level: float
) -> tuple[float, float, float]:
    """Return the mean slope of a segment, its whole change over its whole clock, with Student's interval."""
    span, n = grid.clock[a:b].sum(), len(change)
    response = np.zeros(n)
    response[0] = 1.0
    for i in range(1, n):
        response[i] = sum(phi * response[i - 1 - j] for j, phi in enumerate(found.phi) if j < i)
    covariance = np.correlate(response, response, "full")[n - 1 :]
    noise = found.sigma[a:b] * found.residual
    variance = float(noise @ toeplitz(covariance[: b - a]) @ noise)
    slope = float(change[a:b].sum() / span)
    degrees = max(n - len(found.phi) - len(grid.trend), 1)
    half = float(student.ppf(0.5 + level / 2, degrees) * np.sqrt(variance) / span)
    return slope, slope - half, slope + half
