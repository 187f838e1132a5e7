"""Forecasts from finished siblings: what the others' losses at this point said about their ends."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from toposcope.analysis.forecast.base import Forecaster, Point, future_steps
from toposcope.analysis.forecast.curve import FINAL_SHARE, Curve, level_and_slope
from toposcope.errors import InputError

PENALTIES = np.geomspace(1e-6, 1.0, 13)


@dataclass(frozen=True, slots=True)
class SiblingTransfer(Forecaster):
    """log(final loss) on log(current smoothed loss), least squares over finished siblings.

    The current loss is `level_and_slope`'s level at the same share of every run's horizon; with
    `window=True` it is the plain mean over the last steps seen, as many as the final window has. The rest of
    the curve comes from the same regression for every later share.
    """

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
        shares = np.linspace(share, 1.0, 31)[1:]
        return replace(
            self,
            level=np.array([self._level(s.seen(share * s.horizon)) for s in siblings]),
            shares=shares,
            later=np.array([_smoothed(s, shares * s.horizon) for s in siblings]),
            final=np.log([s.final_loss() for s in siblings]),
        )

    def predict(self, seen: Curve) -> Point:
        """Put the run's own level into the regressions."""
        x = self._level(seen)
        losses = np.exp([_line(self.level, column, x) for column in self.later.T])
        return Point(float(np.exp(_line(self.level, self.final, x))), self.shares * seen.horizon, losses)

    def _level(self, seen: Curve) -> float:
        if self.window:
            return float(np.log(seen.loss[seen.step > seen.last - FINAL_SHARE * seen.horizon].mean()))
        return level_and_slope(seen.step, seen.loss)[0]


@dataclass(frozen=True, slots=True)
class PathTransfer(Forecaster):
    """log(final / current) by ridge regression on the seen path: log-losses in equal bins of log step.

    The penalty is the one with the least leave-one-sibling-out error. It has several coefficients to learn,
    so it asks for at least six siblings.
    """

    name: ClassVar[str] = "path transfer"
    needs: ClassVar[frozenset[str]] = frozenset({"siblings"})
    bins: int = 4
    paths: np.ndarray = field(default_factory=lambda: np.empty((0, 0)), repr=False)
    final: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)

    def fit(self, siblings: Sequence[Curve], share: float) -> Self:
        """Bin every sibling's path up to `share`."""
        if len(siblings) < 6:
            raise InputError(f"{self.name}: {len(siblings)} finished siblings; it needs at least 6")
        paths = np.array([self._path(s.seen(share * s.horizon)) for s in siblings])
        return replace(self, paths=paths, final=np.log([s.final_loss() for s in siblings]))

    def predict(self, seen: Curve) -> Point:
        """Put the run's own path into the regression."""
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
    """Return the least-squares line through (x, y) at `at`; of slope one where x has no spread."""
    centred = x - x.mean()
    spread = float(centred @ centred)
    if spread < 1e-12:
        return float(y.mean() + at - x.mean())
    return float(y.mean() + (centred @ y) / spread * (at - x.mean()))


def _smoothed(curve: Curve, steps: np.ndarray) -> np.ndarray:
    """Return log of the mean loss in a window of `FINAL_SHARE` of the horizon ending at each step."""
    cumulative = np.concatenate([[0.0], np.cumsum(curve.loss)])
    high = np.maximum(np.searchsorted(curve.step, steps, side="right"), 1)
    low = np.minimum(np.searchsorted(curve.step, steps - FINAL_SHARE * curve.horizon, side="right"), high - 1)
    return np.log((cumulative[high] - cumulative[low]) / (high - low))


def ridge_predict(
    x: np.ndarray, y: np.ndarray, new: np.ndarray, *, free: int = 0, penalties: np.ndarray = PENALTIES
) -> np.ndarray:
    """Ridge regression with the penalty of least leave-one-out error; the first `free` columns unpenalised.

    Columns are centred and put on the scale of the whole block; shapes (n, p), (n,), (m, p) -> (m,). Solved
    in the directions y can vary in once the free columns are fitted: there the left-out errors stay exact
    when the penalty is too small to matter, and more columns than rows cost nothing.
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
