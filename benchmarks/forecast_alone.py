"""How often the interval of a run alone holds: python -m benchmarks.forecast_alone DATA [--draws 800 830].

Every run is forecast by `auto` from 20, 30 and 50% of itself: no siblings, no plan, its end known. The
unwidened interval is what its earlier cuts say; the printed one has its lower end lowered by what annealing
gained in published runs. Logs of more than 500 losses are thinned to that for time. Real runs are grouped by
what their rate does after the cut, simulated ones, those of `benchmarks.forecast_families` (annealing gains
drawn from 2 to 12%), by their schedule.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.forecast import PLANS, annealed, gemstones, llmc, small_models
from benchmarks.forecast_families import simulated
from benchmarks.forecast_laws import KINDS
from toposcope.analysis.forecast import Curve, forecast
from toposcope.analysis.forecast.auto import Auto
from toposcope.analysis.forecast.base import ANNEALING_GAIN
from toposcope.progress import track

CUTS = (0.2, 0.3, 0.5)
LOGGED = 500


def real(data: Path) -> Iterator[tuple[str, Curve]]:
    """Yield what the rate does, and the run."""
    for size in (25, 100):
        for name in PLANS:
            kind = "wsd" if name.startswith(("wsd_", "wsdld")) else name.split("_")[0]
            yield f"schedules: {kind}", annealed(data, size, name)
    for curve in small_models(data, None):
        yield "five small models: cosine", curve
    yield "GPT-2: cosine", llmc(data)
    for curve in gemstones(data):
        yield "Gemstones: constant after warm-up", curve


def drawn(first: int, last: int) -> Iterator[tuple[str, Curve]]:
    """Yield the schedule and every run of the drawn families, the random features aside."""
    for draw in range(first, last):
        for kind in KINDS:
            if kind == "random features":
                continue
            for curve in simulated(kind, draw, logged=150):
                yield f"drawn: {_shape(curve)}", curve


def _shape(curve: Curve) -> str:
    """Return which of the three drawn schedules a run followed."""
    peak, middle = curve.rate.max(), curve.rate[len(curve.rate) // 2]
    if curve.rate[-1] > 0.9 * peak:
        return "constant"
    return "wsd" if middle > 0.9 * peak else "cosine"


def row(group: str, curve: Curve, cut: float) -> tuple[object, ...] | None:
    """Forecast a run from itself, its plan unknown; None where nothing bounds the forecast."""
    kept = np.unique(np.linspace(0, len(curve.step) - 1, LOGGED).round().astype(int))
    alone = replace(
        curve, schedule=None, step=curve.step[kept], loss=curve.loss[kept], rate=curve.rate[kept],
        features=pd.DataFrame(),
    )  # fmt: skip
    made = forecast(Auto(), alone.seen(cut * curve.horizon))
    actual = curve.final_loss()
    if not np.isfinite(made.low):
        return None
    lowered = made.status == "no plan"
    low = made.low / (1 - ANNEALING_GAIN[1]) if lowered else made.low
    error = float(np.log(made.final / actual))
    width = float(np.log(made.high / low)) / 2
    return (
        group, curve.run, cut, made.status, error, width, low <= actual <= made.high,
        made.low <= actual <= made.high,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--draws", type=int, nargs=2, default=(800, 810))
    parser.add_argument("--csv", type=Path, help="where the rows go, run by run")
    options = parser.parse_args()
    names = ["group", "run", "cut", "status", "error", "half_width", "unwidened", "printed"]
    rows = []
    for group, curve in track([*real(options.data), *drawn(*options.draws)], "forecasting runs alone"):
        rows += [made for cut in CUTS if (made := row(group, curve, cut))]
        table = pd.DataFrame(rows, columns=names)
        if options.csv:
            table.to_csv(options.csv, index=False)
    for by in (["group"], ["group", "cut"]):
        found = table.groupby(by, sort=False).agg(
            n=("run", "size"), runs=("run", "nunique"), no_plan=("status", lambda s: (s == "no plan").sum()),
            error=("error", "median"), half_width=("half_width", "median"), unwidened=("unwidened", "mean"),
            printed=("printed", "mean"),
        )  # fmt: skip
        print(found.round(3).to_string(), flush=True)


if __name__ == "__main__":
    main()
