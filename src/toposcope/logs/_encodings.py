"""The encoding of a text whose bytes carry no mark and are not all ASCII."""

from __future__ import annotations

import re

_OTHERS = re.compile(rb"[\x80-\xff]+")


def coding_without_mark(data: bytes) -> str:
    """Return the encoding of a text that is not UTF-16: UTF-8, or what its other bytes are.

    Bytes that are no UTF-8 are Chinese (GB18030) where they stand in pairs, else West European (Latin-1). A
    few damaged ones among letters of UTF-8 change nothing.

    >>> coding_without_mark("损失 2.5".encode("gbk")), coding_without_mark("época 3".encode("latin-1"))
    ('gb18030', 'latin-1')
    >>> coding_without_mark("loss 2.5 ✓".encode() + bytes([0xE9])), coding_without_mark(b"loss 2.5")
    ('utf-8', 'utf-8')
    """
    if data.isascii():
        return "utf-8"
    text = data.decode("utf-8", errors="replace")
    damaged = text.count("\ufffd")
    if 2 * damaged <= sum(not letter.isascii() for letter in text):
        return "utf-8"
    others = _OTHERS.findall(data)
    pairs = sum(len(run) % 2 == 0 for run in others)
    return "gb18030" if 2 * pairs > len(others) else "latin-1"
