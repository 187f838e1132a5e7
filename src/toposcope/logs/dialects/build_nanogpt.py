"""build-nanogpt's `log.txt`: `250 train 3.212`, `250 val 3.4`, `250 hella 0.27`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from toposcope.logs.dialects.dialect import TextDialect
from toposcope.logs.dialects.pairs import NUMBER, STEP
from toposcope.logs.records import Record, number

_LINE = re.compile(rf"^\s*({STEP}) (train|val|hella) ({NUMBER})\s*$")
_NAMES = {"train": "train loss", "val": "val loss", "hella": "hellaswag"}


def records(lines: Iterable[str]) -> Iterator[Record]:
    """Yield the number of each line."""
    for line in lines:
        if match := _LINE.match(line):
            yield {"step": float(match[1]), _NAMES[match[2]]: number(match[3])}


DIALECT = TextDialect("build-nanogpt", (" train ", " val ", " hella "), _LINE, records)
