"""A run before its start: the whole loss curve from its planned schedule and finished runs of its size."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.wording import option
from toposcope.forecasting.annealing import DEFAULT, PUBLISHED, Shape
from toposcope.forecasting.backtests import curve_interval, interval, path_errors
from toposcope.forecasting.base import LEVEL, Forecast
from toposcope.forecasting.families import warmup_end
from toposcope.forecasting.laws import fit_law
from toposcope.logs.curve import FINAL_SHARE, Curve
from toposcope.logs.schedule import Schedule

LAWS: dict[str, Shape | None] = {
    "multi-power law": DEFAULT,
    "multi-power law (published)": PUBLISHED,
    "tissue": None,
}
"""The laws that need no losses of the run itself, by their names in tables."""

_KNOTS = 2000
"""Plans of up to this many steps are read step by step; longer ones on an even grid."""


def forecast_planned(
    plan: Schedule, siblings: Sequence[Curve], *, run: str = "planned run", level: float = LEVEL
) -> list[Forecast]:
    """Forecast a run of which only the schedule is known, with one `Forecast` per law.

    The siblings are finished runs of its size under other schedules; every law is fitted to all of them. The
    curve has every knot of the plan and 200 even steps, starting at the end of the siblings' warm-up. The
    interval comes from forecasting each sibling from the others in the same way (at least three siblings).

    Raises
    ------
    InputError
        When there are fewer than two siblings, their sizes differ, or the plan ends during warm-up.
    """
    finished = [curve for curve in siblings if curve.finished and curve.plan() is not None]
    if len(finished) < 2:
        raise InputError(
            f"{run}: {len(finished):,} finished siblings with a learning rate; at least 2 are needed",
            remedy=f"give them with {option('siblings')}",
        )
    if plan.end <= max(c.step[0] for c in finished):
        raise InputError(
            f"{run}: its schedule ends at step {plan.end:,}, before the siblings' losses begin; give "
            "a longer schedule"
        )
    start = max(1.0, float(np.median([max(warmup_end(c), float(c.step[0])) for c in finished])))
    steps = _steps(plan, start)
    return [_one(name, shape, plan, finished, steps, run, level) for name, shape in LAWS.items()]


def _one(
    name: str,
    shape: Shape | None,
    plan: Schedule,
    siblings: Sequence[Curve],
    steps: np.ndarray,
    run: str,
    level: float,
) -> Forecast:
    losses = fit_law(siblings, shape=shape).along(plan, steps)
    final = float(losses[steps > plan.end * (1 - FINAL_SHARE)].mean())
    if not (math.isfinite(final) and final > 0):
        nan, none = math.nan, np.empty(0)
        reason = f"{name}: the final loss is not finite; use another law for {run}"
        return Forecast(run, name, 0.0, nan, nan, nan, level, none, none, "nothing", (), "failed", reason)
    errors, paths = _errors(shape, siblings)
    if len(errors) < 3:
        reason = "fewer than 3 siblings: no interval"
        return Forecast(
            run, name, 0.0, final, math.nan, math.nan, level, steps, losses, "nothing", tuple(errors),
            "degenerate", reason,
        )  # fmt: skip
    low, high = interval(final, errors, level)
    source = f"{len(errors):,} held-out siblings"
    band = curve_interval(
        steps, losses, cut=float(steps[0]), end=plan.end, paths=paths, half=math.log(high / final),
        noise=0.0, level=level,
    )  # fmt: skip
    return Forecast(
        run, name, 0.0, final, low, high, level, steps, losses, source, tuple(errors), "ok", "", *band
    )


def _errors(shape: Shape | None, siblings: Sequence[Curve]) -> tuple[list[float], list[np.ndarray]]:
    """Return log(actual / predicted) of each sibling, at its end and along it, from a fit of the others."""
    if len(siblings) < 3:
        return [], []
    errors, paths = [], []
    for i, left_out in enumerate(siblings):
        law = fit_law([other for j, other in enumerate(siblings) if j != i], shape=shape)
        window = left_out.step[left_out.step > left_out.horizon * (1 - FINAL_SHARE)]
        plan = left_out.plan()
        assert plan is not None
        predicted = float(law.along(plan, window).mean())
        if predicted > 0:
            errors.append(math.log(left_out.final_loss() / predicted))
            start = max(1.0, warmup_end(left_out), float(left_out.step[0]))
            after = left_out.step[left_out.step >= start]
            paths.append(path_errors(left_out, start, after, law.along(plan, after)))
    return errors, paths


def _steps(plan: Schedule, start: float) -> np.ndarray:
    even = np.linspace(start, plan.end, 200)
    window = np.linspace(plan.end * (1 - FINAL_SHARE), plan.end, 11)[1:]
    knots = plan.step[plan.step >= start] if len(plan.step) <= _KNOTS else np.empty(0)
    return np.unique(np.concatenate([even, window, knots]))
