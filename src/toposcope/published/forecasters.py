"""The three rules of the weight-space paper, and the control that tests whether its gain needs topology.

The losses are read at checkpoints: those of the measured features, else 51 equally spaced ones. The rules
themselves are in `toposcope.published.forecast_rules`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from toposcope.core.errors import InputError
from toposcope.forecasting.base import Forecaster, Point
from toposcope.logs.curve import Curve
from toposcope.published.forecast_rules import combine, loss_only, tda_only
from toposcope.subjects.weights.features import PERSISTENCE

_CHECKPOINTS = 51
"""The checkpoints of the paper's runs: its rules count checkpoints, not steps."""


def published_rules(columns: Collection[str]) -> list[Forecaster]:
    """Return the rules that these features allow, each after its control."""
    rules: list[Forecaster] = [LossOnlyRule(), LastLossControl()]
    return [*rules, TdaOnlyRule(), CombinedRule()] if PERSISTENCE.name in columns else rules


@dataclass(frozen=True, slots=True)
class LossOnlyRule(Forecaster):
    """The paper's loss-only extrapolation."""

    name: ClassVar[str] = "published: loss only"

    def predict(self, seen: Curve) -> Point:
        """Extrapolate the three-parameter power law to the horizon."""
        steps, losses = _checkpoints(seen)
        return Point(_power_law(steps, losses, seen.horizon))


@dataclass(frozen=True, slots=True)
class TdaOnlyRule(Forecaster):
    """The paper's rule that uses only the rate of neural persistence."""

    name: ClassVar[str] = "published: TDA only"
    needs: ClassVar[frozenset[str]] = frozenset({"features"})

    def predict(self, seen: Curve) -> Point:
        """Lower the last loss in proportion to how fast neural persistence moved."""
        return Point(_tda(seen))


@dataclass(frozen=True, slots=True)
class CombinedRule(Forecaster):
    """The paper's combination, 0.6 loss-only + 0.4 TDA-only."""

    name: ClassVar[str] = "published: combined"
    needs: ClassVar[frozenset[str]] = frozenset({"features"})

    def predict(self, seen: Curve) -> Point:
        """Mix the two rules."""
        steps, losses = _checkpoints(seen)
        return Point(combine(_power_law(steps, losses, seen.horizon), _tda(seen)))


@dataclass(frozen=True, slots=True)
class LastLossControl(Forecaster):
    """0.6 loss-only + 0.4 last loss: the combination without any topology."""

    name: ClassVar[str] = "control: loss only + last loss"

    def predict(self, seen: Curve) -> Point:
        """Mix the loss-only rule with the last loss."""
        steps, losses = _checkpoints(seen)
        return Point(combine(_power_law(steps, losses, seen.horizon), float(losses[-1])))


CONTROLS = {rule.name: LastLossControl.name for rule in (CombinedRule, TdaOnlyRule)}
"""Each rule that reads neural persistence, and the rule that uses the last loss instead."""


CALLED = {
    LossOnlyRule.name: "paper's rule, loss alone",
    TdaOnlyRule.name: "paper's rule, neural persistence alone",
    CombinedRule.name: "paper's rule, both",
    LastLossControl.name: "paper's rule, last loss for persistence",
}
"""What figures and tables call the rules: in words, beside those of other methods."""


def _checkpoints(seen: Curve) -> tuple[np.ndarray, np.ndarray]:
    if len(seen.features):
        steps = seen.features["step"].to_numpy(float)
    else:
        steps = np.linspace(0, seen.horizon, _CHECKPOINTS)
        steps = steps[steps <= seen.last]
    if len(steps) < 3:
        raise InputError(
            f"run {seen.run}: {len(steps):,} checkpoints seen; the published rules need at least 3"
        )
    return steps, seen.loss[np.clip(np.searchsorted(seen.step, steps), 0, len(seen.loss) - 1)]


def _power_law(steps: np.ndarray, losses: np.ndarray, horizon: int) -> float:
    predicted = _loss_only(np.asarray(steps, float).tobytes(), np.asarray(losses, float).tobytes(), horizon)
    if not np.isfinite(predicted):
        raise InputError("the fit of the published power law does not converge on these losses")
    return predicted


@lru_cache(maxsize=4096)
def _loss_only(steps: bytes, losses: bytes, horizon: int) -> float:
    """Fit each prefix of a run once: the rule, its control and their backtests use the same ones."""
    return loss_only(np.frombuffer(steps), np.frombuffer(losses), float(horizon))


def _tda(seen: Curve) -> float:
    if PERSISTENCE.name not in seen.features:
        raise InputError(f"run {seen.run}: no neural persistence was measured", remedy="measure it")
    steps, losses = _checkpoints(seen)
    value = seen.features[PERSISTENCE.name].to_numpy(float)
    finite = np.isfinite(value)
    if finite.sum() < 3:
        raise InputError(
            f"run {seen.run}: {finite.sum():,} measured checkpoints; the published rules need at least 3"
        )
    spacing = float(np.median(np.diff(steps[finite])))
    return tda_only(losses[finite], value[finite], round(seen.horizon / spacing) + 1)
