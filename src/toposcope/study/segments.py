"""Phases as segments between bends: where a series leaves every smooth trend, with a p-value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
import scipy  # linalg loads on first use

from toposcope.core.distributions import student_quantile
from toposcope.statistics.correlations import holm
from toposcope.statistics.phases.bends import LEAST_POINTS, Scan, near_spans, scan, why_not, why_not_short
from toposcope.statistics.phases.curves import LEAST_SEGMENT, Design, Span, design, edges
from toposcope.statistics.phases.noise import covariances
from toposcope.statistics.phases.reference import FALSE_ALARMS, Reference, false_alarms, level_of, reference
from toposcope.study.table import SeriesTable
from toposcope.study.trends.verdicts import default_columns

MOST_BENDS = 8
"""Bends of one series, at most."""
MOST_POINTS = 150
"""Longer series are searched as means of neighbours: the packaged references of even steps end at 152."""
LOOK_AHEAD = 0.01
"""Level of the test of the change that follows one that was only assumed."""
BOUNDARY_DROP = -np.log(1.0 - np.sqrt(0.95))
"""A boundary moves within its 95% set while the log likelihood falls by less than this (3.68)."""
SHARP_DROP = 1.92
"""A bend is sharp where every turn over `SHARP_WIDTH` checkpoints or more costs more log likelihood: half of
the 95% quantile of chi squared with one degree of freedom."""
SHARP_WIDTH = 3
"""The narrowest turn that is not sharp: a sharp change takes one or two checkpoints."""
_AT_ONCE = 2_000_000
"""Numbers of the shapes that are scanned together: all of a long series are more than fit into memory."""
COLUMNS = (
    "run", "column", "segment", "start_step", "end_step", "slope", "slope_low", "slope_high", "start_low",
    "start_high", "kind", "direction", "spectral_label", "embedding_label", "false_alarm_rate", "boundary_p",
    "boundary_holm", "status", "reason",
)  # fmt: skip
UNEVEN = "cannot tell: the bend is too weak for uneven steps (p {p:.2f})"
CANNOT_TELL = "cannot tell: noise of changing size bends as much (p {p:.2f}; for even noise {own:.2g})"
GENTLE = "no verdict: a gentle wave fits as well (p {p:.2f})"
"""A gentle wave has at most three periods over the checkpoints."""
_P = COLUMNS.index("boundary_p") - 2
"""Where a row of `segments` has its p-value; the adjusted one follows."""


def segment_table(
    table: SeriesTable,
    *,
    columns: Sequence[str] | None = None,
    per_run: bool = True,
    level: float = 0.95,
) -> pd.DataFrame:
    """Split every feature of every run where it leaves a smooth trend; one row per segment.

    It leaves it by a bend, which is a change of the slope on log(step), or by a ramp to another level, which
    has two boundaries. The smooth trends of training (line, powers, exponentials, their moving means, waves
    of up to three periods) can follow neither, beyond noise that may persist, shrink or grow
    (`phases.bends`). `boundary_p` is the p-value of having any, against simulated series without one at the
    same steps (`phases.reference`): with plain noise, with difficult noise, and with gentle waves, whichever
    is largest. A series that bends against plain noise only, or at uneven steps with a p above 2%, stays
    whole, and its reason says "cannot tell"; a series that a gentle wave explains as well stays whole, too
    ("no verdict"). `boundary_holm` is the same adjusted over the columns of a run by Holm's method. With
    `per_run` a series keeps its bends only where that is at most 5% (2%), and the reason tells of those
    dropped. `false_alarm_rate` is simulated too, for these steps: the highest share in which a series on its
    own shows a bend, over five kinds of plain curve that the reference was not made of. A series of more than
    150 points is searched as means of 2, 3, ... neighbours, at most 150 of them.

    `kind` of a segment's start: "bend", or "sharp change" where no turn over three checkpoints or more fits
    as well. `slope` is the segment's whole change over its whole stretch of log(step), with Student's
    interval. `start_low` and `start_high` bound a segment's first step by the likelihood-ratio set of its
    bend, the others held fixed. `direction` is the sign of the slope when its interval excludes 0. Labels
    follow it: `spectral_label` warm-up (falling before any rise), entropy-seeking (rising),
    compression-seeking (falling after a rise); `embedding_label` collapse (falling), reorganisation
    (neither), refinement (rising).

    Examples
    --------
    >>> from toposcope.study.table import from_frame
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
        segmentations = [segments(steps, frame[column].to_numpy(float), level=level) for column in columns]
        adjusted = holm(np.array([series[0][_P] for series in segmentations], float))
        for column, series, p in zip(columns, segmentations, adjusted, strict=True):
            if per_run and len(series) > 1 and p > level_of(usable(steps, steps)[0]):
                series = _whole(steps, frame[column].to_numpy(float), len(series) - 1, level)
            rows += [(run, column, *row[: _P + 1], p, *row[_P + 2 :]) for row in series]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _whole(steps: np.ndarray, values: np.ndarray, dropped: int, level: float) -> list[tuple[object, ...]]:
    """Return the series as one segment, its bends dropped because its run has other columns too."""
    row = segments(steps, values, level=level, one=True)[0]
    reason = (
        f"{dropped} bend{'s' * (dropped > 1)} dropped: not significant over the columns of the run (Holm)"
    )
    return [(*row[:-1], reason)]


def segments(
    steps: np.ndarray, values: np.ndarray, *, level: float = 0.95, one: bool = False
) -> list[tuple[object, ...]]:
    """Return the segments of one series as rows of `segment_table`, without run and column.

    With `one` the series stays whole. `boundary_holm` is `boundary_p`, of a single series. Step 0, whose
    logarithm is -inf, and values that are not finite are left out.
    """
    steps, values = usable(steps, values)
    if len(steps) <= LEAST_POINTS:
        return [_nothing("failed", why_not_short(len(steps)))]
    grid, change = design(steps), np.diff(values)
    reason = why_not(change, scan(grid, change))
    if reason:
        return [_nothing("degenerate", reason)]
    null_reference = reference(steps)
    bends, p = search(grid, change, null_reference, bar=level_of(steps))
    undecided = "" if bends else _undecided(null_reference, scan(grid, change), p)
    bends = () if one else bends
    last = scan(grid, change, bends)
    bounds = sorted(
        (at, change_at, i) for change_at in bends for i, at in enumerate(edges(change_at, len(change)))
    )
    rate = false_alarms(steps)
    rows: list[tuple[object, ...]] = []
    risen = False
    for i, (a, b) in enumerate(pairwise([0, *(at for at, _, _ in bounds), len(change)])):
        first, end, kind = (steps[0], steps[0], "")
        if i:
            _, span, which = bounds[i - 1]
            others = tuple(other for other in bends if other != span)
            first, end, kind = _boundary(grid, change, span, which, others)
        slope, low, high = _slope(grid, change, last, a, b, level)
        direction = "rising" if low > 0 else "falling" if high < 0 else "flat"
        rows.append((
            i, steps[a], steps[b], slope, low, high, first, end, kind, direction,
            _spectral(direction, risen), _EMBEDDING[direction], rate, p, p, "ok", undecided,
        ))  # fmt: skip
        risen = risen or direction == "rising"
    return rows


def _undecided(null_reference: Reference, best: Scan, p: float) -> str:
    """Return why a series without bends might still have some, or nothing."""
    if p <= FALSE_ALARMS:
        return UNEVEN.format(p=p)
    bare = null_reference.p_value(best.bare, best.persistence, best.unevenness)
    if bare <= FALSE_ALARMS:
        return GENTLE.format(p=p)
    kindly_p = null_reference.kindly(best.gain, best.persistence, best.unevenness)
    return CANNOT_TELL.format(p=p, own=kindly_p) if kindly_p <= FALSE_ALARMS else ""


def usable(steps: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the points to search: finite, beyond step 0, and long series as means of neighbours.

    A mean stands at the last of its steps, so that even steps stay even. The last few points are left out
    where their number is no multiple.

    >>> steps, values = usable(np.arange(1.0, 402.0), np.arange(401.0))
    >>> len(steps), steps[:2].tolist(), values[:2].tolist()
    (133, [3.0, 6.0], [1.0, 4.0])
    """
    keep = (steps > 0) & np.isfinite(values)
    steps, values = np.asarray(steps, float)[keep], np.asarray(values, float)[keep]
    width = -(-len(steps) // MOST_POINTS)
    if width <= 1:
        return steps, values
    count = len(steps) // width * width
    return steps[:count].reshape(-1, width)[:, -1], values[:count].reshape(-1, width).mean(axis=1)


def search(
    grid: Design, change: np.ndarray, known: Reference, *, bar: float = FALSE_ALARMS
) -> tuple[tuple[Span, ...], float]:
    """Return the changes of a series, in the order in which they were found, and the p-value of the first.

    Each change, a bend or a ramp, is tested given those found before. If the next one is not significant, it
    is assumed once, because one of several changes may be visible only given the others; these are tested at
    `LOOK_AHEAD`. After each change all are placed again, each given the others. A change is significant up to
    `bar`.
    """
    n = len(change)

    def p_beyond(given: tuple[Span, ...]) -> float:
        return known.of_scan(scan(grid, change, given))

    def beyond(given: tuple[Span, ...]) -> tuple[Span, ...]:
        """Return the next change, or nothing if it has no boundary away from those of the others."""
        span = scan(grid, change, given).span
        taken = [at for old in given for at in edges(old, n)]
        clear = all(abs(at - old) >= LEAST_SEGMENT for at in edges(span, n) for old in taken)
        return (span,) if clear else ()

    first = p_beyond(())
    if first > bar:
        return (), first
    spans_found = beyond(())
    while len(spans_found) < MOST_BENDS:
        spans_found = _placed(grid, change, spans_found)
        new = beyond(spans_found)
        if p_beyond(spans_found) > bar:
            more = beyond((*spans_found, *new)) if new else ()
            new = (*new, *more) if more and p_beyond((*spans_found, *new)) <= LOOK_AHEAD else ()
        if not new:
            break
        spans_found = (*spans_found, *new)
    return _placed(grid, change, spans_found), first


def _placed(grid: Design, change: np.ndarray, spans_found: tuple[Span, ...]) -> tuple[Span, ...]:
    """Return the changes, each moved to its likeliest place given the others, twice."""
    n = len(change)
    for at in [*range(len(spans_found))] * 2 if len(spans_found) > 1 else []:
        others = (*spans_found[:at], *spans_found[at + 1 :])
        taken = [edge for other in others for edge in edges(other, n)]
        near = [(int(a), int(b)) for a, b in near_spans(spans_found[at][0], spans_found[at][1], n)]
        free = [
            span
            for span in near
            if all(abs(edge - old) >= LEAST_SEGMENT for edge in edges(span, n) for old in taken)
        ]
        if free:
            moved = free[scan(grid, change, others, grid.rows(free), spans_found[at : at + 1]).place]
            spans_found = (*spans_found[:at], moved, *spans_found[at + 1 :])
    return spans_found


def _boundary(
    grid: Design, change: np.ndarray, span: Span, which: int, others: tuple[Span, ...]
) -> tuple[float, float, str]:
    """Return the 95% set in steps of a change's boundary given the `others`, and whether it is sharp."""
    n = len(change)
    taken = sorted(at for other in others for at in edges(other, n))
    low = max((at for at in taken if at < edges(span, n)[which]), default=0)
    high = min((at for at in taken if at > edges(span, n)[which]), default=n)
    moved = [move for move in _moves(span, which, n) if low < edges(move, n)[which] < high or move == span]
    profile = scan(grid, change, others, grid.rows(moved), (span,)).profile
    inside = [
        edges(moved_span, n)[which]
        for moved_span, value in zip(moved, profile, strict=True)
        if value >= profile.max() - BOUNDARY_DROP
    ]
    at = edges(span, n)[which]
    kind = "sharp change" if _sharp(grid, change, span, others, profile.max()) else "bend"
    return float(grid.steps[min(*inside, at)]), float(grid.steps[max(*inside, at)]), kind


def _moves(span: Span, which: int, n: int) -> list[Span]:
    """Return a change with one boundary at every possible place and the other one unmoved."""
    first, end = span
    if end >= n:
        return [(a, n) for a in range(1, n)]
    if which == 0:
        return [(a, end) for a in range(1, end - LEAST_SEGMENT + 1)]
    return [(first, b) for b in range(first + LEAST_SEGMENT, n)]


def _sharp(grid: Design, change: np.ndarray, span: Span, others: tuple[Span, ...], best: float) -> bool:
    """Return whether every change over `SHARP_WIDTH` checkpoints or more fits clearly worse."""
    n = len(change)
    index, widest = np.arange(n), max(n // 3, SHARP_WIDTH + 1)
    every = [
        (a, width)
        for width in range(SHARP_WIDTH, widest)
        for a in range(LEAST_SEGMENT - width // 2, n - LEAST_SEGMENT - width // 2 + 1)
    ]
    for part in _parts(every, n):
        first, width = np.array(part).T[:, :, None]
        turns = grid.clock * np.clip((index - first + 1) / width, 0.0, 1.0)
        moves = np.where((index >= first) & (index < first + width), 1.0, 0.0)
        rows = turns if span[1] >= n else moves
        rescan = scan(grid, change, others, rows / rows.sum(axis=1, keepdims=True), (span,))
        if best - rescan.profile.max() <= SHARP_DROP:
            return False
    return True


def _parts(places: list[Span], n: int) -> Iterator[list[Span]]:
    """Yield as many of the places at a time as make shapes of n changes that fit into memory."""
    size = max(_AT_ONCE // n, 1)
    for at in range(0, len(places), size):
        yield places[at : at + size]


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
    grid: Design, change: np.ndarray, best: Scan, a: int, b: int, level: float
) -> tuple[float, float, float]:
    """Return the mean slope of a segment, its whole change over its whole clock, with Student's interval."""
    span = grid.clock[a:b].sum()
    size = best.sigma[a:b]
    variance = best.variance * float(size @ scipy.linalg.toeplitz(covariances(best.model, b - a)) @ size)
    slope = float(change[a:b].sum() / span)
    degrees = max(len(change) - best.trends - 1, 1)
    half = float(student_quantile(0.5 + level / 2, degrees) * np.sqrt(variance) / span)
    return slope, slope - half, slope + half
