"""A table ready to print: one class that goes to the terminal, Markdown, HTML and CSV."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pandas as pd

ELSEWHERE = 200
"""Width of a table that is not printed to a terminal."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table ready to print.

    `groups` are headings over several columns: (text, number of columns). `frame` holds the unrounded
    numbers, which go into CSV files. `folded` tables start closed on a page; in `grouped` ones the first
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
    folded: bool = False
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
        frame.to_csv(path, index=False)

    def show(self, *, width: int | None = None, compact: bool = False) -> None:
        """Print the table to the terminal, in its width; `compact` keeps every row on one line."""
        from rich import box
        from rich.console import Console
        from rich.table import Table as Printed

        style = box.SIMPLE_HEAD if compact else box.HEAVY_HEAD
        printed = Printed(title=self.title, title_justify="left", title_style="bold", box=style)
        for i, column in enumerate(self.columns):
            wanted = (
                None if i == 0 or not compact else max(map(len, (column, *(row[i] for row in self.rows))))
            )
            overflow: Literal["ellipsis", "fold"] = "ellipsis" if compact else "fold"
            printed.add_column(column, overflow=overflow, no_wrap=compact, min_width=wanted)
        for i, row in enumerate(self.rows, start=1):
            printed.add_row(*row, end_section=i in self.sections)
        console = Console()
        Console(width=width or (None if console.is_terminal else ELSEWHERE)).print(printed)


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
