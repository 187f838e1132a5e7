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

_UNIT = re.compile(r"\((1e[-+]?\d{1,2})\)$")
"""The unit of a column: `lr(1e-4):0.1` is a rate of 1e-5."""


def records(lines: Iterable[str]) -> Iterator[Record]:
    """Yield the numbers of each step line."""
    for line in lines:
        if "step:" in line and (match := _LINE.search(line)) and (values := pairs(match[2], _PAIR)):
            named = dict(_in_its_unit(name, value) for name, value in values.items() if name != "step")
            yield {"step": float(match[1])} | named


def _in_its_unit(name: str, value: float) -> tuple[str, float]:
    unit = _UNIT.search(name)
    return (name[: unit.start()], value * float(unit[1])) if unit else (name, value)


DIALECT = TextDialect("verl", ("step:",), re.compile(rf"(?:^|[\s)])step:{STEP} - [^\s:]+:\S"), records)
