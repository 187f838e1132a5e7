"""Lines of a text file, read piece by piece: any size, any encoding, lines of bounded length."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Blob, stream

PIECE = 1 << 20
"""Characters to read at a time."""
LONGEST = 1 << 16
"""Characters of a line that are read at most: no trainer prints more before its loss."""
HEAD = 1 << 12
"""The number of bytes that identify the kind of a file."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_BREAK = re.compile(r"\r\n|[\n\r]")
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_GZIP = b"\x1f\x8b"


def head_of(blob: Blob) -> bytes:
    """Return the first bytes of a file, decompressed if it is gzipped."""
    if blob.read(0, min(2, blob.size)).tobytes() == _GZIP:
        with _binary(blob) as file:
            return _read(file, HEAD, blob.label)
    return blob.read(0, min(HEAD, blob.size)).tobytes()


def is_text(head: bytes) -> bool:
    """Return whether bytes begin a text: no zero byte, except in UTF-16 with a byte-order mark.

    >>> is_text(b"step:1/10"), is_text(bytes([0, 1, 2]))
    (True, False)
    """
    return b"\0" not in head or head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def whole_text(blob: Blob, most: int) -> str:
    """Return the content of a text file, gzipped or not, of at most `most` bytes.

    Raises
    ------
    SourceError
        When it is larger, or is not UTF-8 text.
    """
    with _binary(blob) as file:
        data = _read(file, most + 1, blob.label)
    if len(data) > most:
        raise SourceError(
            f"{blob.label}: more than {most >> 20} MiB is too large for a table; keep fewer columns"
        )
    coding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    try:
        return data.decode(coding)
    except UnicodeDecodeError as error:
        raise SourceError(
            f"{blob.label}: is not UTF-8 text (byte {error.start}); save it as UTF-8"
        ) from error


def lines(blob: Blob) -> Iterator[str]:
    """Yield the lines of a text file without colour codes and line ends, cut at `LONGEST` characters."""
    with _binary(blob) as file:
        first = _read(file, PIECE, blob.label)
        coding = next((name for mark, name in _MARKS if first.startswith(mark)), "utf-8")
        decode = codecs.getincrementaldecoder(coding)(errors="replace").decode
        held = ""
        while first:
            pieces = _BREAK.split(held + decode(first))
            held = pieces.pop()[:LONGEST]
            for piece in pieces:
                yield _plain(piece[:LONGEST])
            first = _read(file, PIECE, blob.label)
        if held:
            yield _plain(held)


def _plain(line: str) -> str:
    return _COLOURS.sub("", line) if "\x1b" in line else line


def _binary(blob: Blob) -> io.BufferedIOBase:
    file = stream(blob)
    packed = blob.size >= 2 and blob.read(0, 2).tobytes() == _GZIP
    return gzip.GzipFile(fileobj=file) if packed else file


def _read(file: io.BufferedIOBase, size: int, label: str) -> bytes:
    """Return the next bytes; a truncated gzip file counts as ended there."""
    try:
        return file.read(size)
    except EOFError:
        return b""
    except (OSError, zlib.error) as error:
        raise SourceError(f"{label}: cannot be read ({str(error)[:80]}); fetch it again") from error
