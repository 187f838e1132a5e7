"""What the log and the files of runs show together: check, compare, odd runs.

Names are loaded on first use: a command imports only what it needs.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # the names stand in __init__.pyi
