"""Checks of numbers that a call is given; values without a meaning are refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real

from toposcope.core.errors import InputError

MAX_STEP = 10**15
"""Steps must be below this: names have at most 15 digits, and floats above 2^53 are not exact."""


def check_positive(name: str, value: float | None) -> None:
    """Raise InputError unless a number is finite and above 0, or not given."""
    if value is not None and not (math.isfinite(value) and value > 0):
        raise InputError("not a finite number above 0", argument=name, value=value, remedy="give one")


def check_horizon(horizon: object) -> None:
    """Raise InputError unless the step at which runs will end is a whole number in range, or not given."""
    if horizon is None:
        return
    whole = isinstance(horizon, Real) and math.isfinite(horizon) and horizon == math.floor(horizon)
    if not whole or not 1 <= horizon < MAX_STEP:  # type: ignore[operator]
        raise InputError(
            "no run can end there",
            argument="horizon",
            value=horizon,
            remedy=f"give the step at which the runs will end, a whole number from 1 to {MAX_STEP - 1:,}",
        )


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
