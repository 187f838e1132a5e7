"""Tables and figures on one self-contained page."""

from __future__ import annotations

from toposcope.report.representations.study import Representations
from toposcope.report.weights.study import Study, build, gather
from toposcope.report.write import studies_of, write_report, write_studies

__all__ = ["Representations", "Study", "build", "gather", "studies_of", "write_report", "write_studies"]
