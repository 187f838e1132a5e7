"""See the shape of language-model training.

Names are loaded on first use, so `import toposcope` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Checkpoint": "toposcope.types",
    "Diagram": "toposcope.types",
    "Feature": "toposcope.types",
    "InputError": "toposcope.errors",
    "Kind": "toposcope.types",
    "Matrix": "toposcope.types",
    "Monitor": "toposcope.monitor.inside",
    "Probe": "toposcope.probes.base",
    "Row": "toposcope.types",
    "Run": "toposcope.types",
    "Scope": "toposcope.types",
    "Status": "toposcope.types",
    "Store": "toposcope.store",
    "neural_persistence": "toposcope.topology",
    "open_series": "toposcope.sources",
    "rips": "toposcope.topology",
    "weight_diagram": "toposcope.topology",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'toposcope' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
