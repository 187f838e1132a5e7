"""What the papers' room lends to tables below it: presets and forecast rules, found by name when asked for.

The papers stand above everything that they use, so no lower module imports them. A lower table that offers
their entries beside its own asks here; nothing of theirs is loaded before.
"""

from __future__ import annotations

import importlib
from typing import Any


def of_papers(module: str, name: str) -> Any:
    """Return what `toposcope.papers.MODULE` calls `name`.

    >>> sorted(of_papers("weight_presets", "PRESETS"))
    ['seed004']
    """
    return getattr(importlib.import_module(f"toposcope.papers.{module}"), name)
