"""A progress bar that shows the loss, as Lightning and tqdm draw it.

`Epoch 1:  5%|...| 100/2000 [00:10<03:10, 10.0it/s, v_num=0, train_loss=2.31]`: a bar that restarts counts the
steps of one epoch, so the steps of earlier epochs are added. Earlier versions of Lightning count batches of
validation in the same bar; there `Epoch 1, global step 400: 'val_loss' reached 2.4` says how many it trains.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from toposcope.logs.dialects.dialect import TextDialect
from toposcope.logs.dialects.pairs import NUMBER, STEP, pairs
from toposcope.logs.records import PLANNED, Record, number
from toposcope.logs.run import Run

_BAR = re.compile(rf"^([^|]{{0,200}})\|[^|]{{0,400}}\|\s{{0,4}}({STEP})/({STEP})\s{{0,4}}\[(.{{0,4000}})")
_EPOCH = re.compile(rf"\bepoch\s{{0,2}}[:#]?\s{{0,2}}({STEP})", re.IGNORECASE)
_ENDED = re.compile(
    rf"\bEpoch (\d{{1,9}}), global step (\d{{1,12}}): '?([\w./-]{{1,60}})'? (?:reached ({NUMBER}))?"
)
_OTHER = re.compile(r"valid|\bval\b|\bdev\b|sanity|eval|test|predict", re.IGNORECASE)
"""Words that mark a bar as not the training's."""
_PAIR = re.compile(
    rf"(?<![\w/])(?P<name>[A-Za-z_][\w/.-]{{0,60}}?)(?:\s{{0,2}}[:=]\s{{0,4}}|(?<=loss) )"
    rf"(?P<number>{NUMBER})(?![\w.])"
)


def records(lines: Iterable[str]) -> Iterator[Record]:
    """Yield the numbers each time the training's bar is drawn; the last drawing of a step counts."""
    from toposcope.logs.dialects._bar_steps import BATCH, BEFORE

    first: float | None = None
    last: dict[str, float] = {}  # where the bar was drawn last
    for line in lines:
        if "global step" in line and (ended := _ENDED.search(line)):
            yield from _end_of_epoch(ended)
        elif last and "oss" in line and "|" not in line and (held := _held_out(line)):
            yield {**held, **last}
        if "/" not in line or not (match := _BAR.search(line)) or _OTHER.search(match[1]):
            continue
        values = pairs(f"{match[1]}, {match[4]}", _PAIR)
        if not any(name.lower().endswith("loss") for name in values):
            continue
        step, length = float(match[2]), float(match[3])
        if epoch := _EPOCH.search(match[1]):
            first = float(epoch[1]) if first is None else first
            before = float(epoch[1]) - first
            last = {"step": step + before * length, "epoch": float(epoch[1]), BATCH: step, BEFORE: before}
            yield {**values, **last}
        else:
            last = {"step": step}
            yield {**values, **last, PLANNED: length}


def _held_out(line: str) -> dict[str, float]:
    """Return the first held-out loss of a line between bars: `Epoch 3/9, Train Loss: 2.5, Val Loss: 2.7`.

    >>> _held_out("Epoch 3/9, Train Loss: 2.5, Val Loss: 2.7"), _held_out("best loss: 2.5")
    ({'val_loss': 2.7}, {})
    """
    from toposcope.logs.dialects.phrases import LOSS, phrase
    from toposcope.logs.dialects.plain_text import line_numbers

    for name, value in line_numbers(line).items():
        if (meant := phrase(name)).kind == LOSS and meant.held_out:
            return {"val_loss": value}
    return {}


def _end_of_epoch(match: re.Match[str]) -> Iterator[Record]:
    """Yield what Lightning says at the end of an epoch: the steps, and a held-out loss if it has one."""
    from toposcope.logs.dialects._bar_steps import ENDS

    held = {"val_loss": number(match[4])} if match[4] and "loss" in match[3] and "val" in match[3] else {}
    yield {**held, "step": float(match[2]), "epoch": float(match[1]), ENDS: float(match[2])}


def _in_steps(run: Run) -> Run:
    from toposcope.logs.dialects._bar_steps import in_steps

    return in_steps(run)


DIALECT = TextDialect(
    "progress bar",
    ("it/s", "s/it"),
    re.compile(
        r"\|\s*\d+/\d+\s*\[[^\]]*loss(?:\s?[:=]|\s\d)"
        r"|loss\s?[:= ]\s?[\d.]+[^|]{0,80}\|[^|]{0,400}\|\s*\d+/\d+\s*\[",
        re.IGNORECASE,
    ),
    records,
    _in_steps,
)
