"""torchtitan: `step: 10  loss: 7.1234  grad_norm: 1.2  memory: 9.6GiB(10%)  tps: 5,000  mfu: 9%`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from toposcope.logs.dialects.dialect import TextDialect
from toposcope.logs.dialects.pairs import NUMBER, STEP, pairs
from toposcope.logs.records import PLANNED, Record

_LINE = re.compile(rf"\b(validate )?step:\s*({STEP})\s\s+(.*)")
_PAIR = re.compile(
    rf"(?:^|\s)(?P<name>[A-Za-z_][\w/]*(?: [\w/]+)?):\s*(?P<number>{NUMBER})(?P<unit>[A-Za-z%]*)"
)
_PLAN = re.compile(rf"\btotal steps:?\s*({STEP})\b")


def records(lines: Iterable[str]) -> Iterator[Record]:
    """Yield the numbers of each step line; the line at the start of training has the planned steps."""
    planned: dict[str, float] = {}
    for line in lines:
        if "total steps" in line and (match := _PLAN.search(line)):
            planned = {PLANNED: float(match[1])}
        elif "step:" in line and (match := _LINE.search(line)):
            values = pairs(match[3], _PAIR)
            if match[1]:
                values = {f"validation {name}": value for name, value in values.items()}
            yield {"step": float(match[2]), **values, **planned}


DIALECT = TextDialect("torchtitan", ("step:",), re.compile(rf"\bstep:\s*{STEP}\s\s+.*\bloss:\s"), records)
