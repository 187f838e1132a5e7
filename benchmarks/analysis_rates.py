"""Simulate the packaged error rates.

Run: python -m benchmarks.analysis_rates [--write | --tables FILE | --verdict | --setting | --repeating]
[--only G].

--out DIR saves every cell (a null or a planted effect on a grid) as soon as it is done; an interrupted run
continues where it stopped. Every cell has its own random numbers, so the result is the same if cells are made
one by one, in any order, or by several processes (one GRID each).
--write packs the cells into the package; with --only it replaces that grid and leaves the others.
--tables FILE writes the packaged rates into that page's tables, row by row.
--verdict prints the rates of the verdict's test alone on all nulls, which takes a fraction of the time.
--setting prints the rates on the nulls that the constants were set on; --repeating prints those on shapes
that repeat, which no packaged grid has (repeating_nulls.py).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import toposcope.statistics.trends
from toposcope.core.seeding import rng
from toposcope.statistics.trends import simulators as sim
from toposcope.statistics.trends._nulls import NULLS
from toposcope.statistics.trends.calibration import COLUMNS, TESTS, VERDICT, case_rates, simulated_cases
from toposcope.statistics.trends.held_out_nulls import HELD_OUT_NULLS
from toposcope.statistics.trends.innovations import innovation_test
from toposcope.statistics.trends.preregistered_nulls import PREREGISTERED_NULLS
from toposcope.statistics.trends.whitening import whiten


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


def printed(nulls: dict[str, sim.Simulator], name: str, draws: int, grids: dict[str, np.ndarray]) -> None:
    """Print what the verdict's test rejects, and what it does not test, on these nulls."""
    print(" " * 32, *grids, sep="  ")
    for case, simulate in nulls.items():
        cells = []
        for steps in grids.values():
            g = rng(name=name, null=case, n=len(steps), draw=draws)
            x, y = (whiten(sim.at_steps(simulate, g, steps, draws), steps) for _ in range(2))
            test = innovation_test(x, y, intervals=False)
            cells.append(f"{100 * np.mean(test.found):5.1f} ({100 * np.mean(test.silent):3.0f})")
        print(f"{case:32}", *cells, sep="  ", flush=True)


def simulate(name: str, draws: int, out: Path) -> pd.DataFrame:
    """Return the table of a grid, from its file as far as that has it, every new cell written at once."""
    file = out / f"{name}.csv"
    table = pd.read_csv(file, keep_default_na=False) if file.exists() else pd.DataFrame(columns=list(COLUMNS))
    cases = simulated_cases()
    for kind, case, pairs in cases:
        mine = table[(table["case"] == case) & (table["test"] == VERDICT) & (table["draws"] == draws)]
        if mine.empty:
            rows = pd.DataFrame(
                case_rates(GRIDS[name], kind, case, pairs, draws=draws), columns=list(COLUMNS)
            )
            table = pd.concat([table[table["case"] != case], rows]) if len(table) else rows
            table.to_csv(file, index=False)
            rate = rows.set_index("test").loc[VERDICT, "rate"]
            print(f"{name:16}{case:45}{100 * rate:6.1f}", flush=True)
    order = {case: i for i, (_, case, _) in enumerate(cases)}
    return table[table["case"].isin(order)].sort_values(
        "case", key=lambda names: names.map(order), kind="stable"
    )


def packed(grids: dict[str, tuple[np.ndarray, pd.DataFrame]]) -> str:
    """Return the text of the packaged rates: name -> steps and what `calibration_matrix` gave for them."""
    out = {}
    for name, (steps, table) in grids.items():
        cases = list(dict.fromkeys(zip(table["kind"], table["case"], strict=True)))
        rates = table["rate"].to_numpy().reshape(len(cases), len(TESTS))
        out[name] = {
            "steps": [int(step) for step in steps], "draws": int(table["draws"].max()), "cases": cases,
            "rates": rates.round(4).tolist(),
        }  # fmt: skip
    return json.dumps({"grids": out})


def documented(page: str, grids: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a page with the packaged rates in its tables: all grids side by side, or all tests at 51."""
    names = list(TESTS)
    verdict, untested = names.index(VERDICT), names.index("not tested")
    of_case = {name: {case: row for (_, case), row in zip(grid["cases"], grid["rates"], strict=True)}
               for name, grid in grids.items()}  # fmt: skip

    def cell(name: str, case: str) -> str:
        rate, left = (100 * of_case[name][case][at] for at in (verdict, untested))
        return f"{rate:.1f} ({left:.0f})" if left >= 0.5 else f"{rate:.1f}"

    wide = "| pairs of | " + " | ".join(grids) + " |"
    every = "| pairs of | Spearman's own p |"
    lines, kind = [], ""
    for line in page.splitlines():
        kind = line if line.startswith("| pairs of |") else kind if line.startswith("|") else ""
        case = line.split("|")[1].strip() if line.startswith("|") else ""
        if kind == wide and case in of_case["51 even"]:
            line = f"| {case} | " + " | ".join(cell(name, case) for name in grids) + " |"
        elif kind.startswith(every) and case in of_case["51 even"]:
            rates = of_case["51 even"][case]
            others = [f"{100 * rate:.0f}" for at, rate in enumerate(rates) if at not in (verdict, untested)]
            line = f"| {case} | " + " | ".join([*others, f"{100 * rates[verdict]:.1f}"]) + " |"
        lines.append(line)
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(GRIDS))
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("build/rates"))
    parser.add_argument("--setting", action="store_true")
    parser.add_argument("--verdict", action="store_true")
    parser.add_argument("--repeating", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--tables", type=Path)
    options = parser.parse_args()
    packaged = Path(toposcope.statistics.trends.__file__).parent / "rates.json"
    if options.tables is not None:
        known = json.loads(packaged.read_text())["grids"]
        options.tables.write_text(documented(options.tables.read_text(), known))
        return None
    grids = GRIDS if options.only is None else {options.only: GRIDS[options.only]}
    if options.setting:
        from benchmarks.repeating_nulls import REPEATING_SETTING
        from benchmarks.setting_nulls import SETTING_NULLS

        return printed(SETTING_NULLS | REPEATING_SETTING, "setting", options.draws, grids)
    if options.verdict:
        return printed(NULLS | HELD_OUT_NULLS | PREREGISTERED_NULLS, "verdict alone", options.draws, grids)
    if options.repeating:
        from benchmarks.repeating_nulls import REPEATING_BLIND, REPEATING_JUDGES

        return printed(REPEATING_JUDGES | REPEATING_BLIND, "repeating", options.draws, grids)
    options.out.mkdir(parents=True, exist_ok=True)
    tables = {name: (GRIDS[name], simulate(name, options.draws, options.out)) for name in grids}
    if options.write:
        kept = json.loads(packaged.read_text())["grids"] if options.only else {}
        packaged.write_text(json.dumps({"grids": kept | json.loads(packed(tables))["grids"]}))
    return None


if __name__ == "__main__":
    main()
