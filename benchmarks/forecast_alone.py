"""A run forecast from its own log only, without its plan: python -m benchmarks.forecast_alone DATA.

DATA holds curves/ and seed_runs/. Every run is forecast from its first 20, 30 and 50%: no siblings, no plan,
its end known. For each family: the mean absolute error in % of the last value, the former `auto`, the plain
law and `auto`, then the share of 90% intervals of `auto` that held and their mean half-width (log loss, %).
parameter_golf: one random run of each pull request, with at least 1,000 steps and 20 losses. Logs of more
than 500 losses are thinned to 500 to save time. --draws 800 810 adds the families of
`benchmarks.forecast_families`, by schedule. --planned gives `auto` the plan of the runs that have one.
--calibrate prints the loss of the two constants of the interval on the runs that they were set on (all others
are "held out").
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd

from benchmarks.forecast import PLANS, annealed, gemstones, llmc, small_models
from benchmarks.forecast_families import simulated
from benchmarks.forecast_laws import KINDS, NEW_KINDS
from toposcope.core.errors import InputError
from toposcope.core.progress import track
from toposcope.core.seeding import rng
from toposcope.forecasting import Curve, curve_from_metrics, forecast, plain_law, unplanned
from toposcope.forecasting.auto import Auto, default_candidates, weight
from toposcope.forecasting.backtests import own_errors
from toposcope.forecasting.base import LEAST_SEEN, Forecaster
from toposcope.forecasting.families import LastValue
from toposcope.forecasting.plain_law import PlainLaw
from toposcope.logs.curve import LEAST_LOSSES

CUTS = (0.2, 0.3, 0.5)
LOGGED = 500
SET_ON = ("parameter_golf, half that widths were set on", "multipowerlaw, 25M")
"""The families on which the two constants of the interval were set."""


def real(data: Path) -> Iterator[tuple[str, Curve]]:
    """Yield family and run."""
    for curve in gemstones(data):
        yield "gemstones", curve
    for size, family in ((25, SET_ON[1]), (100, "multipowerlaw, 100M")):
        for name in PLANS:
            yield family, annealed(data, size, name)
    for i, curve in enumerate(golf(data)):
        yield SET_ON[0] if i % 2 else "parameter_golf, other half", curve
    for curve in small_models(data, None):
        yield "seed_runs", curve
    yield "llmc", llmc(data)


@cache
def golf(data: Path) -> tuple[Curve, ...]:
    """Return one drawn run of each pull request of parameter_golf, in a drawn order."""
    folder = data / "curves" / "parameter_golf"
    request = pd.read_csv(folder / "runs.csv.gz").set_index("run")["pr"]
    logged = (
        pd.read_csv(folder / "curves.csv.gz").rename(columns={"train_loss": "loss"}).dropna(subset=["loss"])
    )
    held: dict[int, list[Curve]] = {}
    for run, table in logged.groupby("run", sort=True):
        if len(table) >= 20 and table["step"].max() >= 1000:
            curve = curve_from_metrics(str(run), table[["step", "loss"]])
            held.setdefault(int(request[run]), []).append(curve)
    random = rng(name="parameter-golf-sample")
    order = random.permutation(sorted(held))
    return tuple(held[pr][int(random.integers(len(held[pr])))] for pr in order)


def drawn(first: int, last: int) -> Iterator[tuple[str, Curve]]:
    """Yield the schedule and every run of the drawn families that ended below its start."""
    for draw in range(first, last):
        for kind in (*KINDS, *NEW_KINDS):
            if kind == "random features":
                continue
            for curve in simulated(kind, draw, logged=150):
                if not curve.rose():
                    yield f"drawn: {_shape(curve)}", curve


def _shape(curve: Curve) -> str:
    """Return which of the three drawn schedules a run followed."""
    peak, middle = curve.rate.max(), curve.rate[len(curve.rate) // 2]
    if curve.rate[-1] > 0.9 * peak:
        return "constant"
    return "wsd" if middle > 0.9 * peak else "cosine"


def thinned(curve: Curve, *, planned: bool) -> Curve:
    """Return the run with 500 losses at most, its plan withheld unless `planned`."""
    kept = np.unique(np.linspace(0, len(curve.step) - 1, LOGGED).round().astype(int))
    return replace(
        curve, schedule=curve.plan() if planned else None, step=curve.step[kept], loss=curve.loss[kept],
        rate=curve.rate[kept], features=pd.DataFrame(),
    )  # fmt: skip


def looks(curve: Curve) -> Iterator[float]:
    """Yield the cuts at which three losses or more have been logged."""
    yield from (cut for cut in CUTS if (curve.step <= cut * curve.horizon).sum() >= LEAST_LOSSES)


def former(seen: Curve) -> float:
    """Return what `auto` forecast before 2026-11-23: weights rms^-4 on earlier cuts, else the last value."""
    if len(seen.step) < LEAST_SEEN:
        return math.nan
    quick = [m for m in default_candidates() if not m.needs and not isinstance(m, PlainLaw)]
    errors = [(m, own_errors(m, seen, ())) for m in quick]
    weights = [(m, weight(e)) for m, e in errors if len(e) >= 2] or [(LastValue(), 1.0)]
    logs = [math.log(m.predict(seen).final) for m, _ in weights]
    return math.exp(float(np.average(logs, weights=[w for _, w in weights])))


def final(method: Forecaster, seen: Curve) -> float:
    """Return a method's forecast, NaN where it has none."""
    try:
        return method.predict(seen).final
    except (InputError, np.linalg.LinAlgError):
        return math.nan


def row(family: str, curve: Curve, cut: float, *, planned: bool) -> dict[str, object]:
    """Forecast a run from itself."""
    seen = thinned(curve, planned=planned).seen(cut * curve.horizon)
    made, actual = forecast(Auto(), seen), curve.final_loss()
    finals = {
        "last value": final(LastValue(), seen), "former auto": former(seen),
        "plain law": final(PlainLaw(), seen), "auto": made.final,
    }  # fmt: skip
    return {
        "family": family, "run": curve.run, "cut": cut, "status": made.status,
        **{name: 100 * abs(value / actual - 1) for name, value in finals.items()},
        "held": made.low <= actual <= made.high if math.isfinite(made.low) else np.nan,
        "below": actual < made.low, "above": actual > made.high,
        "half-width": 50 * math.log(made.high / made.low) if math.isfinite(made.low) else np.nan,
    }  # fmt: skip


def shown(table: pd.DataFrame) -> str:
    """Return the mean errors, and what the intervals did."""
    columns = {name: (name, "mean") for name in ("last value", "former auto", "plain law", "auto")}
    columns |= {name: (name, "mean") for name in ("held", "below", "above", "half-width")}
    by = table.groupby(["family", "cut"], sort=False).agg(n=("run", "size"), **columns)
    out = ~table["family"].isin(SET_ON) & ~table["family"].str.startswith("drawn")
    pools = {"real, held out": out, "real, set on": table["family"].isin(SET_ON)}
    for name, rows in pools.items():
        part = table[rows].assign(family=name)
        if len(part):
            pooled = part.groupby(["family", "cut"]).agg(n=("run", "size"), **columns)
            each = part.groupby("family").agg(n=("run", "size"), **columns).assign(cut="all")
            by = pd.concat([by, pooled, each.set_index("cut", append=True)])
    whole = table.groupby("family", sort=False).agg(n=("run", "size"), held=("held", "mean"))
    return f"{by.round(3).to_string()}\n\nall cuts\n{whole.round(3).to_string()}"


def calibrated(runs: Sequence[tuple[str, Curve]]) -> str:
    """Return the pinball loss of both ends over a grid of slope shares and decays, on the families set on.

    Each family weighs the same; the lowest loss is that of the 5% and the 95% quantile of the error.
    """
    rows = []
    for slope in (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8):
        with patch.object(plain_law, "SLOPE", slope):
            for family, curve in runs:
                for cut in looks(curve):
                    made = forecast(Auto(), thinned(curve, planned=False).seen(cut * curve.horizon))
                    if math.isfinite(made.low):
                        half = math.log(made.high / made.final)
                        rows.append((family, slope, math.log(curve.final_loss() / made.final), half))
    table = pd.DataFrame(rows, columns=["family", "slope", "error", "half"])
    found = {}
    for decay in (0.0, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08):
        above, below = table["error"] - table["half"], -table["error"] - table["half"] + math.log1p(-decay)
        loss = sum(np.where(off > 0, 0.95 * off, -0.05 * off) for off in (above, below))
        mean = table.assign(loss=loss).groupby(["slope", "family"])["loss"].mean()
        found[decay] = mean.groupby("slope").mean()
    return f"x 1000, by share of the slope (down) and decay; now {plain_law.SLOPE}, {unplanned.DECAY}\n" + (
        (1000 * pd.DataFrame(found)).round(3).to_string()
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--draws", type=int, nargs=2, help="also the simulated families of these draws")
    parser.add_argument("--planned", action="store_true", help="the plan is known, of runs that have one")
    parser.add_argument(
        "--calibrate", action="store_true", help="the interval's constants, on half of the runs"
    )
    parser.add_argument("--csv", type=Path, help="where the rows go, run by run")
    options = parser.parse_args()
    runs = [*real(options.data), *(drawn(*options.draws) if options.draws else ())]
    if options.calibrate:
        print(calibrated([(family, curve) for family, curve in runs if family in SET_ON]))
        return
    if options.planned:
        runs = [(family, curve) for family, curve in runs if curve.plan() is not None]
    made = [
        row(family, curve, cut, planned=options.planned)
        for family, curve in track(runs, "forecasting runs alone")
        for cut in looks(curve)
    ]
    table = pd.DataFrame(made)
    if options.csv:
        table.to_csv(options.csv, index=False)
    print(shown(table))


if __name__ == "__main__":
    main()
