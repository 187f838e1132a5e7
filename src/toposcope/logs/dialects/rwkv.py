"""RWKV-LM's `train_log.txt`: `12 3.0328 20.7554 0.00060000 2024-01-01 00:00:00.000000 12`.

The numbers are the epoch, the loss, its perplexity and the learning rate; then come the time and the epoch of
the run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from toposcope.logs.dialects.dialect import TextDialect
from toposcope.logs.dialects.pairs import NUMBER, STEP
from toposcope.logs.records import Record, number

_LINE = re.compile(rf"^({STEP}) ({NUMBER}) ({NUMBER}) ({NUMBER}) \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d")


def records(lines: Iterable[str]) -> Iterator[Record]:
    """Yield the numbers of each line."""
    for line in lines:
        if match := _LINE.match(line):
            yield {
                "epoch": float(match[1]), "loss": number(match[2]), "perplexity": number(match[3]),
                "lr": number(match[4]),
            }  # fmt: skip


DIALECT = TextDialect("RWKV", ("-",), _LINE, records)
