"""A finding: the numbers behind one answer, its strength, its test, and what was left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toposcope.study.findings.summary import FirstScreen

QUESTIONS = {
    "trained": "How well did they train?",
    "sound": "Are the measurements sound?",
    "odd": "Which run is odd?",
    "changed": "What changed?",
    "when": "When?",
    "beyond": "Does {asked} add anything to the {target}?",
    "rivals": "Does topology follow the {target} more closely than plain numbers?",
    "end": "Where will it end?",
    "on": "Go on?",
    "scale": "Does it scale?",
    "layers": "What happens from layer to layer?",
    "surfaces": "What is on the surfaces?",
    "ring": "Is there a ring?",
    "settings": "How far do the settings move it?",
}
"""Every question in reading order, with its words."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer to one question, in numbers.

    `strength` is one of a closed set for each question (the templates' names): it determines the sentence of
    the answer. `numbers` holds plain data: estimates with their intervals as [low, high], counts, names.
    `test` names the test behind the strength, and `left_out` what it does not include and why.
    """

    question: str
    strength: str
    numbers: Mapping[str, Any]
    test: str = ""
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Findings:
    """All findings on one subject, in reading order.

    `topology` describes what is judged, and `asked` is the same in one word. `group` names the runs if others
    of the same source do not belong to them; it is "" if all do.

    Examples
    --------
    >>> found = Findings("weights", "the topology of the weights", "loss", (Finding("when", "too few", {}),))
    >>> found["when"].strength, "scale" in found
    ('too few', False)
    """

    subject: str
    topology: str
    target: str
    answers: tuple[Finding, ...]
    asked: str = "topology"
    group: str = ""
    without: tuple[str, ...] = ()

    def __getitem__(self, question: str) -> Finding:
        """Return the finding on one of `QUESTIONS`; KeyError where nothing could be asked."""
        found = self.get(question)
        if found is None:
            raise KeyError(question)
        return found

    def __contains__(self, question: object) -> bool:
        """Return whether there is a finding on this question."""
        return any(finding.question == question for finding in self.answers)

    def get(self, question: str) -> Finding | None:
        """Return the finding on a question; None if there is none."""
        return next((finding for finding in self.answers if finding.question == question), None)

    def __iter__(self) -> Iterator[Finding]:
        """Iterate over the findings in reading order."""
        return iter(self.answers)

    def title(self, finding: Finding) -> str:
        """Return the question in words."""
        return QUESTIONS[finding.question].format(target=self.target or "loss", asked=self.asked)

    @property
    def wrong(self) -> Finding | None:
        """The gravest finding on faults of checkpoints or runs; None if there is no fault."""
        for question, strength in (("sound", "faults"), ("on", "broken"), ("odd", "odd")):
            found = self.get(question)
            if found is not None and found.strength == strength:
                return found
        return None

    @property
    def lead(self) -> Finding:
        """The finding that stands first.

        It is the first of these that exists: a fault; a run to be looked at, or the end of an unfinished run;
        the verdict, if a table's own columns are tested; how well the runs trained; or, if no target ranks
        them, what changed or what is on the surfaces.
        """
        on, beyond = self.get("on"), self["beyond"]
        if (wrong := self.wrong) is not None:
            return wrong
        if on is not None and (on.strength == "ill" or on.numbers["ahead"]):
            return on
        columns = self.subject == "table" and (
            beyond.numbers.get("columns") or beyond.numbers.get("left_out_columns")
        )
        if columns or "trained" not in self:
            return beyond
        moved = self.get("changed")
        if beyond.strength == "no target" and moved is not None and moved.strength == "moved":
            return moved
        if beyond.strength == "no target" and (surfaces := self.get("surfaces")) is not None:
            return surfaces
        return self["trained"]

    @property
    def first(self) -> FirstScreen:
        """The first screen: a title, four checks, and one thing to do."""
        from toposcope.study.findings.summary import first_screen

        return first_screen(self)

    @property
    def headline(self) -> str:
        """The one line that a busy person can act on."""
        return self.first.title

    def as_data(self) -> dict[str, object]:
        """Return the findings as plain data, with their words."""
        from toposcope.study.findings.words import said

        return {
            "subject": self.subject,
            "group": self.group,
            "without": list(self.without),
            "target": self.target,
            "headline": self.headline,
            "first": self.first.as_data(),
            "answers": [
                {
                    "question": finding.question,
                    "strength": finding.strength,
                    "numbers": dict(finding.numbers),
                    "test": finding.test,
                    "left_out": list(finding.left_out),
                    "words": said(self, finding).text,
                }
                for finding in self
            ],
        }

    def as_text(self, *, width: int = 80) -> str:
        """Return the first screen in words, wrapped for a terminal."""
        return self.first.as_text(width=width)

    def __repr__(self) -> str:
        """Return the answer in words."""
        return self.as_text()

    def _repr_html_(self) -> str:
        return self.first.as_html()
