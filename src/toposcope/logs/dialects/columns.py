"""Columns of numbers in a text: two bare ones, `10 4.3094`, or several under names, as fastai prints them.

Two columns are the step and the loss, if the first is a whole number. More need a line with their names above
them, of which one is a step or an epoch and one a loss; between names stand two blanks, tabs, bars or commas.
A time may stand before the names and the rows, and a progress bar behind a row, as in YOLO's screens; there
`total` is the loss.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from toposcope.logs.dialects.dialect import TextDialect
from toposcope.logs.dialects.pairs import NUMBER, STEP
from toposcope.logs.dialects.phrases import EPOCH, GLOBAL, LOSS, PLACE, phrase
from toposcope.logs.dialects.phrases import STEP as A_STEP
from toposcope.logs.records import PLANNED, Record, number

_TWO = re.compile(rf"^\s{{0,12}}({STEP})(?:\s{{1,12}}|\s?[,;]\s?)({NUMBER})\s{{0,12}}$")
_TIME = r"(?:\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d\S{0,8}[\s|-]{0,3}(?:\[?[A-Z]{4,8}\]?:?)?[\s|-]{0,3})?"
"""What a logger writes before a line."""
_BEFORE = re.compile(rf"^{_TIME}")
_BETWEEN = re.compile(r"\s{0,40}\|\s{0,40}|\t{1,8} {0,40}|\s{2,80}")
_BAR = re.compile(r":\s{0,3}\d{1,3}%\|.*$")
_DRAWN = re.compile(r"^\s{0,8}\d{1,3}%\|[^|]{0,300}\|[^\[]{0,40}\[[^\]]{0,80}\]")
"""A bar behind a row, and one before it that had no text yet."""
_CELL = re.compile(rf"\s*(?:(?:{NUMBER})[smh%]?|\d+:[\d:.]+)?\s*")
_NOTE = r"(?:\s{1,4}(?:[*←<✓✔★⭐]|[(\[]?(?i:best|new best|saved)\b).{0,40})?"
"""What may stand behind a row: `← best`."""
_NOTED = re.compile(rf"(?<=[\d%s]){_NOTE}\s*$")
_OF = re.compile(r"(\d{1,12})/(\d{1,12})")
_MEMORY = re.compile(r"([\d.]{1,12})[GMK]")
_ROW = re.compile(
    rf"^{_TIME}\s{{0,12}}\|?\s{{0,12}}(?:{STEP}(?:/\d{{1,9}})?(?:\s{{0,40}}\||\t|\s{{2,80}})[\s|]{{0,40}}"
    rf"(?:{NUMBER})(?:[\s|/GM][\d\s|.:,eE+naifGMsmh%/-]*)?{_NOTE}(?::\s{{0,3}}\d{{1,3}}%\|.*)?|\d{{1,12}}(?:,{NUMBER}){{2,40}})$"
)
_MOST = 4096
_TOTAL = "total"


def records(lines: Iterable[str]) -> Iterator[Record]:
    """Yield the numbers of each row; of rows before a bar, which hold means so far, the last of an epoch."""
    names: Sequence[str] = ()
    drawn: dict[str, float] = {}
    for line in lines:
        if len(line) > _MOST:
            continue
        first = line[:64].lstrip(" |\t[")[:1]
        if names and "%|" in line:
            row = _row(line, names)
            if drawn and row and row[names[0]] != drawn[names[0]]:
                yield drawn
            drawn = row or drawn
        elif names and first.isdigit() and (row := _row(line, names)):
            yield row
        elif first.isdigit() and not names and (match := _TWO.match(line)):
            yield {"step": float(match[1]), "loss": number(match[2])}
        elif "oss" in line or "OSS" in line or _TOTAL in line:
            names = _names(line) or names
    if drawn:
        yield drawn


def _cells(line: str) -> list[str]:
    line = line[len(_BEFORE.match(line)[0]) :]  # type: ignore[index]  # it matches every text
    if "%|" in line:
        line = _BAR.sub("", _DRAWN.sub("", line))
    line = _NOTED.sub("", line)
    if " " not in line.strip() and line.count(",") > 1:
        return [cell.strip() for cell in line.split(",")]
    return [cell.strip() for cell in _BETWEEN.split(line.strip().strip("|").strip())]


def _names(line: str) -> Sequence[str]:
    """Return the names of columns in a line; none if it has no step or no loss, or a number."""
    cells = _cells(line)
    if len(cells) > 2 and not cells[0]:
        cells[0] = EPOCH  # pandas writes no name above the rows of Keras' history
    kinds = [phrase(cell).kind for cell in cells if cell and len(cell) <= 64]
    if LOSS not in kinds and _TOTAL in cells:
        cells = ["total_loss" if cell == _TOTAL else cell for cell in cells]
        kinds.append(LOSS)
    places = [kind for kind in kinds if kind in (A_STEP, GLOBAL, EPOCH)]
    return cells if len(cells) > 1 and places and LOSS in kinds else ()


def _row(line: str, names: Sequence[str]) -> dict[str, float]:
    cells = _cells(line)
    if len(cells) != len(names):
        return {}
    values: dict[str, float] = {}
    for name, cell in zip(names, cells, strict=True):
        kind = phrase(name).kind
        if kind in (A_STEP, GLOBAL, EPOCH, PLACE) and (match := _OF.fullmatch(cell)):
            cell = match[1]
            if kind != PLACE:
                values[PLANNED] = float(match[2])
        elif match := _MEMORY.fullmatch(cell):
            cell = match[1]
        elif not _CELL.fullmatch(cell) and cell not in ("", "No log"):
            return {}
        if name and _is_number(cell):
            values[name] = number(cell)
    return values


def _is_number(cell: str) -> bool:
    return number(cell) == number(cell) or cell.lower() == "nan"


DIALECT = TextDialect("columns", ("",), re.compile(f"{_TWO.pattern}|{_ROW.pattern}"), records, general=True)
