from .audited import Audit as Audit
from .averaged import Average as Average
from .averaging import average as average
from .checking import check as check
from .checkpoints import audit as audit
from .cloud_answer import RingAnswer as RingAnswer
from .clouds import cloud as cloud
from .comparing import compare as compare
from .comparison import Comparison as Comparison
from .forecasting import forecast as forecast
from .forecasts import Forecasts as Forecasts
from .judgements import analyze as analyze
from .judgements import report as report
from .laws import ScalingLaw as ScalingLaw
from .laws import fit_scaling_law as fit_scaling_law
from .measuring import TextRequest as TextRequest
from .measuring import measure as measure
from .results import Reply as Reply
from .results import Report as Report
from .tuned import AdapterComparison as AdapterComparison
from .two_sample_answer import TwoSampleAnswer as TwoSampleAnswer
from .two_samples import two_sample as two_sample

__all__ = [
    "AdapterComparison",
    "Audit",
    "Average",
    "Comparison",
    "Forecasts",
    "Reply",
    "Report",
    "RingAnswer",
    "ScalingLaw",
    "TextRequest",
    "TwoSampleAnswer",
    "analyze",
    "audit",
    "average",
    "check",
    "cloud",
    "compare",
    "fit_scaling_law",
    "forecast",
    "measure",
    "report",
    "two_sample",
]  # fmt: skip
