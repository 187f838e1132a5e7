"""The loss after a decay that starts now: the run with its learning rate planned to fall to 0."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.wording import option
from toposcope.forecasting.unplanned import share_of_peak
from toposcope.logs.curve import FINAL_SHARE, Curve
from toposcope.logs.schedule import Schedule


def decayed(curve: Curve, steps: int) -> Curve:
    """Return the run with its learning rate planned to fall linearly to 0 over the next `steps` steps.

    Raises
    ------
    InputError
        When no rate is known, the rate is already annealed, or the decay is shorter than the window of a
        final loss.

    Examples
    --------
    >>> step = np.arange(1.0, 1001.0)
    >>> run = Curve("a", step, 2 + step**-0.5, np.full(1000, 1e-3), 1000)
    >>> plan = decayed(run, 200).schedule
    >>> plan.end, [round(float(rate), 6) for rate in plan.at(np.array([1000, 1100, 1200]))]
    (1200, [0.001, 0.0005, 0.0])
    """
    plan, last = curve.plan(), curve.last
    if plan is None:
        raise InputError(
            f"run {curve.run}: {option('annealed')} needs its learning rate so far, which is not logged; "
            f"give {option('schedule')} with the whole plan, including the decay"
        )
    if np.isfinite(curve.rate).any() and share_of_peak(curve) is None:
        raise InputError(
            f"run {curve.run}: its learning rate is already annealed; leave {option('annealed')} out"
        )
    least = int(np.ceil(FINAL_SHARE / (1 - FINAL_SHARE) * last)) + 1
    if steps < least:
        raise InputError(
            f"too few: the final loss is a mean over the last {FINAL_SHARE:.0%} of all steps, which the "
            "decay must cover",
            argument="annealed",
            value=steps,
            remedy=f"give {least:,} steps or more for run {curve.run}",
        )
    before = plan.step < last
    knots = np.append(plan.step[before], [last, last + steps])
    rates = np.append(plan.rate[before], [float(plan.at(np.array([last]))[0]), 0.0])
    note = f"forecast as if its learning rate fell to 0 from step {last:,} to step {last + steps:,}"
    return replace(
        curve, schedule=Schedule(knots, rates), horizon=last + steps, endless="", notes=(*curve.notes, note)
    )
