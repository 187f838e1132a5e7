"""OLMo and OLMo-core: a line `[step=10/1000,epoch=1]`, then one for each number, `    train/CE loss=10.3`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from toposcope.logs.dialects.dialect import TextDialect
from toposcope.logs.dialects.pairs import NUMBER, STEP
from toposcope.logs.records import PLANNED, Record, number

_HEAD = re.compile(rf"\[(?:[^\]]*,\s*)?step=({STEP})(?:/({STEP}))?[,\]]")
_HEAD_ENDS = 1024
"""The step is within this many first characters of a line."""
_NUMBER = re.compile(rf"^\s+([A-Za-z][^=]{{0,120}}?)=({NUMBER})%?(?:\s|$)")


def records(lines: Iterable[str]) -> Iterator[Record]:
    """Yield the numbers below each line with a step."""
    record: dict[str, float] = {}
    for line in lines:
        if "step=" in line and (match := _HEAD.search(line[:_HEAD_ENDS])):
            if len(record) > 1:
                yield record
            record = {"step": float(match[1])} | ({PLANNED: float(match[2])} if match[2] else {})
        elif record:
            if "=" in line and (match := _NUMBER.search(line.rpartition("\t")[2])):
                record[match[1].strip()] = number(match[2])
            elif len(record) > 1:
                yield record
                record = {}
    if len(record) > 1:
        yield record


DIALECT = TextDialect("OLMo", ("[step=", ",step=", ", step="), _HEAD, records)
