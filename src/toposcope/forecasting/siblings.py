"""Forecasts from finished siblings: how their losses at this point relate to their final losses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from toposcope.core.errors import InputError
from toposcope.forecasting.base import Forecaster, Point, future_steps
from toposcope.logs.curve import FINAL_SHARE, Curve, level_and_slope

PENALTIES = np.geomspace(1e-6, 1.0, 13)
SHRINKAGE = np.geomspace(1e-3, 1e3, 13)
"""Candidate penalties on a slope's distance from 1, in units of the variance of the levels."""

_NO_SPREAD = 1e-9
"""A column that varies less counts as constant and is not scaled."""


@dataclass(frozen=True, slots=True)
class SiblingTransfer(Forecaster):
    """log(final loss) on log(current smoothed loss), least squares over finished siblings.

    The current loss is `level_and_slope`'s level at the same share of every run's horizon; with `window=True`
    it is the plain mean over the last steps seen, as many as in the final window. The rest of the curve comes
    from the same regression for every later share.
    """

    least_seen: ClassVar[int] = 3
    window: bool = False
    level: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)
    shares: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)
    later: np.ndarray = field(default_factory=lambda: np.empty((0, 0)), repr=False)
    final: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)
    needs: ClassVar[frozenset[str]] = frozenset({"siblings"})

    @property
    def name(self) -> str:
        """The method's name in tables."""
        return "sibling transfer (window)" if self.window else "sibling transfer"

    def fit(self, siblings: Sequence[Curve], share: float) -> Self:
        """Read every sibling's level at `share`, its final loss, and its losses in between."""
        siblings = _begun(self, siblings, share)
        shares = np.linspace(share, 1.0, 31)[1:]
        return replace(
            self,
            level=np.array([self._level(s.seen(share * s.horizon)) for s in siblings]),
            shares=shares,
            later=np.array([_smoothed(s, shares * s.horizon) for s in siblings]),
            final=np.log([s.final_loss() for s in siblings]),
        )

    def predict(self, seen: Curve) -> Point:
        """Apply the regressions to the run's own level."""
        x = self._level(seen)
        losses = np.exp([_line(self.level, column, x) for column in self.later.T])
        return Point(float(np.exp(_line(self.level, self.final, x))), self.shares * seen.horizon, losses)

    def _level(self, seen: Curve) -> float:
        if self.window:
            return float(np.log(seen.loss[seen.step > seen.last - FINAL_SHARE * seen.horizon].mean()))
        return level_and_slope(seen.step, seen.loss)[0]


@dataclass(frozen=True, slots=True)
class MeanFall(Forecaster):
    """Current smoothed loss x the geometric mean of the siblings' relative falls from here on."""

    name: ClassVar[str] = "mean fall of siblings"
    needs: ClassVar[frozenset[str]] = frozenset({"siblings"})
    least_siblings: ClassVar[int] = 1
    least_seen: ClassVar[int] = 3
    shares: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)
    falls: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)
    fall: float = 0.0

    def fit(self, siblings: Sequence[Curve], share: float) -> Self:
        """Read how far every sibling's log loss fell, to its end and on the way."""
        siblings = _begun(self, siblings, share)
        level, shares, later, final = _read(siblings, share)
        falls = (later - level[:, None]).mean(axis=0)
        return replace(self, shares=shares, falls=falls, fall=float((final - level).mean()))

    def predict(self, seen: Curve) -> Point:
        """Let the run fall by as much."""
        x = level_and_slope(seen.step, seen.loss)[0]
        return Point(math.exp(x + self.fall), self.shares * seen.horizon, np.exp(x + self.falls))


@dataclass(frozen=True, slots=True)
class ShrunkTransfer(Forecaster):
    """Sibling transfer with its slope shrunk to 1: the siblings' fall, ridge-regressed on their level.

    The penalty minimises the leave-one-sibling-out error, from `MeanFall` (slope 1) to `SiblingTransfer`
    (free).
    """

    name: ClassVar[str] = "sibling transfer, shrunk"
    needs: ClassVar[frozenset[str]] = frozenset({"siblings"})
    least_siblings: ClassVar[int] = 3
    least_seen: ClassVar[int] = 3
    level: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)
    shares: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)
    falls: np.ndarray = field(default_factory=lambda: np.empty((0, 0)), repr=False)
    fall: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)

    def fit(self, siblings: Sequence[Curve], share: float) -> Self:
        """Read every sibling's level at `share` and how far it fell from there."""
        siblings = _begun(self, siblings, share)
        level, shares, later, final = _read(siblings, share)
        return replace(self, level=level, shares=shares, falls=later - level[:, None], fall=final - level)

    def predict(self, seen: Curve) -> Point:
        """Apply the regressions to the run's own level; the path is shrunk like the end."""
        x = level_and_slope(seen.step, seen.loss)[0]
        fall = _shrunk_line(self.level, self.fall, x)
        mean, free = float(self.fall.mean()), _line(self.level, self.fall, x)
        share = (fall - mean) / (free - mean) if abs(free - mean) > 1e-12 else 0.0
        paths = [
            column.mean() + share * (_line(self.level, column, x) - column.mean()) for column in self.falls.T
        ]
        return Point(math.exp(x + fall), self.shares * seen.horizon, np.exp(x + np.array(paths)))


@dataclass(frozen=True, slots=True)
class SizeTransfer(Forecaster):
    """The fall to the end by ridge regression on the current log loss and the log number of parameters.

    Both are in units of their standard deviation over the siblings; the penalty minimises the
    leave-one-sibling-out error. Runs at the same level can fall differently, because their sizes differ.
    """

    name: ClassVar[str] = "transfer by loss and size"
    needs: ClassVar[frozenset[str]] = frozenset({"siblings"})
    least_siblings: ClassVar[int] = 3
    least_seen: ClassVar[int] = 3
    known: np.ndarray = field(default_factory=lambda: np.empty((0, 2)), repr=False)
    shares: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)
    falls: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)
    fall: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)

    def fit(self, siblings: Sequence[Curve], share: float) -> Self:
        """Read every sibling's level at `share`, its size, and how far it fell from there."""
        siblings = _begun(self, siblings, share)
        level, shares, later, final = _read(siblings, share)
        design = np.column_stack([level, [self._size(s) for s in siblings]])
        falls = (later - level[:, None]).mean(axis=0)
        return replace(self, known=design, shares=shares, falls=falls, fall=final - level)

    def predict(self, seen: Curve) -> Point:
        """Apply the regression to the run's own level and size; the path is the mean one, tilted."""
        x = level_and_slope(seen.step, seen.loss)[0]
        spread = self.known.std(axis=0)
        scale = np.where(spread > _NO_SPREAD, spread, 1.0)
        centre = self.known.mean(axis=0)
        at = (np.array([[x, self._size(seen)]]) - centre) / scale
        fall = ridge_predict((self.known - centre) / scale, self.fall, at, penalties=SHRINKAGE)[0]
        ahead = np.log(self.shares / self.shares[0]) / np.log(1.0 / self.shares[0])
        path = x + self.falls + (fall - self.fall.mean()) * ahead
        return Point(float(np.exp(x + fall)), self.shares * seen.horizon, np.exp(path))

    def _size(self, curve: Curve) -> float:
        if curve.parameters <= 0:
            raise InputError(f"{self.name}: the size of {curve.run} is unknown; give its parameters")
        return math.log(curve.parameters)


def _begun(method: Forecaster, siblings: Sequence[Curve], share: float) -> list[Curve]:
    """Return the siblings with a loss at `share` of their steps: the log of a resumed run may begin later."""
    begun = [sibling for sibling in siblings if (sibling.step <= share * sibling.horizon).any()]
    least = min(method.least_siblings, len(siblings))
    if len(begun) < least:
        raise InputError(
            f"{method.name}: only {len(begun):,} of {len(siblings):,} siblings have a loss by {share:.0%} of "
            f"their steps, and it needs {least:,}; give siblings whose logs begin earlier"
        )
    return begun


def _read(siblings: Sequence[Curve], share: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return log levels at `share` (k,), later shares (30,), log losses there (k, 30), log finals (k,)."""
    shares = np.linspace(share, 1.0, 31)[1:]
    cuts = [s.seen(share * s.horizon) for s in siblings]
    level = np.array([level_and_slope(c.step, c.loss)[0] for c in cuts])
    later = np.array([_smoothed(s, shares * s.horizon) for s in siblings])
    return level, shares, later, np.log([s.final_loss() for s in siblings])


def _shrunk_line(x: np.ndarray, y: np.ndarray, at: float) -> float:
    """Return mean(y) + b (at - mean(x)), with b from the ridge penalty of smallest left-out error."""
    if float(np.ptp(x)) < 1e-12:
        return float(y.mean())
    return float(ridge_predict(x[:, None], y, np.array([[at]]), penalties=SHRINKAGE)[0])


@dataclass(frozen=True, slots=True)
class PathTransfer(Forecaster):
    """log(final / current) by ridge regression on the path so far: log losses in equal bins of log step.

    The penalty minimises the leave-one-sibling-out error. There are several coefficients, so it needs at
    least six siblings.
    """

    name: ClassVar[str] = "path transfer"
    needs: ClassVar[frozenset[str]] = frozenset({"siblings"})
    bins: int = 4
    paths: np.ndarray = field(default_factory=lambda: np.empty((0, 0)), repr=False)
    final: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)

    def fit(self, siblings: Sequence[Curve], share: float) -> Self:
        """Bin every sibling's path up to `share`."""
        siblings = _begun(self, siblings, share)
        if len(siblings) < 6:
            raise InputError(f"{self.name}: {len(siblings):,} finished siblings; it needs at least 6")
        paths = np.array([self._path(s.seen(share * s.horizon)) for s in siblings])
        return replace(self, paths=paths, final=np.log([s.final_loss() for s in siblings]))

    def predict(self, seen: Curve) -> Point:
        """Apply the regression to the run's own path."""
        path = self._path(seen)
        gap = ridge_predict(self.paths, self.final - self.paths[:, -1], path[None, :])[0]
        step = future_steps(seen)
        ahead = np.log(np.maximum(step, 1.0) / seen.last) / np.log(seen.horizon / seen.last)
        return Point(float(np.exp(path[-1] + gap)), step, np.exp(path[-1] + gap * np.minimum(ahead, 1.0)))

    def _path(self, seen: Curve) -> np.ndarray:
        edges = np.geomspace(seen.last / 5, seen.last, self.bins + 1)
        edges[-1] *= 1.0 + 1e-9
        inside = [(seen.step > a) & (seen.step <= b) for a, b in itertools.pairwise(edges)]
        means = np.array([seen.loss[k].mean() if k.any() else np.nan for k in inside])
        if np.isnan(means).any():
            raise InputError(f"{self.name}: {seen.run} has no loss in a part of its path; log more often")
        return np.log(means)


def _line(x: np.ndarray, y: np.ndarray, at: float) -> float:
    """Return the least-squares line through (x, y) at `at`; its slope is 1 if x has no spread."""
    # `mean` takes four times as long as the sum inside it, and this is called ten thousand times
    x_mean, y_mean = np.add.reduce(x) / len(x), np.add.reduce(y) / len(y)
    centred = x - x_mean
    spread = float(centred @ centred)
    if spread < 1e-12:
        return float(y_mean + at - x_mean)
    return float(y_mean + (centred @ y) / spread * (at - x_mean))


def _smoothed(curve: Curve, steps: np.ndarray) -> np.ndarray:
    """Return log of the mean loss in a window of `FINAL_SHARE` of the horizon ending at each step."""
    cumulative = np.concatenate([[0.0], np.cumsum(curve.loss)])
    high = np.maximum(np.searchsorted(curve.step, steps, side="right"), 1)
    low = np.minimum(np.searchsorted(curve.step, steps - FINAL_SHARE * curve.horizon, side="right"), high - 1)
    return np.log((cumulative[high] - cumulative[low]) / (high - low))


def ridge_predict(
    x: np.ndarray, y: np.ndarray, new: np.ndarray, *, free: int = 0, penalties: np.ndarray = PENALTIES
) -> np.ndarray:
    """Ridge regression with the penalty of smallest leave-one-out error; none on the `free` first columns.

    Columns are centred and scaled by the whole block; shapes (n, p), (n,), (m, p) -> (m,). The system is
    solved in the directions in which y can vary after fitting the free columns. There, left-out errors stay
    exact even for negligibly small penalties, and more columns than rows cost nothing.
    """
    centre, scale = x.mean(axis=0), max(float(x.std()), 1e-12)
    x, new = (x - centre) / scale, (new - centre) / scale
    fixed, block = np.column_stack([np.ones(len(x)), x[:, :free]]), x[:, free:]
    left, size, _ = np.linalg.svd(fixed)
    rest = left[:, int(np.sum(size > 1e-10 * size[0])) :]
    power, axes = np.linalg.eigh(rest.T @ block @ block.T @ rest)
    axes = rest @ axes
    dual, least = np.zeros(len(x)), np.inf
    for penalty in penalties if axes.size else ():
        weight = 1.0 / (np.maximum(power, 0.0) + penalty * len(x))
        candidate = axes @ (weight * (axes.T @ y))
        left_out = candidate / np.maximum(axes**2 @ weight, 1e-300)
        if (error := float(left_out @ left_out)) < least:
            dual, least = candidate, error
    slopes = block.T @ dual
    base = np.linalg.lstsq(fixed, y - block @ slopes, rcond=None)[0]
    return np.column_stack([np.ones(len(new)), new[:, :free]]) @ base + new[:, free:] @ slopes
