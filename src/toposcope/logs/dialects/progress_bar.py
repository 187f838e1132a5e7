"""A progress bar that shows the loss, as Lightning and tqdm draw it.

`Epoch 1:  5%|...| 100/2000 [00:10<03:10, 10.0it/s, v_num=0, train_loss=2.31]`: a bar that restarts counts the
steps of one epoch, so the steps of earlier epochs are added.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from toposcope.logs.dialects.dialect import TextDialect
from toposcope.logs.dialects.pairs import NUMBER, STEP, pairs
from toposcope.logs.records import PLANNED, Record

_BAR = re.compile(rf"^([^|]{{0,200}})\|[^|]{{0,400}}\|\s{{0,4}}({STEP})/({STEP})\s{{0,4}}\[(.{{0,4000}})")
_EPOCH = re.compile(rf"\bepoch\s{{0,2}}[:#]?\s{{0,2}}({STEP})", re.IGNORECASE)
_OTHER = re.compile(r"valid|\bval\b|\bdev\b|sanity|eval|test|predict", re.IGNORECASE)
"""Words that mark a bar as not the training's."""
_PAIR = re.compile(
    rf"(?<![\w/])(?P<name>[A-Za-z_][\w/.-]{{0,60}}?)\s{{0,2}}[:=]\s{{0,4}}(?P<number>{NUMBER})(?![\w.])"
)


def records(lines: Iterable[str]) -> Iterator[Record]:
    """Yield the numbers each time the training's bar is drawn; the last drawing of a step counts."""
    first: float | None = None
    for line in lines:
        if "/" not in line or not (found := _BAR.search(line)) or _OTHER.search(found[1]):
            continue
        said = pairs(found[4], _PAIR)
        if not any(name.lower().endswith("loss") for name in said):
            continue
        step, length = float(found[2]), float(found[3])
        if epoch := _EPOCH.search(found[1]):
            first = float(epoch[1]) if first is None else first
            yield {**said, "step": step + (float(epoch[1]) - first) * length, "epoch": float(epoch[1])}
        else:
            yield {**said, "step": step, PLANNED: length}


DIALECT = TextDialect(
    "progress bar",
    ("it/s", "s/it"),
    re.compile(r"\|\s*\d+/\d+\s*\[[^\]]*loss\s?[:=]", re.IGNORECASE),
    records,
)
