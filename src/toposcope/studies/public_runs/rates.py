"""Alarms, forecasts, shared spikes and differences between seeds over many runs: the study's numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import binom

from toposcope.core.distributions import student_quantile
from toposcope.core.progress import Progress
from toposcope.core.seeding import rng
from toposcope.core.types import CUTS
from toposcope.forecasting import Auto, Curve, LastValue, curve_from_metrics, forecast
from toposcope.rules import assess, judge, replay
from toposcope.statistics.correlations import holm
from toposcope.studies.public_runs.logs import PublicRun
from toposcope.studies.public_runs.plain_rules import PLAIN_RULES, WINDOW

LEAST_LOSSES = WINDOW
LEAST_SEEN = 3
"""The fewest losses for a forecast."""
FORECAST_LOSSES = 20
"""Losses that a run needs to be forecast: at 20% of it, four are known."""
SPIKE = 1.2
"""A loss of this many times the median before it is a spike: single losses of public runs reach 1.66."""
BEFORE = 10
"""The number of losses whose median a spike is compared with."""
OURS = ("check: stop", "check: look or stop", "watch: loss alarms")
TAIL = 0.1
"""The share of a run whose mean loss is its final loss."""


@dataclass(frozen=True, slots=True)
class Alarms:
    """In how many of `runs` each rule fires."""

    runs: int
    counts: Mapping[str, int]


def alarms(runs: Sequence[PublicRun], *, quiet: bool = False) -> Alarms:
    """Read every log of enough losses to its end by every rule."""
    counts = Counter(dict.fromkeys((*OURS, *PLAIN_RULES), 0))
    able = [run for run in runs if len(run.log) > LEAST_LOSSES]
    with Progress("reading logs", len(able), quiet=quiet) as progress:
        for run in able:
            spoken = replay(run.log)
            level = judge(assess(run.log), spoken, losses=len(run.log)).level
            counts[OURS[0]] += level == "stop"
            counts[OURS[1]] += level in ("look", "stop")
            counts[OURS[2]] += bool(spoken)
            for name, rule in PLAIN_RULES.items():
                counts[name] += rule(run.log, -math.inf)
            progress.advance()
    return Alarms(len(able), counts)


@dataclass(frozen=True, slots=True)
class ForecastCoverage:
    """Forecasts from one share of training: mean relative errors, and intervals that contain the final loss.

    `held` says for each run with an interval whether it contains the final loss.
    """

    cut: float
    runs: int
    error: float
    last_value: float
    intervals: int
    inside: int
    half_width: float
    held: tuple[tuple[str, bool], ...] = ()


def coverage_interval(held: Sequence[ForecastCoverage]) -> tuple[float, float]:
    """Return Student's 95% interval over runs for the share of intervals that contain the final loss.

    The forecasts of one run from several shares of its training are not independent, so a run counts once.
    """
    rows = pd.DataFrame([row for score in held for row in score.held], columns=["run", "inside"])
    shares = rows.groupby("run")["inside"].mean().to_numpy(float)
    if len(shares) < 2:
        return 0.0, 1.0
    half = float(student_quantile(0.975, len(shares) - 1) * shares.std(ddof=1) / math.sqrt(len(shares)))
    return max(float(shares.mean()) - half, 0.0), min(float(shares.mean()) + half, 1.0)


def forecasts_held(runs: Sequence[PublicRun], *, most: int, quiet: bool = False) -> list[ForecastCoverage]:
    """Forecast one random run of each of at most `most` folders after each of `CUTS`, from itself alone."""
    chosen = _drawn([run for run in runs if len(run.log) >= FORECAST_LOSSES], most)
    rows = []
    with Progress("forecasting", len(chosen), quiet=quiet) as progress:
        for run in chosen:
            curve = curve_from_metrics(run.name, run.log)
            rows += [(run.name, *row) for cut in CUTS if (row := _forecast(curve, cut)) is not None]
            progress.advance()
    table = pd.DataFrame(rows, columns=["run", "cut", "error", "last", "known", "inside", "half"])
    return [
        ForecastCoverage(
            cut, len(mine), float(mine["error"].mean()), float(mine["last"].mean()), int(mine["known"].sum()),
            int(mine["inside"].sum()), float(mine.loc[mine["known"], "half"].mean()),
            tuple(mine.loc[mine["known"], ["run", "inside"]].itertuples(index=False, name=None)),
        )
        for cut, mine in ((cut, table[table["cut"] == cut]) for cut in CUTS)
    ]  # fmt: skip


def _drawn(runs: Sequence[PublicRun], most: int) -> list[PublicRun]:
    """Return one random run of each folder, for at most `most` folders."""
    groups: dict[str, list[PublicRun]] = {}
    for run in runs:
        groups.setdefault(run.group, []).append(run)
    g = rng(name="public runs", folders=len(groups))
    names = [str(name) for name in g.permutation(sorted(groups))][:most]
    return [groups[name][int(g.integers(len(groups[name])))] for name in names]


def _forecast(curve: Curve, cut: float) -> tuple[float, float, float, bool, bool, float] | None:
    """Return the errors and the interval of a forecast from a share of a run; None where it has none."""
    seen = curve.seen(cut * curve.horizon)
    if len(seen.step) < LEAST_SEEN:
        return None
    prediction, actual = forecast(Auto(), seen), curve.final_loss()
    if prediction.status == "failed":
        return None
    last = LastValue().predict(seen).final
    bounded = math.isfinite(prediction.low) and math.isfinite(prediction.high)
    half = (
        (math.log(prediction.high) - math.log(prediction.low)) / 2
        if bounded and prediction.low > 0
        else math.nan
    )
    return (
        cut, abs(prediction.final / actual - 1), abs(last / actual - 1), bounded,
        bounded and prediction.low <= actual <= prediction.high, half,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SharedStep:
    """A step: how many of the runs that log it spike there, how many would by chance, and the p-values."""

    step: int
    spikes: int
    logged: int
    expected: float
    p: float
    p_holm: float


def spike_steps(log: pd.DataFrame) -> np.ndarray:
    """Return the steps whose loss is 1.2 times the median of the ten before it, or more.

    >>> spike_steps(pd.DataFrame({"step": range(12), "loss": [1.0] * 11 + [1.3]})).tolist()
    [11.0]
    """
    loss, step = log["loss"].to_numpy(float), log["step"].to_numpy(float)
    if len(loss) <= BEFORE:
        return step[:0]
    before = np.lib.stride_tricks.sliding_window_view(loss[:-1], BEFORE)
    return step[BEFORE:][loss[BEFORE:] >= SPIKE * np.median(before, axis=1)]


def shared_spikes(runs: Sequence[PublicRun]) -> list[SharedStep]:
    """Return every step at which a run spikes, tested against the share of all losses that are spikes.

    A folder counts once at a step, because its runs may be restarts of one run.
    """
    spiked: dict[float, set[str]] = {}
    logged: dict[float, set[str]] = {}
    for run in runs:
        for step in run.log["step"].to_numpy(float)[BEFORE:]:
            logged.setdefault(step, set()).add(run.group)
        for step in spike_steps(run.log):
            spiked.setdefault(step, set()).add(run.group)
    if not spiked:
        return []
    rate = sum(map(len, spiked.values())) / sum(map(len, logged.values()))
    steps = sorted(spiked)
    p = np.array([float(binom.sf(len(spiked[at]) - 1, len(logged[at]), rate)) for at in steps])
    return [
        SharedStep(int(at), len(spiked[at]), len(logged[at]), rate * len(logged[at]), *map(float, tested))
        for at, *tested in zip(steps, p, holm(p), strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Differences:
    """The differences between the final losses of two seeds of one recipe: `sizes`, each with its `weights`.

    `recipe` numbers the recipe of each pair; all recipes have equal weight.
    """

    groups: int
    runs: int
    sd: float
    sizes: np.ndarray
    weights: np.ndarray
    recipe: np.ndarray

    def quantile(self, share: float) -> float:
        """Return the difference below which this share of the pairs lies, with equal weight per recipe."""
        if not len(self.sizes):
            return math.nan
        order = np.argsort(self.sizes)
        reached = np.cumsum(self.weights[order]) / self.weights.sum()
        return float(self.sizes[order][min(int(np.searchsorted(reached, share)), len(order) - 1)])

    def beyond(self, size: float) -> tuple[float, float, float]:
        """Return the share of pairs that differ by more, with Student's 95% interval over the recipes."""
        if self.groups < 2:
            return (math.nan,) * 3
        by_recipe = np.bincount(self.recipe, self.weights * (self.sizes > size))
        half = float(
            student_quantile(0.975, len(by_recipe) - 1) * by_recipe.std(ddof=1) / math.sqrt(len(by_recipe))
        )
        return (
            float(by_recipe.mean()),
            max(float(by_recipe.mean()) - half, 0.0),
            min(float(by_recipe.mean()) + half, 1.0),
        )


def differences(runs: Sequence[PublicRun]) -> Differences:
    """Return how far the final losses of seeds of one recipe differ, at the last step that all have."""
    recipes: dict[str, list[PublicRun]] = {}
    for run in runs:
        if run.seed:
            recipes.setdefault(run.recipe, []).append(run)
    finals = [values for group in recipes.values() if len(values := _finals(group)) > 1]
    if not finals:
        return Differences(0, 0, math.nan, np.empty(0), np.empty(0), np.empty(0, int))
    pairs = [np.abs(np.subtract.outer(final, final))[np.triu_indices(len(final), 1)] for final in finals]
    weights = [np.full(len(pair), 1 / len(pair)) for pair in pairs]
    free = sum(len(final) - 1 for final in finals)
    sd = math.sqrt(sum(((final - final.mean()) ** 2).sum() for final in finals) / free)
    return Differences(
        len(finals),
        sum(map(len, finals)),
        sd,
        np.concatenate(pairs),
        np.concatenate(weights),
        np.repeat(np.arange(len(pairs)), [len(pair) for pair in pairs]),
    )


def _finals(group: Sequence[PublicRun]) -> np.ndarray:
    """Return the mean loss of each seed over the last tenth before the last step that all have logged."""
    seeds = {run.seed: run for run in sorted(group, key=lambda run: len(run.log))}.values()
    last = min(float(run.log["step"].iloc[-1]) for run in seeds)
    tails = [run.log[(run.log["step"] <= last) & (run.log["step"] > (1 - TAIL) * last)] for run in seeds]
    return np.array([float(tail["loss"].mean()) for tail in tails if len(tail)])
