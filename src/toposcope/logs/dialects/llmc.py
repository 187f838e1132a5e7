"""llm.c: `step 10/1000 | loss 10.9 (+nanz)| norm 5.2 (+nanz)| lr 1.0e-05`, `val loss 5.1`, and main.log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from toposcope.logs.dialects.dialect import TextDialect
from toposcope.logs.dialects.pairs import NUMBER, STEP, pairs
from toposcope.logs.records import PLANNED, Record, number

_LINE = re.compile(rf"\bstep\s+({STEP})\s*/\s*({STEP})\s*\|(.*)")
_PAIR = re.compile(rf"(?:^|\|)\s*(?P<name>[A-Za-z][\w ./-]{{0,40}}?)\s+(?P<number>{NUMBER})(?=[\s(|]|$)")
_VAL = re.compile(rf"^\s*val loss:? ({NUMBER})\s*$")
_MAIN = re.compile(rf"^s:({STEP}) (tel|trl|lr|norm|eval):({NUMBER})(?:\s+(.*))?$")
_MAIN_PAIR = re.compile(rf"(?<!\S)(?P<name>trl|lr|norm):(?P<number>{NUMBER})(?!\S)")
_MAIN_NAMES = {"tel": "val loss", "trl": "train loss", "eval": "hellaswag"}


def records(lines: Iterable[str]) -> Iterator[Record]:
    """Yield the numbers of each step line; a validation belongs to the step before it."""
    step = 0.0
    for line in lines:
        if line.startswith("| Parameter"):
            step = 0.0  # the table printed before training
        elif match := _LINE.search(line):
            step = float(match[1])
            yield {"step": step, **pairs(match[3], _PAIR), PLANNED: float(match[2])}
        elif match := _VAL.search(line):
            yield {"step": step, "val loss": number(match[1])}
        elif match := _MAIN.search(line):
            more = pairs(match[4] or "", _MAIN_PAIR)
            values = {match[2]: number(match[3]), **more}
            yield {"step": float(match[1])} | {_MAIN_NAMES.get(name, name): v for name, v in values.items()}


DIALECT = TextDialect(
    "llm.c", ("step", "s:"),
    re.compile(rf"\bstep\s+{STEP}\s*/\s*{STEP}\s*\|\s*(?:train )?loss|^s:{STEP} (?:tel|trl):"), records,
)  # fmt: skip
