"""Forecasts of unfinished runs by the default method, from the finished runs beside them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from toposcope.forecasting.auto import Auto
from toposcope.forecasting.base import Forecast, forecast
from toposcope.forecasting.curve import Curve
from toposcope.study.forecasts.gather import split_runs


@dataclass(frozen=True)
class Ahead:
    """Makes the forecasts of unfinished runs, each of them once.

    A run that is asked for again, with the same losses and plan beside the same finished runs, has the
    forecast that was made first. The studies of one store share a log, and the live page forecasts its runs.

    Examples
    --------
    >>> import numpy as np
    >>> step = np.arange(1.0, 101.0)
    >>> curve = Curve("a", step, 2 + 5 / step, np.full(100, np.nan), 400)
    >>> made = Ahead()
    >>> [(_, first)], [(_, again)] = made.of([curve]), made.of([curve])
    >>> first is again, first.run
    (True, 'a')
    """

    _made: dict[Hashable, Forecast] = field(default_factory=dict, repr=False, compare=False)

    def of(self, curves: Sequence[Curve], most: int | None = None) -> list[tuple[Curve, Forecast]]:
        """Return each unfinished run, or the first `most` of them, with its forecast."""
        finished, unfinished = split_runs(curves)
        return [
            (curve, self._forecast(curve, [one for one in finished if one.akin(curve)]))
            for curve in unfinished[:most]
        ]

    def _forecast(self, curve: Curve, siblings: Sequence[Curve]) -> Forecast:
        key = tuple(map(_read_by_forecast, (curve, *siblings)))
        if key not in self._made:
            self._made[key] = forecast(Auto(), curve, siblings)
        return self._made[key]


def _read_by_forecast(curve: Curve) -> Hashable:
    """Return everything of a curve that the default forecast depends on: it reads no features."""
    plan = curve.schedule
    arrays = (curve.step, curve.loss, curve.rate, *(() if plan is None else (plan.step, plan.rate)))
    return (
        curve.run, curve.horizon, curve.parameters, curve.endless, curve.symptoms,
        tuple(sorted(curve.covariates.items())), *(one.tobytes() for one in arrays),
    )  # fmt: skip
