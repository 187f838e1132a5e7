"""The report's part on weights: its study, words, tables and figures."""

from __future__ import annotations

from toposcope.report.weights.part import part

__all__ = ["part"]
