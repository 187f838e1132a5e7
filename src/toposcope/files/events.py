"""TensorBoard event files as rows, read without TensorBoard.

A file is a row of records (length, checksum, protocol buffer `Event`, checksum); only the scalars' few
fields are decoded: event.step = 2, event.summary = 5, summary.value = 1, value.tag = 1,
value.simple_value = 2, value.tensor = 8, tensor.float_val = 5 and tensor.tensor_content = 4.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from toposcope.core.errors import SourceError
from toposcope.files.blobs import MAX_SMALL_FILE, Blob

_LONGEST_FIRST = 1 << 16
"""The first record of an event file names its version, in a few dozen bytes."""


def event_rows(blob: Blob) -> list[dict[str, Any]]:
    """Return the scalars of each step by their tags, with the `step`."""
    if blob.size > MAX_SMALL_FILE:
        raise SourceError(
            f"{blob.label}: {blob.size:,} bytes is too large for an event file; export its scalars as CSV"
        )
    data = blob.read(0, blob.size).tobytes()
    rows: dict[int, dict[str, Any]] = {}
    try:
        for event in _records(data):
            fields = dict(fields_of(event))
            step = fields.get(2, 0)
            for tag, value in _scalars(fields.get(5, b"")):
                rows.setdefault(int(step), {"step": int(step)})[tag] = value
    except (struct.error, IndexError, UnicodeDecodeError, TypeError, AttributeError, ValueError) as error:
        raise SourceError(f"{blob.label}: is not a valid event file ({error}); fetch it again") from error
    return list(rows.values())


def _records(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + 16 <= len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        if length > len(data) - at - 16:
            if not at and length > _LONGEST_FIRST:
                raise IndexError(f"a first record of {length:,} bytes")
            return  # the last record of a live file may be unfinished
        yield data[at + 12 : at + 12 + length]
        at += 16 + length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise IndexError("a number that does not end")


def fields_of(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the numbered fields of a protocol-buffer message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            yield key >> 3, data[at : at + size]
            at += size
        elif kind == 2:
            size, at = _varint(data, at)
            if size > len(data) - at:
                raise IndexError("a field beyond the end")
            yield key >> 3, data[at : at + size]
            at += size
        else:
            raise IndexError(f"a field of kind {kind}")


def _scalars(summary: bytes) -> Iterator[tuple[str, float]]:
    for number, content in fields_of(summary):
        if number != 1:
            continue
        value = dict(fields_of(content))
        tag = value.get(1, b"").decode("utf-8")
        packed = value.get(2)
        if packed is None and 8 in value:
            tensor = dict(fields_of(value[8]))
            packed = tensor.get(5) or tensor.get(4)
        if tag and isinstance(packed, bytes) and len(packed) == 4:
            yield tag, struct.unpack("<f", packed)[0]
