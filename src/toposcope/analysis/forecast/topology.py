"""Sibling transfer with something beside the loss: topology, or norms as its non-topological twin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from toposcope.analysis.forecast.base import Forecaster, Point
from toposcope.analysis.forecast.curve import Curve, level_and_slope
from toposcope.analysis.forecast.siblings import PENALTIES, ridge_predict
from toposcope.errors import InputError


@dataclass(frozen=True, slots=True)
class FeatureTransfer(Forecaster):
    """log(final loss) on log(current loss) and the features' state at the cut.

    `kind` "rates": every column gives its value (log where positive) and its slope per log step over the
    second half of what was seen, each standardised over siblings. `kind` "vector": the columns at the last
    measured step are one block (a persistence image, a landscape). `model` "ridge" penalises the features
    and not the loss, penalty by leave-one-sibling-out; "pls" adds one partial-least-squares component of the
    features to the regression on the loss. The difference to `SiblingTransfer` is the worth of the features.
    """

    label: str
    columns: tuple[str, ...]
    kind: str = "rates"
    model: str = "ridge"
    needs: ClassVar[frozenset[str]] = frozenset({"siblings", "features"})
    level: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)
    block: np.ndarray = field(default_factory=lambda: np.empty((0, 0)), repr=False)
    final: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)

    @property
    def name(self) -> str:
        """The method's name in tables."""
        return f"sibling transfer + {self.label} ({self.model})"

    def fit(self, siblings: Sequence[Curve], share: float) -> Self:
        """Read every sibling's loss level and features at `share`."""
        cut = [s.seen(share * s.horizon) for s in siblings]
        return replace(
            self,
            level=np.array([level_and_slope(s.step, s.loss)[0] for s in cut]),
            block=np.array([self._state(s) for s in cut]),
            final=np.log([s.final_loss() for s in siblings]),
        )

    def predict(self, seen: Curve) -> Point:
        """Put the run's own level and features into the regression."""
        level, state = level_and_slope(seen.step, seen.loss)[0], self._state(seen)
        centre, spread = self.block.mean(axis=0), self.block.std(axis=0)
        if self.kind == "vector":
            spread = np.full_like(
                spread, max(float(np.sqrt(np.mean(spread**2))), 1e-12) * np.sqrt(len(spread))
            )
        spread = np.where(spread > 1e-12, spread, np.inf)  # a constant feature says nothing
        x, new = (self.block - centre) / spread, (state - centre) / spread
        if self.model == "pls":
            x, new = _component(self.level, self.final, x, new)
        scale = max(float(self.level.std()), 1e-9)
        design = np.column_stack([(self.level - self.level.mean()) / scale, x])
        query = np.r_[(level - self.level.mean()) / scale, new][None, :]
        penalties = PENALTIES if self.model == "ridge" else np.array([1e-3])
        return Point(float(np.exp(ridge_predict(design, self.final, query, free=1, penalties=penalties)[0])))

    def _state(self, seen: Curve) -> np.ndarray:
        missing = [c for c in self.columns if c not in seen.features]
        if missing:
            raise InputError(
                f"{self.name}: {seen.run} has no feature {missing[0]!r}; measure it or leave it out"
            )
        rows = seen.features[["step", *self.columns]].dropna()
        if len(rows) < 3:
            raise InputError(f"{self.name}: {len(rows)} measured checkpoints of {seen.run} seen; it needs 3")
        values = rows[list(self.columns)].to_numpy(float)
        if self.kind == "vector":
            return values[-1]
        values = np.where((values > 0).all(axis=0), np.log(np.maximum(values, 1e-300)), values)
        late = rows["step"].to_numpy(float) >= min(seen.last / 2, float(rows["step"].iloc[-3]))
        u = np.log(rows["step"].to_numpy(float)[late] + 1.0)
        slopes = np.polyfit(u, values[late], 1)[0]
        return np.concatenate([values[-1], slopes])


def _component(
    level: np.ndarray, final: np.ndarray, x: np.ndarray, new: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first partial-least-squares score of `x` on what the loss level leaves unexplained."""
    design = np.column_stack([np.ones(len(level)), level])
    residual = final - design @ np.linalg.lstsq(design, final, rcond=None)[0]
    direction = x.T @ residual
    norm = float(np.linalg.norm(direction))
    if norm < 1e-15:
        return np.zeros((len(x), 1)), np.zeros(1)
    direction = direction / norm
    score = x @ direction
    scale = max(float(score.std()), 1e-12)
    return (score / scale)[:, None], np.array([float(new @ direction) / scale])
