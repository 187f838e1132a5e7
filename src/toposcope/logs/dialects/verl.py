"""verl's console: `step:12 - train/loss:1.234 - train/lr:1e-05`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from toposcope.logs.dialects.dialect import TextDialect
from toposcope.logs.dialects.pairs import NUMBER, STEP, pairs
from toposcope.logs.records import Record

_LINE = re.compile(rf"(?:^|[\s)])step:({STEP}) - (.*)")
_PAIR = re.compile(
    rf"(?:^| - )(?P<name>[^\s:][^:]{{0,120}}?):(?:np\.\w+\()?(?P<number>{NUMBER})\)?(?= - |\s*$)"
)


def records(lines: Iterable[str]) -> Iterator[Record]:
    """Yield the numbers of each step line."""
    for line in lines:
        if "step:" in line and (found := _LINE.search(line)) and (said := pairs(found[2], _PAIR)):
            yield {"step": float(found[1])} | {n: v for n, v in said.items() if n != "step"}


DIALECT = TextDialect("verl", ("step:",), re.compile(rf"(?:^|[\s)])step:{STEP} - [^\s:]+:\S"), records)
