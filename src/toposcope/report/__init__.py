"""Tables and figures on one self-contained page."""

from __future__ import annotations

from toposcope.report.page import write_report, write_study
from toposcope.report.study import Study, build, gather

__all__ = ["Study", "build", "gather", "write_report", "write_study"]
