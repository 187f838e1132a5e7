"""Checks of numbers that a call is given; values without a meaning are refused."""

from __future__ import annotations

import math
from collections.abc import Sequence

from toposcope.core.errors import InputError

MAX_STEP = 10**15
"""Steps must be below this: names have at most 15 digits, and floats above 2^53 are not exact."""


def check_positive(name: str, value: float | None) -> None:
    """Raise InputError unless a number is finite and above 0, or not given."""
    if value is not None and not (math.isfinite(value) and value > 0):
        raise InputError("not a finite number above 0", argument=name, value=value, remedy="give one")


def check_shares(level: float, cuts: Sequence[float] = ()) -> None:
    """Raise InputError unless a level and cuts lie between 0 and 1."""
    if not 0 < level < 1:
        raise InputError(
            "not a confidence level", argument="level", value=level,
            remedy="give a number between 0 and 1, such as 0.9",
        )  # fmt: skip
    if any(not 0 < cut < 1 for cut in cuts):
        listed = ",".join(f"{cut:g}" for cut in cuts)
        raise InputError(
            "not all of these are shares of the training", argument="cuts", value=listed,
            remedy="give numbers between 0 and 1",
        )  # fmt: skip
