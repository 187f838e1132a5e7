"""The shapes of a series on a grid of steps: falling curves, gentle waves, bends and ramps.

`phases.bends` says what the constants were set on. The late power laws (`_LATE`) were added after both tables
of noises had been seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from toposcope.core.compiling import kernel
from toposcope.statistics.phases.noise import MODELS, factors
from toposcope.statistics.trends.basis import TREND_TOLERANCE

LEAST_SEGMENT = 3
"""The fewest changes on either side of a bend."""
Span = tuple[int, int]
"""First change of a bend or ramp, and its end; a bend lasts, so its end is the number of changes."""
MOST_PERIODS = 3.0
"""Waves with more periods than this over the checkpoints are not gentle."""
_PERIODS = np.linspace(0.25, MOST_PERIODS, 12)
_WIDTHS = (3, 5, 8, 12, 20)
"""Candidate widths of ramps, at 51 checkpoints."""
_RAMP = 7.5
"""Scales of the logistic function within the length of a ramp, which then contains 95% of the rise."""
_TAIL = 0.5 - np.log(9.0) / _RAMP
"""The part of a ramp with the first tenth of the rise (0.207)."""
_MOST_PLACES = 24
"""The largest number of positions where ramps begin; the time of a scan grows with it."""
_CHECKPOINTS_PER_WAVE = 6
"""The fewest checkpoints for each wave of the design; with fewer, the waves would fit the noise."""
_MOST_WAVES = 12
"""The largest number of waves in the design."""
_POWERS = np.array([0.05, 0.2, 0.4, 0.6, 0.8, 1.0, 1.3, 1.6, 2.0])
"""Exponents of the power laws of training, t^-b, beside log t."""
_LATE = np.geomspace(0.002, 1.0, 8)
"""Offsets c of power laws (u + c)^-b in the share u of the run."""
_FALLS = np.geomspace(0.02, 1.0, 12)
"""The share of the run over which an exponential falls by a factor of e."""
_PERSISTENCES = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.97)
"""Weights of the previous row in exponential moving means, which smooth logs."""
_GROWING = 10.0
"""If the largest gap exceeds the smallest by this factor, steps grow, and ramps are in rows, not steps."""


@dataclass(frozen=True, slots=True)
class Design:
    """A grid of steps, everything on its n changes: `clock` (n,) of log step, `logs` (n + 1,) themselves.

    `trend` (k, n) has the changes of the trends, the line first; `waves` (j, n) the other smooth shapes;
    `gentle` (w, n) waves of up to three periods, at their average size; `curves` (p, n) falling curves of
    range 1; `at` (n + 1,) the positions of the checkpoints for a ramp; `shapes` (d, n) the bends and ramps at
    `spans`; `factor` and `log_det` whiten by each noise model.
    """

    steps: np.ndarray
    clock: np.ndarray
    logs: np.ndarray
    trend: np.ndarray
    waves: np.ndarray
    gentle: np.ndarray
    curves: np.ndarray
    at: np.ndarray
    spans: tuple[Span, ...]
    shapes: np.ndarray
    factor: np.ndarray
    log_det: np.ndarray

    def rows(self, spans: Sequence[Span]) -> np.ndarray:
        """Return the changes of bends and ramps that rise by 1 at `spans`, (spans, n)."""
        return shape_rows(span_array(spans), self.clock, self.at)

    @property
    def given(self) -> tuple[Any, ...]:
        """The arguments of the kernels: the spans, everything of the steps, and of the noise."""
        grid = self.trend, self.waves, self.gentle, self.curves, self.shapes, self.clock, self.at, self.logs
        return span_array(self.spans), grid, (self.factor, self.log_det)


def span_array(spans: Sequence[Span]) -> np.ndarray:
    """Return spans as an array (k, 2)."""
    return np.array(spans, np.int64).reshape(-1, 2)


def design(steps: np.ndarray) -> Design:
    """Return the design for ascending positive `steps` (n + 1,), cached."""
    return _design(tuple(float(step) for step in steps))


@lru_cache(maxsize=128)
def _design(given: tuple[float, ...]) -> Design:
    steps = np.array(given)
    logs, gaps, n = np.log(steps), np.diff(steps), len(steps) - 1
    curves, row = falling_curves(steps), np.linspace(0.0, 1.0, n + 1)
    smooth, _ = _principal(curves)
    trend = np.vstack([gaps / np.ptp(steps), np.diff(smooth[:, : n // 3], axis=0).T])
    powers = np.diff(curves / np.ptp(curves, axis=1)[:, None], axis=1)
    angles = 2.0 * np.pi * _PERIODS[:, None] * row
    shape, size = _principal(np.vstack([np.cos(angles), np.sin(angles)]))
    gentle = np.diff(shape * size * np.sqrt((n + 1) / np.sum(size**2)), axis=0).T
    uneven = gaps.max() > _GROWING * gaps.min()
    at = np.arange(n + 1.0) if uneven else n * (steps - steps[0]) / np.ptp(steps)
    count = min(max(n // _CHECKPOINTS_PER_WAVE, 1), _MOST_WAVES)
    waves = np.cos(np.pi * np.arange(1, count + 1)[:, None] * (np.arange(n) + 0.5) / n)
    trend, gentle, powers = (np.ascontiguousarray(part) for part in (trend, gentle, powers))
    factor, log_det = factors(n, MODELS)
    empty = Design(
        steps, np.diff(logs), logs, trend, waves, gentle, powers, at, (), np.empty((0, n)), factor, log_det
    )
    stride = max((n - 2 * LEAST_SEGMENT) // _MOST_PLACES + 1, 1)
    spans = all_spans(n, stride, [round(width * max(n / 50, 1)) for width in _WIDTHS])
    return replace(empty, spans=tuple(spans), shapes=empty.rows(spans))


def falling_curves(steps: np.ndarray) -> np.ndarray:
    """Return smooth trends at ascending steps (n + 1,) as rows: powers, exponentials, smoothed powers."""
    t = (steps - steps[0]) / np.diff(steps).min() + 1.0
    share = (steps - steps[0]) / np.ptp(steps)
    powers = np.stack([np.log(t), *(t**-b for b in _POWERS)])
    late = (share + _LATE[:, None, None]) ** -_POWERS[1::3, None]
    falls = np.exp(-share / _FALLS[:, None])
    kinds = [powers, late.reshape(-1, len(steps)), falls]
    return np.vstack([*kinds, *(_averaged(powers[::3], keep) for keep in _PERSISTENCES)])


def _averaged(curves: np.ndarray, keep: float) -> np.ndarray:
    """Return the exponential moving means of rows."""
    out = curves.copy()
    for i in range(1, curves.shape[1]):
        out[:, i] = keep * out[:, i - 1] + (1.0 - keep) * curves[:, i]
    return out


def _principal(curves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the leading principal functions (n + 1, k) of curves, as `basis.core_trends` takes them."""
    centred = curves - curves.mean(axis=1, keepdims=True)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    left, size, _ = np.linalg.svd(centred.T, full_matrices=False)
    keep = size > TREND_TOLERANCE * size[0]
    return left[:, keep], size[keep]


def all_spans(n: int, stride: int, widths: Sequence[int]) -> list[Span]:
    """Return bends and every `stride`-th ramp of these widths, three changes or more from either end.

    At low noise, a bend misplaced by one checkpoint resembles a ramp, so there are twice as many bends.
    """
    places = range(LEAST_SEGMENT, n - LEAST_SEGMENT + 1, stride)
    bends = range(LEAST_SEGMENT, n - LEAST_SEGMENT + 1, max(stride // 2, 1))
    ramps = [(a, a + w) for w in widths for a in places if a + w <= n - LEAST_SEGMENT]
    return [*((a, n) for a in bends), *ramps]


def edges(span: Span, n: int) -> tuple[int, ...]:
    """Return the boundaries of a change: that of a bend, or where a ramp has risen by 10% and by 90%.

    >>> edges((20, 50), 50), edges((20, 30), 50), edges((20, 23), 50)
    ((20,), (22, 28), (20, 23))
    """
    first, end = span
    if end >= n:
        return (first,)
    cut = min(round(_TAIL * (end - first)), (end - first - LEAST_SEGMENT) // 2)
    return first + cut, end - cut


def shape_rows(spans: np.ndarray, clock: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return the changes (k, n) of bends and ramps that rise by 1 at `spans`."""
    out = np.zeros((len(spans), len(clock)))
    _fill(spans, clock, at, out)
    return out


@kernel
def _fill(spans, clock, at, out):  # type: ignore[no-untyped-def]
    n = len(clock)
    for d in range(len(spans)):
        first, end = spans[d, 0], spans[d, 1]
        if end >= n:
            for i in range(first, n):
                out[d, i] = clock[i]
        else:
            middle, width = (at[first] + at[end]) / 2.0, (at[end] - at[first]) / _RAMP
            before = 1.0 / (1.0 + np.exp(-(at[0] - middle) / width))
            for i in range(n):
                level = 1.0 / (1.0 + np.exp(-(at[i + 1] - middle) / width))
                out[d, i] = level - before
                before = level
        total = 0.0
        for i in range(n):
            total += out[d, i]
        for i in range(n):
            out[d, i] /= total
