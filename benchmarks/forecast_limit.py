"""Worse than the last value, or chance? python -m benchmarks.forecast_limit ROWS... [--redraws 40].

ROWS are CSVs of `benchmarks.forecast_families --quick --csv`. Every family whose mean error is above
`--above` times the last value's is trained again: with the same law, sizes, schedule and size of the noise,
and with new noise and new random parts of each run. A family that was only unlucky then comes out below; one
in which the rule is worse comes out above again. Columns:

ratio: the error of `auto` over the last value's in ROWS; low, high: its 90% interval by a paired bootstrap
over the family's runs. again, again_low, again_high: the ratio of mean errors over all redraws with its 90%
interval over redraws. above: share of redraws with a ratio above 1.1. one_method: the least such share among
single methods other than the last value, chosen in hindsight for the family; by_run: the ratio of the method
chosen in hindsight for each redraw. last_alone: share of redraws in which the last value of one training
is above 1.1 times the last value of another.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.forecast_families import simulated
from toposcope.core.errors import InputError
from toposcope.core.progress import track
from toposcope.core.seeding import rng
from toposcope.forecasting import Curve
from toposcope.forecasting.auto import Auto
from toposcope.forecasting.families import LastValue

BAR = 1.1
DRAWS = 2000
LAST = LastValue().name


def errors_of(curves: list[Curve], cut: float) -> pd.DataFrame:
    """Return absolute log errors, a row per run and a column per method; NaN where one cannot forecast."""
    auto = Auto.without_laws()
    rows = []
    for run in curves:
        siblings = [other for other in curves if other is not run and not other.rose()]
        if run.rose() or len(siblings) < 2:
            continue
        seen, found = run.planned().seen(cut * run.horizon), {}
        for method in (auto, *auto.candidates):
            try:
                final = method.fit(siblings, cut).predict(seen).final
            except (InputError, np.linalg.LinAlgError):
                continue
            found["auto" if method is auto else method.name] = abs(float(np.log(final / run.final_loss())))
        rows.append(found)
    return pd.DataFrame(rows)


def bootstrapped(above: np.ndarray, below: np.ndarray, name: str) -> tuple[float, float]:
    """Return the 90% interval of sum(above) / sum(below) over pairs drawn with replacement."""
    chosen = rng(name="forecast-limit", family=name).integers(0, len(above), (DRAWS, len(above)))
    low, high = np.quantile(above[chosen].sum(axis=1) / below[chosen].sum(axis=1), (0.05, 0.95))
    return float(low), float(high)


def judged(family: str, rows: pd.DataFrame, redraws: int, cut: float) -> dict[str, object]:
    """Return what the module's head says of one family."""
    kind, _, draw = family.rpartition(" ")
    runs = rows["auto"].to_numpy(), rows["last_value"].to_numpy()
    again = pd.DataFrame(
        [
            errors_of(simulated(kind, int(draw), logged=150, redraw=k), cut).mean(skipna=False)
            for k in range(1, redraws + 1)
        ]
    ).dropna(subset=["auto", LAST])
    auto, last = again["auto"].to_numpy(), again[LAST].to_numpy()
    single = again.drop(columns=["auto", LAST]).dropna(axis=1)
    pairs = last[:, None] / last[None, :]
    low, high = bootstrapped(*runs, family)
    again_low, again_high = bootstrapped(auto, last, f"{family} again")
    return {
        "family": family, "runs": len(rows), "error": runs[0].mean(), "last": runs[1].mean(),
        "ratio": runs[0].mean() / runs[1].mean(), "low": low, "high": high, "redraws": len(again),
        "again": auto.sum() / last.sum(), "again_low": again_low, "again_high": again_high,
        "above": float(np.mean(auto > BAR * last)),
        "one_method": float((single.to_numpy() > BAR * last[:, None]).mean(axis=0).min()),
        "by_run": float(single.min(axis=1).sum() / last.sum()),
        "last_alone": float(np.mean(pairs[~np.eye(len(last), dtype=bool)] > BAR)),
    }  # fmt: skip


def families(paths: list[Path], above: float) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the families whose ratio is above `above`."""
    table = pd.concat([pd.read_csv(path) for path in paths])
    for name, rows in table.groupby("family", sort=False):
        if rows["auto"].mean() > above * rows["last_value"].mean():
            yield str(name), rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path, nargs="+")
    parser.add_argument("--redraws", type=int, default=40)
    parser.add_argument("--above", type=float, default=0.9)
    parser.add_argument("--cut", type=float, default=0.3)
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    found = []
    for name, rows in track(dict(families(options.rows, options.above)).items(), "training again"):
        found.append(judged(name, rows, options.redraws, options.cut))
        if options.csv:
            pd.DataFrame(found).to_csv(options.csv, index=False)
    report(pd.DataFrame(found))


def report(table: pd.DataFrame) -> None:
    """Print the count that matters first, then every family."""
    over = table[table["ratio"] > BAR]
    runs, again = (over["low"] > BAR).sum(), (over["again_low"] > BAR).sum()
    print(
        f"{len(over)} families above {BAR} x the last value: {runs} beyond the chance of their runs ("
        f"bootstrap, 95% one-sided), {again} when trained again\nof all {len(table)} trained again "
        f"{(table['again'] > BAR).sum()} have a mean ratio above {BAR}, {(table['again_low'] > BAR).sum()} "
        "beyond its uncertainty"
    )
    print(table.round(3).sort_values("ratio").to_string(index=False))


if __name__ == "__main__":
    main()
