"""Whether to continue, stop or scale up: where the next FLOP buys the most loss.

The rest of a compute budget can be used in three ways: continue this run, stop it, or train a larger model of
the family from the start. Each has an expected loss with an interval, and a cost: spending the whole budget
costs a share `price` of the loss. The default takes the lowest expected log cost, which is the lowest
expected log regret; `benchmarks/regret.py` compares it with the best choice in hindsight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from toposcope.core.distributions import normal_below, normal_quantile, student_quantile
from toposcope.forecasting.auto import Auto
from toposcope.forecasting.base import LEVEL, Forecast, Forecaster
from toposcope.forecasting.one_run import forecast
from toposcope.logs.curve import Curve, level_and_slope, level_error
from toposcope.logs.remarks import LOOK
from toposcope.logs.remarks import STOP as GRAVE
from toposcope.rules.judgement import Judgement, judge

PRICE = 0.01
"""Spending the whole budget costs this share of the loss."""

SAME_HORIZON = 0.02
"""Siblings whose planned steps differ from the affordable ones by less than this share count as having
followed that schedule."""

LEAST_LOSSES = 8
"""The fewest losses of a run for an estimate of its level at a step."""

CONTINUE, STOP, SCALE = "continue", "stop", "scale"


@dataclass(frozen=True, slots=True)
class Option:
    """The expected result of one action: loss with its interval, the budget it spends, and its cost.

    `cost` = loss * (1 + price * spent share): lower is better. `sigma` is the standard deviation of the log
    loss. An action that cannot be judged has status "failed" and a reason. An action whose loss has no bounds
    has status "degenerate" and a loss without an interval.
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
    parameters: int = 0


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
    """Return the three options for a run; one step costs as many units as the model has parameters.

    Parameters
    ----------
    seen : the run so far; its `parameters` must be known.
    siblings : finished runs of the family, any sizes, trained with the same tokens per step.
    budget : the remaining budget, in parameters x steps (FLOP / (6 x tokens per step)).
    larger : parameters of the larger model to train instead.
    """
    ending = forecast(method or Auto(), seen, siblings, level=level)
    return weigh_forecast(ending, seen, siblings, budget=budget, larger=larger, price=price)


def weigh_forecast(
    made: Forecast,
    seen: Curve,
    siblings: Sequence[Curve],
    *,
    budget: float,
    larger: int,
    price: float = PRICE,
) -> tuple[Option, ...]:
    """Return the three options given the forecast of the run's own end; see `weigh`."""
    on = _continue(made, seen, budget, price)
    scaled = _scale(made, seen, siblings, budget, larger, price)
    choices = [replace(option, parameters=seen.parameters) for option in (on, _stop(seen, made.level))]
    return choices[0], choices[1], replace(scaled, parameters=larger)


def _continue(ending: Forecast, seen: Curve, budget: float, price: float) -> Option:
    steps = min(budget / max(seen.parameters, 1), seen.horizon - seen.last)
    if ending.status == "failed":
        return _cannot(CONTINUE, ending.reason)
    loss = ending.final
    if seen.last + steps < (1 - SAME_HORIZON) * seen.horizon:
        loss = _on_the_way(ending, seen, seen.last + steps)
    spent = steps * seen.parameters / budget
    if ending.not_yet:
        option = _option(CONTINUE, loss, math.nan, ending.level, steps, spent, price)
        return replace(option, status="degenerate", reason=ending.reason)
    option = _option(CONTINUE, loss, math.log(ending.high / ending.final), ending.level, steps, spent, price)
    return replace(option, low=loss * ending.low / ending.final)


def _on_the_way(ending: Forecast, seen: Curve, step: float) -> float:
    """Return the forecast loss before the end; on a log-log line if only the end is forecast."""
    if len(ending.step):
        return float(np.interp(step, ending.step, ending.loss))
    now = level_and_slope(seen.step, seen.loss)[0]
    share = math.log(step / seen.last) / math.log(seen.horizon / seen.last)
    return math.exp(now + share * (math.log(ending.final) - now))


def _stop(seen: Curve, level: float) -> Option:
    """Return the option to stop: the current smoothed loss, with its error from noise and bandwidth."""
    loss = math.exp(level_and_slope(seen.step, seen.loss)[0])
    half = level_error(seen.step, seen.loss) * float(normal_quantile(0.5 + level / 2))
    return _option(STOP, loss, half, level, 0.0, 0.0, 0.0)


def _scale(
    ending: Forecast, seen: Curve, siblings: Sequence[Curve], budget: float, larger: int, price: float
) -> Option:
    """Return the option to scale: log loss against log size at the step that the budget allows."""
    steps = min(budget / larger, seen.horizon)
    size, loss, reason = _known_sizes(ending, seen, siblings, steps)
    if len(np.unique(size)) < 3:
        size_count = len(np.unique(size))
        reached = "1 size reaches" if size_count == 1 else f"{size_count} sizes reach"
        return _cannot(SCALE, f"{reached} step {steps:,.0f}; the size law needs at least 3")
    if not np.isfinite(loss).all():
        return _cannot(SCALE, f"the budget buys {steps:,.0f} steps of the larger model: too few to judge")
    centred = size - size.mean()
    slope = float(centred @ loss / (centred @ centred))
    residual = loss - loss.mean() - slope * centred
    free = len(size) - 2
    reach = math.log(larger) - size.mean()
    spread = math.sqrt(
        float(residual @ residual) / free * (1 + 1 / len(size) + reach**2 / float(centred @ centred))
    )
    half = float(student_quantile(0.5 + ending.level / 2, free)) * spread
    expected = math.exp(loss.mean() + slope * reach)
    option = _option(SCALE, expected, half, ending.level, steps, steps * larger / budget, price)
    return replace(option, reason=reason)


def _known_sizes(
    ending: Forecast, seen: Curve, siblings: Sequence[Curve], steps: float
) -> tuple[np.ndarray, np.ndarray, str]:
    """Return log sizes, log losses at `steps` (NaN: too early to read), and a caveat.

    Siblings that were planned for that many steps are read at their end. If these have fewer than three
    sizes, losses are taken from the middle of the schedules of siblings planned like the run itself, and of
    the run (of its forecast, if it has not reached that step yet), because its size is nearest to the larger.
    """
    sized = [c for c in siblings if c.parameters > 0]
    ended = [c for c in sized if c.finished and abs(c.horizon - steps) <= SAME_HORIZON * steps]
    if len({c.parameters for c in ended}) >= 3:
        ends = np.array([math.log(c.final_loss()) for c in ended])
        return np.log([c.parameters for c in ended]), ends, ""
    sized_runs = [c for c in sized if c.last >= steps and c.horizon == seen.horizon]
    losses = [_early_level(c, steps) for c in sized_runs]
    if seen.last >= steps:
        sized_runs, losses = [*sized_runs, seen], [*losses, _early_level(seen, steps)]
    elif ending.status != "failed":
        sized_runs, losses = [*sized_runs, seen], [*losses, math.log(_on_the_way(ending, seen, steps))]
    caveat = "taken from the middle of the siblings' schedules; with its own schedule it would end lower"
    return np.log([c.parameters for c in sized_runs]), np.array(losses), caveat


def _early_level(curve: Curve, steps: float) -> float:
    return level_at(curve, steps) if np.sum(curve.step <= steps) >= LEAST_LOSSES else math.nan


def level_at(curve: Curve, steps: float) -> float:
    """Return the smoothed log loss of a run at `steps`, from the losses up to there."""
    cut = curve.seen(steps)
    return level_and_slope(cut.step, cut.loss)[0]


def _option(
    action: str, loss: float, half: float, level: float, steps: float, spent: float, price: float
) -> Option:
    sigma = half / float(normal_quantile(0.5 + level / 2))
    cost = loss * (1 + price * min(spent, 1.0))
    return Option(action, loss, loss * math.exp(-half), loss * math.exp(half), sigma, spent, cost, steps)


def _cannot(action: str, reason: str) -> Option:
    nan = math.nan
    return Option(action, nan, nan, nan, nan, nan, nan, nan, "failed", reason)


def by_loss(options: Sequence[Option], seen: Curve) -> tuple[str, str]:
    """Take the option with the lowest expected log cost; continue if the run's own end cannot be judged.

    Regret is a ratio of costs, so its logarithm is a difference of log costs: this choice has the lowest
    expected log regret. It needs no threshold. The run continues if the other options cannot be judged, or if
    its own forecast has no bounds to compare with.
    """
    usable = {option.action: option for option in options if option.status == "ok"}
    if CONTINUE not in usable:
        return CONTINUE, "its own end cannot be forecast with an interval, so no option is compared with it"
    best = min(usable.values(), key=lambda option: option.cost)
    if best.action == CONTINUE:
        if SCALE not in usable:
            return CONTINUE, "stopping now is not expected to cost less; a larger model could not be judged"
        return CONTINUE, "no other option is expected to cost less"
    gain = 1.0 - best.cost / usable[CONTINUE].cost
    chance = chance_cheaper(best, usable[CONTINUE])
    return (
        best.action,
        f"expected to cost {gain:.1%} less than continuing (it costs less with probability {chance:.2f})",
    )


def chance_cheaper(option: Option, base: Option) -> float:
    """Return the probability that an option costs less than another."""
    spread = max(math.hypot(option.sigma, base.sigma), 1e-9)
    return float(normal_below(math.log(base.cost / option.cost) / spread))


def advise(
    seen: Curve,
    siblings: Sequence[Curve],
    *,
    budget: float,
    larger: int,
    level: float = LEVEL,
    judgement: Judgement | None = None,
) -> Advice:
    """Recommend continue, stop or scale by the default rule; see `weigh` for the arguments.

    `judgement` is that of the run's log (by default, what the rules say of it).
    """
    options = weigh(seen, siblings, budget=budget, larger=larger, level=level)
    action, why = by_health(judgement or of_remarks(seen)) or by_loss(options, seen)
    if action == SCALE:
        why = f"to {larger:,} parameters: {why}"
    return Advice(seen.run, action, why, options)


def of_remarks(seen: Curve) -> Judgement:
    """Return the judgement of a run by its log alone, without the alarms of `watch`."""
    return judge(seen.remarks, losses=len(seen.loss))


def by_health(judgement: Judgement) -> tuple[str, str] | None:
    """Return the advice of a judgement that says stop or look; None for a run that is all right."""
    if not judgement.grounds:
        return None
    return (STOP if judgement.level == GRAVE else LOOK), judgement.grounds[0].named
