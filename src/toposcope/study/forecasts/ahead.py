"""Forecasts of unfinished runs by the default method, from the finished runs beside them."""

from __future__ import annotations

from collections.abc import Sequence

from toposcope.forecasting.auto import Auto
from toposcope.forecasting.base import Forecast, forecast
from toposcope.forecasting.curve import Curve
from toposcope.study.forecasts.gather import split_runs


def ahead(curves: Sequence[Curve], most: int | None = None) -> list[tuple[Curve, Forecast]]:
    """Return each unfinished run, or the first `most` of them, with its forecast."""
    finished, unfinished = split_runs(curves)
    return [(curve, forecast(Auto(), curve, finished)) for curve in unfinished[:most]]
