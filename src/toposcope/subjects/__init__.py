"""The subjects of measurement, a folder each: features, request, probes, figures, page.

Its names are loaded on first use.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # the names stand in __init__.pyi
