"""Simulate the packaged error rates.

Run: python benchmarks/analysis_rates.py [--only NAME] [--draws N] [--out DIR] [--write] [--setting].

Each grid of steps takes minutes; DIR keeps what is done. --write packs what DIR has into the package.
--setting prints the rates on the nulls that the constants were set on instead.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import toposcope.analysis.trends
from toposcope.analysis.trends import simulators as sim
from toposcope.analysis.trends.calibration import calibration_matrix, packed
from toposcope.analysis.trends.innovations import innovation_test
from toposcope.analysis.trends.setting import SETTING_NULLS
from toposcope.analysis.trends.whitening import whiten
from toposcope.seeding import rng


def _missing() -> np.ndarray:
    inner = rng(name="missing checkpoints", n=51).choice(np.arange(1, 50), 37, replace=False)
    return np.sort(np.r_[0, inner, 50]) * 100


GRIDS = {
    "26 even": np.arange(26) * 100,
    "51 even": np.arange(51) * 100,
    "51, 12 missing": _missing(),
    "48 log": np.unique(np.r_[0, np.geomspace(1, 143_000, 50).round()].astype(int)),
    "154 Pythia": np.r_[0, 2 ** np.arange(10), np.arange(1000, 143_001, 1000)],
    "14 log": 2 ** np.arange(14),
}
"""51 even are the steps of the weight-space paper; 154 those of Pythia's checkpoints."""


def setting(draws: int) -> None:
    """Print what the verdict's test rejects, and what it does not test, on the nulls of its constants."""
    for case, simulate in SETTING_NULLS.items():
        cells = []
        for steps in GRIDS.values():
            g = rng(name="setting", null=case, n=len(steps), draw=draws)
            x, y = (whiten(sim.at_steps(simulate, g, steps, draws), steps) for _ in range(2))
            test = innovation_test(x, y, intervals=False)
            cells.append(f"{100 * np.mean(test.p <= 0.05):5.1f} ({100 * np.mean(test.smooth):3.0f})")
        print(f"{case:26}", *cells, sep="  ", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(GRIDS))
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=Path("build/rates"))
    parser.add_argument("--setting", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.setting:
        return setting(options.draws)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, steps in GRIDS.items():
        file = options.out / f"{name}.csv"
        if not file.exists() and options.only in (None, name):
            calibration_matrix(steps, draws=options.draws, quiet=False).to_csv(file, index=False)
    if options.write:
        tables = {
            name: (steps, pd.read_csv(options.out / f"{name}.csv", keep_default_na=False))
            for name, steps in GRIDS.items()
        }
        package = Path(toposcope.analysis.trends.__file__).parent
        (package / "rates.json").write_text(packed(tables))


if __name__ == "__main__":
    main()
