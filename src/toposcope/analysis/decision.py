"""Whether to continue, stop or scale up: where the next FLOP buys the most loss.

Three things can be done with what is left of a compute budget: train this run on, stop it, or train a larger
model of the family from the start. Each has an expected loss with an interval, and a cost: spending the whole
budget is worth `price` of the loss. The default leaves the run alone unless the gain of something else is
clear; it is judged by its regret against the best in hindsight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from toposcope.analysis.forecast.auto import Auto
from toposcope.analysis.forecast.base import LEVEL, Forecast, Forecaster, forecast
from toposcope.analysis.forecast.curve import Curve, level_and_slope
from toposcope.analysis.forecast.published import NEURAL_PERSISTENCE

PRICE = 0.01
"""Spending the whole budget is worth this share of the loss."""

CONFIDENCE = 0.9
"""How sure the default must be that something else is better before it leaves the run."""

CONTINUE, STOP, SCALE = "continue", "stop", "scale"


@dataclass(frozen=True, slots=True)
class Option:
    """What one action is expected to give: loss with its interval, the budget it spends, and its utility.

    `cost` = loss * (1 + price * spent share): lower is better. `sigma` is the sd of the log loss. An action
    that cannot be judged has status "failed" and a reason.
    """

    action: str
    loss: float
    low: float
    high: float
    sigma: float
    spent: float
    cost: float
    steps: float
    status: str = "ok"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Advice:
    """The recommended action, why, and all options."""

    run: str
    action: str
    why: str
    options: tuple[Option, ...]


def weigh(
    seen: Curve,
    siblings: Sequence[Curve],
    *,
    budget: float,
    larger: int,
    method: Forecaster | None = None,
    level: float = LEVEL,
    price: float = PRICE,
) -> tuple[Option, ...]:
    """Return the three options for a run, in units where one step costs its number of parameters.

    Parameters
    ----------
    seen : the run so far; its `parameters` must be known.
    siblings : finished runs of the family, any sizes, trained with the same tokens per step.
    budget : what is left, in parameters x steps (FLOP / (6 x tokens per step)).
    larger : parameters of the model that scaling up would train.
    """
    made = forecast(method or Auto(), seen, siblings, level=level)
    return _weigh(made, seen, siblings, budget, larger, price)


def _weigh(
    made: Forecast, seen: Curve, siblings: Sequence[Curve], budget: float, larger: int, price: float
) -> tuple[Option, ...]:
    on = _continue(made, seen, budget, price)
    return on, _stop(seen, made.level), _scale(seen, siblings, budget, larger, made.level, price)


def _continue(made: Forecast, seen: Curve, budget: float, price: float) -> Option:
    steps = min(budget / max(seen.parameters, 1), seen.horizon - seen.last)
    if made.status == "failed":
        return _cannot(CONTINUE, made.reason)
    loss = made.final
    if seen.last + steps < 0.98 * seen.horizon and len(made.step):
        loss = float(np.interp(seen.last + steps, made.step, made.loss))
    ratio = made.high / made.final if math.isfinite(made.high) else 1.1
    spent = steps * seen.parameters / budget
    return _option(CONTINUE, loss, math.log(ratio), made.level, steps, spent, price)


def _stop(seen: Curve, level: float) -> Option:
    loss = math.exp(level_and_slope(seen.step, seen.loss)[0])
    return _option(STOP, loss, 0.0, level, 0.0, 0.0, 0.0)


def _scale(
    seen: Curve, siblings: Sequence[Curve], budget: float, larger: int, level: float, price: float
) -> Option:
    """Read the law of log loss in log size at the step that the budget buys for the larger model."""
    steps = min(budget / larger, seen.horizon)
    known = [c for c in siblings if c.parameters > 0 and c.last >= steps and c.horizon == seen.horizon]
    if seen.last >= steps:
        known = [*known, seen]
    size = np.log([c.parameters for c in known])
    if len(np.unique(size)) < 3:
        return _cannot(
            SCALE, f"{len(np.unique(size))} sizes reach step {steps:.0f}; the size law needs at least 3"
        )
    enough = min(np.sum(c.step <= steps) for c in known)
    if enough < 8:
        return _cannot(SCALE, f"the budget buys {steps:.0f} steps of the larger model: too few to be judged")
    loss = np.array([_level_at(c, steps) for c in known])
    centred = size - size.mean()
    slope = float(centred @ loss / (centred @ centred))
    residual = loss - loss.mean() - slope * centred
    free = len(size) - 2
    reach = math.log(larger) - size.mean()
    spread = math.sqrt(
        float(residual @ residual) / free * (1 + 1 / len(size) + reach**2 / float(centred @ centred))
    )
    half = float(stats.t.ppf(0.5 + level / 2, free)) * spread
    return _option(
        SCALE, math.exp(loss.mean() + slope * reach), half, level, steps, steps * larger / budget, price
    )


def _level_at(curve: Curve, steps: float) -> float:
    cut = curve.seen(steps)
    return level_and_slope(cut.step, cut.loss)[0]


def _option(
    action: str, loss: float, half: float, level: float, steps: float, spent: float, price: float
) -> Option:
    sigma = half / float(stats.norm.ppf(0.5 + level / 2))
    cost = loss * (1 + price * min(spent, 1.0))
    return Option(action, loss, loss * math.exp(-half), loss * math.exp(half), sigma, spent, cost, steps)


def _cannot(action: str, reason: str) -> Option:
    nan = math.nan
    return Option(action, nan, nan, nan, nan, nan, nan, nan, "failed", reason)


def by_loss(options: Sequence[Option], seen: Curve, *, confidence: float = CONFIDENCE) -> tuple[str, str]:
    """Continue, unless another option is cheaper with probability `confidence` (normal log losses)."""
    usable = {option.action: option for option in options if option.status == "ok"}
    if CONTINUE not in usable:
        return (
            (STOP, "the run's own end cannot be forecast")
            if STOP in usable
            else (CONTINUE, "nothing can be judged")
        )
    base = usable[CONTINUE]
    best, chance = CONTINUE, confidence
    for action in (STOP, SCALE):
        option = usable.get(action)
        if option is None:
            continue
        spread = max(math.hypot(option.sigma, base.sigma), 1e-9)
        probability = float(stats.norm.cdf(math.log(base.cost / option.cost) / spread))
        if probability > chance:
            best, chance = action, probability
    if best == CONTINUE:
        return CONTINUE, f"nothing else is better with {confidence:.0%} confidence"
    return best, f"better than going on with probability {chance:.2f}"


def by_topology(options: Sequence[Option], seen: Curve) -> tuple[str, str]:
    """Scale up once neural persistence has met diminishing returns: the weight-space paper's reading.

    The moving average (width 5) of neural persistence changes, three checkpoints running, by less than a
    tenth of its largest change so far.
    """
    met = diminishing_returns(seen)
    if met is None:
        return CONTINUE, "no neural persistence was measured"
    if not met:
        return CONTINUE, "neural persistence still changes"
    scale = next((o for o in options if o.action == SCALE and o.status == "ok"), None)
    return (SCALE if scale else STOP), "neural persistence has met diminishing returns"


def by_both(options: Sequence[Option], seen: Curve) -> tuple[str, str]:
    """Leave the run only where loss and topology both say so; then as the loss says."""
    action, why = by_loss(options, seen)
    topological, _ = by_topology(options, seen)
    if action != CONTINUE and topological == CONTINUE:
        return CONTINUE, "the loss would leave the run, its topology would not"
    return action, why


def always_continue(options: Sequence[Option], seen: Curve) -> tuple[str, str]:
    """Go on, whatever is known: what every rule has to beat."""
    return CONTINUE, "always"


Rule = Callable[[Sequence[Option], Curve], tuple[str, str]]

RULES: dict[str, Rule] = {
    "loss (default)": by_loss,
    "topology": by_topology,
    "loss and topology": by_both,
    "always continue": always_continue,
}


def diminishing_returns(seen: Curve) -> bool | None:
    """Say whether neural persistence has met diminishing returns; None when it was not measured."""
    if NEURAL_PERSISTENCE not in seen.features:
        return None
    value = seen.features[NEURAL_PERSISTENCE].dropna().to_numpy(float)
    if len(value) < 9:
        return False
    change = np.abs(np.diff(np.convolve(value, np.ones(5) / 5, mode="valid")))
    small = change < 0.1 * change.max()
    return bool(np.any(small[2:] & small[1:-1] & small[:-2]))


def advise(
    seen: Curve, siblings: Sequence[Curve], *, budget: float, larger: int, level: float = LEVEL
) -> Advice:
    """Recommend continue, stop or scale by the default rule; see `weigh` for the arguments."""
    options = weigh(seen, siblings, budget=budget, larger=larger, level=level)
    action, why = by_loss(options, seen)
    return Advice(seen.run, action, why, options)


def regret_table(
    curves: Sequence[Curve],
    cuts: Sequence[float],
    *,
    multiples: Sequence[float] = (1.0, 4.0),
    method: Forecaster | None = None,
    advance: Callable[[], None] | None = None,
) -> pd.DataFrame:
    """Let every rule decide for every run that has a larger sibling, and compare with what really happened.

    The budget is a multiple of what the run needs to its end. The next larger model is hidden from the rules
    (as are its losses); what it reached at the step that the budget buys is its loss on its own schedule.

    Returns one row per (run, cut, multiple, rule): action, cost, best action and cost in hindsight, and
    regret = cost / best cost - 1.
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
                options = _weigh(made, seen, hidden, budget, bigger.parameters, PRICE)
                actual = _hindsight(curve, bigger, seen, budget)
                best = min(actual, key=lambda action: actual[action])
                for name, rule in RULES.items():
                    action, why = rule(options, seen)
                    rows.append(
                        {
                            "run": curve.run, "cut": cut, "budget": multiple, "rule": name,
                            "action": action, "why": why, "cost": actual[action], "best": best,
                            "best_cost": actual[best],
                            "regret": actual[action] / actual[best] - 1.0,
                        }
                    )  # fmt: skip
                if advance is not None:
                    advance()
    return pd.DataFrame(rows)


def _hindsight(curve: Curve, bigger: Curve, seen: Curve, budget: float) -> dict[str, float]:
    """Return what each action really cost."""
    steps = min(budget / bigger.parameters, bigger.horizon)
    ahead = min(budget / curve.parameters, curve.horizon - seen.last)
    price = lambda spent: 1 + PRICE * min(spent, 1.0)  # noqa: E731
    actual = {
        CONTINUE: curve.final_loss() * price(ahead * curve.parameters / budget),
        STOP: math.exp(level_and_slope(seen.step, seen.loss)[0]),
    }
    if np.sum(bigger.step <= steps) >= 8:
        reached = bigger.final_loss() if steps >= bigger.horizon else math.exp(_level_at(bigger, steps))
        actual[SCALE] = reached * price(steps * bigger.parameters / budget)
    else:
        actual[SCALE] = math.inf
    return actual


def regret_summary(regrets: pd.DataFrame) -> pd.DataFrame:
    """Return mean and worst regret by rule, the actions it took, and how often that was the best one."""
    rows = []
    for rule, group in regrets.groupby("rule", sort=False):
        finite = group[np.isfinite(group["regret"])]
        rows.append(
            {
                "rule": rule, "n": len(group), "mean_regret": finite["regret"].mean(),
                "worst_regret": finite["regret"].max(),
                "right": int((group["action"] == group["best"]).sum()),
                **{action: int((group["action"] == action).sum()) for action in (CONTINUE, STOP, SCALE)},
            }
        )  # fmt: skip
    return pd.DataFrame(rows)
