"""Checkpoint series: the identity of each checkpoint and a stream of its tensors.

Its names are loaded on first use: a request of weights needs the names of the splits alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from toposcope.sources.opening import open_series
    from toposcope.sources.series import Series

__all__ = ["Series", "open_series"]

__getattr__, _, _ = lazy_loader.attach(
    __name__, submod_attrs={"opening": ["open_series"], "series": ["Series"]}
)
