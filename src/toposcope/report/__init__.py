"""Tables and figures on one self-contained page."""

from __future__ import annotations

from toposcope.report.write import write_report, write_studies

__all__ = ["write_report", "write_studies"]
