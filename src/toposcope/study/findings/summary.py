"""The first screen: a title that is the finding, four checks with a mark, and one thing to do next.

The terminal, the page, its Markdown twin, a notebook and `--json` show the same `FirstScreen`.
"""

from __future__ import annotations

import html
import re
import textwrap
from dataclasses import dataclass

GOOD, BAD, OPEN, NONE, SOME = "OK", "!!", "--", "no", "yes"
"""Marks of a check: nothing is wrong, something is, it is unknown, nothing was found, something was."""
WORDS = {GOOD: "sound", BAD: "look", OPEN: "not tested", NONE: "nothing new", SOME: "adds"}
"""The word of each mark on a page and in a notebook, beside its dot."""
KINDS = {GOOD: "good", BAD: "bad", OPEN: "open", NONE: "none", SOME: "some"}
"""The class of each mark on a page, which has its colour."""

_MARK, _NAME = 4, 14
"""Columns of a terminal that a mark and the name of a check take."""
_NARROW = 60
"""Columns of a terminal below which a check is not set in columns."""


@dataclass(frozen=True, slots=True)
class CheckLine:
    """One check: its mark (one of the five above), what was checked, and what was seen."""

    mark: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """The first screen: the finding, the checks, the one thing to do next, and what was left out.

    >>> fell = CheckLine("OK", "training", "the loss fell to the end")
    >>> alone = CheckLine("--", "odd runs", "one run")
    >>> print(FirstScreen("small trained without a fault.", (fell, alone), "Train a second seed.").as_text())
    small trained without a fault.
    <BLANKLINE>
    OK  training      the loss fell to the end
    --  odd runs      one run
    Next: train a second seed.
    """

    title: str
    checks: tuple[CheckLine, ...]
    next: str
    left_out: str = ""
    about: str = ""
    """The question of the finding whose remedy is `next`; "" where nothing has to be done."""

    @property
    def wrong(self) -> bool:
        """Whether a check has found something wrong."""
        return any(check.mark == BAD for check in self.checks)

    @property
    def to_do(self) -> tuple[str, str]:
        """What to do next, as a sentence that continues "Next:", and the command at its end or ""."""
        sentence, command = _command(self.next)
        return _uncapital(sentence), command

    def as_text(self, *, width: int = 80) -> str:
        """Return it for a terminal: sentences are wrapped, a command stays on one line."""
        lines = [*_filled(self.title, width), ""]
        wide = width >= _NARROW
        for check in self.checks:
            first = f"{check.mark:<{_MARK}}" + (f"{check.name:<{_NAME}}" if wide else f"{check.name}  ")
            lines += _filled(check.text, width, first, " " * (_MARK + _NAME if wide else _MARK))
        if self.left_out:
            lines += _filled(self.left_out, width, "Left out: ", "    ")
        to_do, command = self.to_do
        lines += _filled(to_do, width, "Next: ", "    ")
        return "\n".join([*lines, *([f"    {command}"] if command else [])])

    def as_html(self) -> str:
        """Return it for a notebook: about ten lines."""
        rows = "".join(
            f"<tr><td style='text-align:left'>●&nbsp;{WORDS[check.mark].replace(' ', '&nbsp;')}</td>"
            f"<td>{html.escape(check.name)}</td>"
            f"<td style='text-align:left'>{html.escape(check.text)}</td></tr>"
            for check in self.checks
        )
        to_do, command = self.to_do
        code = f" <code>{html.escape(command)}</code>" if command else ""
        gone = f"<p>Left out: {html.escape(self.left_out)}</p>" if self.left_out else ""
        return (
            f"<p><strong>{html.escape(self.title)}</strong></p><table>{rows}</table>{gone}"
            f"<p>Next: {html.escape(to_do)}{code}</p>"
        )

    def as_data(self) -> dict[str, object]:
        """Return it as plain data."""
        checks = [{"mark": check.mark, "name": check.name, "text": check.text} for check in self.checks]
        shown = {"title": self.title, "checks": checks, "next": self.next, "left_out": self.left_out}
        return {**shown, "about": self.about}


def _command(text: str) -> tuple[str, str]:
    """Return a sentence and the command at its end.

    >>> _command("Train more: toposcope train --out DIR"), _command("Nothing.")
    (('Train more:', 'toposcope train --out DIR'), ('Nothing.', ''))
    >>> _command("See all: `toposcope.forecast('a.log')`")
    ('See all:', "toposcope.forecast('a.log')")
    """
    match = re.fullmatch(r"(.*?:) `?(toposcope[ .][^`]*)`?", text, re.DOTALL)
    return (match[1], match[2]) if match else (text, "")


def _uncapital(text: str) -> str:
    """Return a sentence as it goes on after a colon; a run's name stays as it is."""
    first = text.split(" ", 1)[0]
    return text[:1].lower() + text[1:] if first.isalpha() and first[1:].islower() else text


def _filled(text: str, width: int, first: str = "", then: str = "") -> list[str]:
    """Break a sentence into lines between its words."""
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=then, break_on_hyphens=False,
        break_long_words=False,
    )  # fmt: skip
