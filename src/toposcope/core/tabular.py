"""A table ready to print: one class that goes to the terminal, Markdown, HTML and CSV."""

from __future__ import annotations

import math
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.core.legible import drawn_on, legible

if TYPE_CHECKING:
    import pandas as pd

ELSEWHERE = 200
"""Width of a table that is not printed to a terminal."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table ready to print.

    `groups` are headings over several columns: (text, number of columns). `frame` holds the unrounded
    numbers, which go into CSV files. In `grouped` tables the first
    column becomes a heading over its rows. A line is drawn in a terminal before the rows of `sections`.

    Examples
    --------
    >>> table = Table("runs", "Runs", "All of them.", ("run", "loss"), (("a", "2.1"), ("b", "1.9")))
    >>> print(table.markdown())
    | run | loss |
    | --- | --- |
    | a | 2.1 |
    | b | 1.9 |
    """

    name: str
    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    groups: tuple[tuple[str, int], ...] = ()
    frame: pd.DataFrame | None = None
    grouped: bool = False
    sections: tuple[int, ...] = ()

    def markdown(self) -> str:
        """Return the table in Markdown, markup in its cells taken literally."""
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        head, rule, *body = [
            "| " + " | ".join(escape_markdown(str(cell)) for cell in line) + " |" for line in lines
        ]
        return "\n".join([head, rule, *body])

    def html(self) -> str:
        """Return the table as an HTML element of its own, for a notebook."""
        from html import escape

        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in self.rows
        )
        return (
            f"<table><caption>{escape(self.title)}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )

    def csv(self, path: str | Path) -> None:
        """Write the unrounded numbers; the printed cells where there are none."""
        import pandas as pd

        frame = pd.DataFrame(self.rows, columns=list(self.columns)) if self.frame is None else self.frame
        write_csv(frame, path)

    def fits(self, width: int | None = None) -> bool:
        """Return whether the table has columns at this width; else `show` prints a block for each row."""
        width = width or shutil.get_terminal_size((ELSEWHERE, 24)).columns
        return _widths(self._legible(), width) is not None

    def _legible(self) -> list[list[str]]:
        return [[legible(cell) for cell in row] for row in (self.columns, *self.rows)]

    def show(self, *, width: int | None = None, compact: bool = False) -> None:
        """Print the table to the terminal, in its width, with every word of every cell whole.

        Cells are broken between words. Where not even that fits, each row is a block with a line for each of
        its cells. `compact` draws fewer rules.
        """
        width = width or shutil.get_terminal_size((ELSEWHERE, 24)).columns
        columns, *rows = self._legible()
        widths = _widths([columns, *rows], width)
        if widths is None:
            print("\n".join(self._blocks(width)))
            return
        from rich import box
        from rich.console import Console
        from rich.table import Table as Printed
        from rich.text import Text

        style = box.SIMPLE_HEAD if compact else box.HEAVY_HEAD
        title = textwrap.fill(self.title, width, break_on_hyphens=False, break_long_words=False)
        printed = Printed(box=style)
        for column, wide in zip(columns, widths, strict=True):
            printed.add_column(Text(column), overflow="fold", width=wide)
        for i, row in enumerate(rows, start=1):
            printed.add_row(*map(Text, row), end_section=i in self.sections)
        console = Console(file=drawn_on(sys.stdout), width=max(width, sum(widths) + _EDGES * len(widths) + 1))
        if title:
            console.print(Text(legible(title), style="bold"), soft_wrap=True)
        console.print(printed)

    def _blocks(self, width: int) -> Iterator[str]:
        """Yield the rows as blocks for a narrow terminal: the first cell, and a line for each other one."""
        fill = partial(textwrap.fill, width=max(width, 2), break_on_hyphens=False, break_long_words=False)
        if self.title:
            yield fill(self.title)
        for i, (first, *rest) in enumerate(self.rows, start=1):
            yield fill(f"{self.columns[0]} {first}")
            for name, text in zip(self.columns[1:], rest, strict=True):
                if text:
                    yield fill(f"{name} {text}", initial_indent="  ", subsequent_indent="    ")
            yield "-" * min(width, 8) if i in self.sections else ""


_EDGES = 3
"""Columns that a cell takes besides its text: a rule, and a blank on either side."""


def _widths(lines: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Return the widths of columns that fit, the widest made narrower first; None where a word does not fit.

    >>> cells = [("a", "two words"), ("long", "x")]
    >>> _widths(cells, 20), _widths(cells, 17), _widths(cells, 15)
    ([4, 9], [4, 6], None)
    """
    columns = list(zip(*lines, strict=True))
    wanted = [max(map(len, cells)) for cells in columns]
    least = [max((len(word) for cell in cells for word in cell.split()), default=0) for cells in columns]
    room = width - _EDGES * len(columns) - 1
    if sum(least) > room:
        return None
    for most in range(max(wanted, default=0), -1, -1):
        widths = [max(low, min(high, most)) for low, high in zip(least, wanted, strict=True)]
        if sum(widths) <= room:
            return widths
    return least


def of_cells(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Return a table of plain values: numbers to four significant figures, None as an empty cell."""
    return Table("", title, "", tuple(columns), tuple(tuple(map(cell, row)) for row in rows))


def cell(value: object) -> str:
    """Return the text of one value.

    >>> cell(None), cell(1.23456), cell(float("nan")), cell(12)
    ('', '1.235', '', '12')
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4g}"
    return str(value)


def escape_markdown(text: str) -> str:
    r"""Return text with what Markdown or HTML would read as markup taken literally.

    >>> print(escape_markdown("a|b <i> *c*"))
    a\|b &lt;i> \*c\*
    """
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    for sign in ("\\", "|", "*", "`", "[", "]"):
        text = text.replace(sign, "\\" + sign)
    return text


_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A cell that begins like this is a formula to a spreadsheet."""
_NUMBER = re.compile(r"[+-]?[\d.,]+(?:e[+-]?\d+)?%?(?: ?\[[-+\d.,e% ]*\])?|[+-]?(?:inf|nan)", re.I)


def guarded(text: str) -> str:
    """Return text as a cell that no spreadsheet runs as a formula; numbers stay numbers.

    >>> guarded("=1+1"), guarded("-1.5e-3"), guarded("-0.12 [-0.3, 0.1]"), guarded("-2+cmd")
    ("'=1+1", '-1.5e-3', '-0.12 [-0.3, 0.1]', "'-2+cmd")
    """
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text


def write_csv(frame: pd.DataFrame, path: str | Path) -> None:
    """Write a table as CSV whose texts no spreadsheet runs as formulas."""
    from toposcope.core.outputs import replacing

    guarded_frame = frame.rename(columns=lambda name: guarded(name) if isinstance(name, str) else name)
    for at in range(guarded_frame.shape[1]):
        column = guarded_frame.iloc[:, at]
        if column.dtype.kind not in "biufcmM":
            cells = column.astype(object).map(lambda cell: guarded(cell) if isinstance(cell, str) else cell)
            guarded_frame.isetitem(at, cells.to_numpy())
    with replacing(path) as aside:
        guarded_frame.to_csv(aside, index=False)
