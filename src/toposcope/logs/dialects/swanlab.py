"""Local runs of SwanLab: run-ID.swanlab, read without SwanLab (0.8 and later).

The file has the blocks of W&B's (`wandb.records_of`). Each record is a protocol buffer, of which the run (10)
and a scalar (13) are decoded: the run's name = 4; a scalar's key = 1, step = 2, value = 5, its number = 1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Blob
from toposcope.files.events import fields_of
from toposcope.logs.dialects.dialect import SWANLAB
from toposcope.logs.dialects.wandb import records_of
from toposcope.logs.records import collected
from toposcope.logs.run import Run

_RUN, _SCALAR = 10, 13
_VALUE = struct.Struct("<d")


def runs(blob: Blob) -> Sequence[Run]:
    """Return the run of a file; the numbers of one step, which are a record each, are one row."""
    name = ""
    rows: dict[int, dict[str, float]] = {}
    try:
        for record in records_of(blob, SWANLAB, "a run of SwanLab"):
            for number, content in fields_of(record):
                if number == _RUN and isinstance(content, bytes):
                    name = _text(dict(fields_of(content)).get(4))
                elif number == _SCALAR and isinstance(content, bytes):
                    for step, key, value in _scalar(content):
                        rows.setdefault(step, {"step": float(step)})[key] = value
    except (IndexError, TypeError, ValueError, struct.error) as error:
        if isinstance(error, SourceError):
            raise
        raise SourceError(
            f"{blob.label}: is not a valid file of SwanLab ({str(error)[:80]}); fetch it again"
        ) from error
    return [Run(name, collected(rows.values(), blob.label))]


def _scalar(content: bytes) -> Iterator[tuple[int, str, float]]:
    fields = dict(fields_of(content))
    value = dict(fields_of(fields[5])).get(1) if isinstance(fields.get(5), bytes) else None
    if isinstance(value, bytes) and len(value) == _VALUE.size:
        yield int(fields.get(2, 0)), _text(fields.get(1)), _VALUE.unpack(value)[0]


def _text(content: object) -> str:
    return content.decode("utf-8", "replace") if isinstance(content, bytes) else ""
