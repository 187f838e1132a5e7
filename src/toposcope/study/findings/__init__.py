"""The findings of a study, question by question, computed once; their sentences are made elsewhere."""

from __future__ import annotations

from toposcope.study.findings.base import Finding
from toposcope.study.findings.find import find
from toposcope.study.findings.findings import Findings

__all__ = ["Finding", "Findings", "find"]
