"""Sibling transfer with features added to the loss: topology, or norms as a twin without topology."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np

from toposcope.core.errors import InputError
from toposcope.forecasting.base import Forecaster, Point
from toposcope.forecasting.siblings import PENALTIES, ridge_predict
from toposcope.logs.curve import Curve, level_and_slope
from toposcope.study.saturation import LEAST_POINTS, fit_saturation


@dataclass(frozen=True, slots=True)
class FeatureTransfer(Forecaster):
    """log(final loss) on log(current loss) and the features' state at the cut.

    `kind` "rates": every column gives its value (log where positive) and its slope per log step over the
    second half of what was seen, each standardised over siblings. `kind` "saturation": every column gives
    asymptote, rate and knee of the saturating curve fitted to what was seen of it (rate and knee as
    logarithms). `kind` "vector": the columns at the last measured step are one block (a persistence image, a
    landscape). `model` "ridge" penalises the features
    and not the loss, penalty by leave-one-sibling-out; "pls" adds one partial-least-squares component of the
    features to the regression on the loss. The difference to `SiblingTransfer` is what the features are
    worth.
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
        return f"sibling transfer + {self.label}" + (" (pls)" if self.model == "pls" else "")

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
        if not (spread > 1e-12).any():
            raise InputError(
                f"{self.name}: its features are the same in all siblings and predict nothing; use others"
            )
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
        """Return the inputs of the regression from a run's features so far; independent of its siblings."""
        return seen.known((self.columns, self.kind), lambda: self._read(seen))

    def _read(self, seen: Curve) -> np.ndarray:
        missing = [c for c in self.columns if c not in seen.features]
        if missing:
            raise InputError(
                f"{self.name}: {seen.run} has no feature {missing[0]!r}; measure it or leave it out"
            )
        rows = seen.features[["step", *self.columns]].to_numpy(float)
        least = LEAST_POINTS if self.kind == "saturation" else 3
        absent = np.isnan(rows)
        complete = ~absent.any(axis=1)
        if complete.sum() < least:
            raise InputError(f"{self.name}: {self._too_few(seen, absent, complete)}; it needs {least}")
        rows = rows[complete]
        measured, values = rows[:, 0], rows[:, 1:]
        if self.kind == "vector":
            return values[-1]
        if self.kind == "saturation":
            fits = [_saturating(measured.tobytes(), column.tobytes()) for column in values.T]
            if still := [c for c, fit in zip(self.columns, fits, strict=True) if not np.isfinite(fit).all()]:
                raise InputError(
                    f"{self.name}: {still[0]} of {seen.run} is constant so far, so it has no "
                    "saturating fit; use another method"
                )
            return np.concatenate(fits)
        values = np.where((values > 0).all(axis=0), np.log(np.maximum(values, 1e-300)), values)
        late = measured >= min(seen.last / 2, float(measured[-3]))
        u = np.log(measured[late] + 1.0)
        slopes = np.polyfit(u, values[late], 1)[0]
        return np.concatenate([values[-1], slopes])

    def _too_few(self, seen: Curve, absent: np.ndarray, complete: np.ndarray) -> str:
        """Return how many checkpoints are seen; where values are missing, of which column the most."""
        count = f"{len(absent):,} measured checkpoints of {seen.run} seen"
        if complete.all():
            return count
        most = ("step", *self.columns)[int(np.argmax(absent.sum(axis=0)))]
        return f"{count}, {int(complete.sum()):,} of them with every column ({most} is missing most often)"


@lru_cache(maxsize=4096)
def _saturating(steps: bytes, values: bytes) -> np.ndarray:
    """Return (asymptote, log rate, log knee), NaN for a constant; cached, as siblings are read many times."""
    fit = fit_saturation(np.frombuffer(steps), np.frombuffer(values))
    if fit.rate <= 0:
        return np.full(3, np.nan)
    return np.array([fit.asymptote, np.log(fit.rate), np.log(fit.knee_step + 1.0)])


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
