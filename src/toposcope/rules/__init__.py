"""What may be said of a log: one file a rule, and the judgement that follows from them.

Its names are loaded on first use: most logs have no companion columns.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # the names stand in __init__.pyi
