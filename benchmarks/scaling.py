"""Fit the Chinchilla law to 240 published points: python benchmarks/scaling.py DATA [--json OUT]."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd

from toposcope.scaling import fit_chinchilla, fit_power_law
from toposcope.synthetic import (
    Spectrum,
    SyntheticRecipe,
    data_exponent,
    exponent_table,
    simulate,
    size_exponent,
    time_exponent,
)

PUBLISHED = {"E": 1.8172, "A": 482.01, "B": 2085.43, "alpha": 0.3478, "beta": 0.3658}


def chinchilla(data: Path) -> pd.DataFrame:
    table = pd.read_csv(data / "curves" / "chinchilla" / "svg_extracted_data.csv")
    n, loss = table["Model Size"].to_numpy(), table["loss"].to_numpy()
    d = table["Training FLOP"].to_numpy() / (6 * n)
    keep = np.argsort(d / n)[5:]
    start = time.perf_counter()
    fit = fit_chinchilla(n[keep], d[keep], loss[keep], draws=200)
    seconds = time.perf_counter() - start
    rows = [
        {
            "parameter": name, "published": value, "fitted": fit.parameters[name],
            "standard_error": fit.errors[name], "low": fit.intervals[name][0],
            "high": fit.intervals[name][1], "n": fit.n, "seconds": seconds,
        }
        for name, value in PUBLISHED.items()
    ]  # fmt: skip
    return pd.DataFrame(rows)


def synthetic() -> pd.DataFrame:
    tables = []
    for a, b in ((1.5, 1.25), (2.0, 1.5)):
        spectrum = Spectrum(a, b, 1024)
        fits = {
            "time": time_exponent(simulate(SyntheticRecipe(spectrum, batch=0, schedule="constant"), width=0)),
            "size": size_exponent(spectrum, (16, 32, 64, 128)),
            "data": data_exponent(spectrum, (16, 32, 64, 128)),
        }
        tables.append(exponent_table(spectrum, fits).assign(a=a, b=b))
    return pd.concat(tables)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sizes = np.array([2936, 7408, 20640, 46368, 97200])
    finals = np.array([2.466274, 2.099259, 1.852593, 1.653115, 1.467603])
    law = fit_power_law(sizes, finals)
    line = {"exponent": law.exponent, "low": law.low, "high": law.high, "r2": law.r2, "p": law.spearman_p}
    tables = {
        "chinchilla": chinchilla(options.data),
        "synthetic exponents": synthetic(),
        "final loss of five small models against size": pd.DataFrame([line]),
    }
    for name, table in tables.items():
        print(f"\n{name}\n{table.round(5).to_string(index=False)}")
    if options.json:
        result = {name: json.loads(table.to_json(orient="records")) for name, table in tables.items()}
        options.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
