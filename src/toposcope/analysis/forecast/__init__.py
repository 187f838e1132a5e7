"""Forecasts of the final loss and of the remaining curve, with intervals, topology always ablated."""

from __future__ import annotations

from toposcope.analysis.forecast.base import Forecast, Forecaster, Point, forecast
from toposcope.analysis.forecast.curve import Curve, curve_from_metrics
from toposcope.analysis.forecast.schedule import Schedule, read_schedule

__all__ = [
    "Curve",
    "Forecast",
    "Forecaster",
    "Point",
    "Schedule",
    "curve_from_metrics",
    "forecast",
    "read_schedule",
]
