"""Tables and figures on one self-contained page."""

from __future__ import annotations

from toposcope.report.weights.study import Study, build, gather
from toposcope.report.write import write_report, write_studies

__all__ = ["Study", "build", "gather", "write_report", "write_studies"]
