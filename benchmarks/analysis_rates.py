"""Simulate the packaged error rates: python benchmarks/analysis_rates.py [--only NAME] [--out DIR] [--write].

Each grid of steps takes minutes; DIR keeps what is done. --write packs all of them into the package.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import toposcope.analysis.trends
from toposcope.analysis.trends.calibration import calibration_matrix, packed

GRIDS = {
    "51 even": np.arange(51) * 100,
    "25 even": np.arange(25) * 100,
    "100 even": np.arange(100) * 100,
    "14 log": 2 ** np.arange(14),
    "20 log": np.unique(np.geomspace(1, 143_000, 20).round().astype(int)),
    "48 log": np.unique(np.r_[0, np.geomspace(1, 143_000, 50).round()].astype(int)),
}
"""51 even are the steps of the weight-space paper."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(GRIDS))
    parser.add_argument("--out", type=Path, default=Path("build/rates"))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, steps in GRIDS.items():
        file = options.out / f"{name}.csv"
        if not file.exists() and options.only in (None, name):
            calibration_matrix(steps, quiet=False).to_csv(file, index=False)
    if options.write:
        tables = {
            name: (steps, pd.read_csv(options.out / f"{name}.csv", keep_default_na=False))
            for name, steps in GRIDS.items()
        }
        package = Path(toposcope.analysis.trends.__file__).parent
        (package / "rates.json").write_text(packed(tables))


if __name__ == "__main__":
    main()
