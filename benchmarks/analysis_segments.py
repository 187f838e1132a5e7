"""How often the phase detectors cry wolf: python benchmarks/analysis_segments.py [--draws N] [--json FILE].

Series without a change of slope on log(step), with noise that wanes, grows, persists or has heavy tails: the
share in which the segment search finds a boundary, and in which the online detector raises an alarm (a
quarter of the draws). Then kinks at a third of the checkpoints: power, and how often a boundary's 95% set
holds it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from toposcope.analysis.phases.online import OnlineDetector
from toposcope.analysis.phases.segments import segments
from toposcope.progress import track

GRIDS = {
    "50 even": np.arange(100.0, 5001.0, 100.0),
    "48 log": np.unique(np.geomspace(1, 143_000, 51).round()),
}


def autoregression(g: np.random.Generator, shape: tuple[int, int], phi: float) -> np.ndarray:
    x = g.standard_normal(shape)
    x[:, 0] /= np.sqrt(1.0 - phi * phi)
    for i in range(1, shape[1]):
        x[:, i] += phi * x[:, i - 1]
    return x


def quiet(steps: np.ndarray, draws: int) -> Iterator[tuple[str, np.ndarray]]:
    g = np.random.default_rng(5)
    shape, t = (draws, len(steps)), steps / steps[0]
    part = (steps - steps[0]) / (steps[-1] - steps[0])
    cosine, early = 0.51 + 0.5 * np.cos(np.pi * part), np.where(part < 0.2, 5.0, 1.0)
    yield "random walk", g.standard_normal(shape).cumsum(1)
    yield "walk, t(3) steps", g.standard_t(3, shape).cumsum(1)
    yield "white noise", g.standard_normal(shape)
    yield "AR(1) 0.5", autoregression(g, shape, 0.5)
    yield "AR(1) 0.9", autoregression(g, shape, 0.9)
    for name, size in (
        ("walk, steps wane like t^-1/2", t**-0.5), ("walk, steps wane like 1/t", t**-1.0),
        ("walk, steps grow like t^1/2", t**0.5), ("walk, cosine steps", cosine),
        ("walk, first fifth five times as large", early),
    ):  # fmt: skip
        yield name, (g.standard_normal(shape) * size).cumsum(1)
    yield "white noise, wanes like 1/t", g.standard_normal(shape) / t
    yield "walk, steps AR(1) 0.5", autoregression(g, shape, 0.5).cumsum(1)


def alarm(steps: np.ndarray, values: np.ndarray) -> bool:
    detector = OnlineDetector(steps)
    return any(detector.update(s, v) is not None for s, v in zip(steps, values, strict=True))


def kinks(steps: np.ndarray, draws: int) -> Iterator[dict[str, object]]:
    g, turn = np.random.default_rng(7), steps[len(steps) // 3]
    for size in (20.0, 30.0, 40.0):
        trend = size * np.where(steps < turn, 0.0, np.log(steps / turn))
        rows = [segments(steps, trend + g.standard_normal(len(steps)).cumsum()) for _ in range(draws)]
        one = [row for row in rows if len(row) == 2]
        inside = [float(row[1][6]) <= turn <= float(row[1][7]) for row in one]  # type: ignore[arg-type]
        yield {
            "kink, in steps of the walk": size, "found": np.mean([len(row) > 1 for row in rows]),
            "in the 95% set": np.mean(inside) if inside else np.nan, "of": len(one),
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=800)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    for grid, steps in GRIDS.items():
        for name, series in track(list(quiet(steps, options.draws)), grid):
            found = [len(segments(steps, values)) > 1 for values in series]
            alarms = [alarm(steps, values) for values in series[: options.draws // 4]]
            rows.append(
                {"steps": grid, "series": name, "segments": np.mean(found), "online": np.mean(alarms)}
            )
    power = pd.DataFrame([{"steps": g, **row} for g, s in GRIDS.items() for row in kinks(s, options.draws)])
    table = pd.DataFrame(rows)
    print(table.round(3).to_string(index=False), power.round(3).to_string(index=False), sep="\n\n")
    if options.json:
        table.to_json(options.json, orient="records", indent=1)


if __name__ == "__main__":
    main()
