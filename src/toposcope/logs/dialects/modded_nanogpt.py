"""modded-nanogpt and its descendants: `step:100/20000 train_loss:2.31 train_time:6ms step_avg:60ms`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from toposcope.logs.dialects.dialect import TextDialect
from toposcope.logs.dialects.pairs import NUMBER, STEP, pairs
from toposcope.logs.records import PLANNED, Record

_LINE = re.compile(rf"(?:^|[\s\])|])step:({STEP})/({STEP})\s+(\S.*)")
_PAIR = re.compile(rf"(?<!\S)(?P<name>[A-Za-z_][\w./]*):(?P<number>{NUMBER})(?P<unit>[A-Za-z%]*)(?!\S)")


def records(lines: Iterable[str]) -> Iterator[Record]:
    """Yield the numbers of each line with a step and the planned steps."""
    for line in lines:
        if "step:" in line and (match := _LINE.search(line)):
            values = pairs(match[3], _PAIR)
            if values:
                yield {"step": float(match[1]), **values, PLANNED: float(match[2])}


DIALECT = TextDialect(
    "modded-nanogpt", ("step:",), re.compile(_LINE.pattern.replace(r"(\S.*)", r".*loss:")), records
)
