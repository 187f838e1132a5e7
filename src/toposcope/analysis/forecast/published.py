"""The three rules of the weight-space paper, and the control that its gain needs no topology.

Read at checkpoints: those of the measured features, else 51 equally spaced ones. With n of m seen:

- loss-only: a x^-b + c on the minibatch losses, x = step + 1, from (10, 0.1, last loss), within
  [0, 0, 0] and [100, 2, 20];
- TDA-only: L[n-1] - 0.1 |(NP[n-1] - NP[0]) / (n - 1)| (m - n), not below 0.5;
- combined: 0.6 loss-only + 0.4 TDA-only; control: the same with the last loss in place of TDA-only.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from scipy.optimize import OptimizeWarning, curve_fit

from toposcope.analysis.forecast.base import Forecaster, Point
from toposcope.analysis.forecast.curve import Curve
from toposcope.errors import InputError

NEURAL_PERSISTENCE = "neural_persistence"
_FLOOR = 0.5
_WEIGHT = 0.6
_CHECKPOINTS = 51


class _Rule(Forecaster):
    def fit(self, siblings: Sequence[Curve], share: float) -> Self:
        """Return itself: the rules learn nothing from other runs."""
        return self


@dataclass(frozen=True, slots=True)
class LossOnlyRule(_Rule):
    """The paper's loss-only extrapolation."""

    name: ClassVar[str] = "published: loss only"

    def predict(self, seen: Curve) -> Point:
        """Extrapolate the three-parameter power law to the horizon."""
        steps, losses = _checkpoints(seen)
        return Point(_power_law(steps, losses, seen.horizon))


@dataclass(frozen=True, slots=True)
class TdaOnlyRule(_Rule):
    """The paper's rule from the rate of neural persistence alone."""

    name: ClassVar[str] = "published: TDA only"
    needs: ClassVar[frozenset[str]] = frozenset({"features"})

    def predict(self, seen: Curve) -> Point:
        """Lower the last loss in proportion to how fast neural persistence moved."""
        return Point(_tda(seen))


@dataclass(frozen=True, slots=True)
class CombinedRule(_Rule):
    """The paper's combination, 0.6 loss-only + 0.4 TDA-only."""

    name: ClassVar[str] = "published: combined"
    needs: ClassVar[frozenset[str]] = frozenset({"features"})

    def predict(self, seen: Curve) -> Point:
        """Mix the two rules."""
        steps, losses = _checkpoints(seen)
        return Point(_WEIGHT * _power_law(steps, losses, seen.horizon) + (1 - _WEIGHT) * _tda(seen))


@dataclass(frozen=True, slots=True)
class LastLossControl(_Rule):
    """0.6 loss-only + 0.4 last loss: the combination without any topology."""

    name: ClassVar[str] = "control: loss only + last loss"

    def predict(self, seen: Curve) -> Point:
        """Mix the loss-only rule with the last loss."""
        steps, losses = _checkpoints(seen)
        return Point(_WEIGHT * _power_law(steps, losses, seen.horizon) + (1 - _WEIGHT) * float(losses[-1]))


def _checkpoints(seen: Curve) -> tuple[np.ndarray, np.ndarray]:
    if len(seen.features):
        steps = seen.features["step"].to_numpy(float)
    else:
        steps = np.linspace(0, seen.horizon, _CHECKPOINTS)
        steps = steps[steps <= seen.last]
    if len(steps) < 3:
        raise InputError(
            f"run {seen.run}: {len(steps)} checkpoints seen; the published rules need at least 3"
        )
    return steps, seen.loss[np.clip(np.searchsorted(seen.step, steps), 0, len(seen.loss) - 1)]


def _power_law(steps: np.ndarray, losses: np.ndarray, horizon: int) -> float:
    law = lambda x, a, b, c: a * x**-b + c  # noqa: E731
    start = (10.0, 0.1, min(max(float(losses[-1]), 0.0), 20.0))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OptimizeWarning)
            found, _ = curve_fit(
                law, steps + 1.0, losses, p0=start, bounds=([0, 0, 0], [100, 2, 20]), maxfev=10000
            )
    except RuntimeError as error:
        raise InputError(f"the published power law does not converge on these losses ({error})") from None
    return float(law(horizon + 1.0, *found))


def _tda(seen: Curve) -> float:
    if NEURAL_PERSISTENCE not in seen.features:
        raise InputError(f"run {seen.run}: no neural persistence was measured; run toposcope weights")
    measured = seen.features.dropna(subset=[NEURAL_PERSISTENCE])
    steps, value = measured["step"].to_numpy(float), measured[NEURAL_PERSISTENCE].to_numpy(float)
    if len(steps) < 3:
        raise InputError(
            f"run {seen.run}: {len(steps)} checkpoints seen; the published rules need at least 3"
        )
    spacing = float(np.median(np.diff(steps)))
    left = seen.horizon / spacing + 1 - len(steps)
    _, losses = _checkpoints(seen)
    return max(_FLOOR, float(losses[-1]) - 0.1 * abs((value[-1] - value[0]) / (len(steps) - 1)) * left)
