"""Lines of any other loop that name a step and a loss: `step 100 | loss 2.31`, `[iter=5] loss=3.2`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from toposcope.logs.dialects.dialect import TextDialect
from toposcope.logs.dialects.pairs import NUMBER, STEP, pairs
from toposcope.logs.records import PLANNED, Record

_STEP = re.compile(
    rf"(?<![\w/])((?:global|train(?:ing)?|optimizer)?[ _]?(?:step|iteration|iter|update)s?|epoch)\b"
    rf"\s{{0,4}}[:=#]?\s{{0,8}}[\[(]?\s{{0,4}}({STEP})(?![\d.])(?:\s{{0,4}}(?:/|of)\s{{0,4}}({STEP}))?",
    re.IGNORECASE,
)
_LOSS = rf"(?:[A-Za-z]+[ _/.-])?(?:lm |ce )?loss\b\s{{0,4}}[:=]?\s{{0,4}}(?:{NUMBER})"
_PAIR = re.compile(
    rf"(?<![\w/])(?P<name>(?:(?i:train|training|val|valid|validation|eval|test|lm|grad|learning)[ ])?"
    rf"[A-Za-z_][\w/.-]{{0,60}}?)(?:\s{{0,4}}[:=]\s{{0,4}}|\s{{1,8}})(?P<number>{NUMBER})(?P<unit>ms|s)?(?![\w.])"
)


def records(lines: Iterable[str]) -> Iterator[Record]:
    """Yield the numbers of each line with a step and a loss."""
    for line in lines:
        lower = line.lower()
        if "loss" not in lower or not (found := _best(line)):
            continue
        said = pairs(line[: found.start()] + "," + line[found.end() :], _PAIR)
        if any(name.lower().endswith("loss") for name in said):
            plan = {PLANNED: float(found[3])} if found[3] and found[1].lower() != "epoch" else {}
            name = "epoch" if found[1].lower() == "epoch" else "step"
            yield {**said, name: float(found[2]), **plan}


def _best(line: str) -> re.Match[str] | None:
    """Return where a line names its step; an epoch counts only if there is no step."""
    found = list(_STEP.finditer(line[:4096]))
    return next((one for one in found if one[1].lower() != "epoch"), found[0] if found else None)


DIALECT = TextDialect(
    "text", ("loss", "Loss", "LOSS"),
    re.compile(rf"^(?=.*?{_LOSS}).*?(?:{_STEP.pattern})", re.IGNORECASE), records,
)  # fmt: skip
