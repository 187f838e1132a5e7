"""Notebooks: the tables of losses and the printed lines in the outputs of their cells."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Blob
from toposcope.files.formats.reader import parse_json
from toposcope.logs.dialects.table_head import looks_like_table
from toposcope.logs.dialects.table_text import table_of_text
from toposcope.logs.lines import whole_text
from toposcope.logs.run import Run

LARGEST = 1 << 28
"""Largest notebook, in bytes, that is read."""
_ROW = re.compile(r"<tr\b.*?</tr>", re.DOTALL | re.IGNORECASE)
_CELL = re.compile(r"<t[hd]\b[^>]*>(.*?)</t[hd]>", re.DOTALL | re.IGNORECASE)
_TABLE = re.compile(r"<table\b.*?</table>", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"<[^>]*>")
_PRINTED = re.compile(
    r"^epoch {2,12}train_loss\b[^\n]{0,200}\n(?:\d{1,9} {1,20}[\d.]+[^\n]{0,200}(?:\n|$))+", re.MULTILINE
)
_PLAN = re.compile(r"<progress\b[^>]*\bmax=['\"]?(\d{1,15})", re.IGNORECASE)


def outputs(blob: Blob) -> tuple[list[Run], str]:
    """Return a run for each table of losses in a notebook's outputs, and the text that its cells printed.

    Raises
    ------
    SourceError
        When it is no notebook.
    """
    content = parse_json(whole_text(blob, LARGEST), blob.label)
    cells = content.get("cells") if isinstance(content, dict) else None
    if not isinstance(cells, list):
        raise SourceError(f"{blob.label}: is not a notebook with cells; fetch it again")
    runs: list[Run] = []
    printed: list[str] = []
    for output in _outputs(cells):
        printed.append(_joined(output.get("text")))
        runs += _runs_of_columns(printed[-1])
        data = output.get("data")
        if isinstance(data, Mapping):
            runs += _runs_of_html(_joined(data.get("text/html")))
    return runs, "\n".join(filter(None, printed))


def _outputs(cells: list[Any]) -> Iterator[Mapping[str, Any]]:
    for cell in cells:
        cell_outputs = cell.get("outputs") if isinstance(cell, Mapping) else None
        yield from (output for output in cell_outputs or () if isinstance(output, Mapping))


def _joined(text: object) -> str:
    if isinstance(text, list):
        return "".join(piece for piece in text if isinstance(piece, str))
    return text if isinstance(text, str) else ""


def _runs_of_columns(text: str) -> list[Run]:
    """Return the runs of the tables that fastai prints: names two blanks apart, and rows below them."""
    runs = []
    for match in _PRINTED.finditer(text):
        rows = ["\t".join(row.split()) for row in match[0].strip().split("\n")]
        names = rows[0].split("\t")
        table = "\n".join("\t".join(row.split("\t")[: len(names)]) for row in rows) + "\n"
        if looks_like_table(table):
            notes: list[str] = []
            runs.append(Run("", table_of_text(table, notes), notes=tuple(notes)))
    return runs


def _runs_of_html(page: str) -> list[Run]:
    """Return the runs of the tables of an output; the bar above a table of steps states the plan."""
    plan = _PLAN.search(page)
    runs = []
    for table in _TABLE.findall(page):
        rows = [_CELL.findall(row) for row in _ROW.findall(table)]
        lines = ["\t".join(" ".join(html.unescape(_TAG.sub("", c)).split()) for c in row) for row in rows]
        text = "\n".join(line for line in lines if line) + "\n"
        if not looks_like_table(text):
            continue
        notes: list[str] = []
        try:
            run = Run("", table_of_text(text, notes), notes=tuple(notes))
        except ValueError:
            continue  # a damaged output
        counts_steps = lines[0].lower().startswith("step")
        runs.append(replace(run, planned_steps=int(plan[1])) if plan and counts_steps else run)
    return runs
