"""Sentences from findings: one template for each question and strength, the same for every subject."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from jinja2 import (
    ChoiceLoader,
    DictLoader,
    Environment,
    PackageLoader,
    StrictUndefined,
    Template,
    pass_context,
)
from jinja2.runtime import Context

from toposcope.core import forms
from toposcope.core.observations import Deferred
from toposcope.core.wording import option
from toposcope.study.findings.base import Finding, Question
from toposcope.subjects.subject import Subject

WIDTH = 80
"""The width of a terminal if it is not known."""


@dataclass(frozen=True, slots=True)
class Said:
    """An answer in words: one line to act on, its grounds, its limits, and further details.

    `next` is a command to continue with, and its purpose; its line must be printed whole. On the first
    screen, `title` is the first line if that is not `act`, `check` a line of the checks, `todo` what to do.
    """

    act: str
    ground: str
    limits: str
    more: str
    next: str = ""
    title: str = ""
    check: str = ""
    todo: str = ""

    @property
    def text(self) -> str:
        """The whole answer as one paragraph."""
        return " ".join(part for part in (self.act, self.ground, self.limits, self.more, self.next) if part)


def said(
    finding: Finding, *, subject: Subject, topology: str, target: str, question: Question | None = None,
    names: Iterable[str] = (),
) -> Said:  # fmt: skip
    """Return the words of one finding on a subject; `topology` describes what is judged against `target`.

    `question` has the sentences if only this subject answers it. `names` are what the user named: they stay
    as they are written where they begin a sentence.
    """
    template = _template(finding, question)
    given = {
        **finding.numbers, "topology": topology, "target": target, "subject": subject,
        "left_out": finding.left_out, "user_names": tuple(names),
    }  # fmt: skip
    context = template.new_context(given)
    for _ in template.root_render_func(context):  # running it is what finds the blocks of its parents
        pass
    parts = {name: "".join(block[0](context)) for name, block in context.blocks.items()}
    check = " ".join(parts.get("check", "").split())
    title = " ".join(parts.get("title", "").split())  # which may begin with a run's name
    parts.setdefault("act", title)
    act, ground, limits, more, onward = (
        _tidy(parts.get(name, ""), names) for name in ("act", "ground", "limits", "more", "next")
    )
    todo = _tidy(parts["todo"], names) if "todo" in parts else onward
    return Said(act, ground, limits, more, onward, title, check, todo)


def act_of(finding: Finding, *, target: str, names: Iterable[str] = ()) -> str:
    """Return the line to act on of a finding whose other numbers are deferred: they are not computed."""
    assert isinstance(finding.numbers, Deferred)
    template = _template(finding, None)
    context = template.new_context({**finding.numbers.ready, "target": target, "user_names": tuple(names)})
    return _tidy("".join(template.blocks["act"](context)), names)


def of_group(group: str, text: str) -> str:
    """Return a sentence with its runs in front, if other runs of the source do not belong to them.

    >>> of_group("bpe", "One adds."), of_group("", "One adds.")
    ('bpe: One adds.', 'One adds.')
    """
    return f"{group}: {text}" if group else text


def _template(finding: Finding, question: Question | None) -> Template:
    """Return the template of a finding: the study's, or that of its subject's own question."""
    environment = _environment() if question is None else _environment_of(question)
    return environment.get_template(_file(finding.question, finding.strength))


def _file(question: str, strength: str) -> str:
    return f"{question}/{strength.replace(' ', '_')}.txt"


@cache
def _environment_of(question: Question) -> Environment:
    """Return the environment whose templates are a question's sentences, too."""
    sentences = {
        _file(question.name, strength): text if "{%" in text else "{% block act %}" + text + "{% endblock %}"
        for strength, text in question.sentences.items()
    }
    ours = _environment()
    assert ours.loader is not None
    return ours.overlay(loader=ChoiceLoader([DictLoader(sentences), ours.loader]))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("toposcope.study.findings"),
        autoescape=False,  # plain text: who prints it into a page or Markdown escapes it there
        undefined=StrictUndefined,
        finalize=_with_separators,
    )
    environment.filters |= {
        "span": forms.span, "num": forms.number, "listed": forms.listed,
        "capital": _capital,
        "loss": forms.loss,
    }  # fmt: skip
    environment.globals |= {"s": _plural, "many": _many, "between": _between, "chance": forms.chance}
    environment.globals |= {"near": _near, "ends": _ends, "words": forms.counted, "option": option}
    return environment


def _with_separators(value: object) -> object:
    """Return a count with thousands separators; everything else as it is."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value


def _tidy(text: str, names: Iterable[str]) -> str:
    return forms.capital(" ".join(text.split()), names)


@pass_context
def _capital(context: Context, text: str) -> str:
    """Return a sentence with its capital, unless it begins with what the user named."""
    return forms.capital(text, context.get("user_names", ()))


def _plural(n: int) -> str:
    return "" if n == 1 else "s"


def _many(values: list[float], form: str) -> str:
    """Return several numbers in a row, one for each cut."""
    return " / ".join(forms.number(value, form) for value in values)


def _near(final: float, interval: list[float]) -> str:
    """Return a forecast with the decimals that its interval justifies."""
    return forms.near(final, *(interval or (math.nan, math.nan)))[0]


def _ends(final: float, interval: list[float]) -> str:
    """Return the interval of a forecast with those decimals."""
    return " to ".join(forms.near(final, *interval)[1:])


def _between(interval: list[float], form: str) -> str:
    return f"[{', '.join(forms.number(value, form) for value in interval)}]" if interval else ""
