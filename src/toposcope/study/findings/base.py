"""A finding: the numbers behind one answer, how strong it is, on what test, and what was left out."""

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

    `strength` is one of a closed set for each question (the templates' names): it says how far the answer
    goes, and which sentence may be said. `numbers` holds plain data: estimates with their intervals as
    [low, high], counts, names. `test` names the test that the strength rests on, `left_out` what was not
    taken into it and why.
    """

    question: str
    strength: str
    numbers: Mapping[str, Any]
    test: str = ""
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Findings:
    """All findings on one subject, in reading order.

    `topology` is what is judged, in words, and `asked` in one word. `group` says which runs these are where
    others of the same source do not belong to them; "" where all do.

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
        """Return the finding on a question, None where nothing could be asked."""
        return next((finding for finding in self.answers if finding.question == question), None)

    def __iter__(self) -> Iterator[Finding]:
        """Iterate over the findings in reading order."""
        return iter(self.answers)

    def title(self, finding: Finding) -> str:
        """Return the question in words."""
        return QUESTIONS[finding.question].format(target=self.target or "loss", asked=self.asked)

    @property
    def wrong(self) -> Finding | None:
        """What is wrong with checkpoints or runs, the gravest first; None where nothing is."""
        for question, strength in (("sound", "faults"), ("on", "broken"), ("odd", "odd")):
            found = self.get(question)
            if found is not None and found.strength == strength:
                return found
        return None

    @property
    def lead(self) -> Finding:
        """The finding that stands first.

        It is what is wrong; else a run to be looked at, or where an unfinished run will end; else the
        verdict where a table's own columns are tested; else how well they trained, or where no target ranks
        the runs what changed, or what is on the surfaces.
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
        """What is said first: a title, four checks, one thing to do."""
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
