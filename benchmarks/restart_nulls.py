"""How often a restart is called bad on unkind noise, and the jump of the loss that is found.

    python -m benchmarks.restart_nulls [--draws 300] [--seed 11] [--csv FILE] [--marked]

Two passes over the same steps of a power law have noise of their own: ten kinds, and jumps of the second pass
of half to four times the noise of one row. With --marked no step comes twice: the log says where it was
resumed, and has some rows after that. The rules were written in view of seed 7.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.signal import lfilter

from toposcope.rules._after_restart import after_restarts
from toposcope.rules.judged_run import JudgedRun
from toposcope.rules.trained_twice import trained_twice

ROWS = (5, 10, 20, 50, 100, 200)
ROWS_AFTER = (6, 21, 101)
"""Rows after a marked restart; the row of the mark itself is not compared."""
NOISE = 0.05
Draw = Callable[[np.random.Generator, int], np.ndarray]


def recursive(g: np.random.Generator, n: int, kept: float) -> np.ndarray:
    """Return a stationary series of which each value keeps a share of the one before, with variance 1."""
    return np.asarray(lfilter([np.sqrt(1 - kept**2)], [1, -kept], g.normal(size=n + 1000)))[1000:]


KINDS: dict[str, Draw] = {
    "white": lambda g, n: g.normal(size=n),
    "heavy tails (t, 3 degrees)": lambda g, n: g.standard_t(3, n),
    "each value keeps .5 of the one before": lambda g, n: recursive(g, n, 0.5),
    "keeps .9": lambda g, n: recursive(g, n, 0.9),
    "keeps .98": lambda g, n: recursive(g, n, 0.98),
    "keeps .99 (a smoothed log)": lambda g, n: recursive(g, n, 0.99),
    "stretches of 40 steps": lambda g, n: g.normal(size=n) + np.repeat(g.normal(size=n // 40 + 1), 40)[:n],
    "spikes of 20 in 2% of rows": lambda g, n: g.normal(size=n) + 20 * (g.random(n) < 0.02),
    "noise that falls to a sixth": lambda g, n: g.normal(size=n) * np.linspace(3, 0.5, n),
    "noise in proportion to a wave": lambda g, n: g.normal(size=n) * (1.2 + np.sin(np.arange(n) / 30)),
}
JUMPS = (0.5, 1.0, 2.0, 4.0)


def shares(draw: Draw, rows: int, jump: float, draws: int, seed: int) -> tuple[float, float]:
    """Return the percentage of restarts that call for a look, and of those that are told as different."""
    look = told = 0
    for number in range(draws):
        g = np.random.default_rng([number, rows, seed])
        at = int(g.integers(250, 700))
        last = at + rows + int(g.integers(10, 200))
        step = np.arange(1, last + 1)
        passes = [2 + 3 / np.sqrt(step) + NOISE * draw(g, last) for _ in "12"]
        first = pd.DataFrame({"step": step, "loss": passes[0]})[: at + rows]
        second = pd.DataFrame({"step": step, "loss": passes[1] + jump * NOISE})[at:]
        run = JudgedRun.of(pd.concat([first[:at], second]), replaced=first[at:])
        made = trained_twice(run)
        look += any(one.faulty for one in made)
        told += any("continues as" not in one.remark().sentence for one in made)
    return 100 * look / draws, 100 * told / draws


def shares_marked(draw: Draw, rows: int, jump: float, draws: int, seed: int) -> tuple[float, float]:
    """Return what `shares` does, of restarts that are marked and trained no step twice."""
    look = told = 0
    for number in range(draws):
        g = np.random.default_rng([number, rows, seed, 1])
        at = int(g.integers(250, 1500))
        step = np.arange(1, at + rows + 1)
        loss = 2 + 3 / np.sqrt(step) + NOISE * draw(g, len(step)) + np.where(step > at, jump * NOISE, 0)
        run = JudgedRun.of(pd.DataFrame({"step": step, "loss": loss}), restarts=(float(at + 1),))
        made = after_restarts(run)
        look += any(one.faulty for one in made)
        told += any(one.differs for one in made)
    return 100 * look / draws, 100 * told / draws


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--marked", action="store_true", help="No step comes twice.")
    given = parser.parse_args()
    cases = [(kind, 0.0) for kind in KINDS] + [("white", jump) for jump in JUMPS]
    measure, lengths = (shares_marked, ROWS_AFTER) if given.marked else (shares, ROWS)
    table = [["noise", "jump", *(f"{name}_{rows}" for rows in lengths for name in ("look", "told"))]]
    for kind, jump in cases:
        found = [measure(KINDS[kind], rows, jump, given.draws, given.seed) for rows in lengths]
        table.append([kind, f"{jump:g}", *(f"{one:.1f}" for pair in found for one in pair)])
        print(*table[-1], sep="  ", flush=True)
    if given.csv:
        with given.csv.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(table)


if __name__ == "__main__":
    main()
