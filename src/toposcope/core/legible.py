"""Text from data as a reader may see it: what moves a cursor, hides or turns letters is written by its code.

A name in a checkpoint, a log or a store can hold any character: an escape sequence that colours or clears a
terminal, a mark that reverses the letters after it, half of a surrogate pair, which no file takes.
"""

from __future__ import annotations

import re
from typing import Any, TextIO, cast

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and newline
    "\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # unseen, and directions
    "\u2028\u2029"  # line ends that few programs know
    "\ud800-\udfff"  # halves of surrogate pairs
    "\U000e0000-\U000e007f]"  # tags
)


def legible(text: str) -> str:
    r"""Return a text with every character that no reader sees written as its number.

    >>> print(legible("seed\x1b[31m\u202e1"))
    seed\x1b[31m\u202e1
    """
    return _HIDDEN.sub(lambda match: _number(match[0]), text) if _HIDDEN.search(text) else text


def shown(value: object) -> object:
    """Return a value of a template: a text legibly, markup and everything else as it is."""
    return legible(value) if type(value) is str else value


def _number(letter: str) -> str:
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class LegibleStream:
    """A stream that writes text legibly; `stream` is what draws on a terminal by control characters."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write a text legibly; a return at its start stays, with which progress bars of libraries begin."""
        start = text[:1] if text[:1] == "\r" else ""
        return self.stream.write(start + legible(text[len(start) :]))

    def __getattr__(self, name: str) -> Any:
        """Return everything else from the stream itself."""
        return getattr(self.stream, name)


def drawn_on(stream: TextIO) -> TextIO:
    """Return the stream below a legible one, for what draws by control characters of our own."""
    return stream.stream if isinstance(stream, LegibleStream) else stream


def as_legible(stream: TextIO) -> TextIO:
    """Return a stream that writes legibly."""
    return cast("TextIO", LegibleStream(stream))
