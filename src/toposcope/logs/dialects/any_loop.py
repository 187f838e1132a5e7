"""Lines of any loop: how they are recognised; `plain_text` reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from toposcope.logs.dialects.dialect import TextDialect, by_places
from toposcope.logs.dialects.pairs import LONG_NUMBER
from toposcope.logs.dialects.phrases import LOSS_PARTS


class _AnyWording:
    """A loss beside its number, in any of the wordings."""

    _LOSS = re.compile(
        rf"(?i:loss|verlust|p[eé]rdida|perda|perte|xent|cross[- _]?entropy|\bnll\b|\bcost\b|\bce\b)"
        rf"[\w/.-]{{0,30}}['\"]?\s{{0,12}}"
        rf"(?:[:=,]\s{{0,12}})?['\"]?(?:\[\s{{0,4}})?(?:{LONG_NUMBER})"
    )

    def search(self, line: str, /) -> object:
        if match := self._LOSS.search(line):
            return match
        from toposcope.logs.dialects.sentences import in_pairs

        return self._LOSS.search(in_pairs(line))


def _records(lines: Iterable[str]) -> Iterator[dict[str, float]]:
    from toposcope.logs.dialects.plain_text import records

    return records(lines)


DIALECT = TextDialect("text", LOSS_PARTS, _AnyWording(), _records, by_places, general=True)
