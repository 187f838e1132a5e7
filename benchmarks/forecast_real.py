"""`auto` on every real family: python -m benchmarks.forecast_real DATA [--runs DEMO/runs] [--cuts .2,.3,.5].

DATA holds seed_runs/ and curves/; DEMO is what `toposcope demo --out DEMO` made. Beside `auto` stand the rule
before it (the one method of least left-out error) and the last value, all with the laws of the rate wherever
schedules differ. A run of the schedules is forecast from three finished ones of its size, GPT-2 from itself,
with its plan and without.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from benchmarks.forecast import FITTED, PLANS, annealed, gemstones, llmc, small_models
from benchmarks.forecast_families import compared_run, report
from toposcope.core.seeding import rng
from toposcope.forecasting import Curve
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--runs", type=Path, help="the demo's runs")
    parser.add_argument("--cuts", default="0.2,0.3,0.5")
    parser.add_argument("--only", default="", help="families whose name begins so")
    options = parser.parse_args()
    tables = []
    for family, run, siblings in jobs(options.data, options.runs):
        if not family.startswith(options.only):
            continue
        for cut in (float(c) for c in options.cuts.split(",")):
            made = compared_run(run, siblings, f"{family} at {cut:.0%}", cut)
            tables.append(made)
            print(made.to_string(header=len(tables) == 1), flush=True)
    report(pd.concat(tables))


if __name__ == "__main__":
    main()
