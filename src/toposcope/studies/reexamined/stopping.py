"""Neural persistence as a rule of early stopping (Rieck et al. 2019), beside simpler rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd

from toposcope.core.seeding import rng
from toposcope.studies.claims import Claim, Standing
from toposcope.studies.reexamined.family import BASE, Row, RunPlan, matrices_of, twin_of, with_seeds
from toposcope.studies.sections import Section
from toposcope.studies.seed004.seeds import mean_interval, shown
from toposcope.topology import neural_persistence, stopping_index
from toposcope.training import TrainingStep

NAME = "stopping"
HELDOUT = "held-out loss"
PERSISTENCE, SPREAD, TWIN, CLOCK = "persistence", "spread", "twin", "clock"
RULES = {
    HELDOUT: "held-out loss",
    PERSISTENCE: "neural persistence",
    SPREAD: "std / max of the weights",
    TWIN: "neural persistence of Gaussian matrices of the same covariance",
    CLOCK: "the number of checks alone",
}
"""What a rule watches, and what it is called."""
SETTINGS = tuple(product((0, 4, 8, 16), (2, 4, 8)))
"""Burn-in and patience in checks: twelve of the pairs over which the source varies both."""
TEXT_HELD_OUT = 0.99
"""So few characters to train on that the held-out loss turns within the run; else no rule should stop."""


def plans(seeds: int) -> list[RunPlan]:
    """Return runs that overfit, at a constant rate, checked at 51 steps."""
    recipe = replace(BASE, heldout_fraction=TEXT_HELD_OUT, final_learning_rate=BASE.learning_rate)
    return [RunPlan("overfitting", with_seeds(recipe, seeds), {NAME: lambda: measure})]


def measure(event: TrainingStep) -> Iterable[Row]:
    """Yield the three numbers of the weights and the held-out loss at a checkpoint."""
    if event.heldout_loss is None:
        return
    matrices = matrices_of(event)
    chance = rng(name="stopping twin", run=event.run)  # the same draws at every step
    twins = [twin_of(matrix, chance) for matrix in matrices.values()]
    yield {
        HELDOUT: event.heldout_loss,
        PERSISTENCE: network_persistence(list(matrices.values())),
        SPREAD: float(np.mean([np.abs(m).std() / np.abs(m).max() for m in matrices.values()])),
        TWIN: network_persistence(twins),
    }


def network_persistence(matrices: list[np.ndarray]) -> float:
    """Return the mean neural persistence of a network's matrices, normalised as in the source.

    >>> network_persistence([np.ones((2, 3)), np.ones((3, 2))])
    0.0
    """
    top = max(float(np.abs(matrix).max()) for matrix in matrices)
    return float(np.mean([neural_persistence(matrix, "network", top) for matrix in matrices]))


def stops(rows: pd.DataFrame) -> pd.DataFrame:
    """Return where each rule stops each run at each setting: `at` a check, `loss` there, and `clock`.

    A rule that never fires trains to the end. `clock` says that it fired at the first check at which it could
    have, as it does for any number that does not rise; such a number is the rule CLOCK.
    """
    stop_rows = []
    for seed, run in rows.sort_values("step").groupby("seed"):
        loss = run[HELDOUT].to_numpy(float)
        for rule, (burn_in, patience) in product(RULES, SETTINGS):
            values = {HELDOUT: 1.0 / loss, CLOCK: np.ones_like(loss)}.get(rule)
            values = run[rule].to_numpy(float) if values is None else values
            index = stopping_index(list(values), patience=patience, burn_in=burn_in)
            at = len(loss) - 1 if index is None else index
            stop_rows.append({
                "seed": seed, "rule": rule, "burn_in": burn_in, "patience": patience,
                "at": at / (len(loss) - 1), "loss": loss[at], "fires": index is not None,
                "clock": index is not None and index <= burn_in + patience, "best": loss.min(),
            })  # fmt: skip
    return pd.DataFrame(stop_rows)


def judge(rows: pd.DataFrame) -> tuple[list[Claim], list[Section]]:
    """Judge the rule: whether it stops before the held-out loss at no cost, and better than simpler rules.

    No cost: the held-out loss at its stop is higher by less than two standard deviations over seeds of the
    best held-out loss, at the upper end of the 95% interval. The simpler rules are std/max, a clock, and the
    same number of Gaussian matrices, which have the covariance and nothing else.
    """
    stop_rows = stops(rows)
    of_rule = {
        str(rule): mine.groupby("seed")[["at", "loss", "fires", "clock", "best"]].mean()
        for rule, mine in stop_rows.groupby("rule")
    }
    mine, heldout = of_rule[PERSISTENCE], of_rule[HELDOUT]
    saved, cost = heldout["at"] - mine["at"], mine["loss"] - heldout["loss"]
    tolerance = 2.0 * float(heldout["best"].std(ddof=1))
    _, least_saved, _ = mean_interval(saved)
    _, _, most_cost = mean_interval(cost)
    beside = {rule: mine["loss"] - of_rule[rule]["loss"] for rule in (SPREAD, CLOCK, TWIN)}
    most_beside = max(mean_interval(values)[2] for values in beside.values())
    claim = Claim(
        text="Neural persistence stops training earlier than the held-out loss, at about the same quality",
        source="Rieck et al. 2019: shorter training, comparable accuracy",
        here=f"it saves {shown(100 * saved, '+.0f')}% of the run and costs {shown(cost, '+.3f')} nats, "
        f"of which {tolerance:.3f} would be no cost",
        statistic=f"{len(mine)} runs, {len(SETTINGS)} settings; persistence minus std/max "
        f"{shown(beside[SPREAD], '+.3f')} nats, minus a clock {shown(beside[CLOCK], '+.3f')}, "
        f"minus Gaussian matrices of the same covariance {shown(beside[TWIN], '+.3f')}",
        judgement=_judgement(least_saved, most_cost, tolerance, most_beside),
    )  # fmt: skip
    return [claim], [_table(of_rule), _settings(stop_rows)]


def _judgement(least_saved: float, most_cost: float, tolerance: float, most_beside: float) -> Standing:
    """Return the judgement from the ends of the 95% intervals."""
    if not np.isfinite([least_saved, most_cost, tolerance]).all():
        return Standing.UNTESTED
    if least_saved <= 0 or most_cost > tolerance:
        return Standing.FAILS
    return Standing.HOLDS if most_beside < 0 else Standing.OUTDONE


def _table(of_rule: Mapping[str, pd.DataFrame]) -> Section:
    rows = []
    for rule, label in RULES.items():
        mine = of_rule[rule]
        rows.append((
            label, shown(100 * mine["at"], ".0f"), shown(mine["loss"]), shown(mine["loss"] - mine["best"]),
            f"{100 * mine['fires'].mean():.0f}", f"{100 * mine['clock'].mean():.0f}",
        ))  # fmt: skip
    return Section(
        "Early stopping, by what the rule watches",
        ("rule on", "stops at, % of the run", "held-out loss there", "above the best", "fires, %",
         "as a clock, %"),
        tuple(rows),
        "Means over settings, then over seeds with Student's 95% intervals. As a clock: at the first check "
        "at which the rule could fire, which is where it fires for a number that never rises.",
    )  # fmt: skip


def _settings(stop_rows: pd.DataFrame) -> Section:
    rows = []
    for burn_in, patience in SETTINGS:
        mine = stop_rows[(stop_rows["burn_in"] == burn_in) & (stop_rows["patience"] == patience)]
        means = {str(rule): part[["at", "loss"]].mean() for rule, part in mine.groupby("rule")}
        cells = (f"{100 * means[rule]['at']:.0f}% at {means[rule]['loss']:.3f}" for rule in RULES)
        rows.append((burn_in, patience, *cells))
    return Section(
        "Early stopping, by setting",
        ("burn-in", "patience", *RULES.values()),
        tuple(rows),
        "Means over seeds: the share of the run after which the rule stops, and the held-out loss there.",
    )
