"""How numbers are printed: one cell at a time, a dash where there is none."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

Line = Mapping[Any, Any]
NONE = "–"


def minus(text: str) -> str:
    """Return the text of a number with real minus signs.

    >>> minus("-0.5 [-1, 2]")
    '−0.5 [−1, 2]'
    """
    return text.replace("-", "−")


def number(value: object, form: str) -> str:
    """Return a number in the given form, a dash for a missing one.

    >>> number(-1.234, "{:.2f}"), number(None, "{:.2f}")
    ('−1.23', '–')
    """
    return NONE if value is None or pd.isna(value) else minus(form.format(value))  # type: ignore[call-overload]


def probability(value: float) -> str:
    """Return a p-value to two figures, without the zero before the point.

    >>> probability(0.0078125), probability(1.0)
    ('.0078', '1')
    """
    return f"{value:.2g}".removeprefix("0") if value < 1 else "1"


def interval(line: Line, low: str, high: str, form: str) -> str:
    """Return "[low, high]" from two columns of a line, empty when either is missing."""
    a, b = number(line.get(low), form), number(line.get(high), form)
    return "" if NONE in (a, b) else f"[{a}, {b}]"


def step_text(step: float) -> str:
    """Return a step as written in sentences; an epoch may be fractional.

    >>> step_text(20000), step_text(0.25)
    ('20,000', '0.25')
    """
    return f"{int(step):,}" if float(step).is_integer() else f"{step:.10g}"


def whole(value: object) -> str:
    """Return an integer, "unknown" for a missing one."""
    text = number(value, "{:.0f}")
    return "unknown" if text == NONE else text


def plain(value: object) -> str:
    """Return a setting as text: lists separated by commas, floats without noise.

    >>> plain([1.0, 2.5]), plain("x"), plain([])
    ('1, 2.5', 'x', 'none')
    """
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(plain(item) for item in value) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def lag_cell(line: Line) -> str:
    """Return at which lag a relation was found: which moves first, and by how many checkpoints.

    >>> lag_cell({"r": 0.5, "lag": 2}), lag_cell({"r": 0.5, "lag": -1}), lag_cell({"r": 0.5, "lag": 0})
    ('2 before', '1 after', '0')
    """
    if number(line.get("r"), "{}") == NONE or number(line.get("lag"), "{}") == NONE:
        return NONE
    lag = int(line["lag"])
    return f"{abs(lag)} {'before' if lag > 0 else 'after'}" if lag else "0"


def trend_cell(line: Line, spec: str, form: str) -> str:
    """Return the cell of one column, or of an interval when `spec` names two columns."""
    if spec == "lag":
        return lag_cell(line)
    names = spec.split()
    return number(line[names[0]], form) if len(names) == 1 else interval(line, names[0], names[1], form)


def extent(values: Iterable[float]) -> list[float]:
    """Return the smallest and the largest finite value; empty where there is none.

    >>> extent([2.0, float("nan"), 1.0]), extent([])
    ([1.0, 2.0], [])
    """
    finite = [float(value) for value in values if value is not None and math.isfinite(value)]
    return [min(finite), max(finite)] if finite else []


def span(values: Sequence[float] | pd.Series, form: str) -> str:
    """Return one number, or the range when the smallest and largest differ as printed.

    >>> span([1.0, 2.0], "{:.0f}"), span([-0.5, 0.5], "{:+.1f}"), span([], "{:.0f}")
    ('1–2', '−0.5 to +0.5', '–')
    """
    if not len(values):
        return NONE
    low, high = form.format(min(values)), form.format(max(values))
    low, high = (re.sub("^-", "−", text) for text in (low, high))
    if low == high:
        return low
    return f"{low} to {high}" if "−" in low + high or "+" in low + high else f"{low}–{high}"


def listed(
    parts: Sequence[str], between: str = ", ", *, most: int | None = None, last: str = " and ",
    what: str = "more",
) -> str:  # fmt: skip
    """Return a list as a phrase; of more than `most` parts the first ones and a count of `what`.

    `last` stands before the last part of a whole list.

    >>> listed(["a", "b", "c"]), listed(["a", "b"], last=", "), listed(["a", "b", "c"], most=1)
    ('a, b and c', 'a, b', 'a and 2 more')
    >>> listed(["a", "b", "c"], "; ", most=2, last="; ", what="more run")
    'a; b; and 1 more run'
    """
    if most is not None and len(parts) > most:
        form = " and {}" if last in (", ", " and ") else last + "and {}"
        return between.join(parts[:most]) + and_more(len(parts) - most, what, form=form)
    return between.join(parts) if len(parts) < 2 else between.join(parts[:-1]) + last + parts[-1]


def and_more(count: int, what: str = "more", *, form: str = " and {}") -> str:
    """Return the end of a sentence about the first of several things; empty where no others are left.

    >>> and_more(1200), and_more(2, "more runs", form=" (and {})"), and_more(0)
    (' and 1,200 more', ' (and 2 more runs)', '')
    """
    return form.format(f"{count:,} {what}") if count > 0 else ""


def listed_steps(parts: Sequence[str], most: int | None = None) -> str:
    """Return steps, or stretches of them, as a phrase; of more than `most` the first ones and a count.

    Numbers with thousands separators are joined by semicolons: another comma would be ambiguous.

    >>> listed_steps(["0", "2", "4"]), listed_steps(["800", "900", "1,000"])
    ('0, 2 and 4', '800; 900 and 1,000')
    >>> listed_steps(["0", "2", "4", "6"], most=2)
    '0, 2 and 2 more'
    """
    if most is not None and len(parts) > most:
        parts = [*parts[:most], f"{len(parts) - most:,} more"]
    return listed(parts, "; " if any("," in part for part in parts) else ", ")


def capital(text: str, names: Iterable[str] = ()) -> str:
    """Return a sentence with a capital first letter; one that begins with one of the names is unchanged.

    `names` are what the user named, such as runs and columns: they are printed as they are written.

    >>> capital("neural persistence of MLPs"), capital("lr rose", ["lr"]), capital("lrs rose", ["lr"])
    ('Neural persistence of MLPs', 'lr rose', 'Lrs rose')
    """
    named = any(name and re.match(rf"{re.escape(name)}(?!\w)", text) for name in names)
    return text if named else text[:1].upper() + text[1:]


def sentences(clauses: Iterable[str]) -> str:
    """Return clauses as sentences, one after another.

    >>> sentences(["the interval is wide", "2 runs are left out"])
    'The interval is wide. 2 runs are left out.'
    """
    return " ".join(f"{capital(clause)}." for clause in clauses)


def too_few_checkpoints(count: int, least: int) -> str:
    """Return the reason why there are too few checkpoints.

    >>> too_few_checkpoints(1, 4)
    '1 checkpoint: at least 4 are needed'
    """
    return f"{count:,} checkpoint{'s' * (count != 1)}: at least {least} are needed"


_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def counted(number: int) -> str:
    """Return a small number in words.

    >>> counted(5), counted(11)
    ('five', '11')
    """
    return _WORDS[number] if 0 <= number < len(_WORDS) else f"{number:,}"


def size(count: float) -> str:
    """Return a number of bytes in words.

    >>> size(2_500_000), size(3.2e10)
    ('2.5 MB', '32.0 GB')
    """
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def loss(value: float) -> str:
    """Return a loss or a perplexity as written in a sentence.

    >>> loss(2.7), loss(12345.6), loss(0.00123)
    ('2.70', '12,346', '0.0012')
    """
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return minus(f"{value:#.3g}") if abs(value) >= 1e-2 else minus(f"{value:.2g}")


def near(final: float, low: float, high: float) -> tuple[str, str, str]:
    """Return a forecast's numbers with as many decimals as its interval justifies.

    >>> near(2.9531, 2.801, 3.102), near(2.9531, 2.9522, 2.954), near(2.9531, math.nan, math.nan)
    (('2.95', '2.80', '3.10'), ('2.9531', '2.9522', '2.9540'), ('2.953', 'nan', 'nan'))
    """
    width = high - low
    if not (math.isfinite(width) and width > 0):
        return f"{final:.4g}", f"{low:.4g}", f"{high:.4g}"
    decimals = min(max(1 - math.floor(math.log10(width)), 0), 6)
    return f"{final:.{decimals}f}", f"{low:.{decimals}f}", f"{high:.{decimals}f}"


def chance(level: float) -> str:
    """Return the level of an interval in words.

    >>> chance(0.9), chance(0.95)
    ('9 in 10', '95 in 100')
    """
    tenths = round(10 * level, 6)
    return f"{tenths:.0f} in 10" if tenths == int(tenths) else f"{100 * level:g} in 100"
