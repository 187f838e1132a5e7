"""The comma as the decimal mark of a text: whether it is one, and lines with a point instead."""

from __future__ import annotations

import re

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Blob
from toposcope.logs.dialects.pairs import BEFORE_LOSS, LOSS_WITH_COMMA
from toposcope.logs.lines import lines

_LOSS_WITH_POINT = re.compile(BEFORE_LOSS + r"\d{1,12}(?:,\d{3})*\.\d")
_COMMA = re.compile(r"(?<![\d.,:])(\d{1,12}),(\d{1,12})(?![\d,]|\.\d)")
_POINTS = re.compile(r"(?<![\d.,])([1-9]\d{0,2}(?:\.\d{3})+)(?![\d.])")
"""A number with points between thousands, as it stands beside decimal commas."""


def comma_is_decimal(blob: Blob) -> bool:
    """Return whether the comma in the losses of a text is the decimal mark, by all its losses.

    Raises
    ------
    SourceError
        When 2,508 may be either.
    """
    ambiguous = ""
    for line in lines(blob):
        if "," in line and (match := LOSS_WITH_COMMA.search(line[:4096])):
            if len(match[2]) != 3 or match[1].startswith("0") or len(match[1]) > 3:
                return True
            ambiguous = ambiguous or f"{match[1]},{match[2]}"
        if _LOSS_WITH_POINT.search(line[:4096]):
            return False
    if not ambiguous:
        return False
    plain = ambiguous.replace(",", "")
    raise SourceError(
        f"{blob.label}: the loss {ambiguous!r} may be {ambiguous.replace(',', '.')} or {plain}",
        remedy=f"write it as {ambiguous.replace(',', '.')} or as {plain}, for example by "
        f"sed -E 's/([0-9]),([0-9]{{3}})/\\1.\\2/g' for the former",
    )


def with_points(line: str) -> str:
    """Return a line with a decimal point in its numbers, where the comma is the decimal mark.

    >>> with_points("step 10,000 loss 4,309 lr 0,0005"), with_points("step 10.000 loss 2,4")
    ('step 10,000 loss 4.309 lr 0.0005', 'step 10000 loss 2.4')
    """
    line = _POINTS.sub(lambda match: match[1].replace(".", ""), line)
    for loss in LOSS_WITH_COMMA.finditer(line):
        line = f"{line[: loss.end(1)]}.{line[loss.start(2) :]}"
    return _COMMA.sub(_point, line)


def _point(match: re.Match[str]) -> str:
    thousands = len(match[2]) == 3 and len(match[1]) <= 3 and not match[1].startswith("0")
    return match[0] if thousands else f"{match[1]}.{match[2]}"
