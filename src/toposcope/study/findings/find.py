"""Every finding of a study, in reading order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposcope.study.findings.base import Finding
from toposcope.study.findings.beyond import beyond
from toposcope.study.findings.changed import changed
from toposcope.study.findings.end import end, go_on
from toposcope.study.findings.findings import Findings
from toposcope.study.findings.odd import odd
from toposcope.study.findings.rivals import rivals
from toposcope.study.findings.scale import scale
from toposcope.study.findings.sound import sound
from toposcope.study.findings.trained import trained
from toposcope.study.findings.when import when

if TYPE_CHECKING:
    from toposcope.study.tables import StudyTables

_FINDERS = (sound, odd, changed, when, beyond, rivals, end, go_on, scale)


def find(study: StudyTables) -> Findings:
    """Return the findings on `study`; questions for which it has no data are left out."""
    finders = (*_FINDERS, *(question.find for question in study.questions))
    answers: list[Finding] = [finding for ask in finders if (finding := ask(study)) is not None]
    answers.insert(0, trained(study, answers))
    target = study.labels.label(study.target) if study.target else ""
    subject, group = study.subject, study.group.label if study.group is not None else ""
    plain = bool(subject.size) and study.labels.plain
    return Findings(
        subject.name, subject.size if plain else subject.topology, target, tuple(answers),
        noun="size" if plain else "topology", group=group, without=study.without, names=study.series.names,
        questions=study.questions, declared=subject,
        onward=study.published.onward(study.runs),
    )  # fmt: skip
