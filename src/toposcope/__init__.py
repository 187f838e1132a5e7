"""See the shape of language-model training.

Names are loaded on first use, so `import toposcope` costs next to nothing.

    toposcope.check("train.log")                         is this run all right, and where will it end?
    log = toposcope.read_log("train.log")                step and loss, whatever trainer wrote it
    series = toposcope.open_series("runs/")              checkpoints in any format, as a stream
    store = toposcope.measure(series, "store")           their weights, measured; resumable
    analysis = toposcope.analyze("store")                what that tells beyond the loss: print it
    toposcope.report(analysis, "report")                 the same as a page
    toposcope.topology                                   distances, curves and images of diagrams
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toposcope import topology as topology
    from toposcope.api import analyze, audit, check, compare, fit_scaling_law, forecast, measure, report
    from toposcope.core.errors import InputError
    from toposcope.core.types import Checkpoint, Diagram, Feature, Kind, Matrix, Row, Run, Scope, Status
    from toposcope.sources import Series, open_series
    from toposcope.sources.logs import RunLog, read_log
    from toposcope.store import Store, open_store
    from toposcope.study.analysis import Analysis
    from toposcope.subjects.base import Probe
    from toposcope.topology import neural_persistence, rips, weight_diagram
    from toposcope.training.api import train
    from toposcope.watch.inside import Monitor

__version__ = "0.1.0"

__all__ = [
    "Analysis",
    "Checkpoint",
    "Diagram",
    "Feature",
    "InputError",
    "Kind",
    "Matrix",
    "Monitor",
    "Probe",
    "Row",
    "Run",
    "RunLog",
    "Scope",
    "Series",
    "Status",
    "Store",
    "__version__",
    "analyze",
    "audit",
    "check",
    "compare",
    "fit_scaling_law",
    "forecast",
    "measure",
    "neural_persistence",
    "open_series",
    "open_store",
    "read_log",
    "report",
    "rips",
    "topology",
    "train",
    "weight_diagram",
]

_HOME = {
    "Analysis": "study.analysis",
    "Checkpoint": "core.types",
    "Diagram": "core.types",
    "Feature": "core.types",
    "InputError": "core.errors",
    "Kind": "core.types",
    "Matrix": "core.types",
    "Monitor": "watch.inside",
    "Probe": "subjects.base",
    "Row": "core.types",
    "Run": "core.types",
    "RunLog": "sources.logs",
    "Scope": "core.types",
    "Series": "sources",
    "Status": "core.types",
    "Store": "store",
    "analyze": "api",
    "audit": "api",
    "check": "api",
    "compare": "api",
    "fit_scaling_law": "api",
    "forecast": "api",
    "measure": "api",
    "neural_persistence": "topology",
    "open_series": "sources",
    "open_store": "store",
    "read_log": "sources.logs",
    "report": "api",
    "rips": "topology",
    "train": "training.api",
    "weight_diagram": "topology",
}
_PACKAGES = ("topology",)
"""Packages whose functions are public: distances, curves, images and summaries of diagrams."""


def __getattr__(name: str) -> Any:
    if name not in _HOME and name not in _PACKAGES:
        raise AttributeError(f"module 'toposcope' has no attribute {name!r}")
    if name in _PACKAGES:
        return importlib.import_module(f"toposcope.{name}")
    value = getattr(importlib.import_module(f"toposcope.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
