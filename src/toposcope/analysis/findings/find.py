"""Every finding of a study, in reading order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposcope.analysis.findings.base import Finding, Findings
from toposcope.analysis.findings.beyond import beyond
from toposcope.analysis.findings.changed import changed
from toposcope.analysis.findings.end import end, go_on
from toposcope.analysis.findings.layers import layers, settings
from toposcope.analysis.findings.rivals import rivals
from toposcope.analysis.findings.scale import scale
from toposcope.analysis.findings.sound import sound
from toposcope.analysis.findings.surfaces import surfaces
from toposcope.analysis.findings.when import when

if TYPE_CHECKING:
    from toposcope.analysis.study import Study

_ASKED = (sound, changed, when, beyond, rivals, end, go_on, scale, layers, surfaces, settings)


def find(study: Study) -> Findings:
    """Return what may be said of `study`; a question that it holds nothing for is left out."""
    answers: list[Finding] = [finding for ask in _ASKED if (finding := ask(study)) is not None]
    target = study.labels.label(study.target) if study.target else ""
    subject, group = study.subject, study.group.label if study.group is not None else ""
    if subject.size and study.labels.plain:
        return Findings(subject.name, subject.size, target, tuple(answers), asked="size", group=group)
    return Findings(subject.name, subject.topology, target, tuple(answers), group=group)
