"""transformers' Trainer as it prints: how it is recognised; `trainer_records` reads it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from toposcope.logs.dialects.dialect import TextDialect
from toposcope.logs.records import Record
from toposcope.logs.run import Run


def _records(lines: Iterable[str]) -> Iterator[Record]:
    from toposcope.logs.dialects._trainer_records import records

    return records(lines)


def _with_steps(run: Run) -> Run:
    from toposcope.logs.dialects._trainer_records import with_steps

    return with_steps(run)


DIALECT = TextDialect(
    "transformers",
    ("'loss'", "'eval_loss'"),
    re.compile(r"\{[^{}]*'(?:loss|eval_loss)'\s*:\s*'?[-+\dni]"),
    _records,
    _with_steps,
)
