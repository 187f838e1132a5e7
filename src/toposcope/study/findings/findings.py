"""All findings on one subject: which of them leads, their words, and the first screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from toposcope.core.observations import Deferred
from toposcope.study.findings.base import QUESTIONS, Finding, Question
from toposcope.study.findings.summary import BAD, GOOD, NONE, OPEN, SOME, CheckLine, FirstScreen
from toposcope.study.findings.words import Said, act_of, of_group, said
from toposcope.subjects.roster import subject_of
from toposcope.subjects.subject import Subject

MARKS: Mapping[tuple[str, str], str] = {
    ("sound", "clean"): GOOD, ("sound", "gaps"): BAD, ("sound", "faults"): BAD,
    ("on", "finished"): GOOD, ("on", "running"): GOOD, ("on", "faulty"): BAD, ("on", "broken"): BAD,
    ("on", "too few"): OPEN,
    ("odd", "alike"): GOOD, ("odd", "alone"): OPEN, ("odd", "odd"): BAD,
    ("beyond", "adds"): SOME, ("beyond", "trend only"): NONE, ("beyond", "cannot tell"): OPEN,
    ("beyond", "no target"): OPEN,
}  # fmt: skip
"""The mark of each strength of the four findings that are checks."""
_CHECKS = (("sound", "measurements"), ("on", "training"), ("odd", "odd runs"), ("beyond", ""))
_ABSENT = {"on": "no finite loss that should fall was logged", "odd": "one run: nothing to compare"}
_ACTS = ("sound", "on", "odd", "beyond")
"""The findings whose remedy is the thing to do next: the first of them, after that of the lead."""
NOTHING = "Nothing has to be done about these runs."


@dataclass(frozen=True)
class Findings:
    """All findings on one subject, in reading order.

    `topology` describes what is judged, and `noun` is the same in one word. `group` names the runs if others
    of the same source do not belong to them; it is "" if all do. `names` are what the user named. `questions`
    are those that only this subject answers, and `declared` is the subject itself (None: that of the name).
    `onward` is what to do next if nothing is wrong.

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
    noun: str = "topology"
    group: str = ""
    without: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    questions: tuple[Question, ...] = ()
    declared: Subject | None = None
    onward: str = ""

    def __getitem__(self, question: str) -> Finding:
        """Return the finding on one of `QUESTIONS` or `questions`; KeyError if there is none."""
        finding = self.get(question)
        if finding is None:
            raise KeyError(question)
        return finding

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
        noun = "any column" if self.subject == "table" else self.noun
        question = self._question(finding)
        words = QUESTIONS[finding.question] if question is None else question.words
        return words.format(target=self.target or "loss", noun=noun)

    def _question(self, finding: Finding) -> Question | None:
        """Return the question of a finding if only this subject answers it."""
        return next((question for question in self.questions if question.name == finding.question), None)

    def said(self, finding: Finding) -> Said:
        """Return the words of one of the findings."""
        return said(
            finding, subject=self.declared or subject_of(self.subject), question=self._question(finding),
            topology=self.topology, target=self.target, names=self.names,
        )  # fmt: skip

    def act(self, finding: Finding) -> str:
        """Return the line to act on of a finding; numbers that it does not need are not computed for it."""
        if isinstance(finding.numbers, Deferred):
            return act_of(finding, target=self.target, names=self.names)
        return self.said(finding).act

    @property
    def paragraphs(self) -> list[tuple[str, str]]:
        """Every question with its answer in full."""
        return [(self.title(one), text) for one in self if (text := self.said(one).text)]

    @property
    def wrong(self) -> Finding | None:
        """The gravest finding on faults of checkpoints or runs; None if there is no fault."""
        for question, strength in (("sound", "faults"), ("on", "broken"), ("odd", "odd")):
            finding = self.get(question)
            if finding is not None and finding.strength == strength:
                return finding
        return None

    @property
    def lead(self) -> Finding:
        """The finding that stands first.

        It is the first of these that exists: a fault; a run that needs a look, or the end of an unfinished
        run; the verdict, if a table's own columns are tested; how well the runs trained; or, if no target
        ranks them, what changed, or the subject's own question that leads.
        """
        on, beyond = self.get("on"), self["beyond"]
        if (wrong := self.wrong) is not None:
            return wrong
        if on is not None and (on.strength == "faulty" or on.numbers["ahead"]):
            return on
        columns = self.subject == "table" and beyond.numbers.get("columns")
        if columns or "trained" not in self:
            return beyond
        moved = self.get("changed")
        if beyond.strength == "no target" and moved is not None and moved.strength == "moved":
            return moved
        leading = [
            finding
            for question in self.questions
            if question.leads and (finding := self.get(question.name)) is not None
        ]
        if beyond.strength == "no target" and leading:
            return leading[0]
        return self["trained"]

    @property
    def first(self) -> FirstScreen:
        """The first screen: a title, four checks, and one thing to do."""
        lead = self.said(self.lead)
        checks = self._checks()
        copied = self["beyond"].numbers.get("left_out_columns", ())
        gone = [f"run {run} (on request)" for run in self.without]
        left_out = ", ".join([*gone, *(f"{copy['column']} ({copy['why']})" for copy in copied)])
        group = "" if self.lead.question == "odd" else self.group  # the odd run may be of another one
        title = of_group(group, lead.title or lead.act)
        about, to_do = self._to_do()
        return FirstScreen(title, checks, to_do, f"{left_out}." if left_out else "", about)

    def _checks(self) -> tuple[CheckLine, ...]:
        return tuple(self._check(question, name) for question, name in _CHECKS)

    def _check(self, question: str, name: str) -> CheckLine:
        """Return the line of a check; it says why if the check could not be made."""
        name = name or ("columns" if self.subject == "table" else self.noun)
        finding = self.get(question)
        if finding is None:
            return CheckLine(OPEN, name, _ABSENT[question])
        mark = MARKS[question, finding.strength]
        if question == "sound" and mark == GOOD and not finding.numbers["audited"]:
            mark = OPEN
        return CheckLine(mark, name, self.said(finding).check, of_subject=question == "beyond")

    def _to_do(self) -> tuple[str, str]:
        """Return the one thing to do, after its question: the lead's remedy, else that of the first check."""
        if self.onward and not any(check.mark == BAD for check in self._checks()):
            return "", self.onward
        order = [self.lead.question, *(act for act in _ACTS if act != self.lead.question)]
        if "odd" in self and self["odd"].strength == "alone":
            order = [
                *(question for question in order if question != "odd"),
                "odd",
            ]  # advice to train more seeds comes last
        for question in order:
            finding = self.get(question)
            if finding is not None and (todo := self.said(finding).todo):
                return question, todo
        return "", NOTHING

    @property
    def heading(self) -> str:
        """The heading of its subject on a page."""
        return (self.declared or subject_of(self.subject)).heading

    @property
    def headline(self) -> str:
        """The one line that a busy person can act on."""
        return self.first.title

    def as_data(self) -> dict[str, object]:
        """Return the findings as plain data, with their words."""
        return {
            "subject": self.subject,
            "group": self.group,
            "without": list(self.without),
            "target": self.target,
            "answer": self.headline,
            "first": self.first.as_data(),
            "answers": [
                {
                    "question": finding.question,
                    "strength": finding.strength,
                    "numbers": dict(finding.numbers),
                    "test": finding.test,
                    "left_out": list(finding.left_out),
                    "words": self.said(finding).text,
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
