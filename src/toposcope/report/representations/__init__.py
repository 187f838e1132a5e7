"""The report's part on representations: its study, words, tables and figures."""

from __future__ import annotations

from toposcope.report.representations.part import part

__all__ = ["part"]
