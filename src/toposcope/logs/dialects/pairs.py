"""Name-number pairs in one line."""

from __future__ import annotations

import re

from toposcope.logs.records import number

NUMBER = r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|NaN|inf|Infinity)"
"""A number as a trainer prints it: 3.25, 1.5E-04, 12,345, nan."""
LONG_NUMBER = r"[-+]?(?:\d[\d,_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|NaN|NAN|inf|Infinity)"
"""A number as a script prints it, 1_000 as well."""
STEP = r"\d{1,15}"
"""A step; longer digit strings are not steps."""
BEFORE_LOSS = r"(?i:(?:loss|xent|cost|nll|entropy)\w{0,12})['\"]?\s{0,8}[:=]?\s{0,8}['\"]?[-+]?"
LOSS_WITH_COMMA = re.compile(BEFORE_LOSS + r"(\d{1,12}),(\d{1,12})(?![\d,.]|\.\d)")
_SECONDS = {"ms": 1e-3, "s": 1.0}
_TIMES = ("train_time", "time", "elapsed")


def pairs(text: str, pattern: re.Pattern[str]) -> dict[str, float]:
    """Return the pairs found by a pattern with groups name, number and optionally unit; the first counts.

    A time in ms or s becomes `seconds`, the elapsed time.

    >>> found = re.compile(rf"(?P<name>[a-z_]+):(?P<number>{NUMBER})(?P<unit>[a-z]*)")
    >>> pairs("train_loss:2.5 train_time:500ms", found)
    {'train_loss': 2.5, 'seconds': 0.5}
    """
    values: dict[str, float] = {}
    for match in pattern.finditer(text):
        name, unit = match["name"].strip(), match.groupdict().get("unit") or ""
        value = number(match["number"])
        if name in _TIMES and unit in _SECONDS:
            name, value = "seconds", value * _SECONDS[unit]
        values.setdefault(name, value)
    return values
