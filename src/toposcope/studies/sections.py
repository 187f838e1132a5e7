"""A study's result as sections, each a heading, a table and a note; printed, as Markdown or as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


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


_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 0 auto; max-width: 72rem; padding: 1.2rem; font: 1rem/1.5 system-ui, sans-serif; }}
h1 {{ font-size: 1.6rem; }} h2 {{ font-size: 1.2rem; margin: 2rem 0 .5rem; }}
.scroll {{ overflow-x: auto; }} p {{ max-width: 50rem; }}
table {{ border-collapse: collapse; font-size: .92rem; }}
th, td {{ text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; }}
tr {{ border-bottom: 1px solid #8884; }}
</style></head>
<body><main>
<h1>{title}</h1>
{sections}
</main></body></html>
"""
"""A page without scripts and without other files, for light and dark screens."""


def page(title: str, sections: Sequence[Section]) -> str:
    """Return a whole study as one self-contained HTML page, its claims first.

    >>> one = Section("T", ("a",), (("x < y",),), "Why.")
    >>> "<td>x &lt; y</td>" in page("P", [one])
    True
    """
    return _PAGE.format(title=escape(title), sections="\n".join(map(_as_html, sections)))


def _as_html(section: Section) -> str:
    head = "".join(f"<th scope='col'>{escape(name)}</th>" for name in section.columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell(value))}</td>" for value in row) + "</tr>" for row in section.rows
    )
    note = f"<p>{escape(section.note)}</p>" if section.note else ""
    table = f"<div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    return f"<section><h2>{escape(section.title)}</h2>{table}{note}</section>"


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
