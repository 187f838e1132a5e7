"""Forecasts without a plan of the learning rate: what a decay may gain, and how often intervals held."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from toposcope.core.wording import option
from toposcope.logs.curve import Curve
from toposcope.logs.schedule import Schedule

UNSURE = ("no plan", "unhealthy")
"""Forecast statuses for which an interval does not have its stated level."""

ANNEALED = 0.2
"""A learning rate below this share of its peak is already annealed."""

ANNEALING_GAIN = (0.013, 0.028)
"""The smallest and largest gain in final loss from annealing to a tenth: cosine and warmup-stable-decay
against constant, 24,000 and 72,000 steps, in published runs of 25M and 100M parameters (Luo et al. 2025)."""

NO_PLAN = f"no plan of the learning rate is known (give one with {option('schedule')})"

DECAY = 0.04
"""The same for the lower end of a run without siblings, set on half of parameter_golf's runs."""

_BEGUN, _ALONG, _TOLERANCE = 0.05, 20.0, 0.005
"""A decay is read from a log once the rate has fallen by the first share of its peak, if it is off the decay
by at most a 20th of this fall, and by the last share of the peak, which printed digits stay within."""
_RATES = 8
"""The fewest logged rates since the peak that show the shape of a decay."""
_KNOTS = 200
"""The knots of a decay that is read from a log."""

HELD, HELD_RUNS, HELD_LEVEL = 0.92, 212, 0.9
"""The share of intervals without siblings and plan that contained the final loss; on how many real runs, none
used to set the width; and at what level (benchmarks.forecast_alone, 2026-11-27; table in
docs/forecasting-evidence.md)."""


def share_of_peak(seen: Curve) -> float | None:
    """Return the last learning rate over its peak; None if it is annealed or was not logged."""
    known = seen.rate[np.isfinite(seen.rate)]
    if not len(known) or not known[-1] > ANNEALED * known.max():
        return None
    return float(known[-1] / known.max())


def continued(seen: Curve) -> Schedule | None:
    """Return the logged rate with the rest of its decay: half a cosine, or a line, down to the run's end.

    A run that logs its rate shows its plan as soon as the decay has begun: the rate since its peak lies on
    one curve that ends low at the last planned step. None if the rate has not fallen by 5%, follows neither
    shape, or would end above a fifth of its peak.

    >>> step = np.arange(10.0, 4001.0, 10.0)
    >>> rate = 1e-4 + 9e-4 * (1 + np.cos(np.pi * step / 10_000)) / 2
    >>> plan = continued(Curve("a", step, 2 + step**-0.5, rate, 10_000))
    >>> [float(round(one, 5)) for one in plan.at(np.array([4000, 7000, 10_000]))]
    [0.00069, 0.00028, 0.0001]
    >>> continued(Curve("a", step, 2 + step**-0.5, 0.03 * step**-0.5, 10_000)) is None
    True
    """
    known = np.isfinite(seen.rate)
    step, rate = seen.step[known], seen.rate[known]
    if seen.endless or len(step) < _RATES or not rate.max() > 0 or seen.last >= seen.horizon:
        return None
    top = np.flatnonzero(rate == rate.max())  # printed digits make a peak of a cosine flat
    fall = rate[top[-1]] - rate[-1]
    if len(rate) - top[-1] < _RATES or fall < _BEGUN * rate.max():
        return None
    between = (step[max(top[0] - 1, 0)], step[top[-1] + 1])
    late, ahead = slice(top[-1], None), np.linspace(seen.last, seen.horizon, _KNOTS)[1:]
    made = [
        _decay(shape, step[late], rate[late], ahead, between)
        for shape in (lambda x: (1 - np.cos(np.pi * x)) / 2, lambda x: x)
    ]
    allowed = min(_TOLERANCE * rate.max(), fall / _ALONG)
    off, rest = min(made, key=lambda fit: fit[0])
    if off > allowed or not -_TOLERANCE <= rest[-1] / rate.max() <= ANNEALED:
        return None
    return Schedule(np.append(step, ahead), np.append(rate, np.maximum(rest, 0.0)))


def _decay(
    shape: Callable[[np.ndarray], np.ndarray], step: np.ndarray, rate: np.ndarray, ahead: np.ndarray,
    between: tuple[float, float],
) -> tuple[float, np.ndarray]:  # fmt: skip
    """Return how far logged rates are off a decay of a shape, and the decay over the steps ahead.

    The shape goes from 0, at a step `between` two, to 1 at the last step; height and end are fitted.
    """
    from scipy.optimize import minimize_scalar

    def fitted(begin: float) -> tuple[float, np.ndarray]:
        parts = [shape(np.clip((at - begin) / (ahead[-1] - begin), 0, 1)) for at in (step, ahead)]
        seen, later = (np.stack([np.ones(len(x)), x], axis=1) for x in parts)
        height = np.linalg.lstsq(seen, rate, rcond=None)[0]
        return float(np.abs(seen @ height - rate).max()), later @ height

    best = minimize_scalar(lambda begin: fitted(begin)[0], bounds=between, method="bounded")
    return fitted(float(best.x))


def may_anneal(seen: Curve) -> bool:
    """Return whether the rest of the learning rate is unknown and may still fall."""
    if seen.schedule is not None or seen.finished:
        return False
    return not np.isfinite(seen.rate).any() or share_of_peak(seen) is not None


def lowered(own: bool) -> float:
    """Return the share by which a decay may lower the lower end; `own` if the width comes from the run."""
    return DECAY if own else ANNEALING_GAIN[1]


def coverage(status: str, level: float, *, own: bool) -> str:
    """Return how often such an interval holds, in words.

    >>> coverage("ok", 0.9, own=True), coverage("no plan", 0.9, own=False)
    ('90%', 'not 90%')
    >>> coverage("no plan", 0.9, own=True)
    '92% of tests on 212 real runs'
    """
    if status == "no plan" and own and level == HELD_LEVEL:
        return f"{HELD:.0%} of tests on {HELD_RUNS} real runs"
    return f"not {level:.0%}" if status in UNSURE else f"{level:.0%}"


def ranges(
    final: float, low: float, high: float, lower: float, level: float, own: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the clauses for a row without a plan: the range to quote, and those that all such rows share."""
    least, most = ANNEALING_GAIN
    held = "the coverage of such intervals was not measured"
    if own and level == HELD_LEVEL:
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
