"""Boxes of names and numbers, as stable-baselines3 and OpenAI's loggers draw them: `| loss | 8.86 |`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from toposcope.logs.dialects.dialect import TextDialect, by_places
from toposcope.logs.dialects.pairs import NUMBER
from toposcope.logs.dialects.phrases import EPOCH, GLOBAL, LOSS, PLACE, STEP, phrase
from toposcope.logs.records import NOT_A_NUMBER, PLACED, Record, number

_ROW = re.compile(
    rf"^\s{{0,8}}\|\s{{0,40}}([A-Za-z][^|]{{0,60}}?)\s{{0,60}}\|\s{{0,40}}({NUMBER})?\s{{0,60}}\|\s{{0,8}}$"
)
_LOSS = re.compile(rf"^\s{{0,8}}\|[^|]{{0,80}}loss[^|]{{0,40}}\|\s{{0,40}}(?:{NUMBER})\s{{0,60}}\|\s{{0,8}}$")
_PLACES = (GLOBAL, STEP, PLACE, EPOCH)


def records(lines: Iterable[str]) -> Iterator[Record]:
    """Yield the numbers of each box that has a loss or a place in training."""
    box: dict[str, float] = {}
    for line in lines:
        if match := _ROW.match(line):
            if match[2]:
                box.setdefault(match[1].strip(), number(match[2]))
        elif box:
            yield from _record(box)
            box = {}
    yield from _record(box)


def _record(box: dict[str, float]) -> Iterator[Record]:
    values: dict[str, float] = {}
    for name, value in box.items():
        meant = phrase(name.rpartition("/")[2])
        if meant.kind in _PLACES:
            values.setdefault(PLACED + meant.kind, value)
        else:
            values[name] = value
            if meant.kind == LOSS and value != value:
                values[NOT_A_NUMBER] = 1.0
    if any(phrase(name.rpartition("/")[2]).kind == LOSS for name in box) or any(
        name.startswith(PLACED) for name in values
    ):
        yield values


DIALECT = TextDialect("boxes", ("|",), _LOSS, records, by_places)
