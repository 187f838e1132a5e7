"""Offline runs of W&B: run-ID.wandb, read without W&B.

The file is a log in blocks of 32 KiB (seven bytes of header, then records of checksum, length, type, data).
Each record is a protocol buffer `Record`, of which history (2), config (5), run (17) and their few fields are
decoded: HistoryRecord.item = 1 and ConfigRecord.update = 1, with key = 1, nested_key = 2, value_json = 16;
HistoryRecord.step = 2, its num = 1; RunRecord.run_id = 1, config = 4, display_name = 8.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Blob, stream
from toposcope.files.configuration import stated_plan
from toposcope.files.events import fields_of
from toposcope.logs.dialects.dialect import WANDB
from toposcope.logs.dialects.json_text import flat
from toposcope.logs.dialects.tables import COUNTER
from toposcope.logs.records import PLANNED, collected
from toposcope.logs.run import Run

# The format of W&B's DataStore: blocks of 32 KiB, a header of checksum, length and kind before each piece.
_BLOCK = 1 << 15
_HEADER = struct.Struct("<IHB")
# Kinds of pieces: a whole record, or its first, middle and last part.
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
# Field numbers of W&B's protobuf record: a history row, a change of the config, the description of the run.
_HISTORY, _CONFIG, _RUN = 2, 5, 17
LARGEST = 1 << 26
"""The largest size of a record in bytes; larger ones hold images, not numbers."""


def records_of(blob: Blob, first: bytes, what: str) -> Iterator[bytes]:
    """Yield the records of a file that begins so; one that is cut short at the end of it is left out.

    Raises
    ------
    SourceError
        When the file, which should be `what`, is another or is damaged.
    """
    with stream(blob) as file:
        if not file.read(7).startswith(first):
            raise SourceError(f"{blob.label}: is not {what}; fetch it again")
        at, held = 7, bytearray()
        while True:
            left = _BLOCK - at % _BLOCK
            if left < _HEADER.size:
                at += len(file.read(left))
                continue
            head = file.read(_HEADER.size)
            if len(head) < _HEADER.size:
                return
            _, length, kind = _HEADER.unpack(head)
            data = file.read(length)
            at += _HEADER.size + len(data)
            if len(data) < length:
                return
            if kind in (_FULL, _FIRST):
                held = bytearray(data)
            elif kind in (_MIDDLE, _LAST) and len(held) + length <= LARGEST:
                held += data
            elif kind not in (0, _MIDDLE, _LAST):
                raise SourceError(f"{blob.label}: is damaged at byte {at}; fetch it again")
            if kind in (_FULL, _LAST):
                yield bytes(held)


def runs(blob: Blob) -> Sequence[Run]:
    """Return the run of a file; an unfinished last record is left out."""
    name = ""
    config: dict[str, Any] = {}

    def rows() -> Iterator[dict[str, float]]:
        nonlocal name
        for record in records_of(blob, WANDB, "an offline W&B run"):
            for number, content in fields_of(record):
                if number == _RUN and isinstance(content, bytes):
                    fields = dict(fields_of(content))
                    named = fields.get(8) or fields.get(1) or b""
                    name = named.decode("utf-8", "replace") if isinstance(named, bytes) else ""
                    config.update(_items(fields[4]) if isinstance(fields.get(4), bytes) else {})
                elif number == _CONFIG and isinstance(content, bytes):
                    config.update(_items(content))
                elif number == _HISTORY and isinstance(content, bytes):
                    yield _history(content)

    try:
        table = collected(rows(), blob.label)
    except (IndexError, TypeError, ValueError) as error:
        if isinstance(error, SourceError):
            raise
        raise SourceError(
            f"{blob.label}: is not a valid W&B file ({str(error)[:80]}); fetch it again"
        ) from error
    return [Run(name, table, stated_plan(config).get(PLANNED))]


def _history(content: bytes) -> dict[str, float]:
    step = dict(fields_of(content)).get(2)
    counted = {COUNTER: float(dict(fields_of(step)).get(1, 0))} if isinstance(step, bytes) else {}
    return counted | flat(_items(content))


def _items(content: bytes) -> dict[str, Any]:
    """Return the names and values of a history row or a config."""
    items: dict[str, Any] = {}
    for number, item in fields_of(content):
        if number == 1 and isinstance(item, bytes):
            parts = list(fields_of(item))
            keys = [part.decode("utf-8", "replace") for which, part in parts if which in (1, 2)]
            text = next((part for which, part in parts if which == 16), b"")
            try:
                items["/".join(filter(None, keys))] = json.loads(text)
            except (ValueError, RecursionError):
                continue
    return items
