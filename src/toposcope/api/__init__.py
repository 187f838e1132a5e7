"""Each command as one function: check, cloud, audit, compare, measure, analyse and so on."""

from __future__ import annotations

from toposcope.api.checked import Check
from toposcope.api.checking import check
from toposcope.api.checkpoints import audit
from toposcope.api.cloud_answer import RingAnswer
from toposcope.api.clouds import cloud
from toposcope.api.compared_seeds import RunComparison
from toposcope.api.comparing import compare
from toposcope.api.forecasting import forecast
from toposcope.api.forecasts import Forecasts
from toposcope.api.judgements import analyze, report
from toposcope.api.laws import ScalingLaw, fit_scaling_law
from toposcope.api.measuring import measure
from toposcope.api.representations import TextRequest
from toposcope.api.results import Audit, Comparison, Reply, Report
from toposcope.api.run_check import RunCheck
from toposcope.api.tuned import AdapterComparison

__all__ = [
    "AdapterComparison",
    "Audit",
    "Check",
    "Comparison",
    "Forecasts",
    "Reply",
    "Report",
    "RingAnswer",
    "RunCheck",
    "RunComparison",
    "ScalingLaw",
    "TextRequest",
    "analyze",
    "audit",
    "check",
    "cloud",
    "compare",
    "fit_scaling_law",
    "forecast",
    "measure",
    "report",
]  # fmt: skip
