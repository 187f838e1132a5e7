"""LitGPT: `Epoch 1 | iter 640 step 160 | loss train: 3.123, val: n/a | iter time: 120.00 ms (step)`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from toposcope.logs.dialects.dialect import TextDialect
from toposcope.logs.dialects.pairs import NUMBER, STEP
from toposcope.logs.records import Record, number

_LINE = re.compile(
    rf"\bEpoch ({STEP}) \| iter {STEP} step ({STEP}) \|\s*loss train: ({NUMBER}),[^|]*"
    rf"(?:\| iter time: ({NUMBER}) ms)?"
)
_VAL = re.compile(rf"\biter {STEP}: val loss ({NUMBER}), val time:")


def records(lines: Iterable[str]) -> Iterator[Record]:
    """Yield the numbers of each iteration line; the last micro-batch of a step counts.

    A validation names the micro-batch, not the step, so it is assigned to the step before it. The value after
    `val:` in every line repeats the last validation, so it is not read.
    """
    step = 0.0
    for line in lines:
        if match := _LINE.search(line):
            step = float(match[2])
            values = {"step": step, "epoch": number(match[1]), "loss": number(match[3])}
            yield values | ({"milliseconds": number(match[4])} if match[4] else {})
        elif match := _VAL.search(line):
            yield {"step": step, "val loss": number(match[1])}


DIALECT = TextDialect("LitGPT", ("loss",), re.compile(f"{_LINE.pattern}|{_VAL.pattern}"), records)
