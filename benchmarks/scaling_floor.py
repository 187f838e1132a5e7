"""How often the interval of a law with a floor contains the exponent: python benchmarks/scaling_floor.py.

Families a N^b + E with E 60% of the largest loss, sizes spread over 2 or 4 decades, noise of a share of the
loss. Each cell gives four percentages: how often E was identified (an exponent given); how often the interval
then contains b; how often the printed interval, or the range of exponents that goes with an unidentified E,
contains b; and how often the interval of the plain law a N^b of the same losses contains it.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
import pandas as pd

from toposcope.core.progress import track
from toposcope.scaling import fit_loss_law, fit_power_law

EXPONENTS, NOISES, COUNTS, DECADES = (-0.1, -0.2, -0.34, -0.5), (0.001, 0.01), (4, 5, 6, 8), (2, 4)


def cell(b: float, noise: float, count: int, decades: int, draws: int) -> dict[str, float]:
    g = np.random.default_rng([count, decades, int(1e4 * noise), round(-1e3 * b)])
    sizes = 1e6 * np.geomspace(1.0, 10.0**decades, count)
    loss = 1.6 * (sizes / sizes[0]) ** b + 2.4
    laws = []
    for _ in range(draws):
        values = loss * (1.0 + noise * g.standard_normal(count))
        laws.append((fit_loss_law(sizes, values), fit_power_law(sizes, values)))
    given = [law for law, _ in laws if law.status == "ok"]
    held = [law.low <= b <= law.high for law in given]
    return {
        "b": b, "noise": noise, "sizes": count, "decades": decades, "identified": 100 * len(given) / draws,
        "held": 100 * float(np.mean(held)) if held else np.nan,
        "said": 100 * float(np.mean([law.low <= b <= law.high for law, _ in laws])),
        "plain law held": 100 * float(np.mean([plain.low <= b <= plain.high for _, plain in laws])),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    draws = parser.parse_args().draws
    cells = itertools.product(EXPONENTS, NOISES, COUNTS, DECADES)
    rows = []
    for values in track(list(cells), "cells"):
        rows.append(cell(*values, draws))
    table = pd.DataFrame(rows)
    rates = ["identified", "held", "said", "plain law held"]
    print(table.round(dict.fromkeys(rates, 0)).to_string(index=False))
    for keys in (["b", "sizes"], ["sizes", "decades", "noise"]):
        print(table.groupby(keys)[rates].mean().round(0).to_string())


if __name__ == "__main__":
    main()
