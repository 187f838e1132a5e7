r"""Lines of any console, read by a regular expression: `--pattern 'it (?P<step>\d+) L=(?P<loss>\S+)'`.

The error for a text that no dialect knows offers such an expression, made from one of its lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from toposcope.core.errors import InputError
from toposcope.logs.dialects.dialect import TextDialect
from toposcope.logs.dialects.phrases import EPOCH, STEP
from toposcope.logs.places import placed
from toposcope.logs.records import HELD, NOT_A_NUMBER, PLACED, Record, number

PLACES = ("step", "epoch")
LOSSES = ("loss", "heldout_loss")
GROUPS = (*PLACES, *LOSSES, "learning_rate", "grad_norm")
"""The named groups of a pattern; a further group becomes a column of its name."""
_LONGEST = 4096
_UNWATCHED = 512
"""Characters of a line that are searched where no timer can end the search."""
_LOOKED_AT = 2000
_NUMBER = re.compile(r"(?<![\w.-])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?(?!\w|\.\d)")
_CLOCK = re.compile(r"\d+(?:[-/]\d+[-/]\d+|:\d+(?::\d+)?)[\d.,]*")
"""A date or a time, which is none of the numbers of training."""
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
_WIDEST = 48
"""A text between two numbers is taken literally up to this length."""
_FLOAT = r"[-+\d.,eEnaif]+"


def dialect_of_pattern(pattern: str) -> TextDialect:
    """Return the dialect whose lines a regular expression matches.

    Raises
    ------
    InputError
        When it does not compile, has no group for a step or for a loss, or may search without end.
    """
    searched = _Searched(_compiled(pattern))

    def records(lines: Iterable[str]) -> Iterator[Record]:
        for line in lines:
            if match := searched.search(line):
                values = {name: number(text) for name, text in match.groupdict().items() if text is not None}
                places = {PLACED + kind: values.pop(kind) for kind in (STEP, EPOCH) if kind in values}
                if values and "loss" not in values:
                    places[HELD] = 1.0
                elif values.get("loss", 0.0) != values.get("loss", 0.0):
                    places[NOT_A_NUMBER] = 1.0
                yield {**values, **places}

    return TextDialect("the pattern", ("",), searched, records, placed)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise InputError(
            f"it is no regular expression ({error})", argument="pattern", value=pattern[:200],
            remedy="write for example 'step (?P<step>\\d+) loss (?P<loss>\\S+)'",
        ) from error  # fmt: skip
    for wanted, example in ((PLACES, r"(?P<step>\d+)"), (LOSSES, r"(?P<loss>[-+\d.eE]+)")):
        if not any(name in compiled.groupindex for name in wanted):
            raise InputError(
                f"it has no group {' or '.join(wanted)}", argument="pattern", value=pattern[:200],
                remedy=f"write {example} where this number stands",
            )  # fmt: skip
    from toposcope.core.expressions import is_endless

    if is_endless(pattern):
        raise InputError(
            "a repetition within a repetition may search without end", argument="pattern",
            value=pattern[:200], remedy=r"write for example \S+ or [\d.]+ in its place",
        )  # fmt: skip
    return compiled


@dataclass(frozen=True, slots=True)
class _Searched:
    """An expression that searches a line for at most two seconds."""

    compiled: re.Pattern[str]

    def search(self, line: str) -> re.Match[str] | None:
        """Search a line; where no timer can end the search, only its first characters."""
        if len(line) <= _UNWATCHED:
            return self.compiled.search(line)
        from toposcope.core.expressions import has_timer, limited

        if not has_timer():
            return self.compiled.search(line[:_UNWATCHED])
        with limited(self.compiled.pattern, "pattern", "one line"):
            return self.compiled.search(line[:_LONGEST])


def offered(lines: Iterable[str]) -> tuple[str, str]:
    r"""Return the first line of a text with numbers, and a pattern that reads it; "" where there is none.

    Of the lines with two numbers, those of the most frequent shape count, because a log repeats one. A
    pattern is offered only where the number that it takes as the step rises, and the one that it takes as the
    loss varies.

    >>> offered(["version 2", "it=100/5000 L=2.310 lr=1e-3", "it=200/5000 L=2.250 lr=1e-3"])
    ('it=100/5000 L=2.310 lr=1e-3', 'it=(?P<step>[\\d,]+)/[\\d.]+\\s+L=(?P<loss>[-+\\d.,eEnaif]+)')
    >>> offered(["Linear(in=64, out=8)", "Linear(in=64, out=16)"])
    ('Linear(in=64, out=8)', '')
    """
    lines_by_shape: dict[str, list[str]] = {}
    for line in islice(lines, _LOOKED_AT):
        short = line[:_LONGEST].strip()
        if len(_NUMBER.findall(_without_clock(short))) > 1:
            lines_by_shape.setdefault(re.sub(r"[\d.,]+", "0", short), []).append(short)
    for alike in sorted(lines_by_shape.values(), key=len, reverse=True)[:8]:
        if (pattern := _pattern_of(alike[0])) and _is_training(pattern, alike):
            return alike[0], pattern
    return next((alike[0] for alike in lines_by_shape.values()), ""), ""


def _is_training(pattern: str, alike: Sequence[str]) -> bool:
    """Return whether the step rises and the loss varies over lines of one shape, as a pattern reads them."""
    matches = [match for line in alike if (match := re.search(pattern, line))]
    steps = [number(match["step"]) for match in matches]
    rises = sum(after > before for before, after in pairwise(steps))
    return 2 * rises > len(steps) - 1 and len({match["loss"] for match in matches}) > 1


def _pattern_of(line: str) -> str:
    """Return a pattern for the step and the loss of a line; empty where it has no two such numbers."""
    numbers = list(_NUMBER.finditer(_without_clock(line)))
    whole = [match for match in numbers if match[0].lstrip("+").replace(",", "").isdigit()]
    parts = [match for match in numbers if "." in match[0]] or whole[1:]
    if not whole:
        return ""
    step = next(
        (match for match in whole if _named(line, match, "step|iter|epoch|update|it|batch")), whole[0]
    )
    others = [match for match in parts if match is not step and not _TIME.match(line, match.end())]
    if not others:
        return ""
    loss = next((match for match in others if _named(line, match, "loss|cost|nll|xent|l")), others[0])
    first, second = sorted(
        [(step, r"(?P<step>[\d,]+)"), (loss, f"(?P<loss>{_FLOAT})")], key=lambda part: part[0].start()
    )
    between = line[first[0].end() : second[0].start()]
    middle = _literal(between) if len(between) <= _WIDEST else f".*?{_literal(_word(between))}"
    before = _word(line[: first[0].start()])
    start = _literal(before) if before.strip() else r"^\s*"
    after = "," if line[second[0].end() :].startswith(",") else ""  # a comma may belong to a number
    pattern = f"{start}{first[1]}{middle}{second[1]}{after}"
    match = re.search(pattern, line)
    return pattern if match and match["step"] == step[0] and match["loss"] == loss[0] else ""


_TIME = re.compile(r"\s?(?:ms|s|secs?|seconds?|mins?|minutes?|h|hours?)\b|%")
"""What follows a number that is no loss: `Cost: 715.7 sec`."""


def _without_clock(line: str) -> str:
    return _CLOCK.sub(lambda match: "\0" * len(match[0]), line)


def _named(line: str, match: re.Match[str], words: str) -> bool:
    """Return whether one of some words stands right before a number."""
    return (
        re.search(rf"(?<![A-Za-z])(?:\w*_)?(?:{words})[^\w]{{0,4}}$", line[: match.start()], re.IGNORECASE)
        is not None
    )


def _word(text: str) -> str:
    """Return the last word of a text and what follows it."""
    match = re.search(r"[^\s\d]{1,24}\s{0,4}$", text)
    return match[0] if match else ""


def _literal(text: str) -> str:
    """Return a text as an expression that also matches other numbers, and other widths, in it."""
    if not text:
        return ""
    pattern = _SPECIAL.sub(lambda match: "\\" + match[0], text)
    pattern = re.sub(r"\d+(?:\\\.\d+)?", lambda match: r"[\d.]+", pattern)
    return re.sub(r"\s+", lambda _: r"\s+", pattern)
