"""`auto` on every real family: python -m benchmarks.forecast_real DATA [--runs DEMO/runs] [--cuts .2,.3,.5].

With --beyond [--draws FIRST LAST] the runs larger or smaller than all their siblings, with and without the
term that `toposcope.forecasting._beyond` adds to their intervals: of Gemstones each of the four largest
(smallest) from the nine others, else the largest (smallest) from all others, and in simulated families also
from the farthest half. The term's form was chosen on draws 300 to 309 of the old kinds (--old). It is judged
on draws 910 to 919 of the new kinds, on which nothing was chosen.

DATA holds seed_runs/ and curves/; DEMO is the folder of `toposcope demo --out DEMO`. `auto` is compared with
the rule before it (the single method with the least left-out error) and with the last value, all with the
laws of the rate if schedules differ. A run of the schedules is forecast from three finished ones of its size,
GPT-2 from its own log, with its plan and without.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.forecast import FITTED, PLANS, annealed, gemstones, llmc, small_models
from benchmarks.forecast_families import compared_run, report, simulated
from benchmarks.forecast_laws import KINDS, NEW_KINDS
from toposcope.core.seeding import rng
from toposcope.forecasting import Curve, forecast
from toposcope.forecasting import _beyond as beyond
from toposcope.forecasting.auto import Auto
from toposcope.study.forecasts.gather import gather_curves

Job = tuple[str, Curve, Sequence[Curve]]

SUBSETS = 6
"""Drawn subsets of Gemstones, of four to eight runs each."""


def jobs(data: Path, demo: Path | None) -> Iterator[Job]:
    """Yield family, run and the siblings that it is forecast from."""
    if demo is not None:
        yield from left_out("demo", demo_runs(demo))
    yield from left_out("five small models", small_models(data, None))
    gems = gemstones(data)
    yield from left_out("gemstones", gems)
    for draw in range(SUBSETS):
        random = rng(name="gemstone subsets", draw=draw)
        chosen = random.choice(len(gems), int(random.integers(4, 9)), replace=False)
        yield from left_out(f"gemstones, subset {draw}", [gems[i] for i in chosen])
    for size in (25, 100):
        known = {name: annealed(data, size, name) for name in PLANS}
        for name, curve in known.items():
            names = [n for n in FITTED if n != name] + ["wsd_20000_24000"] * (name in FITTED)
            yield f"schedules {size}M", curve, [known[n] for n in names]
    gpt2 = llmc(data)
    yield "GPT-2 with its plan", gpt2, ()


def left_out(family: str, curves: Sequence[Curve]) -> Iterator[Job]:
    """Yield every run with all others."""
    for curve in curves:
        yield family, curve, [other for other in curves if other is not curve]


def demo_runs(folder: Path) -> list[Curve]:
    """Read the runs of a demo."""
    from toposcope.sources import open_series

    series = open_series(str(folder))
    runs = pd.DataFrame(
        [{"run": r.run, "parameters": r.parameters, "config": dict(r.config)} for r in series.runs]
    )
    metrics = pd.concat([series.metrics(r.run).assign(run=r.run) for r in series.runs])
    return gather_curves(metrics, runs)[0]


def extremes(family: str, curves: Sequence[Curve], most: int = 1) -> Iterator[Job]:
    """Yield the `most` largest and smallest runs, each from all that are not among them."""
    order = sorted((curve for curve in curves if not curve.rose()), key=lambda curve: curve.parameters)
    for size, sized in (("larger", order), ("smaller", order[::-1])):
        yield from ((f"{family}, {size}", run, sized[:-most]) for run in sized[-most:])


def beyond_jobs(data: Path, draws: Sequence[int], kinds: Sequence[str]) -> Iterator[Job]:
    """Yield runs beyond the sizes of their siblings, of real families or, with draws, of drawn ones."""
    if not draws:
        yield from extremes("Gemstones from nine", gemstones(data), 4)
        yield from extremes("Gemstones from twelve", gemstones(data))
        yield from extremes("five small models", small_models(data, None))
    for draw in draws:
        for kind in kinds:
            curves = simulated(kind, draw, logged=150)
            if len(curves) >= 5:
                yield from extremes("drawn", curves)
            if len(curves) >= 7:
                for family, run, siblings in extremes("drawn, from the far half", curves):
                    yield family, run, siblings[: len(curves) // 2 + 1]


def widened(jobs: Iterator[Job], cuts: Sequence[float]) -> pd.DataFrame:
    """Return by family and cut how many intervals held and how wide they were, without and with the term."""
    rows, outward = [], beyond.outward
    for family, run, siblings in jobs:
        for cut in cuts:
            seen, actual = run.planned().seen(cut * run.horizon), run.final_loss()
            row: dict[str, object] = {"family": family, "cut": cut}
            for name, tests in (("without", lambda *_: []), ("with", outward)):
                beyond.outward = tests
                made = forecast(Auto.without_laws(), seen, siblings)
                row[f"held {name}"] = made.low <= actual <= made.high
                row[f"half {name}"] = np.log(made.high / made.final)
            rows.append({**row, "error": abs(np.log(made.final / actual))})
    beyond.outward = outward
    table = pd.DataFrame(rows).dropna()
    found = table.groupby(["family", "cut"]).agg(
        n=("error", "size"), error=("error", "mean"),
        without=("held without", "sum"), held=("held with", "sum"),
        half_without=("half without", "median"), half=("half with", "median"),
    )  # fmt: skip
    return found.reset_index()


DECAYS = ("wsd_20000_24000", "wsdld_20000_24000")
"""Published runs at a constant rate to step 20,000 that then decay, exponentially and in a straight line."""


def decays(data: Path) -> pd.DataFrame:
    """Return what a decay was forecast to give from the constant part before it, by where that is learnt."""
    sizes = {size: {name: annealed(data, size, name) for name in PLANS} for size in (25, 100)}
    rows = []
    for size, other in ((25, 100), (100, 25)):
        for name in DECAYS:
            learnt = {
                "the law, lent": [],
                "decays of the other size": [sizes[other][one] for one in (*DECAYS, "constant_24000")],
                "other schedules of its size": [sizes[size][one] for one in FITTED],
            }
            run = sizes[size][name]
            for source, siblings in learnt.items():
                made = forecast(Auto(), run.seen(20_000), siblings)
                actual = run.final_loss()
                error, held = np.log(made.final / actual), made.low <= actual <= made.high
                rows.append((f"{size}M {name}", source, made.final, made.low, made.high, actual, error, held))
    return pd.DataFrame(
        rows, columns=["run", "from", "forecast", "low", "high", "actual", "log error", "held"]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--runs", type=Path, help="the demo's runs")
    parser.add_argument("--cuts", default="0.2,0.3,0.5")
    parser.add_argument("--only", default="", help="families whose name begins so")
    parser.add_argument("--beyond", action="store_true", help="runs beyond the sizes of their siblings")
    parser.add_argument("--draws", type=int, nargs=2, default=(0, 0), help="with --beyond: drawn families")
    parser.add_argument("--old", action="store_true", help="with --draws: the kinds that the term was set on")
    parser.add_argument("--annealed", action="store_true", help="what a decay begun now would give")
    options = parser.parse_args()
    if options.annealed:
        print(decays(options.data).round(4).to_string(index=False))
        return
    cuts = [float(c) for c in options.cuts.split(",")]
    if options.beyond:
        kinds = KINDS if options.old else NEW_KINDS
        found = widened(beyond_jobs(options.data, range(*options.draws), kinds), cuts)
        print(found.round(4).to_string(index=False))
        return
    tables = []
    for family, run, siblings in jobs(options.data, options.runs):
        if not family.startswith(options.only):
            continue
        for cut in cuts:
            made = compared_run(run, siblings, f"{family} at {cut:.0%}", cut)
            tables.append(made)
            print(made.to_string(header=len(tables) == 1), flush=True)
    report(pd.concat(tables))


if __name__ == "__main__":
    main()
