"""The weight-space paper's claims, judged on these runs, over their seeds if there are several."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from toposcope.published.forecast_rules import CONTROLS, METHODS, NEURAL_PERSISTENCE
from toposcope.studies.claims import Claim, Standing, beyond_drift, holds, of_verdict, within
from toposcope.studies.seed004.runs import H0, H1, printed
from toposcope.studies.seed004.seeds import AcrossSeeds, mean_interval, shown, shown_rho

_HALF = 0.5
"""A claim about the order of sizes holds if it does in more than this share of the seeds."""
LEAST_ORDERED = 3
"""With fewer sizes, claims about their order are left out."""
_FEW = 3
"""With fewer seeds, no majority is counted."""
_CLAIMED = 10.0
"""The smallest gain that the paper claims, in percent."""
ONE_SEED = "one seed of a size: another may differ as much"
_EARLIEST = 0.25
"""The claim is about 30 and 50% of training; the paper finds no gain at 20%."""


def claims(across: AcrossSeeds, comparable: AcrossSeeds | None = None) -> list[Claim]:
    """Return the paper's claims, judged: a claim about sizes holds if it does for most seeds.

    `comparable` are the runs that were trained alike, if not all were; they judge what compares sizes.
    With fewer than three of their sizes, claims about the order of sizes are left out.
    """
    alike = across if comparable is None else comparable
    if len(alike.groups) < LEAST_ORDERED:
        return [_tracks(across), _forecasts(across), _first(across), _larger(across)]
    return [
        _loss_law(alike),
        _tracks(across),
        _strengthens(alike),
        _reverses(alike),
        _weakens(alike),
        _forecasts(across),
        _later(alike),
        _feature_law(alike),
        _first(across),
        _larger(across),
    ]


def _of_seeds(across: AcrossSeeds) -> str:
    return f"{across.seeds:,} seed{'s' * (across.seeds != 1)}"


def _over_seeds(held: Sequence[bool]) -> Standing:
    """Judge a claim about the order of sizes: by all seeds, or by the majority of three or more."""
    if not any(held):
        return Standing.FAILS
    if len(held) < _FEW and not all(held):
        return Standing.UNTESTED
    if not np.mean(held) > _HALF:
        return Standing.FAILS
    return Standing.HOLDS if len(held) > 1 else Standing.UNTESTED


def _beyond(judged: Standing, verdict: str) -> Standing:
    """If a claim holds as written, judge what is left of it beyond the drift."""
    return of_verdict(True, verdict) if judged is Standing.HOLDS else judged


def _loss_law(across: AcrossSeeds) -> Claim:
    return _law(across, "The final loss scales as a power of the size", "loss", "loss", falls=True)


def _law(across: AcrossSeeds, text: str, column: str, printed_as: str, *, falls: bool) -> Claim:
    """Judge a power law: by the exponents of the seeds, or by one seed's interval over the sizes."""
    stated = printed()["scaling"][printed_as]
    mean, low, high = across.exponent(column)
    over = "over seeds" if across.seeds > 1 else f"over {len(across.groups):,} sizes"
    ground = f"95% {over}: {low:.3f} to {high:.3f}" + (f"; {ONE_SEED}" if across.seeds == 1 else "")
    return Claim(
        text=text,
        source=f"N^{stated['exponent']}, R2 {stated['r2']}",
        here=f"N^{mean:.3f}, from {_of_seeds(across)}",
        statistic=ground,
        judgement=within(low, high, *((-np.inf, 0.0) if falls else (0.0, np.inf))),
    )


def _tracks(across: AcrossSeeds) -> Claim:
    rho = across.rho[H0].to_numpy(float)
    line = across.verdicts.loc[[H0]].to_dict("records")[0]
    return Claim(
        text="H0 total persistence is anticorrelated with the loss in every model",
        source="rho -0.59 to -0.91, p < 1e-5",
        here=f"rho {rho.min():+.2f} to {rho.max():+.2f} in {len(rho):,} runs",
        statistic=beyond_drift(line),
        judgement=of_verdict(bool((rho < 0).all()), str(line["verdict"])),
    )


def _strengthens(across: AcrossSeeds) -> Claim:
    strict = [
        bool((np.diff(np.abs(across.rho.loc[runs, H0].to_numpy(float))) > 0).all())
        for runs in across.families
    ]
    order = [
        float(spearmanr(list(across.groups), np.abs(across.rho.loc[runs, H0].to_numpy(float))).statistic)
        for runs in across.families
    ]
    return Claim(
        text="That correlation strengthens monotonically with the size",
        source="0.59, 0.85, 0.87, 0.90, 0.91",
        here=f"in {sum(strict)} of {_of_seeds(across)}",
        statistic=f"rank correlation of size and |rho| {shown_rho(order)}; "
        f"by chance 1 in {math.factorial(len(across.groups)):,} per seed",
        judgement=_over_seeds(strict),
    )


def _reverses(across: AcrossSeeds) -> Claim:
    small, *_, large = across.groups.values()
    low, high = (across.rho.loc[runs, NEURAL_PERSISTENCE].to_numpy(float) for runs in (small, large))
    held = [bool(a < 0 < b) for a, b in zip(low[: across.seeds], high[: across.seeds], strict=True)]
    line = across.verdicts.loc[[NEURAL_PERSISTENCE]].to_dict("records")[0]
    return Claim(
        text="Neural persistence moves against the loss in the smallest model and with it in the largest",
        source="rho -0.31 and +0.53",
        here=f"rho {shown_rho(low)} and {shown_rho(high)}; in {sum(held)} of {_of_seeds(across)}",
        statistic=beyond_drift(line),
        judgement=_beyond(_over_seeds(held), str(line["verdict"])),
    )


def _weakens(across: AcrossSeeds) -> Claim:
    strict = [
        bool((np.diff(np.abs(across.rho.loc[runs, H1].to_numpy(float))) < 0).all())
        for runs in across.families
    ]
    small, *_, large = across.groups.values()
    ends = [shown_rho(across.rho.loc[runs, H1].to_numpy(float)) for runs in (small, large)]
    return Claim(
        text="The correlation of H1 with the loss weakens with the size",
        source="-0.64, -0.64, -0.58, -0.49, +0.05",
        here=f"in {sum(strict)} of {_of_seeds(across)}; smallest {ends[0]}, largest {ends[1]}",
        statistic="|rho| falls from each size to the next",
        judgement=_over_seeds(strict),
    )


def _forecasts(across: AcrossSeeds) -> Claim:
    loss_only, _, combined, _ = METHODS
    late = across.errors[across.errors.index.get_level_values("fraction") > _EARLIEST].groupby("seed").mean()
    gain = 100 * (1 - late[combined] / late[loss_only])
    best = str(late[list(CONTROLS)].mean().idxmin())
    low = mean_interval(late[best] - late[combined])[1]
    judgement = _gained(across, gain, low)
    return Claim(
        text="With topology the final loss is forecast 10 to 29% better from 30 to 50% of training",
        source="10.6% and 29.0%",
        here=f"{shown(gain, '+.1f')} % better than the loss alone, {_of_seeds(across)}",
        statistic=f"gain in error over the same rule with {CONTROLS[best]} instead: "
        f"{shown(late[best] - late[combined], '+.4f')}",
        judgement=judgement,
    )


def _gained(across: AcrossSeeds, gain: pd.Series, beyond: float) -> Standing:
    """Judge a gain in percent; `beyond` is the lower end of the gain over the best control."""
    if across.seeds > 1:
        _, low, high = mean_interval(gain)
        if not low > 0:
            return Standing.FAILS if high < _CLAIMED else Standing.UNTESTED
    elif not float(gain.mean()) > 0:
        return Standing.FAILS
    return Standing.HOLDS if beyond > 0 else Standing.DRIFT


def _later(across: AcrossSeeds) -> Claim:
    order, steps = [], across.diminishing
    for runs in across.families:
        step_values = steps.loc[runs].to_numpy(float)
        met = np.isfinite(step_values)
        if met.sum() > 2:
            order.append(float(spearmanr(np.array(list(across.groups))[met], step_values[met]).statistic))
    tested = len(order) > 1
    _, low, high = mean_interval(order) if tested else (np.nan, -np.inf, np.inf)
    return Claim(
        text="Larger models reach diminishing returns later",
        source="800, 400, 1800, 1500, 1600",
        here="steps " + ", ".join(_step(steps.loc[runs]) for runs in across.groups.values()),
        statistic=f"rank correlation with the size over seeds: {shown_rho(order)}" if tested else ONE_SEED,
        judgement=within(low, high, 0.0, np.inf),
    )


def _step(steps: pd.Series) -> str:
    """Return the mean step over the seeds that reach it."""
    return f"{steps.mean():.0f}" if steps.notna().any() else "none"


def _feature_law(across: AcrossSeeds) -> Claim:
    return _law(across, "Final H0 total persistence grows as a power of the size", H0, "h0", falls=False)


def _first(across: AcrossSeeds) -> Claim:
    leads = across.leads
    columns_found = [str(column) for column in leads.index[leads["p_holm"] < 0.05]]
    best = leads["p_holm"].min()
    return Claim(
        text="Topology shows what the loss does not: a feature moves before the loss",
        source="expected",
        here=f"in at most {leads['first'].max():.0f} of {leads['runs'].max():.0f} runs; by chance in 5%",
        statistic=f"smallest p {best:.2g} (Holm)" if np.isfinite(best) else "no run is long enough to test",
        judgement=Standing.UNTESTED if not np.isfinite(best) else holds(bool(columns_found)),
    )


def _larger(across: AcrossSeeds) -> Claim:
    return Claim(
        text="The same trends hold in Pythia-14m",
        source="neural persistence +88%, H0 total -35%",
        here="not among these runs",
        statistic="a series of Pythia-14m's own checkpoints gives Table 8",
        judgement=Standing.UNTESTED,
    )
