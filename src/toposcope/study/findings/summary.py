"""The first screen: a title that is the finding, four checks with a mark, and one thing to do next.

The terminal, the page, its Markdown twin, a notebook and `--json` show the same `FirstScreen`.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Sequence
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
    """One check: its mark (one of the five above), what was checked, and what was seen.

    It may be `of_subject`: about what was measured of the runs and not about the runs themselves.
    """

    mark: str
    name: str
    text: str
    of_subject: bool = False


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
        return "\n".join([*_filled(self.title, width), "", *self._lines(width), *self._next_lines(width)])

    def _lines(self, width: int) -> list[str]:
        """Return its checks, and what was left out."""
        lines: list[str] = []
        wide = width >= _NARROW
        for check in self.checks:
            first = f"{check.mark:<{_MARK}}" + (f"{check.name:<{_NAME}}" if wide else f"{check.name}  ")
            lines += _filled(check.text, width, first, " " * (_MARK + _NAME if wide else _MARK))
        if self.left_out:
            lines += _filled(self.left_out, width, "Left out: ", "    ")
        return lines

    def _next_lines(self, width: int) -> list[str]:
        to_do, command = self.to_do
        sentence = _filled(to_do, width, "Next: ", "    ") if to_do else []
        return [*sentence, *([f"    {command}"] if command else [])]

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


def leading(screens: Sequence[FirstScreen]) -> FirstScreen:
    """Return the first of some screens with something wrong, else the first: its title is their answer."""
    return next((screen for screen in screens if screen.wrong), screens[0])


def common(screens: Sequence[FirstScreen]) -> FirstScreen:
    """Return what all of some first screens say, under the leading title; what differs is empty."""
    first, *others = screens
    same = {
        name: getattr(first, name) if all(getattr(o, name) == getattr(first, name) for o in others) else ""
        for name in ("next", "left_out")
    }
    of_runs = [check for check in first.checks if not check.of_subject]
    checks = tuple(check for check in of_runs if all(check in other.checks for other in others))
    return FirstScreen(leading(screens).title, checks, same["next"], same["left_out"], first.about)


def without(screen: FirstScreen, shared: FirstScreen) -> FirstScreen:
    """Return what a first screen says beyond what is shared."""
    return FirstScreen(
        "" if screen.title == shared.title else screen.title,
        tuple(check for check in screen.checks if check not in shared.checks),
        "" if shared.next else screen.next,
        "" if shared.left_out else screen.left_out,
        screen.about,
    )


def together(screens: Sequence[tuple[str, FirstScreen]], *, width: int = 80) -> str:
    """Return the first screens of several subjects on the same runs as one; what all say is said once.

    >>> trained, alone = CheckLine("OK", "training", "the loss fell"), CheckLine("--", "odd runs", "one run")
    >>> old = CheckLine("no", "topology", "adds nothing", of_subject=True)
    >>> new = CheckLine("--", "topology", "not known: 1 checkpoint", of_subject=True)
    >>> one, other = (FirstScreen("A trained.", (trained, part), "Go on.") for part in (old, new))
    >>> print(together([("Weights", one), ("Optimiser", other)]))
    A trained.
    <BLANKLINE>
    OK  training      the loss fell
    <BLANKLINE>
    Weights
    no  topology      adds nothing
    <BLANKLINE>
    Optimiser
    --  topology      not known: 1 checkpoint
    <BLANKLINE>
    Next: go on.
    """
    if len(screens) == 1:
        return screens[0][1].as_text(width=width)
    shared = common([screen for _, screen in screens])
    blocks = [_filled(shared.title, width), shared._lines(width)]
    for heading, screen in screens:
        own = without(screen, shared)
        title = _filled(own.title, width)
        blocks.append([heading, *title, *own._lines(width), *own._next_lines(width)])
    blocks.append(shared._next_lines(width))
    return "\n\n".join("\n".join(block) for block in blocks if block)


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
