"""Offline runs of W&B: run-ID.wandb, read without W&B.

The file is a log in blocks of 32 KiB (seven bytes of header, then records of checksum, length, type, data).
Each record is a protocol buffer `Record`, of which history (2), run (17) and their few fields are decoded:
HistoryRecord.item = 1, HistoryItem.key = 1, nested_key = 2, value_json = 16, HistoryRecord.step = 2, its
num = 1; RunRecord.run_id = 1, display_name = 8.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence

from toposcope.core.errors import SourceError
from toposcope.sources.blobs import Blob, stream
from toposcope.sources.events import fields_of
from toposcope.sources.logs.collect import RawRun, collected
from toposcope.sources.logs.dialect import FileDialect
from toposcope.sources.logs.json_text import flat

MAGIC = b":W&B"
# The format of W&B's DataStore: blocks of 32 KiB, a header of checksum, length and kind before each piece.
_BLOCK = 1 << 15
_HEADER = struct.Struct("<IHB")
# Kinds of pieces: a whole record, or its first, middle and last part.
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
# Field numbers of W&B's protobuf record: a history row, and the description of the run.
_HISTORY, _RUN = 2, 17
LARGEST = 1 << 26
"""Bytes of one record: a larger one holds pictures, no numbers."""


def _records(blob: Blob) -> Iterator[bytes]:
    """Yield the records; one that is cut short at the end of a live file is left out."""
    with stream(blob) as file:
        if not file.read(7).startswith(MAGIC):
            raise SourceError(f"{blob.label}: is not an offline W&B run; fetch it again")
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


def _run(blob: Blob) -> Sequence[RawRun]:
    name = ""

    def rows() -> Iterator[dict[str, float]]:
        nonlocal name
        for record in _records(blob):
            for number, content in fields_of(record):
                if number == _RUN and isinstance(content, bytes):
                    said = dict(fields_of(content))
                    named = said.get(8) or said.get(1) or b""
                    name = named.decode("utf-8", "replace") if isinstance(named, bytes) else ""
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
    return [RawRun(name, table)]


def _history(content: bytes) -> dict[str, float]:
    row: dict[str, float] = {}
    for number, item in fields_of(content):
        if number == 2 and isinstance(item, bytes):
            row["_step"] = float(dict(fields_of(item)).get(1, 0))
        elif number == 1 and isinstance(item, bytes):
            parts = list(fields_of(item))
            keys = [part.decode("utf-8", "replace") for which, part in parts if which in (1, 2)]
            text = next((part for which, part in parts if which == 16), b"")
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                continue
            row |= flat({"/".join(filter(None, keys)): value})
    return row


DIALECT = FileDialect("W&B", lambda name, head: name.endswith(".wandb") or head.startswith(MAGIC), _run)
