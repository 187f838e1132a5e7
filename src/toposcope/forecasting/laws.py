"""Forecasts from laws of the learning-rate schedule: Tissue and multi-power, shared across siblings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from toposcope.core.errors import InputError
from toposcope.forecasting.annealing import (
    DEFAULT,
    PUBLISHED,
    LawFit,
    Shape,
    drive,
    fit_multi_power,
    fit_tissue,
)
from toposcope.forecasting.base import LEAST_SEEN, Forecaster, Point, future_steps, point_from_curve
from toposcope.forecasting.families import warmup_end
from toposcope.forecasting.plain_law import with_width
from toposcope.logs.curve import Binned, Curve, binned
from toposcope.logs.schedule import Schedule

_POINTS = 150
"""The number of bins of a curve to which a law is fitted."""
_RECENT = 0.25
"""The law is shifted to the mean log residual over this last share of the losses seen."""

LENT_GAIN, LENT_PACE = 0.042, 0.015
"""The gain from annealing to zero (B peak S^-kappa over the loss) and its pace per step (C peak^(1 - gamma)):
geometric means over the published runs, nine each of 25M and 100M parameters, under the default shape."""

LEAST_SHARED = 3
"""The fewest losses after warm-up if finished runs of the same size share the law's parameters."""

_UNSEEN = 0.5
"""A run shows no effect of annealing until its learning rate falls below this share of the peak."""

_LENT = np.array([0.0, 0.0, 0.0, 10.0, 10.0])
_HELD = np.array([0.0, 0.0, 10.0, 10.0, 10.0])
"""Pull of (L0, log A, alpha, log B, log C): the last three are nearly fixed."""


@dataclass(frozen=True, slots=True)
class Tissue(Forecaster):
    """L = L0 + A S1^-alpha - C S2, fitted to the run and to finished siblings of its size."""

    name: ClassVar[str] = "tissue"
    needs: ClassVar[frozenset[str]] = frozenset({"schedule"})
    least_seen: ClassVar[int] = LEAST_SHARED
    siblings: Sequence[Curve] = ()

    def fit(self, siblings: Sequence[Curve], share: float) -> Self:
        """Keep the siblings with a schedule."""
        return replace(self, siblings=tuple(s for s in siblings if s.plan() is not None))

    def predict(self, seen: Curve) -> Point:
        """Fit all together, then shift to the recent losses and follow the schedule."""
        same = _same_size(seen, self.siblings)
        if not same and _anneals_unseen(seen):
            raise InputError(
                f"{self.name}: no finished run of this size is given, and {seen.run} does not show "
                "the gain from annealing",
                remedy="give a finished sibling of its size",
            )
        return _follow(seen, fit_tissue([*same, _enough(seen, same)]))


@dataclass(frozen=True, slots=True)
class MultiPower(Forecaster):
    """The multi-power law; siblings of the run's own size share every parameter, others give a prior.

    `shape` holds beta, gamma and kappa; `PUBLISHED` has no fading.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"schedule"})
    least_seen: ClassVar[int] = LEAST_SHARED
    shape: Shape = DEFAULT
    siblings: Sequence[Curve] = ()

    @property
    def name(self) -> str:
        """The method's name in tables."""
        return "multi-power law (published)" if self.shape == PUBLISHED else "multi-power law"

    def fit(self, siblings: Sequence[Curve], share: float) -> Self:
        """Keep the siblings with a schedule."""
        return replace(self, siblings=tuple(s for s in siblings if s.plan() is not None))

    def predict(self, seen: Curve) -> Point:
        """Fit with siblings of the same size, else with the prior from the others; shift and extrapolate."""
        same = _same_size(seen, self.siblings)
        prior = None if same else self._prior()
        note = ""
        if not same and prior is None and _anneals_unseen(seen):
            prior = _lent(seen, self.shape)
            note = (
                "no finished sibling shows the gain from annealing: "
                "B and C come from published runs (25M, 100M)"
            )
        point = _follow(seen, fit_multi_power([*same, _enough(seen, same)], shape=self.shape, prior=prior))
        positive = point.final > 0 and np.isfinite(point.final)
        point = replace(point, note=note)
        return with_width(point, seen) if positive and not same else point

    def _prior(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Fit each sibling separately: runs of another size use their median alpha, B and C."""
        if len(self.siblings) < 2:
            return None
        thetas = [fit_multi_power([_data(s)], shape=self.shape).theta for s in self.siblings]
        return np.median(thetas, axis=0), _HELD


def fit_law(curves: Sequence[Curve], *, shape: Shape | None = DEFAULT) -> LawFit:
    """Fit one law of the learning rate to all `curves`, runs of one size under different schedules.

    Each curve comes with its planned or logged schedule; losses during warm-up are left out. `shape` None
    fits the Tissue law, a `Shape` the multi-power law of that shape. `LawFit.along(schedule, step)` then
    gives the losses under any other schedule.

    Raises
    ------
    InputError
        When the learning rate of a curve is unknown, or the curves' sizes differ.

    Examples
    --------
    >>> import pandas as pd
    >>> from toposcope.forecasting import constant, cosine, curve_from_metrics
    >>> step = np.arange(50, 2001, 50.0)
    >>> def run(name, plan):
    ...     loss = 2.0 + 0.5 * plan.area(step) ** -0.5 + 500.0 * plan.at(step)
    ...     return curve_from_metrics(name, pd.DataFrame({"step": step, "loss": loss}), schedule=plan)
    >>> plans = {"c": cosine(peak=1e-3, last=1e-4, steps=2000), "k": constant(peak=1e-3, steps=2000)}
    >>> law = fit_law([run(name, plan) for name, plan in plans.items()])
    >>> bool(law.along(plans["c"], step)[-1] < law.along(plans["k"], step)[-1])
    True
    """
    sizes = sorted({curve.parameters for curve in curves})
    if len(sizes) != 1:
        raise InputError(f"curves: runs of {len(sizes):,} sizes {sizes}; give runs of one size")
    runs = [_data(curve) for curve in curves]
    return fit_tissue(runs) if shape is None else fit_multi_power(runs, shape=shape)


def _anneals_unseen(seen: Curve) -> bool:
    """Return whether the plan falls further than the log shows, and the log shows too small a fall."""
    plan = seen.plan()
    if plan is None:
        return False
    after = plan.at(np.linspace(seen.last, seen.horizon, 50)).min()
    peak = plan.at(np.linspace(0, seen.last, 200)).max()
    return bool(plan.at(np.array([seen.last]))[0] > _UNSEEN * peak and after < 0.9 * peak)


def _lent(seen: Curve, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """Return the prior for a single run: its own L0, A and alpha, with rescaled B and C of published runs."""
    data, plan = _data(seen)
    area = plan.area(np.array([float(seen.last)]))[0]
    lowest, alpha = float(data.loss.min()), 0.4
    log_b = np.log(LENT_GAIN * lowest / plan.peak) + shape.kappa * np.log(
        plan.area(np.array([seen.horizon]))[0]
    )
    log_c = np.log(LENT_PACE) - (1 - shape.gamma) * np.log(plan.peak)
    log_a = np.log(0.08 * lowest) + alpha * np.log(area)
    return np.array([0.9 * lowest, log_a, alpha, log_b, log_c]), _LENT


def _same_size(seen: Curve, siblings: Sequence[Curve]) -> list[tuple[Binned, Schedule]]:
    return [_data(s) for s in siblings if s.parameters == seen.parameters]


def _enough(seen: Curve, same: Sequence[object]) -> tuple[Binned, Schedule]:
    """Return the run's losses after warm-up and its plan, if they suffice to place it on the law."""
    losses, plan = _data(seen)
    least = LEAST_SHARED if same else LEAST_SEEN
    if len(losses.step) < least:
        raise InputError(
            f"run {seen.run}: {len(losses.step):,} losses seen after warm-up; a law of the rate needs {least}"
        )
    return losses, plan


def _data(curve: Curve) -> tuple[Binned, Schedule]:
    plan = curve.plan()
    if plan is None:
        raise InputError(f"run {curve.run}: the learning rate is unknown; give a schedule")
    return binned(curve, _POINTS, after=max(warmup_end(curve), 0.0)), plan


def _follow(seen: Curve, fit: LawFit) -> Point:
    """Return the law's curve along the plan, shifted to the most recent losses."""
    data, plan = _data(seen)
    if plan.end < seen.horizon * 0.999 and seen.schedule is None:
        raise InputError(
            f"run {seen.run}: the learning rate after step {plan.end:,} is unknown; give the planned schedule"
        )
    residual = np.log(data.loss) - np.log(np.maximum(fit.losses(drive(plan, data.step)), 1e-3))
    shift = float(residual[-max(3, int(_RECENT * len(residual))) :].mean())
    step = future_steps(seen)
    return point_from_curve(seen, step, np.maximum(fit.losses(drive(plan, step)), 1e-3) * np.exp(shift))
