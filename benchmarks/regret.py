"""Decisions in hindsight: what every rule's choice cost against the best one, by run and on average."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from benchmarks.decision_rules import RULES, Rule
from toposcope.core.distributions import student_quantile
from toposcope.forecasting.auto import Auto
from toposcope.forecasting.base import Forecaster
from toposcope.forecasting.decision.advice import (
    CONTINUE,
    LEAST_LOSSES,
    PRICE,
    SAME_HORIZON,
    SCALE,
    STOP,
    level_at,
    weigh_forecast,
)
from toposcope.forecasting.one_run import forecast
from toposcope.logs.curve import Curve, level_and_slope

MULTIPLES = (0.25, 1.0, 4.0)
"""Budgets, in units of what the run needs to its end."""

BASELINE = "always continue"

Retrained = Callable[[Curve, int], float]
"""(larger model, steps) -> the loss that it ends at when its schedule is planned for that many steps."""


def regret_table(
    curves: Sequence[Curve],
    cuts: Sequence[float],
    *,
    multiples: Sequence[float] = MULTIPLES,
    method: Forecaster | None = None,
    retrained: Retrained | None = None,
    rules: Mapping[str, Rule] = RULES,
    advance: Callable[[], None] | None = None,
) -> pd.DataFrame:
    """Let every rule decide for every run that has a larger sibling, and compare with what really happened.

    The next larger model is hidden from the rules. Its loss in hindsight is what it had reached, on the
    schedule of all runs, at the step that the budget buys; with `retrained`, what it ends at on a schedule of
    its own for that many steps.

    Returns one row per (run, cut, budget, rule): action, cost, best action and cost in hindsight, and
    regret = cost / best cost - 1. Where the budget buys too little of the larger model to read a loss,
    scaling costs infinity.
    """
    ordered = sorted(curves, key=lambda curve: curve.parameters)
    rows = []
    for cut in cuts:
        for curve in ordered:
            above = [other for other in ordered if other.parameters > 1.05 * curve.parameters]
            if not above:
                continue
            bigger = above[0]
            seen = curve.seen(cut * curve.horizon)
            hidden = [other for other in ordered if other is not curve and other is not bigger]
            made = forecast(method or Auto(), seen, hidden)
            for multiple in multiples:
                budget = multiple * (curve.horizon - seen.last) * curve.parameters
                options = weigh_forecast(made, seen, hidden, budget=budget, larger=bigger.parameters)
                actual = _hindsight(curve, bigger, seen, budget, retrained)
                best = min(actual, key=lambda action: actual[action])
                for name, rule in rules.items():
                    action, why = rule(options, seen)
                    rows.append(
                        {
                            "run": curve.run, "cut": cut, "budget": multiple, "rule": name,
                            "action": action, "why": why, "cost": actual[action], "best": best,
                            "best_cost": actual[best], "regret": actual[action] / actual[best] - 1.0,
                        }
                    )  # fmt: skip
                if advance is not None:
                    advance()
    return pd.DataFrame(rows)


def _hindsight(
    curve: Curve, bigger: Curve, seen: Curve, budget: float, retrained: Retrained | None
) -> dict[str, float]:
    """Return what each action really cost."""
    steps = min(budget / bigger.parameters, bigger.horizon)
    ahead = min(budget / curve.parameters, curve.horizon - seen.last)
    price = lambda spent: 1 + PRICE * min(spent, 1.0)  # noqa: E731
    return {
        CONTINUE: read_loss(curve, seen.last + ahead) * price(ahead * curve.parameters / budget),
        STOP: math.exp(level_and_slope(seen.step, seen.loss)[0]),
        SCALE: (retrained(bigger, int(steps)) if retrained else read_loss(bigger, steps))
        * price(steps * bigger.parameters / budget),
    }


def read_loss(curve: Curve, steps: float) -> float:
    """Return a run's loss at a step: its final loss near the end, infinity before it can be read."""
    if steps >= (1 - SAME_HORIZON) * curve.horizon:
        return curve.final_loss()
    if np.sum(curve.step <= steps) < LEAST_LOSSES:
        return math.inf
    return math.exp(level_at(curve, steps))


def regret_summary(regrets: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Return each rule's mean regret, its effect against always continuing, and the actions it took.

    Decisions of one run are not independent, nor are runs of one family: they are averaged first, over
    families where the table names them (`family`), else over runs. `units` counts these; `mean_regret` is
    their mean with its Student interval `low`, `high`; `effect` is the mean paired difference to always
    continuing with `effect_low`, `effect_high`; `right` counts decisions that were best in hindsight.
    """
    unit = "family" if "family" in regrets else "run"
    means = regrets.groupby(["rule", unit], sort=False)["regret"].mean().unstack("rule")
    rows = []
    for rule, group in regrets.groupby("rule", sort=False):
        low, high = _interval(means[rule].to_numpy(), level)
        gain = (means[rule] - means[BASELINE]).to_numpy()
        better, worse = _interval(gain, level)
        rows.append(
            {
                "rule": rule, "units": len(means), "n": len(group), "mean_regret": float(means[rule].mean()),
                "low": low, "high": high, "worst_regret": group["regret"].max(),
                "effect": float(gain.mean()), "effect_low": better, "effect_high": worse,
                "right": int((group["action"] == group["best"]).sum()),
                **{action: int((group["action"] == action).sum()) for action in (CONTINUE, STOP, SCALE)},
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _interval(values: np.ndarray, level: float) -> tuple[float, float]:
    if len(values) < 2:
        return math.nan, math.nan
    half = float(
        student_quantile(0.5 + level / 2, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
    )
    return float(values.mean()) - half, float(values.mean()) + half
