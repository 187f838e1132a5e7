"""A finding: the numbers behind one answer, its strength, its test, and what was left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from toposcope.core.observations import Finding

QUESTIONS = {
    "trained": "How well did they train?",
    "sound": "Are the measurements sound?",
    "odd": "Which run is odd?",
    "changed": "What changed?",
    "when": "When did it change?",
    "beyond": "Does {noun} add anything to the {target}?",
    "rivals": "Does topology follow the {target} more closely than plain numbers?",
    "end": "Where will it end?",
    "on": "Should a run go on?",
    "scale": "Does it scale?",
    "ring": "Is there a ring?",
}
"""The questions of every study in reading order, with their words; a subject may have further ones."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """A question that only the studies of one subject answer.

    Parameters
    ----------
    name : str
        The `question` of its findings.
    words : str
        The question in words; "{noun}" and "{target}" stand for what is judged, and against what.
    find : callable
        Returns the finding of a study (`StudyTables`); None if the study has no data for it.
    sentences : mapping of str to str
        For each strength the sentence of the answer, a Jinja template of the finding's numbers. A template
        with blocks has the parts of an answer: `act`, `ground`, `limits`, `more`, `title`.
    leads : bool
        Whether its answer is the headline of a study that has no target.
    """

    name: str
    words: str
    find: Callable[[Any], Finding | None]
    sentences: Mapping[str, str]
    leads: bool = False


def sentences_in(package: str, question: str) -> dict[str, str]:
    """Return the sentences of a question from the folder `templates` of a package: a file for each strength.

    >>> sorted(sentences_in("toposcope.study.findings", "when"))
    ['known', 'too few']
    """
    paths = (
        path for path in (files(package) / "templates" / question).iterdir() if path.name.endswith(".txt")
    )
    return {
        path.name.removesuffix(".txt").replace("_", " "): path.read_text(encoding="utf-8") for path in paths
    }
