"""The alarms on real loss curves in which nothing went wrong: how many alarms, test by test.

    python -m benchmarks.watch_curves DATA [--target [--only NAME ...]]

DATA holds seed_runs/ and curves/ (multipowerlaw/, gemstones/, llmc_gpt2_124M/). Each curve goes row by row
through the tests of losses and gradients as a watch applies them. With --target every curve is also forecast
as it grows, with its own final loss as the target: an interval that does not contain it is false.
About 40 s of processor time go to each of the multi-power-law runs; --only selects the curves of these names.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.forecast import PLANS, SIZES, annealed, gemstones
from toposcope.forecasting import Curve, forecast
from toposcope.forecasting.auto import Auto
from toposcope.logs.curve import curve_from_metrics
from toposcope.statistics.alarms.spending import level
from toposcope.watch.alarms.base import AlarmSettings
from toposcope.watch.alarms.forecast_target import GROWTH, ForecastTarget
from toposcope.watch.alarms.registry import family
from toposcope.watch.run_watch import RunWatch

GPT2 = "GPT-2 124M"
"""The curve on which the floor of the gradient's scale was set."""

EARLIEST = 0.1
"""Share of a run from which on it is forecast."""


def tables(data: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield every curve with its columns step, loss, grad_norm, learning_rate."""
    for size in (25, 100):
        for name in PLANS:
            path = data / "curves" / "multipowerlaw" / f"csv_{size}" / f"{name}.csv"
            yield f"{size}M {name}", pd.read_csv(path).rename(columns={"lr": "learning_rate"})
    gems = pd.read_csv(data / "curves" / "gemstones" / "hot_width_le_768.csv")
    for name, part in gems.rename(columns={"final_loss": "loss"}).groupby("run_name"):
        yield str(name), part.sort_values("step")
    gpt2 = pd.read_csv(data / "curves" / "llmc_gpt2_124M" / "llmc_gpt2_124M_train.csv")
    yield GPT2, gpt2.rename(columns={"train_loss": "loss", "lr": "learning_rate"})
    for name in SIZES:
        log = json.loads((data / "seed_runs" / name / "training_log.json").read_text())
        yield name, pd.DataFrame(log).rename(columns={"lr": "learning_rate"})


def curves(data: Path) -> list[Curve]:
    """Return the curves whose end is known, as forecasts take them."""
    found = [annealed(data, size, name) for size in (25, 100) for name in PLANS] + gemstones(data)
    for name, parameters in SIZES.items():
        log = pd.DataFrame(json.loads((data / "seed_runs" / name / "training_log.json").read_text()))
        log = log.rename(columns={"lr": "learning_rate"})
        found.append(curve_from_metrics(name, log, parameters=parameters))
    return found


class Looks(NamedTuple):
    """How often a growing curve was looked at and forecast; the side on which an interval missed its end."""

    looks: int
    able: int
    side: str = ""


def wrong_side(curve: Curve) -> Looks:
    """Look at a curve as it grows, until an interval leaves its true end out."""
    rate = family(settings=AlarmSettings(target=1.0)).rate_of(ForecastTarget.test)
    truth, share, look, able = curve.final_loss(), EARLIEST, 0, 0
    while share < 1.0:
        seen = curve.seen(share * curve.horizon)
        share *= GROWTH
        if not len(seen.step):
            continue
        look += 1
        one = forecast(Auto(), seen, [], level=1.0 - 2.0 * level(rate, look))
        able += one.status == "ok"
        if one.status == "ok" and (one.low > truth or one.high < truth):
            return Looks(look, able, "above" if one.low > truth else "below")
    return Looks(look, able)


def main() -> None:
    """Judge every curve, print what alarmed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--target", action="store_true")
    parser.add_argument("--only", nargs="+")
    given = parser.parse_args()
    told: Counter[str] = Counter()
    number = rows = 0
    for name, table in tables(given.data):
        table = table.reindex(columns=["step", "loss", "grad_norm", "learning_rate"]).astype(float)
        found = RunWatch(name).metrics(table)
        number, rows = number + 1, rows + len(table)
        told.update({alert.test for alert in found})
        for alert in found:
            print(f"{name}, step {alert.step}: {alert.test}: {alert.sentence}")
    print(f"{number} curves of {rows:,} rows; curves with an alarm, by test: {dict(told) or 'none'}")
    if given.target:
        judged = []
        for curve in curves(given.data):
            if given.only and curve.run not in given.only:
                continue
            judged.append(wrong_side(curve))
            print(f"target: {curve.run}: {judged[-1]}", flush=True)
        able = [one for one in judged if one.able]
        counts = Counter(one.side for one in able)
        print(
            f"target: {len(able)} of {len(judged)} curves can be forecast, at "
            f"{np.mean([one.able for one in able]):.1f} of {np.mean([one.looks for one in able]):.1f} looks: "
            f"the true end was left out above by {counts['above']}, below by {counts['below']}"
        )


if __name__ == "__main__":
    main()
