"""Whether a text begins a table: what stands between its columns, and whether names or numbers say so."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence

import numpy as np

from toposcope.logs.meanings import chosen, plain
from toposcope.logs.records import number

BLANKS = r"\s+"
_SEPARATORS = ",\t;|"
_COMMENT = ("#", "%", "//")
RULE = re.compile(r"^[\s|:+-]*$")
"""The line below the header of a table in Markdown."""
_LOOKED_AT = 5
"""This many lines decide whether a text is a table."""


def looks_like_table(head: str) -> bool:
    r"""Return whether a text begins with the names of a step and a loss and a row of numbers, or two columns.

    >>> looks_like_table("step\tloss\n10\t2.5\n"), looks_like_table("10 2.5\n20 2.4\n30 2.3\n")
    (True, True)
    >>> looks_like_table("step 10 loss 2.5\nstep 20 loss 2.4\n")
    False
    """
    body = without_comments(head.lstrip("\ufeff").replace("\r", "\n")).split("\n")
    lines = [line for line in body if line.strip() and not RULE.match(line)][:_LOOKED_AT]
    if len(lines) < 2:
        return False
    between = separator(lines[0], lines[1])
    names, values = fields_of(lines[0], between), fields_of(lines[1], between)
    if all(map(is_number, names)):
        if len(lines) < 3:
            return False
        two = are_two_columns([fields_of(line, between) for line in lines[:-1]])
        return two or bool(names_beside("\n".join(lines), between))
    meanings = chosen(names)
    named = any("loss" in plain(name) for name in names) and ("step" in meanings or between in "\t;")
    numbered = len(values) - len(names)  # R numbers the rows without a name for the column
    alike = len(names) > 1 and numbered in (0, 1) and not any(is_number(name) for name in names)
    if not (named and alike):
        return False
    if "step" not in meanings:  # the rows are counted
        rows = [fields_of(line, between) for line in lines[1:-1]]
        return (
            "loss" in meanings
            and len(rows) > 1
            and all(not field or is_number(field) for row in rows for field in row)
        )
    return is_number(values[names.index(str(meanings["step"])) + numbered].partition("/")[0])


def separator(header: str, row: str) -> str:
    r"""Return what stands between the columns of a header, given a row below it.

    >>> separator("step;loss", "1;2,5"), separator("step,my loss", "1,2"), separator("10 2.5", "")
    (';', ',', '\\s+')
    """
    between = max(_SEPARATORS, key=header.count)
    if not header.count(between):
        return BLANKS if len(header.split()) > 1 else ","
    if between == "," and ";" in row and not header.count(";"):  # 10;2,5 without a header
        return ";"
    return between


def fields_of(line: str, between: str) -> list[str]:
    """Return the fields of a line, without blanks and quotes around them."""
    if between == BLANKS:
        line = " ".join(line.split())
        return next(csv.reader([line], delimiter=" "), []) if '"' in line else line.split()
    if between == "|":
        line = line.strip().strip("|")
    parted = next(csv.reader([line], delimiter=between), []) if '"' in line else line.split(between)
    return [field.strip().strip("'\"").strip() for field in parted]


def is_number(text: str) -> bool:
    """Return whether a text is a number or a written NaN."""
    return number(text) == number(text) or text.strip().lower() == "nan"


def numbers_only(line: str, between: str) -> bool:
    """Return whether a line has two or more fields, all of them numbers."""
    fields = fields_of(line, between)
    return len(fields) > 1 and all(map(is_number, fields))


def are_two_columns(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether rows have two numbers each, the first of which is a step: whole, and rising."""
    if not all(len(row) == 2 and all(map(is_number, row)) for row in rows):
        return False
    steps = np.array([number(row[0]) for row in rows])
    return bool((steps == np.floor(steps)).all() and (np.diff(steps) > 0).all())


def names_beside(body: str, between: str) -> list[str]:
    """Return the names of three or more bare columns, of which one is sure to be the loss; or nothing."""
    rows = [fields_of(line, between) for line in body.split("\n") if line.strip()][:-1]
    count = len(rows[0]) if rows else 0
    if count < 3 or not all(len(row) == count and all(map(is_number, row)) for row in rows):
        return []
    from toposcope.logs.dialects._bare_columns import names_of

    return names_of(np.array([[number(field) for field in row] for row in rows]))


def without_comments(text: str) -> str:
    """Return a text without comments; the last one names rows of numbers below it if it has as many."""
    if not any(text.startswith(mark) or f"\n{mark}" in text for mark in _COMMENT):
        return text
    lines = text.split("\n")
    rows = [line for line in lines if not line.lstrip().startswith(_COMMENT)]
    first = next((line for line in rows if line.strip()), "")
    above = [line for line in lines[: lines.index(first)] if line.strip()] if first else []
    if above:
        names = above[-1].lstrip("#%/ \t")
        between = separator(names, first)
        if numbers_only(first, between) and len(fields_of(names, between)) == len(fields_of(first, between)):
            rows.insert(0, names)
    return "\n".join(rows)
