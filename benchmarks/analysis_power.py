"""What the verdict finds, beside the test it replaced and a test that knows the truth.

Run: python benchmarks/analysis_power.py [--runs | --intervals | --spikes] [--draws N] [--only GRID].

Pairs of independent power laws of range 1 whose noise (5% of it) is correlated by r.

- former: the trend fixed to the core, one smooth spectrum of a walk and white noise (the test before).
- told: the trend fixed to the core, the noise known to be white or a walk. Only luck finds more.
- Both, and the present test, at a nominal 5% and at the level at which each rejects 5% of pairs with r = 0;
  the present one also at 5% of a family of 12, in one run.
- `--runs`: the one test over several runs, in a family of 12 (`family_table`); each run has its own noise.
- `--spikes`: shared spikes and jumps, by the first half of the test alone (signs) and by the whole test.
- `--intervals`: how often the interval of r holds the correlation of white innovations, and agrees with p.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.linalg import null_space

from toposcope.core.seeding import rng
from toposcope.statistics.trends._nulls import planted_pairs
from toposcope.statistics.trends.basis import core_trends
from toposcope.statistics.trends.innovations import innovation_test, pair_innovations
from toposcope.statistics.trends.joint import joint_test
from toposcope.statistics.trends.signs import sign_tail
from toposcope.statistics.trends.whitening import Whitened, whiten
from toposcope.study.table import from_frame
from toposcope.study.trends.verdicts import family_table

GRIDS = {"51 even": np.arange(51) * 100.0, "26 even": np.arange(26) * 100.0}
FAMILY = 12


def former(values: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return the innovations of the former test: the complement of the core, whitened in a walk's basis."""
    trend = core_trends(steps)
    rest = null_space(trend.T)
    places = np.arange(len(steps), dtype=float)
    variance, vectors = np.linalg.eigh(rest.T @ np.minimum.outer(places, places) @ rest)
    z = (rest @ vectors).T @ values
    powers = np.vander(np.log(variance), 3)
    coefficients, *_ = np.linalg.lstsq(powers, np.log(z * z), rcond=None)
    return np.asarray(rest @ vectors @ (z * np.exp(-0.5 * (powers @ coefficients))))


def told(values: np.ndarray, steps: np.ndarray, kind: str) -> np.ndarray:
    """Return the innovations when the core and the kind of noise are known."""
    trend = core_trends(steps)
    if kind == "walk":
        values, trend = np.diff(values, axis=0), np.diff(trend[:, 1:], axis=0)
    basis, _ = np.linalg.qr(trend)
    return np.asarray(values - basis @ (basis.T @ values))


def sign_p(e: np.ndarray, f: np.ndarray, size: int) -> np.ndarray:
    """Return the p of sum e f against random signs, what `size` trends took given back evenly."""
    left = 1.0 - size / len(e)
    q = e * f
    return np.array([sign_tail(column / left**0.375, column.sum()) for column in q.T])


def p_values(x: np.ndarray, y: np.ndarray, steps: np.ndarray, kind: str) -> dict[str, np.ndarray]:
    """Return the p of every test; NaN, not tested, is 1."""
    size = core_trends(steps).shape[1]
    present = innovation_test(whiten(x, steps), whiten(y, steps), intervals=False, rate_known=True).p
    return {
        "present": np.where(np.isfinite(present), present, 1.0),
        "former": sign_p(former(x, steps), former(y, steps), size),
        "told": sign_p(told(x, steps, kind), told(y, steps, kind), size),
    }


def single(draws: int, grids: dict[str, np.ndarray]) -> None:
    """Print the power of a single pair."""
    for name, steps in grids.items():
        for kind in ("white", "walk"):
            null = p_values(*planted_pairs(0.0, steps, draws, kind=kind), steps, kind)
            level = {test: float(np.quantile(p, 0.05)) for test, p in null.items()}
            size = "  ".join(f"{test} {100 * np.mean(p <= 0.05):.1f}" for test, p in null.items())
            print(f"{name}, {kind} noise, r = 0: {size}", flush=True)
            for r in (0.3, 0.5, 0.7):
                found = p_values(*planted_pairs(r, steps, draws, kind=kind), steps, kind)
                cells = "  ".join(
                    f"{test} {100 * np.mean(p <= 0.05):.1f} ({100 * np.mean(p <= level[test]):.1f})"
                    for test, p in found.items()
                )
                of_family = 100 * np.mean(found["present"] <= 0.05 / FAMILY)
                print(f"  r = {r}: {cells}  present, of {FAMILY}: {of_family:.1f}", flush=True)


def several(draws: int, grids: dict[str, np.ndarray]) -> None:
    """Print how often one related feature of 12 "adds" over several runs, by `family_table`."""
    for name, steps in grids.items():
        for kind in ("white", "walk"):
            for r in (0.0, 0.3, 0.5):
                cells = []
                for runs in (1, 3, 5):
                    adds = [_adds(steps, kind, r, runs, draw) for draw in range(draws)]
                    cells.append(f"{runs} runs {100 * np.mean(adds):.1f}")
                print(f"{name}, {kind} noise, r = {r}: {'  '.join(cells)}", flush=True)


def _adds(steps: np.ndarray, kind: str, r: float, runs: int, draw: int) -> bool:
    frames = []
    for run in range(runs):
        g = rng(name="several runs", kind=kind, run=run, draw=draw, n=len(steps), percent=round(100 * r))
        noise = g.standard_normal((len(steps), FAMILY + 1))
        noise[:, 1] = r * noise[:, 0] + np.sqrt(1.0 - r * r) * noise[:, 1]
        if kind == "walk":
            noise = np.cumsum(noise, axis=0)
        trend = (steps[:, None] / 100.0 + 1.0) ** -g.uniform(0.1, 1.5, FAMILY + 1)
        values = trend / np.ptp(trend, axis=0) + 0.05 * noise / noise.std(axis=0)
        names = ["loss", *(f"f{i}" for i in range(FAMILY))]
        frames.append(pd.DataFrame(values, columns=names).assign(run=f"run {run}", step=steps))
    table = family_table(from_frame(pd.concat(frames)))
    verdicts = table.set_index("column")["verdict"]
    return bool((verdicts == "adds").any() if r == 0 else verdicts["f0"] == "adds")


def intervals(draws: int, grids: dict[str, np.ndarray]) -> None:
    """Print the coverage of the interval of r, and how often it and p disagree."""
    for name, steps in grids.items():
        for kind in ("white", "walk"):
            for r in (0.0, 0.3, 0.5, 0.7):
                x, y = planted_pairs(r, steps, draws, kind=kind)
                test = innovation_test(whiten(x, steps), whiten(y, steps))
                known = np.isfinite(test.p)
                inside = (test.low <= r) & (r <= test.high)
                outside = (test.low > 0.0) | (test.high < 0.0)
                apart = np.mean((outside != (test.p <= 0.05))[known])
                print(
                    f"{name}, {kind} noise, r = {r}: holds r in {100 * np.mean(inside[known]):.1f}%, "
                    f"disagrees with p in {100 * apart:.2f}%",
                    flush=True,
                )


def spiky(g: np.random.Generator, steps: np.ndarray, draws: int, share: float) -> list[np.ndarray]:
    """Return pairs of power laws + 2% noise that share spikes of eight sigma at some checkpoints."""
    high = 0.16 * (g.random((len(steps), draws)) < share)
    trend = (steps[:, None] + 100.0) ** -0.3
    return [trend + high + 0.02 * g.standard_normal(high.shape) for _ in range(2)]


def jumpy(g: np.random.Generator, steps: np.ndarray, draws: int, size: float) -> list[np.ndarray]:
    """Return pairs of power laws + 1% noise that share a jump of about `size` at one checkpoint."""
    late = np.arange(len(steps))[:, None] >= g.integers(len(steps) // 5, len(steps) - 3, draws)
    fall = (steps[:, None] / 100.0 + 1.0) ** -0.5
    fall = (fall - fall[-1]) / np.ptp(fall)
    sizes = size * g.uniform(0.7, 1.3, (2, draws))
    return [fall + each * late + 0.01 * g.standard_normal(late.shape) for each in sizes]


def _without_orders(x: Whitened, y: Whitened) -> np.ndarray:
    """Return the p of the test by signs alone."""
    pairs = pair_innovations(x, y, rate_known=True)
    bare = [replace(pair, scaled=(np.full(len(pair.e), np.nan),) * 2) for pair in pairs]
    return np.array([np.nan if pair.why else joint_test([pair], intervals=False).p for pair in bare])


def spikes(draws: int, grids: dict[str, np.ndarray]) -> None:
    """Print the power against what both series share at a few checkpoints."""
    cases = {
        "spikes of 8 sigma at 5%": (spiky, 0.05), "spikes of 8 sigma at 10%": (spiky, 0.1),
        "a jump of about .1": (jumpy, 0.1), "a jump of about .3": (jumpy, 0.3),
    }  # fmt: skip
    for name, steps in grids.items():
        for case, (make, size) in cases.items():
            g = rng(name="shared spikes", case=case, n=len(steps))
            x, y = (whiten(z, steps) for z in make(g, steps, draws, size))
            both = innovation_test(x, y, intervals=False, rate_known=True).p
            signs = _without_orders(x, y)
            cells = [f"{100 * np.mean(p <= 0.05 / m):.1f}" for m in (1, FAMILY) for p in (signs, both)]
            print(f"{name}, {case}: signs {cells[0]}, both {cells[1]}; of 12: {cells[2]}, {cells[3]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--runs", action="store_true")
    parser.add_argument("--intervals", action="store_true")
    parser.add_argument("--spikes", action="store_true")
    parser.add_argument("--only", choices=list(GRIDS))
    options = parser.parse_args()
    chosen = {several: options.runs, intervals: options.intervals, spikes: options.spikes, single: True}
    grids = GRIDS if options.only is None else {options.only: GRIDS[options.only]}
    next(run for run, wanted in chosen.items() if wanted)(options.draws, grids)


if __name__ == "__main__":
    main()
