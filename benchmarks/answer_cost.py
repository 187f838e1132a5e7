"""Processor time of a forecast and of an analysis: python -m benchmarks.answer_cost [--schedules].

Five finished seeds, a run with 13 siblings, a table of 60 x 36 at even steps and one at uneven steps, all
made here, each by a command of its own. `--schedules` adds five finished runs whose learning rates differ:
there laws of the rate are fitted, which takes longer.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

ROWS, STEPS = 500, 5000


def run_table(seed: int, share: float = 1.0, peak: float = 1e-3) -> pd.DataFrame:
    """Return the log of a run that has come to a share of its steps, under a cosine from `peak`."""
    g = np.random.default_rng(seed)
    step = np.linspace(STEPS / ROWS, STEPS, ROWS).astype(int)
    loss = 2.2 + 6 * (step + 50.0) ** -0.35 + g.normal(0, 0.01, ROWS)
    rate = peak * np.minimum(step / 200, 1) * 0.5 * (1 + np.cos(np.pi * step / STEPS))
    table = pd.DataFrame({"step": step, "loss": loss.round(4), "lr": rate})
    return table.iloc[: int(share * ROWS)]


def feature_table(uneven: bool) -> pd.DataFrame:
    """Return a loss and 36 columns that drift, at 60 steps."""
    g = np.random.default_rng(1)
    gaps = g.integers(70, 131, 60) if uneven else np.full(60, 100)
    step = np.cumsum(gaps)
    table = {"step": step, "loss": 2 + 5 * step**-0.4 * np.exp(g.normal(0, 0.01, 60))}
    for k in range(36):
        drift = np.cumsum(g.normal(0, 1, 60)) * 0.05 + (k % 5) * np.log(step)
        table[f"f{k}"] = drift + g.normal(0, 0.2, 60)
    return pd.DataFrame(table)


def cases(folder: Path, schedules: bool) -> dict[str, list[str]]:
    """Write the logs and tables; return the arguments of each command by what it answers."""

    def written(name: str, tables: list[pd.DataFrame]) -> str:
        (folder / name).mkdir()
        for k, table in enumerate(tables):
            table.to_csv(folder / name / f"run{k}.csv", index=False)
        return str(folder / name)

    five = written("five", [run_table(k) for k in range(5)])
    fourteen = written("fourteen", [run_table(k, 0.4 if k == 13 else 1.0) for k in range(14)])
    even = written("even", [feature_table(False)])
    uneven = written("uneven", [feature_table(True)])
    made = {
        "forecast, five finished seeds": ["forecast", five, "--finished"],
        "forecast, 13 siblings": ["forecast", fourteen, "--horizon", str(STEPS)],
        "analyze, 60 x 36": ["analyze", f"{even}/run0.csv"],
        "analyze, 60 x 36 at uneven steps": ["analyze", f"{uneven}/run0.csv"],
    }
    if schedules:
        differing = written("differing", [run_table(k, peak=1e-3 * (1 + 0.1 * k)) for k in range(5)])
        made["forecast, five runs whose rates differ"] = ["forecast", differing, "--finished"]
    return made


def main() -> None:
    """Print the processor time of each command, in seconds; a first call compiles and is not counted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--schedules", action="store_true")
    with tempfile.TemporaryDirectory() as folder:
        for name, arguments in cases(Path(folder), parser.parse_args().schedules).items():
            command = [sys.executable, "-m", "toposcope", *arguments]
            if name == "forecast, five finished seeds":
                subprocess.run(command, capture_output=True, check=False)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, capture_output=True, check=False)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            print(f"{name}: {used:.1f} s", flush=True)


if __name__ == "__main__":
    main()
