"""Runs larger or smaller than all their siblings: python -m benchmarks.forecast_larger DATA [--draws A B].

Gemstones: the four largest from the nine smallest, the reverse, and random ladders of five sizes: the largest
and the smallest from the four others. With --draws simulated families instead (new kinds; --old: the kinds of
`benchmarks.forecast_families`). With --siblings TABLE... --runs TABLE... your own curves: every run of the
second from those of the first (what `toposcope forecast` reads, with sizes).

For each family and cut: the mean absolute error of the final loss in % by `auto`, by the run's own plain law,
and by a straight line of the siblings' log falls in log size; then of `auto`'s 90% intervals how many held,
and their mean score (width + 20 times the miss, in % of the loss; the lower the better). "with the gap": the
same, wider by the gap between `auto` and the plain law, in quadrature.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.forecast import gemstones
from benchmarks.forecast_laws import KINDS, NEW_KINDS
from benchmarks.forecast_real import Job, beyond_jobs, extremes
from toposcope.core.errors import InputError
from toposcope.core.seeding import rng
from toposcope.forecasting import Curve, forecast
from toposcope.forecasting.auto import Auto
from toposcope.forecasting.plain_law import PlainLaw
from toposcope.logs.curve import level_and_slope

LADDERS, RUNGS = 12, 5
ERRORS = ("auto", "plain law", "line in log size")


def real(data: Path) -> Iterator[Job]:
    """Yield the extremes of Gemstones whole and of drawn ladders of five sizes."""
    gems = gemstones(data)
    yield from extremes("Gemstones, four from nine", gems, 4)
    for draw in range(LADDERS):
        chosen = rng(name="gemstone ladders", draw=draw).choice(len(gems), RUNGS, replace=False)
        yield from extremes("Gemstones, ladders of five", [gems[i] for i in chosen])


def given(siblings: Sequence[str], runs: Sequence[str]) -> Iterator[Job]:
    """Yield every run of some tables with all runs of others."""
    from toposcope.runs.reading import Reading, read_curves

    known = read_curves(siblings, Reading())[0]
    for curve in read_curves(runs, Reading())[0]:
        yield "given", curve, known


def row(family: str, run: Curve, siblings: Sequence[Curve], cut: float) -> dict[str, object]:
    """Forecast one run from its siblings in three ways, and score the interval in two."""
    seen, actual = run.planned().seen(cut * run.horizon), math.log(run.final_loss())
    made = forecast(Auto.without_laws(), seen, siblings)
    half = math.log(made.high / made.final)
    finals = (math.log(made.final), own_law(seen), line(seen, siblings, cut))
    errors = [abs(final - actual) for final in finals]
    wider = math.hypot(half, finals[0] - finals[1])
    return {
        "family": family, "cut": cut, "signed": actual - finals[0],
        **dict(zip(ERRORS, errors, strict=True)),
        "held": errors[0] <= half, "score": score(half, errors[0]), "half": half,
        "held, gap": errors[0] <= wider, "score, gap": score(wider, errors[0]),
    }  # fmt: skip


def own_law(seen: Curve) -> float:
    """Return the log of the plain law's forecast, NaN where it has none."""
    try:
        return math.log(PlainLaw().predict(seen).final)
    except InputError:
        return math.nan


def line(seen: Curve, siblings: Sequence[Curve], cut: float) -> float:
    """Return the log loss at the cut and the siblings' falls from there, on a straight line in log size."""
    cuts = [sibling.seen(cut * sibling.horizon) for sibling in siblings]
    ends = [math.log(sibling.final_loss()) for sibling in siblings]
    falls = [end - level_and_slope(c.step, c.loss)[0] for c, end in zip(cuts, ends, strict=True)]
    slope = np.polyfit(np.log([sibling.parameters for sibling in siblings]), falls, 1)
    return level_and_slope(seen.step, seen.loss)[0] + float(np.polyval(slope, math.log(seen.parameters)))


def score(half: float, error: float) -> float:
    """Return the interval score at 90% of a symmetric interval (Gneiting and Raftery 2007).

    >>> round(score(0.01, 0.02), 3)
    0.22
    """
    return 2 * half + 20 * max(error - half, 0.0)


def table(jobs: Iterator[Job], cuts: Sequence[float]) -> pd.DataFrame:
    """Return a line for each family and cut."""
    made = [row(family, run, siblings, cut) for family, run, siblings in jobs for cut in cuts]
    rows = pd.DataFrame(made).dropna()
    percent = [*ERRORS, "signed", "half", "score", "score, gap"]
    rows[percent] = 100 * rows[percent]
    found = rows.groupby(["family", "cut"]).agg(
        n=("held", "size"), **{name: (name, "mean") for name in [*ERRORS, "signed"]},
        held=("held", "sum"), half=("half", "median"), score=("score", "mean"),
        **{"held, gap": ("held, gap", "sum"), "score, gap": ("score, gap", "mean")},
    )  # fmt: skip
    return found.reset_index()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--draws", type=int, nargs=2, help="drawn families in place of the real ones")
    parser.add_argument("--old", action="store_true", help="with --draws: the kinds that chose the interval")
    parser.add_argument("--siblings", nargs="+", default=[], help="tables of finished runs")
    parser.add_argument("--runs", nargs="+", default=[], help="tables of the runs to forecast")
    parser.add_argument("--cuts", default="0.2,0.3,0.5")
    options = parser.parse_args()
    cuts = [float(cut) for cut in options.cuts.split(",")]
    if options.siblings:
        jobs = given(options.siblings, options.runs)
    elif options.draws:
        jobs = beyond_jobs(options.data, range(*options.draws), KINDS if options.old else NEW_KINDS)
    else:
        jobs = real(options.data)
    print(table(jobs, cuts).round(2).to_string(index=False))


if __name__ == "__main__":
    main()
