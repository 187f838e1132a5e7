"""A run forecast from its own log only, without its plan: python -m benchmarks.forecast_alone [DATA].

DATA holds curves/ and seed_runs/. Every run is forecast from its first 20, 30 and 50%: no siblings, no plan,
its end known. For each family: the mean absolute error in % of the last value, the former `auto`, the plain
law and `auto`, its median, then the share of 90% intervals of `auto` that held (also without what is for a
decay), their mean half-width (log loss, %), and the median half-width if the rate stays as it is, also over
the median error.
parameter_golf: one random run of each pull request, with at least 1,000 steps and 20 losses. Logs of more
than 500 losses are thinned to 500 to save time. --draws 800 810 adds the families of
`benchmarks.forecast_families`, by schedule. --simulated 120 180 adds these draws of
`benchmarks.forecast_plain`. --planned gives `auto` the plan of the runs that have one. --calibrate fits the
weights of the interval on what they were set on: half of parameter_golf, and draws 0 to 119 of
`benchmarks.forecast_plain` (all other runs are "held out"; the decay of the lower end was set on half of
parameter_golf and the schedules of 25M).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import minimize

from benchmarks.forecast import PLANS, annealed, gemstones, llmc, small_models
from benchmarks.forecast_families import simulated
from benchmarks.forecast_laws import KINDS, NEW_KINDS
from benchmarks.forecast_plain import NOISE, nearly_plain
from benchmarks.forecast_plain import SET_ON as DRAWS_SET_ON
from toposcope.core.errors import InputError
from toposcope.core.progress import track
from toposcope.core.seeding import rng
from toposcope.forecasting import Curve, Forecast, curve_from_metrics, forecast, plain_law, unplanned
from toposcope.forecasting.auto import Auto, default_candidates, weight
from toposcope.forecasting.backtests import own_errors
from toposcope.forecasting.base import LEAST_SEEN, LEVEL, Forecaster
from toposcope.forecasting.families import LastValue
from toposcope.forecasting.plain_law import PlainLaw
from toposcope.logs.curve import LEAST_LOSSES

CUTS = (0.2, 0.3, 0.5)
LOGGED = 500
SET_ON = ("parameter_golf, half that widths were set on", "multipowerlaw, 25M")
"""The families on which the constants of the interval were set: the weights on the first alone."""


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
        "as it is": 100 * math.log(made.high / made.final) if math.isfinite(made.low) else np.nan,
        "held as it is": stays_held(made, actual) if math.isfinite(made.low) else np.nan,
    }  # fmt: skip


def stays_held(made: Forecast, actual: float) -> bool:
    """Return whether the interval holds without the part of its lower end that is for a decay."""
    return abs(math.log(actual / made.final)) <= math.log(made.high / made.final)


def shown(table: pd.DataFrame) -> str:
    """Return the mean errors, and what the intervals did."""
    columns = {name: (name, "mean") for name in ("last value", "former auto", "plain law", "auto")}
    columns |= {"median": ("auto", "median")}
    columns |= {name: (name, "mean") for name in ("held", "held as it is", "below", "above", "half-width")}
    columns |= {"as it is": ("as it is", "median")}
    by = table.groupby(["family", "cut"], sort=False).agg(n=("run", "size"), **columns)
    made = table["family"].str.startswith(("drawn", "simulated"))
    out = ~table["family"].isin(SET_ON) & ~made
    pools = {"real, held out": out, "real, set on": table["family"].isin(SET_ON)}
    for name, rows in pools.items():
        part = table[rows].assign(family=name)
        if len(part):
            pooled = part.groupby(["family", "cut"]).agg(n=("run", "size"), **columns)
            each = part.groupby("family").agg(n=("run", "size"), **columns).assign(cut="all")
            by = pd.concat([by, pooled, each.set_index("cut", append=True)])
    by["x median"] = by["as it is"] / by["median"]
    whole = table.groupby("family", sort=False).agg(
        n=("run", "size"),
        held=("held", "mean"),
        stays=("held as it is", "mean"),
        median=("auto", "median"),
        width=("as it is", "median"),
    )
    whole["x median"] = whole["width"] / whole["median"]
    return f"{by.round(3).to_string()}\n\nall cuts\n{whole.round(3).to_string()}"


def simulated_runs(first: int, last: int) -> Iterator[tuple[str, Curve]]:
    """Yield the kind and every run of these draws of `benchmarks.forecast_plain`."""
    for kind in NOISE:
        for draw in range(first, last):
            yield f"simulated: {kind}", nearly_plain(kind, draw)


def calibrated(runs: Sequence[tuple[str, Curve]]) -> str:
    """Return the weights of the interval's squares: least pinball loss where they are set, then `holding`.

    The loss is that of the 5% and the 95% quantile of the error; its logs are added over families, so that
    each family counts the same whatever its noise. A decay may lower the lower end of parameter_golf's runs.
    """
    rows = []
    for family, curve in runs:
        for cut in looks(curve):
            seen = thinned(curve, planned=False).seen(cut * curve.horizon)
            settled = plain_law.after_start(seen)
            if len(seen.step) < PlainLaw.least_seen or len(settled.step) < plain_law.LEAST_AFTER_START:
                continue
            point = PlainLaw().predict(seen)
            law = plain_law._law(settled, seen.last)
            squares = plain_law.squares(seen, settled, law)
            rows.append((family, math.log(curve.final_loss() / point.final), *squares))
    table = pd.DataFrame(rows, columns=["family", "error", *"cpgn"])
    squares = table[list("cpgn")].to_numpy()
    decay = np.where(table["family"] == SET_ON[0], -math.log1p(-unplanned.DECAY), 0.0)

    def loss(log_weights: np.ndarray) -> float:
        half = np.sqrt(squares @ np.exp(log_weights))
        above, below = table["error"] - half, -table["error"] - half - decay
        each = sum(np.where(off > 0, 0.95 * off, -0.05 * off) for off in (above, below))
        return float(np.log(pd.Series(each).groupby(table["family"]).mean()).sum())

    begins = ([0.0] * 4, [-2.0] * 4)
    best = min(
        (minimize(loss, at, method="Nelder-Mead", options={"maxiter": 4000}) for at in begins),
        key=lambda result: float(result.fun),
    )
    now = np.log(plain_law.WEIGHTS)
    factor = holding(table[table["family"] != SET_ON[0]], np.exp(best.x))
    return (
        f"weights of c^2 r, p^2, g^2, n^2: {np.exp(best.x).round(3)}, loss {best.fun:.4f}; times "
        f"{factor:.3f}: {(np.exp(best.x) * factor).round(3)}; now {plain_law.WEIGHTS}, loss {loss(now):.4f}"
    )


def holding(table: pd.DataFrame, weights: np.ndarray) -> float:
    """Return the factor of the weights by which 90% of the intervals hold.

    The pinball loss alone made 82 to 85% of the intervals of clean runs hold.
    """
    half = np.sqrt(table[list("cpgn")].to_numpy() @ weights)
    return float(np.quantile(table["error"].abs() / half, LEVEL)) ** 2


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="?", help="without it, only draws")
    parser.add_argument("--draws", type=int, nargs=2, help="also the simulated families of these draws")
    parser.add_argument("--simulated", type=int, nargs=2, help="also these draws of nearly plain laws")
    parser.add_argument("--planned", action="store_true", help="the plan is known, of runs that have one")
    parser.add_argument(
        "--calibrate", action="store_true", help="the interval's weights, on what they are set on"
    )
    parser.add_argument("--csv", type=Path, help="where the rows go, run by run")
    options = parser.parse_args()
    runs = [*(real(options.data) if options.data else ()), *(drawn(*options.draws) if options.draws else ())]
    if options.calibrate:
        golf_half = [(family, curve) for family, curve in runs if family == SET_ON[0]]
        print(calibrated([*golf_half, *simulated_runs(0, DRAWS_SET_ON)]))
        return
    runs += simulated_runs(*options.simulated) if options.simulated else ()
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
