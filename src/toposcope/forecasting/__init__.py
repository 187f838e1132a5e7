"""Forecasts of the final loss and the remaining curve, with intervals; topology is always ablated.

Names of methods and of the laws of a planned rate are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

from toposcope.forecasting.base import Forecast, Forecaster, Point
from toposcope.forecasting.one_run import forecast
from toposcope.logs.curve import Curve, curve_from_metrics
from toposcope.logs.schedule import Schedule, constant, cosine, drop, read_schedule, stable_decay

if TYPE_CHECKING:
    from toposcope.forecasting._planned import forecast_planned
    from toposcope.forecasting.auto import Auto
    from toposcope.forecasting.families import LastValue
    from toposcope.forecasting.laws import fit_law

__all__ = [
    "Auto", "Curve", "Forecast", "Forecaster", "LastValue", "Point", "Schedule", "constant", "cosine",
    "curve_from_metrics", "drop", "fit_law", "forecast", "forecast_planned", "read_schedule", "stable_decay",
]  # fmt: skip
_LAZY = {"auto": ["Auto"], "families": ["LastValue"], "laws": ["fit_law"], "_planned": ["forecast_planned"]}
__getattr__, _, _ = lazy_loader.attach(__name__, submod_attrs=_LAZY)
