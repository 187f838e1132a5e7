"""How logs are written: one file for each trainer or logger, and a table of them in `registry`.

What reads a whole file or a folder is loaded when such a file or folder has been recognised.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # the names stand in __init__.pyi
