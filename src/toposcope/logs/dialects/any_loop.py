"""Lines of any loop: how they are recognised; `plain_text` reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from toposcope.logs.dialects.dialect import TextDialect, by_places

NUMBER = r"[-+]?(?:\d[\d,_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|NaN|NAN|inf|Infinity)"  # 1_000 as well
LOSSES = (
    *("oss", "OSS", "Score at", "otal", "xent", "ost", "COST", "ntropy", "nll", "NLL", " ce", "CE"),
    *(
        "损失",
        "損失",
        "손실",
        "отери",
        "rdida",
        "erda",
        "erlust",
        "erte",
        "eldout=",
        "al=",
        "alid=",
        "eldout:",
        "al:",
        "alid:",
    ),
)
"""Parts of the words for a loss."""


class _AnyWording:
    """A loss beside its number, in any of the wordings."""

    _LOSS = re.compile(
        rf"(?i:loss|verlust|p[eé]rdida|perda|perte|xent|cross[- _]?entropy|\bnll\b|\bcost\b|\bce\b)"
        rf"[\w/.-]{{0,30}}['\"]?\s{{0,12}}"
        rf"(?:[:=,]\s{{0,12}})?['\"]?(?:\[\s{{0,4}})?(?:{NUMBER})"
    )

    def search(self, line: str, /) -> object:
        if found := self._LOSS.search(line):
            return found
        from toposcope.logs.dialects.sentences import in_pairs

        return self._LOSS.search(in_pairs(line))


def _records(lines: Iterable[str]) -> Iterator[dict[str, float]]:
    from toposcope.logs.dialects.plain_text import records

    return records(lines)


DIALECT = TextDialect("text", LOSSES, _AnyWording(), _records, by_places, general=True)
