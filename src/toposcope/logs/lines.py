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
ZEROS = 8
"""So many zero bytes in a row are a block that a disk lost; the lines that it hit are left out."""
_BLOCK = re.compile(rb"\0{%d,}" % ZEROS)
_CONTROLS = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f]")
_MOST_CONTROLS = 0.01
"""A text among zero bytes has at most this share of control characters."""
CUT = "the packed file is cut short: the rest of it is missing"
HIT = "a block of zero bytes and the lines that it hit are left out"


def head_of(blob: Blob) -> bytes:
    """Return the first bytes of a file, decompressed if it is gzipped, after a block of zero bytes."""
    with _binary(blob) as file:
        head = _read(file, HEAD, blob.label)
        if head.strip(b"\0"):
            return head
        return _read(file, PIECE, blob.label).lstrip(b"\0")[:HEAD] or head


def is_text(head: bytes) -> bool:
    """Return whether bytes begin a text: no zero bytes, except in UTF-16, or as a block amid a text.

    >>> is_text(b"step:1/10"), is_text(bytes([0, 1, 2])), is_text("step 1, loss".encode("utf-16-le"))
    (True, False, True)
    """
    if b"\0" not in head or coding_of(head).startswith("utf-16"):
        return True
    rest = _BLOCK.sub(b"", head)
    return bool(rest) and b"\0" not in rest and len(_CONTROLS.findall(rest)) <= _MOST_CONTROLS * len(rest)


def coding_of(head: bytes) -> str:
    """Return the encoding of a text by its mark, or by the zero bytes of UTF-16 without one.

    >>> coding_of(b"step"), coding_of("step 1 loss 2".encode("utf-16-be"))
    ('utf-8', 'utf-16-be')
    """
    if marked := next((name for mark, name in _MARKS if head.startswith(mark)), ""):
        return marked
    pairs = head[: len(head) // 2 * 2]
    even, odd = pairs[::2], pairs[1::2]
    if b"\0" in pairs and not _BLOCK.search(pairs):
        for name, full, zero in (("utf-16-le", even, odd), ("utf-16-be", odd, even)):
            if 2 * zero.count(0) > len(zero) and not full.count(0) and not _CONTROLS.search(full):
                return name
    return "utf-8"


def text_of(head: bytes) -> str:
    """Return the first bytes of a file as a text."""
    return head.decode(coding_of(head), errors="ignore")


def whole_text(blob: Blob, most: int, notes: list[str] | None = None) -> str:
    """Return the content of a text file, gzipped or not, of at most `most` bytes.

    `notes` takes what is missing.

    Raises
    ------
    SourceError
        When it is larger, or is not UTF-8 text.
    """
    with _binary(blob) as file:
        data = _read(file, most + 1, blob.label, notes)
    if len(data) > most:
        raise SourceError(
            f"{blob.label}: more than {most >> 20} MiB is too large for a table; keep fewer columns"
        )
    coding = coding_of(data[:HEAD])
    try:
        return data.decode(coding)
    except UnicodeDecodeError as error:
        if error.start >= len(data) - 3:  # cut within a letter
            return data[: error.start].decode(coding)
        raise SourceError(
            f"{blob.label}: is not UTF-8 text (byte {error.start}); save it as UTF-8"
        ) from error


def lines(blob: Blob, notes: list[str] | None = None) -> Iterator[str]:
    """Yield the lines of a text file without colour codes and line ends, cut at `LONGEST` characters.

    Lines that a block of zero bytes hit are left out. `notes` takes what is missing.
    """
    with _binary(blob) as file:
        first = _read(file, PIECE, blob.label, notes)
        coding = coding_of(first[:HEAD])
        if coding == "utf-8" and not first.isascii():
            from toposcope.logs._encodings import coding_without_mark

            coding = coding_without_mark(first)
        decode = codecs.getincrementaldecoder(coding)(errors="replace").decode
        held = ""
        while first:
            text = held + decode(first)
            pieces = _BREAK.split(text) if "\r" in text else text.split("\n")
            held = pieces.pop()[:LONGEST]
            if "\0" in text or "\x1b" in text or max(map(len, pieces), default=0) > LONGEST:
                yield from (_plain(piece[:LONGEST], notes) for piece in pieces)
            else:
                yield from pieces
            first = _read(file, PIECE, blob.label, notes)
        if held:
            yield _plain(held, notes)


def _plain(line: str, notes: list[str] | None = None) -> str:
    if "\0" in line:
        if "\0" * ZEROS in line:
            if notes is not None and HIT not in notes:
                notes.append(HIT)
            return ""
        line = line.replace("\0", "")
    return _COLOURS.sub("", line) if "\x1b" in line else line


def _binary(blob: Blob) -> io.BufferedIOBase:
    file = stream(blob)
    packed = blob.size >= 2 and blob.read(0, 2).tobytes() == _GZIP
    return gzip.GzipFile(fileobj=file) if packed else file


def _read(file: io.BufferedIOBase, size: int, label: str, notes: list[str] | None = None) -> bytes:
    """Return the next bytes; a packed file that is cut short counts as ended there, which `notes` says."""
    packed = isinstance(file, gzip.GzipFile)
    pieces: list[bytes] = []
    done = 0
    while done < size:
        try:
            # `read` of a packed file loses what it has unpacked before the cut; `read1` returns it
            piece = file.read1(size - done) if packed else file.read(size - done)
        except (EOFError, OSError, zlib.error) as error:
            if not packed or not (isinstance(error, EOFError) or file.tell()):
                raise SourceError(f"{label}: cannot be read ({str(error)[:80]}); fetch it again") from error
            if notes is not None and CUT not in notes:
                notes.append(CUT)
            break
        if not piece:
            break
        pieces.append(piece)
        done += len(piece)
    return b"".join(pieces)
