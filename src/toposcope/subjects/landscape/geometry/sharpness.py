"""Critical sharpness: how far one can go along an update before the loss exceeds its starting value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.seeding import rng
from toposcope.core.wording import command

if TYPE_CHECKING:
    import torch

    from toposcope.models.objective import Objective

PASSES = 8
"""Evaluations of the loss along a direction."""
_GROWTH, _SMALLEST, _LARGEST = 4.0, 2.0**-12, 2.0**12
"""Factor between steps until the critical one is bracketed, and the limits of the search."""
_RESAMPLES = 500
"""Resamplings of the sequences for an interval."""


@dataclass(frozen=True, slots=True)
class CriticalStep:
    """The step along a direction at which the loss is back at its starting value.

    `step` is in units of the direction, `low` and `high` the 95% interval over sequences, `sharpness` =
    2 / step, and `lower` and `upper` the evaluated steps that bracket it. `status` is "ok", or says why there
    is no step: "no descent", "flat" or "beyond range". `steps` and `losses` are what was evaluated, in order.
    """

    step: float
    low: float
    high: float
    lower: float
    upper: float
    status: str
    steps: np.ndarray
    losses: np.ndarray

    @property
    def sharpness(self) -> float:
        """2 / step: along a gradient step of rate eta, eta times the critical sharpness."""
        return 2.0 / self.step

    @property
    def passes(self) -> int:
        """The number of forward passes over the batch."""
        return len(self.steps)


def critical_step(
    losses_at: Callable[[float], np.ndarray],
    *,
    weights: np.ndarray | None = None,
    passes: int = PASSES,
    precision: float = 0.02,
    axes: Mapping[str, int | str] | None = None,
) -> CriticalStep:
    r"""Return the smallest step found at which the loss along a line exceeds its starting value.

    From step 1 on, the step is multiplied or divided by 4 until the crossing is bracketed, then the parabola
    through the start and the two ends of the bracket is solved, which is exact on a quadratic loss:

    .. math:: L(s) - L(0) = a s + b s^2, \quad s^* = -a / b

    Parameters
    ----------
    losses_at : callable
        Gives the losses of every sequence at a step, float64 of shape (sequences,).
    weights : array of shape (sequences,), optional
        Weights of the sequences in the mean loss: their numbers of tokens.
    passes : int
        How many times `losses_at` may be called, including the start; at least 4.
    precision : float
        The bracket's width relative to its upper end at which the search stops.
    axes : mapping, optional
        Names the randomness of the interval: `run`, `step`, ...

    Raises
    ------
    InputError
        When there are fewer than 4 passes, or the loss at the start is not finite.

    Notes
    -----
    arXiv 2601.16979. If the loss rises and falls back between two evaluated steps, this is not detected.

    Examples
    --------
    >>> found = critical_step(lambda s: np.array([1.0 - 3.0 * s + 2.0 * s**2]))
    >>> round(found.step, 6), found.status
    (1.5, 'ok')
    """
    if passes < 4:
        raise InputError(f"passes is {passes}; the search needs at least 4 forward passes")
    line = _Line(losses_at, weights)
    if not np.isfinite(line.means[0]):
        raise InputError(
            "the loss at the start of the line is not finite",
            remedy=f"look for errors with {command('audit', 'SERIES')}",
        )
    lower, upper, guess = 0.0, np.inf, 1.0
    while len(line.steps) < passes and _SMALLEST <= guess <= _LARGEST:
        if line.rise(guess) > 0:
            upper = guess
        else:
            lower = guess
        if lower > 0 and np.isfinite(upper) and upper - lower <= precision * upper:
            break
        guess = _next(line, lower, upper, precision)
    status = _status(line, lower, upper)
    if status != "ok":
        return CriticalStep(np.nan, np.nan, np.nan, lower, upper, status, *line.evaluated())
    ends = (lower, upper)
    step = _within(line.parabola(ends, line.means), lower, upper)
    low, high = line.interval(ends, axes or {})
    return CriticalStep(step, min(low, step), max(high, step), lower, upper, "ok", *line.evaluated())


def along_update(
    objective: Objective, direction: torch.Tensor, *, passes: int = PASSES, **axes: int | str
) -> CriticalStep:
    """Return the critical step of an objective along a flat direction: an update, or a negative gradient."""
    here = objective.parameters
    move = direction.to(here.device, here.dtype)

    def losses_at(step: float) -> np.ndarray:
        return objective.at(here + step * move).per_sequence_losses()

    return critical_step(losses_at, weights=objective.batch.counts, passes=passes, axes=axes)


class _Line:
    """The evaluations along a line: per-sequence losses by step."""

    def __init__(self, losses_at: Callable[[float], np.ndarray], weights: np.ndarray | None) -> None:
        self._losses_at = losses_at
        first = np.asarray(losses_at(0.0), dtype=np.float64)
        share = np.ones(len(first)) if weights is None else np.asarray(weights, np.float64)
        self.share = share / share.sum()
        self.steps, self.losses = [0.0], [first]
        self.means = {0.0: float(first @ self.share)}

    def rise(self, step: float) -> float:
        """Evaluate a step; return how far its loss is above the start's, infinity where it is not finite."""
        losses = np.asarray(self._losses_at(step), dtype=np.float64)
        self.steps.append(step)
        self.losses.append(losses)
        mean = float(losses @ self.share)
        self.means[step] = mean if np.isfinite(mean) else np.inf
        return self.means[step] - self.means[0.0]

    def parabola(self, ends: tuple[float, float], means: dict[float, float]) -> float:
        """Return the other root of the parabola through the start and two steps; NaN where there is none."""
        (p, q), (u, v) = ends, (means[end] - means[0.0] for end in ends)
        if p <= 0 or not np.isfinite(u + v):
            return np.nan
        bend = (v / q - u / p) / (q - p)
        slope = u / p - bend * p
        return -slope / bend if bend != 0 else np.nan

    def interval(self, ends: tuple[float, float], axes: Mapping[str, int | str]) -> tuple[float, float]:
        """Return the 2.5% and 97.5% points of the root over resampled sequences."""
        n = len(self.share)
        if n < 2:
            return -np.inf, np.inf
        rows = {end: self.losses[self.steps.index(end)] for end in (0.0, *ends)}
        if not all(np.isfinite(row).all() for row in rows.values()):
            return ends
        generator = rng(name="critical step", **axes)
        roots = np.empty(_RESAMPLES)
        for i in range(_RESAMPLES):
            counts = np.bincount(generator.integers(0, n, n), minlength=n) * self.share
            means = {end: float(row @ counts) / counts.sum() for end, row in rows.items()}
            roots[i] = self.parabola(ends, means)
        roots = np.where(roots > 0, roots, np.inf)  # no crossing ahead in this resample
        low, high = np.quantile(roots, [0.025, 0.975], method="nearest")
        return float(low), float(high)

    def evaluated(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.steps), np.array([self.means[step] for step in self.steps])


def _next(line: _Line, lower: float, upper: float, precision: float) -> float:
    """Return the next step to evaluate: further out, or just beyond the parabola's root."""
    if not np.isfinite(upper):
        return lower * _GROWTH
    if lower == 0.0:
        return upper / _GROWTH
    if len(line.steps) > 3 and _same_side(line):
        return float(np.sqrt(lower * upper))  # no parabola: the ends close in from one side alone
    root = _within(line.parabola((lower, upper), line.means), lower, upper)
    side = 1.0 if line.steps[-1] == lower else -1.0
    margin = 0.05 * (upper - lower)
    return min(max(root * (1.0 + 0.4 * side * precision), lower + margin), upper - margin)


def _same_side(line: _Line) -> bool:
    """Return whether both or neither of the last two steps rose above the start."""
    first_rises, other = (line.means[step] > line.means[0.0] for step in line.steps[-2:])
    return first_rises == other


def _within(root: float, lower: float, upper: float) -> float:
    return float(root) if lower <= root <= upper else 0.5 * (lower + upper)


def _status(line: _Line, lower: float, upper: float) -> str:
    if lower > 0 and np.isfinite(upper):
        return "ok"
    values = np.array(list(line.means.values()))
    if np.ptp(values) <= 1e-12 * abs(values[0]):
        return "flat"
    return "beyond range" if not np.isfinite(upper) else "no descent"
