"""A folder of parquet parts: runs, metrics, features, diagrams and the findings of the audit.

Names are loaded on first use: whether a folder is a store is known by its manifest alone.
"""

from __future__ import annotations

import lazy_loader

MANIFEST = "store.json"
"""The file that makes a folder a store."""

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # the names stand in __init__.pyi
