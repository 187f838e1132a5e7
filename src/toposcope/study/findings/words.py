"""Sentences from findings: one template for each question and strength, the same for every subject."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from toposcope.core import forms
from toposcope.core.types import About
from toposcope.study.findings.base import Finding, Findings

WIDTH = 80
MOST = 15
"""Lines of `WIDTH` columns that an answer takes in a terminal."""
_NARROW = 50
"""Columns of a terminal below which the lines of an answer are not indented under their mark."""
WHOLE = "Left out for length; --json and the page of a report have it."
"""The last line of an answer that was made shorter."""


@dataclass(frozen=True, slots=True)
class Said:
    """An answer in words: one line to act on, what it rests on, how far it reaches, more beside it.

    `next` is a command to go on with, and what it is for: whoever prints it leaves its line whole.
    """

    act: str
    ground: str
    limits: str
    more: str
    next: str = ""

    @property
    def text(self) -> str:
        """The whole answer as one paragraph."""
        return " ".join(part for part in (self.act, self.ground, self.limits, self.more, self.next) if part)


def said(findings: Findings, finding: Finding) -> Said:
    """Return the words of one finding."""
    name = f"{finding.question}/{finding.strength.replace(' ', '_')}.txt"
    template = _environment().get_template(name)
    given = {
        **finding.numbers, "topology": findings.topology, "target": findings.target,
        "representations": findings.subject == About.REPRESENTATIONS,
        "landscape": findings.subject == About.LANDSCAPE, "left_out": finding.left_out,
        "entries": "gradients" if findings.subject == About.GRADIENTS else "weights",
    }  # fmt: skip
    context = template.new_context(given)
    for _ in template.root_render_func(context):  # running it is what finds the blocks of its parents
        pass
    parts = {name: "".join(found[0](context)) for name, found in context.blocks.items()}
    return Said(*(_tidy(parts.get(name, "")) for name in ("act", "ground", "limits", "more", "next")))


def headline(findings: Findings) -> str:
    """Return the one line that a busy person can act on."""
    return of_group(findings.group, said(findings, findings.lead).act)


def of_group(group: str, text: str) -> str:
    """Return a sentence with the runs that it is on before it, where others do not belong to them.

    >>> of_group("bpe", "One adds."), of_group("", "One adds.")
    ('bpe: One adds.', 'One adds.')
    """
    return f"{group}: {text}" if group else text


def paragraphs(findings: Findings) -> list[tuple[str, str]]:
    """Return every question with its answer in full."""
    return [(findings.title(one), text) for one in findings if (text := said(findings, one).text)]


def as_text(findings: Findings, *, width: int = WIDTH) -> str:
    """Return the answer for a terminal: the verdict, its ground and limits, and a line for each question.

    What takes more than `MOST` lines of `WIDTH` columns is made shorter, limits and ground first, with "…"
    where something was left out, and a last line says where the whole is. The width that is printed in breaks
    lines and changes no word.
    """
    lead = said(findings, findings.lead)
    parts = {"Ground": lead.ground, "Limits": lead.limits}
    last = ("end", "Forecast")
    if "on" in findings and findings["on"].strength in ("ill", "broken"):
        last = ("on", "Health")  # which comes before any forecast
    elif "on" in findings and findings["on"].numbers["ahead"]:
        last = (
            "on",
            "Forecast",
        )  # of runs that go on, before how well finished ones would have been forecast
    for question, mark in (("beyond", "Verdict"), ("changed", "Changed"), ("when", "When"), last):
        if question in findings and findings[question] is not findings.lead:
            parts[mark] = said(findings, findings[question]).act
    copied = findings["beyond"].numbers.get("left_out_columns") if "beyond" in findings else None
    if copied:
        parts["Left out"] = ", ".join(f"{one['column']} ({one['why']})" for one in copied) + "."
    on = findings.get("on")
    further = lead.next if on is None or last[0] != "on" else said(findings, on).next
    act = headline(findings)
    lines = _lines(act, _fitted(act, parts), width)
    return "\n".join([*lines, *([f"{'Next:':<10}{further}"] if further else [])])


def _fitted(act: str, parts: Mapping[str, str]) -> dict[str, str]:
    """Return the parts, shorter until the answer takes `MOST` lines of `WIDTH` columns."""
    fitted = dict(parts)
    for mark, shorter in _SHORTER:
        if len(_lines(act, fitted, WIDTH)) <= MOST:
            break
        if mark in fitted and (text := shorter(fitted[mark])) != fitted[mark]:
            fitted |= {mark: text, "…": WHOLE}
    return fitted


def _without_brackets(text: str) -> str:
    return re.sub(r" \([^()]{8,}\)", " (…)", text)


def _without_last_clause(text: str) -> str:
    return re.sub(r"; [^;]*\.$", "; …", text)


def _first_sentence(text: str) -> str:
    return re.sub(r"\. .+", ". …", text)


_SHORTER: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("Limits", _without_brackets), ("Ground", _without_brackets), ("Forecast", _without_last_clause),
    ("Health", _without_last_clause), ("Limits", _first_sentence), ("Ground", _first_sentence),
    ("When", _without_last_clause), ("Changed", _without_last_clause),
)  # fmt: skip
"""What is made shorter, and how, in this order, until the answer fits."""


def _lines(act: str, parts: Mapping[str, str], width: int) -> list[str]:
    return [*_wrapped(act, width), *(line for part in parts.items() for line in _hanging(*part, width))]


def _hanging(mark: str, text: str, width: int) -> list[str]:
    if not text:
        return []
    indent = 10 if width >= _NARROW else 2
    first = f"{mark + ':':<{indent}}".ljust(len(mark) + 2)
    return _wrapped(text, width, first=first, then=" " * indent)


def _wrapped(text: str, width: int, *, first: str = "", then: str = "") -> list[str]:
    """Break a sentence into lines between its words: none is left out, and none broken."""
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=then, break_on_hyphens=False,
        break_long_words=False,
    )  # fmt: skip


def as_html(findings: Findings) -> str:
    """Return the answer for a notebook: the verdict, then every question."""
    rows = "".join(
        f"<dt>{html.escape(question)}</dt><dd>{html.escape(text)}</dd>"
        for question, text in paragraphs(findings)
    )
    return f"<p><strong>{html.escape(headline(findings))}</strong></p><dl>{rows}</dl>"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("toposcope.study.findings"),
        autoescape=False,  # plain text: who prints it into a page or Markdown escapes it there
        undefined=StrictUndefined,
    )
    environment.filters |= {
        "span": forms.span, "num": forms.number, "listed": forms.listed,
        "capital": forms.capital,
    }  # fmt: skip
    environment.globals |= {"s": _plural, "many": _many, "between": _between}
    return environment


def _tidy(text: str) -> str:
    return forms.capital(" ".join(text.split()))


def _plural(n: int) -> str:
    return "" if n == 1 else "s"


def _many(values: list[float], form: str) -> str:
    """Return several numbers beside each other, one for each cut."""
    return " / ".join(forms.number(value, form) for value in values)


def _between(interval: list[float], form: str) -> str:
    return f"[{', '.join(forms.number(value, form) for value in interval)}]" if interval else ""
