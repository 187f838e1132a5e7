"""Checkpoint series: the identity of each checkpoint and a stream of its tensors."""

from __future__ import annotations

from toposcope.sources.audit import audit
from toposcope.sources.opening import open_series
from toposcope.sources.series import Series

__all__ = ["Series", "audit", "open_series"]
