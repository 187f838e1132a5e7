"""A study's result as sections, each a heading, a table and a note; printed, as Markdown or as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """One table of a study. Cells are text, numbers, or None for an empty cell."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    note: str = ""

    def as_json(self) -> dict[str, object]:
        """Return the section as plain data: one object for each row."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"title": self.title, "note": self.note, "rows": rows}

    def as_markdown(self) -> str:
        """Return the section as a Markdown heading, table and note.

        >>> print(Section("T", ("a", "b"), ((1.25, None),), "Why.").as_markdown())
        ## T
        <BLANKLINE>
        | a | b |
        | --- | --- |
        | 1.25 |  |
        <BLANKLINE>
        Why.
        """
        lines = [f"## {self.title}", "", _row(self.columns), _row(["---"] * len(self.columns))]
        lines += [_row([cell(value) for value in row]) for row in self.rows]
        if self.note:
            lines += ["", self.note]
        return "\n".join(lines)


def markdown(title: str, sections: Sequence[Section]) -> str:
    """Return a whole study as one Markdown page."""
    return "\n\n".join([f"# {title}", *(section.as_markdown() for section in sections)]) + "\n"


def cell(value: object) -> str:
    """Return a cell's text: numbers to four significant digits, nothing for None and NaN.

    >>> cell(0.12345), cell(None), cell(129), cell("text")
    ('0.1235', '', '129', 'text')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(text).replace("|", "\\|") for text in cells) + " |"
