"""What may be said of a log: one file a rule, and the judgement that follows from them.

The rules of companion columns are loaded on first use: most logs have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from toposcope.rules import companions

__all__ = ["companions"]
__getattr__, _, _ = lazy_loader.attach(__name__, ["companions"])
