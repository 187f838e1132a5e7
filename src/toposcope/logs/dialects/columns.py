"""Columns of numbers in a text: two bare ones, `10 4.3094`, or several under names, as fastai prints them.

Two columns are the step and the loss, if the first is a whole number. More need a line with their names above
them, of which one is a step or an epoch and one a loss; between names stand two blanks, tabs or bars.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from toposcope.logs.dialects.dialect import TextDialect
from toposcope.logs.dialects.pairs import NUMBER, STEP
from toposcope.logs.dialects.phrases import EPOCH, GLOBAL, LOSS, phrase
from toposcope.logs.dialects.phrases import STEP as A_STEP
from toposcope.logs.records import Record, number

_TWO = re.compile(rf"^\s{{0,12}}({STEP})(?:\s{{1,12}}|\s?[,;]\s?)({NUMBER})\s{{0,12}}$")
_BETWEEN = re.compile(r"\s{0,40}\|\s{0,40}|\t{1,8} {0,40}|\s{2,80}")
_CELL = re.compile(rf"\s*(?:{NUMBER}|\d+:[\d:.]+)?\s*")
_ROW = re.compile(
    rf"^\s{{0,12}}\|?\s{{0,12}}{STEP}(?:\s{{0,40}}\||\t|\s{{2,80}})[\s|]{{0,40}}(?:{NUMBER})(?:[\s|][\d\s|.:,eE+naif-]*)?$"
)
_MOST = 4096


def records(lines: Iterable[str]) -> Iterator[Record]:
    """Yield the numbers of each row."""
    names: Sequence[str] = ()
    for line in lines:
        if len(line) > _MOST:
            continue
        if line[:64].lstrip(" |\t")[:1].isdigit():
            if names:
                if said := _row(line, names):
                    yield said
            elif found := _TWO.match(line):
                yield {"step": float(found[1]), "loss": number(found[2])}
        elif "oss" in line or "OSS" in line:
            names = _names(line) or names


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in _BETWEEN.split(line.strip().strip("|").strip())]


def _names(line: str) -> Sequence[str]:
    """Return the names of columns in a line; none if it has no step or no loss, or a number."""
    cells = _cells(line)
    kinds = [phrase(cell).kind for cell in cells if cell and len(cell) <= 64]
    places = [kind for kind in kinds if kind in (A_STEP, GLOBAL, EPOCH)]
    return cells if len(cells) > 1 and places and LOSS in kinds else ()


def _row(line: str, names: Sequence[str]) -> dict[str, float]:
    cells = _cells(line)
    if len(cells) != len(names) or not all(_CELL.fullmatch(cell) or cell in ("", "No log") for cell in cells):
        return {}
    said = {name: number(cell) for name, cell in zip(names, cells, strict=True) if name and _is_number(cell)}
    return said


def _is_number(cell: str) -> bool:
    return number(cell) == number(cell) or cell.lower() == "nan"


DIALECT = TextDialect("columns", ("",), re.compile(f"{_TWO.pattern}|{_ROW.pattern}"), records, general=True)
