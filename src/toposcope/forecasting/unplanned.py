"""Forecasts without a plan of the rate or of short runs: what a decay may gain, how often intervals held."""

from __future__ import annotations

import math

import numpy as np

from toposcope.core.wording import option
from toposcope.logs.curve import Curve

UNSURE = ("no plan", "unhealthy")
"""Forecast statuses for which an interval does not have its stated level."""

ANNEALED = 0.2
"""A learning rate below this share of its peak is already annealed."""

ANNEALING_GAIN = (0.013, 0.028)
"""The smallest and largest gain in final loss from annealing to a tenth: cosine and warmup-stable-decay
against constant, 24,000 and 72,000 steps, in published runs of 25M and 100M parameters (Luo et al. 2025)."""

DECAY = 0.04
"""The same for the lower end of a run without siblings, set on half of parameter_golf's runs."""

HELD, HELD_RUNS, HELD_LEVEL = 0.93, 212, 0.9
"""The share of intervals without siblings and plan that contained the final loss; on how many real runs, none
used to set the width; and at what level (benchmarks.forecast_alone, 2026-11-27; table in
docs/forecasting-evidence.md)."""


SHORTEST = 1000
"""Steps of the shortest of those runs. Of 36 tiny, shorter ones 21 did (benchmarks.forecast_short)."""


def share_of_peak(seen: Curve) -> float | None:
    """Return the last learning rate over its peak; None if it is annealed or was not logged."""
    rates = seen.rate[np.isfinite(seen.rate)]
    if not len(rates) or not rates[-1] > ANNEALED * rates.max():
        return None
    return float(rates[-1] / rates.max())


def may_go_on(curve: Curve) -> bool:
    """Return whether a run that counts as finished states no last step, and its rate is high at its end."""
    return not curve.stated and share_of_peak(curve) is not None


def may_anneal(seen: Curve) -> bool:
    """Return whether the rest of the learning rate is unknown and may still fall."""
    if seen.schedule is not None or seen.finished:
        return False
    return not np.isfinite(seen.rate).any() or share_of_peak(seen) is not None


def no_plan() -> str:
    """Return the words for a forecast without a plan."""
    return f"no plan of the learning rate is known (give one with {option('schedule')})"


def lowered(own: bool) -> float:
    """Return the share by which a decay may lower the lower end; `own` if the width comes from the run."""
    return DECAY if own else ANNEALING_GAIN[1]


def too_short(steps: float, *, own: bool) -> str:
    """Return why the level of an interval was not measured on runs of so few steps, or nothing.

    >>> too_short(400, own=True)
    'how often such an interval holds was not measured below 1,000 steps'
    """
    if not own or steps >= SHORTEST:
        return ""
    return f"how often such an interval holds was not measured below {SHORTEST:,} steps"


def coverage(status: str, level: float, *, own: bool, steps: float = math.inf) -> str:
    """Return how often such an interval of a run of so many steps holds, in words.

    >>> coverage("ok", 0.9, own=True), coverage("no plan", 0.9, own=False)
    ('90%', 'not 90%')
    >>> coverage("no plan", 0.9, own=True)
    '93% of tests on 212 real runs'
    >>> coverage("ok", 0.9, own=True, steps=400)
    'not 90%'
    """
    if not too_short(steps, own=own):
        if status == "no plan" and own and level == HELD_LEVEL:
            return f"{HELD:.0%} of tests on {HELD_RUNS} real runs"
        if status not in UNSURE:
            return f"{level:.0%}"
    return f"not {level:.0%}"


def ranges(
    final: float, low: float, high: float, lower: float, level: float, own: bool, steps: float
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the clauses for a row without a plan: the range to quote, and those that all such rows share."""
    least, most = ANNEALING_GAIN
    held = "the coverage of such intervals was not measured"
    if own and level == HELD_LEVEL and steps >= SHORTEST:
        held = (
            f"{HELD:.0%} of such intervals contained the final loss, on {HELD_RUNS} real runs read without "
            "their plan; where a loss takes another course later, which nothing shows before, fewer do"
        )
    return (
        f"without a plan of the learning rate, quote {lower:.4g} to {high:.4g}",
        f"if the rate stays as it is, the run should end between {low:.4g} and {high:.4g}",
        f"if the rate is annealed, it may end near {final * (1 - most):.4g} to {final * (1 - least):.4g}",
    ), (
        f"the interval's lower end is {lowered(own):.1%} lower, because a decay may come, as "
        "in published runs",
        held,
        f"give the plan with {option('schedule')}",
    )
