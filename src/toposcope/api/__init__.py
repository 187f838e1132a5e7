"""What a command does, as one function each: audit, compare, measure, analyse, forecast, report, train."""

from __future__ import annotations

from toposcope.api.checkpoints import audit, compare
from toposcope.api.forecasting import Forecasts, forecast
from toposcope.api.judgements import analyze, report
from toposcope.api.laws import ScalingLaw, fit_scaling_law
from toposcope.api.measuring import measure
from toposcope.api.representations import TextsAsked
from toposcope.api.results import Audit, Comparison, Reply, Report

__all__ = [
    "Audit",
    "Comparison",
    "Forecasts",
    "Reply",
    "Report",
    "ScalingLaw",
    "TextsAsked",
    "analyze",
    "audit",
    "compare",
    "fit_scaling_law",
    "forecast",
    "measure",
    "report",
]  # fmt: skip
