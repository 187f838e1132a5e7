"""Checkpoint series: who each checkpoint is, and its tensors as a stream."""

from __future__ import annotations

from toposcope.sources.series import Series, open_series

__all__ = ["Series", "open_series"]
