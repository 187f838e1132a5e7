"""nanoGPT: `iter 100: loss 4.23, time 123.45ms, mfu 12.34%` and `step 250: train loss 4.1, val loss 4.2`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from toposcope.logs.dialects.dialect import TextDialect
from toposcope.logs.dialects.pairs import NUMBER, STEP
from toposcope.logs.records import Record, number

_ITER = re.compile(rf"\biter ({STEP}): loss ({NUMBER})(?:, time ({NUMBER})ms)?(?:, mfu ({NUMBER})%)?")
_EVAL = re.compile(rf"\b(?:step|iter) ({STEP}): train(?: loss)? ({NUMBER}),? val(?: loss)? ({NUMBER})")
_NAMES = ("loss", "milliseconds", "mfu")


def records(lines: Iterable[str]) -> Iterator[Record]:
    """Yield the numbers of each line of an iteration, or of an evaluation before one."""
    for line in lines:
        if "loss" not in line and " val " not in line:
            continue
        if match := _ITER.search(line):
            values = zip(_NAMES, match.groups()[1:], strict=True)
            yield {"iter": float(match[1]), **{name: number(text) for name, text in values if text}}
        elif match := _EVAL.search(line):
            yield {"iter": float(match[1]), "train loss": number(match[2]), "val loss": number(match[3])}


DIALECT = TextDialect("nanoGPT", ("loss",), re.compile(_ITER.pattern), records)
