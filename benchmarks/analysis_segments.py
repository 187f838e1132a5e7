"""How often the search for bends cries wolf, and what it finds: python benchmarks/analysis_segments.py.

Plain curves that its reference was not made of, on five grids of steps: the share in which it finds a bend,
and in which the online detector raises an alarm (a fifth of the draws). Then kinks at a third of the
checkpoints, in steps of a random walk and in standard deviations of white noise per unit of log(step).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from toposcope.analysis.phases.bends import design, scans
from toposcope.analysis.phases.online import OnlineDetector
from toposcope.analysis.phases.reference import FALSE_ALARMS, autoregressions, reference
from toposcope.progress import track

EVEN = np.arange(100.0, 5101.0, 100.0)
GRIDS = {
    "26 even": EVEN[:26] * 2,
    "51 even": EVEN,
    "154 Pythia": np.r_[2.0 ** np.arange(10), np.arange(1000.0, 143_001.0, 1000.0)],
    "51, 12 missing": np.sort(np.random.default_rng(5).permutation(EVEN)[:39]),
    "48 log": np.unique(np.geomspace(1, 143_000, 51).round()),
}


def plain(steps: np.ndarray, draws: int) -> Iterator[tuple[str, np.ndarray]]:
    g, n = np.random.default_rng(8), len(steps)
    shape = (draws, n)
    t, part = (steps - steps[0]) / np.diff(steps).min() + 1.0, (steps - steps[0]) / np.ptp(steps)
    powers = t ** -g.uniform(0.1, 1.5, (draws, 1))
    powers = (powers - powers.min(axis=1, keepdims=True)) / np.ptp(powers, axis=1)[:, None]
    falls = np.exp(-part / g.uniform(0.05, 0.5, (draws, 1)))
    rises = 1.0 / (1.0 + np.exp(-(part - g.uniform(0.2, 0.8, (draws, 1))) / g.uniform(0.05, 0.2, (draws, 1))))

    def noise() -> np.ndarray:
        return g.standard_normal(shape)

    def drift(phi: float) -> np.ndarray:
        return autoregressions(g, np.full(draws, phi), n)

    for size in (0.1, 0.01, 0.001):
        yield f"power law + {size:.1%} noise", powers + size * noise()
    yield "straight line + 1% noise", part + 0.01 * noise()
    yield "random walk", noise().cumsum(1)
    yield "walk, t(3) steps", g.standard_t(3, shape).cumsum(1)
    yield "walk, steps AR(1) .5", drift(0.5).cumsum(1)
    yield "walk, steps AR(1) .8", drift(0.8).cumsum(1)
    yield "walk of whole numbers", np.round(0.7 * noise().cumsum(1))
    yield "walk of whole numbers, sparse", np.round(0.4 * noise().cumsum(1))
    yield "white noise", noise()
    yield "AR(1) .9", drift(0.9)
    yield "AR(1) -.8", drift(-0.8)
    yield "walk, cosine steps", (noise() * (0.51 + 0.5 * np.cos(np.pi * part))).cumsum(1)
    yield "walk, first fifth five times as large", (noise() * np.where(part < 0.2, 5.0, 1.0)).cumsum(1)
    yield "walk, steps wane like 1/t", (noise() / t).cumsum(1)
    yield "walk, steps grow like t^1/2", (noise() * t**0.5).cumsum(1)
    yield "white noise, wanes like 1/t", noise() / t
    yield "outside: exponential + 1% noise", falls + 0.01 * noise()
    yield "outside: sigmoid + 1% noise", rises + 0.01 * noise()


def kinks(steps: np.ndarray, draws: int) -> Iterator[tuple[str, np.ndarray]]:
    g, turn = np.random.default_rng(7), steps[len(steps) // 3]
    hinge = np.where(steps < turn, 0.0, np.log(steps / turn))
    for size in (20.0, 30.0, 40.0):
        yield (
            f"kink of {size:.0f} walk steps",
            size * hinge + g.standard_normal((draws, len(steps))).cumsum(1),
        )
        yield f"kink of {size:.0f} sd of white noise", size * hinge + g.standard_normal((draws, len(steps)))


def found(steps: np.ndarray, series: np.ndarray) -> float:
    known = reference(steps)
    scanned = scans(design(steps), np.diff(series, axis=1))
    return 100.0 * float(np.mean([min(known.p_values(*row)) <= FALSE_ALARMS for row in scanned]))


def alarmed(steps: np.ndarray, series: np.ndarray) -> float:
    def one(values: np.ndarray) -> bool:
        detector = OnlineDetector(steps)
        return any(detector.update(s, v) is not None for s, v in zip(steps, values, strict=True))

    return 100.0 * float(np.mean([one(values) for values in series]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=800)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for grid, steps in GRIDS.items():
        cases = [*plain(steps, options.draws), *kinks(steps, options.draws)]
        for name, series in track(cases, grid):
            online = alarmed(steps, series[: options.draws // 5])
            rows.append({"series": name, "steps": grid, "bends": found(steps, series), "online": online})
    table = pd.DataFrame(rows)
    for column in ("bends", "online"):
        wide = table.pivot(index="series", columns="steps", values=column)
        print(column, wide.loc[table["series"].unique(), list(GRIDS)].round(1).to_string(), sep="\n")
    if options.json:
        table.to_json(options.json, orient="records", indent=1)


if __name__ == "__main__":
    main()
