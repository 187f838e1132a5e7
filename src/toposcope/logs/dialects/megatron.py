"""Megatron-LM and GPT-NeoX: ` iteration 100/ 5000 | learning rate: 1.5E-04 | lm loss: 6.1E+00 | ...`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from toposcope.logs.dialects.dialect import TextDialect
from toposcope.logs.dialects.pairs import STEP
from toposcope.logs.records import PLANNED, Record, number

_LINE = re.compile(rf"\biteration\s+({STEP})\s*/\s*({STEP})\s*\|(.*)")
_VALIDATION = re.compile(rf"\bvalidation (?:loss|results) at iteration\s+({STEP})\b[^|]*\|(.*)")


def records(lines: Iterable[str]) -> Iterator[Record]:
    """Yield the numbers of each line of an iteration, or of a validation at one."""
    for line in lines:
        if "iteration" not in line:
            continue
        if match := _LINE.search(line):
            values = _pairs(match[3])
            yield {"iteration": float(match[1]), **values, PLANNED: float(match[2])}
        elif match := _VALIDATION.search(line):
            values = {f"validation {name}": value for name, value in _pairs(match[2]).items()}
            yield {"iteration": float(match[1]), **values}


def _pairs(text: str) -> dict[str, float]:
    """Return the name-number pairs between bars."""
    fields = (field.rpartition(":") for field in text.split("|"))
    return {name.strip(): number(value) for name, colon, value in fields if colon and _is_number(value)}


def _is_number(text: str) -> bool:
    return number(text) == number(text) or text.strip().lower() == "nan"


DIALECT = TextDialect(
    "Megatron-LM", ("iteration",), re.compile(_LINE.pattern.replace("(.*)", r".*loss:")), records
)
