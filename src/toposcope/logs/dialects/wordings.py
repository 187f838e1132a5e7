"""Sentences about a loss in the form that `plain_text` reads: a place, then a name and its number.

`Cost after iteration 100: 2.3` becomes `iteration 100, Cost: 2.3`, and `loss -> 2.3` becomes `loss: 2.3`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_AT = re.compile(
    r"(?<![\w/])((?:[A-Za-z_]{1,20} ){0,2}[A-Za-z_]{0,20}(?:[Ll]oss|LOSS|[Cc]ost|[Ss]core)(?:es)?)"
    r"(?: \([^()]{0,40}\))? (?:at|after|for|in|on) (?:the )?"
    r"((?i:(?:global |training )?(?:step|iteration|iter|epoch|batch|update))s?)[ :#_]{0,3}"
    r"\(?(\d[\d,]{0,14}(?:\s?/\s?\d[\d,]{0,14})?)\)?\s{0,3}(?:[:=,-]|is|was)?\s{0,3}(?=[-+]?(?:[\d.]|nan|inf))"
)
_ARROW = re.compile(r"(?<=[A-Za-z_)\]])\s{0,3}(?:→|⇒|[-=]{1,2}>)\s{0,3}(?=[-+]?(?:[\d.]|nan|inf))")
_THEN_PLACE = re.compile(
    r"^(\s{0,12}[A-Za-z_ ]{0,24}[Ll]oss:\s{0,6}[-+\d.naife]{1,24})\s{1,6}"
    r"\[\s{0,9}(\d{1,12})\s?/\s?(\d{1,12})\]\s*$"
)
"""PyTorch's quickstart: `loss: 2.303494  [   64/60000]`."""
_TOTAL = re.compile(r"(?<=[\s,;{(|'\"])[Tt]otal(?=['\"]?\s{0,3}[:=]?\s{0,3}[\d.])")


_BAR = re.compile(r"^[\s\x08]{0,200}(\d{1,12})/(\d{1,12}) ?(?:\[[=>.]{3}|[━\u2500-\u257f]{3})")
"""Keras draws a bar again after each batch, with the mean loss so far: only its last drawing is a record."""
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
        found = _BAR.match(line) if "/" in line[:240] and ("[" in line or "━" in line) else None
        if found and found[1] == found[2] and " ETA:" not in line:
            if drawn:
                yield from (one for one in drawn if not _BAR.match(one))
            drawn, ended = [], True
            last = line if headed or not trained else line.replace(" loss:", " test_loss:")
        elif found and ended:
            continue
        elif (found or drawn) and not ended:
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


def reworded(line: str) -> str:
    """Return a line with each sentence about a loss as a place and a name beside its number.

    >>> reworded("Score at iteration 100 is 1.13"), reworded("[step 3] loss → 2.5")
    ('iteration 100, loss: 1.13', '[step 3] loss: 2.5')
    >>> reworded("[Losses: x 0.27, conf 4.3, total 15.1]")
    '[Losses: x 0.27, conf 4.3, total_loss 15.1]'
    """
    if " at " in line or " after " in line or " for " in line or " in " in line or " on " in line:
        line = _AT.sub(_placed_first, line)
    if "]" in line and (found := _THEN_PLACE.match(line)):
        return f"batch {found[2]}/{found[3]}, {found[1].strip()}"
    if "→" in line or "->" in line or "=>" in line or "⇒" in line:
        line = _ARROW.sub(": ", line)
    if "Losses" in line and "otal" in line:
        line = _TOTAL.sub("total_loss", line)
    return line


def _placed_first(found: re.Match[str]) -> str:
    """Return the place before the name; a score is a loss only in the words of Deeplearning4j's listener."""
    name = found[1].rpartition(" - ")[2]
    if name.endswith("core"):
        if name != "Score":
            return found[0]
        name = "loss"  # what it minimises
    return f"{found[2]} {found[3]}, {name}: "
