"""Forecasts of the final loss and the remaining curve, with intervals; topology is always ablated."""

from __future__ import annotations

from toposcope.forecasting.base import Forecast, Forecaster, Point
from toposcope.forecasting.laws import fit_law
from toposcope.forecasting.one_run import forecast
from toposcope.forecasting.planned import forecast_planned
from toposcope.logs.curve import Curve, curve_from_metrics
from toposcope.logs.schedule import (
    Schedule,
    constant,
    cosine,
    drop,
    read_schedule,
    stable_decay,
)

__all__ = [
    "Curve",
    "Forecast",
    "Forecaster",
    "Point",
    "Schedule",
    "constant",
    "cosine",
    "curve_from_metrics",
    "drop",
    "fit_law",
    "forecast",
    "forecast_planned",
    "read_schedule",
    "stable_decay",
]
