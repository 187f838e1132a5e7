"""Regret of continue, stop or scale: python -m benchmarks.analysis_decision [DATA] [--store DIR] [--json F].

DATA holds seed_runs/ and curves/gemstones/; DIR is `toposcope weights DATA/seed_runs --preset seed004 --out
DIR`. Synthetic families are simulated here, written as run folders and measured into a store, so that the
rules with topology can read it. Their exponents, schedules, data, noise and learning rates are random. The
rules were developed on draws 100 to 115 and are scored on draws 200 to 215.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.decision_rules import WITH_TOPOLOGY
from benchmarks.regret import MULTIPLES, read_loss, regret_summary, regret_table
from toposcope.core.progress import track
from toposcope.core.seeding import rng
from toposcope.forecasting import Curve, curve_from_metrics, forecast
from toposcope.forecasting.auto import Auto
from toposcope.forecasting.decision.advice import weigh_forecast
from toposcope.sources import open_series
from toposcope.store import Store
from toposcope.study.forecasts.gather import gather_curves
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.weights.presets import preset
from toposcope.sweep import Execution, sweep
from toposcope.synthetic import Spectrum, SyntheticRecipe, simulate, write_family

WIDTHS = (8, 16, 32, 64, 128)
SCORED = range(200, 216)
CUTS = (0.1, 0.3, 0.6)


def drawn(draw: int) -> SyntheticRecipe:
    g = rng(name="decision family", draw=draw)
    a, b = g.uniform(1.2, 2.4), g.uniform(0.9, 2.0)
    return SyntheticRecipe(
        Spectrum(round(a, 2), round(b, 2), 512), widths=WIDTHS, seeds=(draw,),
        schedule=str(g.choice(["constant", "cosine", "wsd"])),
        learning_rate=float(np.exp(g.uniform(np.log(0.003), np.log(0.5)))),
        data=int(g.choice([0, 0, 256])), noise=float(g.choice([0, 0.1])), batch=int(g.choice([64, 256])),
        outputs=8, steps=2000, checkpoints=101,
    )  # fmt: skip


def saturating() -> dict[str, SyntheticRecipe]:
    return {
        f"a={a:g} b={b:g} {schedule}": SyntheticRecipe(
            Spectrum(a, b, 1024), widths=WIDTHS, schedule=schedule, checkpoints=101
        )
        for a, b in ((1.5, 1.25), (2.0, 1.5))
        for schedule in ("cosine", "constant")
    }


def measured(recipe: SyntheticRecipe, folder: Path) -> list[Curve]:
    """Simulate a family, write it, measure its weights through a store, and read the curves back."""
    for width in recipe.widths:
        write_family(folder / "runs", recipe, simulate(recipe, width=width, seed=recipe.seeds[0]))
    store = Store.create(folder / "store", recipe=preset("default").recipe())
    probes = weight_probes(["neural_persistence"], preset("default", nulls=0))
    sweep(open_series(str(folder / "runs")), probes, store, execution=Execution(quiet=True))
    curves, problems = gather_curves(store.metrics(), store.runs(), features=store.features())
    assert not problems, problems
    return curves


def retrainer(recipe: SyntheticRecipe) -> Callable[[Curve, int], float]:
    """Return what trains a larger model of the family on a schedule of its own."""

    @cache
    def final(width: int, steps: int) -> float:
        if steps < 50:
            return math.inf
        run = simulate(replace(recipe, steps=steps, checkpoints=2), width=width, seed=recipe.seeds[0])
        return curve_from_metrics(run.run, run.metrics).final_loss()

    return lambda larger, steps: final(larger.parameters // recipe.outputs, steps)


def synthetic(recipes: dict[str, SyntheticRecipe], what: str) -> list[pd.DataFrame]:
    tables = []
    for name, recipe in track(recipes.items(), what):
        with tempfile.TemporaryDirectory() as folder:
            curves = measured(recipe, Path(folder))
        for schedule, retrained in (("shared schedule", None), ("its own schedule", retrainer(recipe))):
            found = regret_table(curves, CUTS, retrained=retrained, rules=WITH_TOPOLOGY)
            tables.append(found.assign(family=name, group=what, larger=schedule))
    return tables


def real(data: Path, store: Path | None) -> list[pd.DataFrame]:
    tables = []
    if store is not None:
        kept = Store.open(store)
        curves, _ = gather_curves(kept.metrics(), kept.runs(), features=kept.features())
        found = regret_table(curves, (0.18, 0.28, 0.48), rules=WITH_TOPOLOGY)
        tables.append(found.assign(group="five small models", larger="shared schedule"))
    table = pd.read_csv(data / "curves" / "gemstones" / "hot_width_le_768.csv")
    table = table.rename(columns={"final_loss": "loss"})
    gems = [
        curve_from_metrics(str(name), rows, parameters=int(rows["params_active_precise"].iloc[0]))
        for name, rows in table.groupby("run_name")
    ]
    print("The larger Gemstone's loss, log error\n" + bias(gems, (0.2, 0.3, 0.5)).round(4).to_string())
    found = regret_table(gems, (0.2, 0.5), rules=WITH_TOPOLOGY)
    tables.append(found.assign(group="gemstones (no weights)", larger="shared schedule"))
    return tables


def bias(curves: list[Curve], cuts: tuple[float, ...]) -> pd.DataFrame:
    """Return by how much the larger model's loss is predicted too low or too high, per budget.

    `hidden`: the next larger model alone is hidden. `smaller`: every larger one is, as for the largest model
    of a family. Log errors, predicted over actual, at the step that the budget buys.
    """
    ordered = sorted(curves, key=lambda curve: curve.parameters)
    rows = []
    for cut in cuts:
        for i, curve in enumerate(ordered):
            above = [other for other in ordered if other.parameters > 1.05 * curve.parameters]
            if not above:
                continue
            seen, bigger = curve.seen(cut * curve.horizon), above[0]
            others = [other for other in ordered if other is not curve and other is not bigger]
            for known, siblings in (("hidden", others), ("smaller", ordered[:i])):
                made = forecast(Auto(), seen, siblings)
                for multiple in MULTIPLES:
                    budget = multiple * (curve.horizon - seen.last) * curve.parameters
                    scale = weigh_forecast(
                        made, seen, siblings, budget=budget, larger=bigger.parameters
                    )[2]  # fmt: skip
                    steps = min(budget / bigger.parameters, bigger.horizon)
                    if scale.status == "ok":
                        actual = read_loss(bigger, steps)
                        rows.append((known, multiple, curve.run, math.log(scale.loss / actual)))
    table = pd.DataFrame(rows, columns=["known", "budget", "run", "error"])
    return table.groupby(["known", "budget"]).agg(
        n=("error", "size"), runs=("run", "nunique"), mean=("error", "mean"), spread=("error", "std"),
        too_low=("error", lambda e: int((e < 0).sum())),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--part", choices=["all", "real", "saturating", "drawn"], default="all")
    parser.add_argument("--draws", type=int, nargs=2, default=(SCORED.start, SCORED.stop))
    parser.add_argument("--json", type=Path, help="where every decision goes")
    parser.add_argument(
        "--read", type=Path, nargs="*", help="report these files of decisions, simulate nothing"
    )
    options = parser.parse_args()
    if options.read:
        report(pd.concat([pd.read_json(path, orient="records") for path in options.read]))
        return
    tables = real(options.data, options.store) if options.data and options.part in ("all", "real") else []
    if options.part in ("all", "saturating"):
        tables += synthetic(saturating(), "saturating families")
    if options.part in ("all", "drawn"):
        recipes = {f"draw {draw}": drawn(draw) for draw in range(*options.draws)}
        tables += synthetic(recipes, "drawn families")
    decisions = pd.concat(tables)
    if options.json:
        options.json.write_text(decisions.to_json(orient="records"))
    report(decisions)


def report(decisions: pd.DataFrame) -> None:
    """Print each rule's mean regret per group, over families where there are some, else over runs."""
    for (group, larger), rows in decisions.groupby(["group", "larger"], sort=False):
        one = rows
        if "family" in rows and rows["family"].isna().any():
            one = rows.drop(columns="family")
        best = one[one["rule"] == "always continue"]["best"].value_counts().to_dict()
        print(f"\n{group}, {larger}: best in hindsight {best}")
        print(regret_summary(one).round(4).to_string(index=False))


if __name__ == "__main__":
    main()
