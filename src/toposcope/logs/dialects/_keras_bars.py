"""Keras draws a bar again after each batch: only its last drawing is a record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_BAR = re.compile(r"^[\s\x08]{0,200}(\d{1,12})/(\d{1,12}) ?(?:\[[=>.]{3}|[━\u2500-\u257f]{3})")
"""A drawing of a bar, with the mean loss so far."""
_HEADING = re.compile(r"^\W{0,12}Epoch \d{1,9}/\d{1,9}\s{0,8}$")
_SAVES = re.compile(r"^\s{0,8}Epoch \d{1,9}: ")
"""What a callback prints between the last drawings of a bar: `Epoch 1: val_loss improved from inf to 0.2`."""
_MOST_BARS = 100_000


def whole_bars(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines with the last drawing of each bar of Keras; all drawings where no bar is full.

    >>> bars = ["Epoch 1/2", "5/9 [==>...] - ETA: 1s - loss: 3", "9/9 [====] - 2s - loss: 2", "Epoch 2/2"]
    >>> [line[:9] for line in whole_bars(bars)]
    ['Epoch 1/2', '9/9 [====', 'Epoch 2/2']
    """
    drawn: list[str] = []  # from the first drawing on, until a bar is full
    ended, last = False, ""
    headed, trained = False, False  # a bar that no epoch stands above, after others, is an evaluation
    lines = iter(lines)
    for line in lines:
        if not (drawn or last or "━" in line or "[" in line or "poch" in line):
            yield line
            continue
        match = _BAR.match(line) if "/" in line[:240] and ("[" in line or "━" in line) else None
        if match and match[1] == match[2] and " ETA:" not in line:
            if drawn:
                yield from (bar for bar in drawn if not _BAR.match(bar))
            drawn, ended = [], True
            last = line if headed or not trained else line.replace(" loss:", " test_loss:")
        elif match and ended:
            continue
        elif (match or drawn) and not ended:
            headed = headed or _HEADING.match(line) is not None
            drawn.append(line)
            if len(drawn) == _MOST_BARS:
                break
        else:
            if last and line.strip() and not _SAVES.match(line):
                yield last
                trained, headed, last = trained or headed, False, ""
            headed = headed or ("poch" in line and _HEADING.match(line) is not None)
            yield line
    yield from drawn
    if last:
        yield last
    yield from lines
