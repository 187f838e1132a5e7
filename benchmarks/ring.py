"""How often the ring test calls a ring where there is none, and how often it finds one, beside two peers.

    python -m benchmarks.ring [--sizes 59,128] [--json FILE]

Clouds without a ring of eleven families; five shapes that are no ring but are curved (a sheet, a sphere, a
spiral, a tree, three quarters of a circle); planted circles. Peers: the universal p-value of Bobrowski and
Skraba 2023 with Bonferroni's correction, and "the longest bar is over twice the second". The seeds are not
those on which the test's constants were chosen.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from toposcope.clouds.power import binomial_interval, ring_power
from toposcope.clouds.ring import LEVEL, log_log, ring_test
from toposcope.core.seeding import rng
from toposcope.core.types import Diagram
from toposcope.topology import rips

CLOUDS = {59: 200, 128: 100, 256: 50, 512: 20}
"""Clouds of each family, by the number of points."""
CURVED_CLOUDS = {59: 100, 128: 60, 256: 30, 512: 0}
CIRCLES = 99
Family = Callable[[int, np.random.Generator], np.ndarray]


def gaussian(d: int) -> Family:
    return lambda n, g: g.standard_normal((n, d))


def student(degrees: int, d: int) -> Family:
    return lambda n, g: g.standard_normal((n, d)) / np.sqrt(g.chisquare(degrees, n) / degrees)[:, None]


def clusters(count: int, d: int) -> Family:
    """Clusters of standard deviation 1 whose centres have standard deviation 10."""
    return lambda n, g: (
        (10.0 * g.standard_normal((count, d)))[g.integers(0, count, n)] + g.standard_normal((n, d))
    )


def elongated(n: int, g: np.random.Generator) -> np.ndarray:
    return g.standard_normal((n, 10)) * np.geomspace(1.0, 0.01, 10)


def lattice(side: Callable[[int], int], d: int) -> Family:
    return lambda n, g: g.integers(0, side(n), (n, d)).astype(float)


FAMILIES: dict[str, Family] = {
    "Gaussian, 2-D": gaussian(2),
    "Gaussian, 10-D": gaussian(10),
    "Gaussian, 50-D": gaussian(50),
    "Student t2, 2-D": student(2, 2),
    "Student t3, 10-D": student(3, 10),
    "3 clusters, 2-D": clusters(3, 2),
    "6 clusters, 10-D": clusters(6, 10),
    "10 clusters, 2-D": clusters(10, 2),
    "elongated, condition 100, 10-D": elongated,
    "lattice, 2-D": lattice(lambda n: int(np.sqrt(n)) + 1, 2),
    "lattice, 5-D": lattice(lambda n: 4, 5),
}


def sheet(n: int, g: np.random.Generator) -> np.ndarray:
    """Bend a surface into ten dimensions."""
    return np.sin(g.uniform(size=(n, 2)) @ (2.0 * g.standard_normal((2, 10))) + g.uniform(0.0, 6.0, 10))


def sphere(n: int, g: np.random.Generator) -> np.ndarray:
    points = g.standard_normal((n, 3))
    return points / np.linalg.norm(points, axis=1)[:, None]


def spiral(n: int, g: np.random.Generator) -> np.ndarray:
    """Roll a sheet up: one turn and a half, and a width of 21."""
    turn = 1.5 * np.pi * (1.0 + 2.0 * g.uniform(size=n))
    return np.column_stack([turn * np.cos(turn), 21.0 * g.uniform(size=n), turn * np.sin(turn)])


def tree(n: int, g: np.random.Generator) -> np.ndarray:
    ends = g.standard_normal((5, 5))
    return g.uniform(size=(n, 1)) * ends[g.integers(0, 5, n)] + 0.03 * g.standard_normal((n, 5))


def arc(n: int, g: np.random.Generator) -> np.ndarray:
    """Draw from three quarters of a circle, noise .1."""
    angle = g.uniform(0.0, 1.5 * np.pi, n)
    return np.column_stack([np.cos(angle), np.sin(angle)]) + 0.07 * g.standard_normal((n, 2))


def clock(n: int, g: np.random.Generator) -> np.ndarray:
    """Draw eight clusters in a ring: a loop, made of clusters."""
    angle = 2.0 * np.pi * g.integers(0, 8, n) / 8.0
    return np.column_stack([np.cos(angle), np.sin(angle)]) + 0.03 * g.standard_normal((n, 2))


CURVED: dict[str, Family] = {
    "bent sheet, 10-D": sheet,
    "sphere": sphere,
    "Swiss roll": spiral,
    "tree, 5-D": tree,
    "three quarters of a circle": arc,
    "eight clusters in a ring": clock,
}
PLANTED = ((2, 0.1), (2, 0.3), (2, 0.5), (10, 0.3), (10, 0.6), (50, 1.0))
"""Dimensions and noise (radii) of planted circles."""


def universal(h1: Diagram) -> bool:
    """Say whether any bar is significant by the universal law of Bobrowski and Skraba, Bonferroni-corrected.

    ln ln(death/birth), centred at its mean and at minus Euler's constant, has the distribution
    1 - exp(-exp(x)).
    """
    logs = log_log(h1)
    if not len(logs):
        return False
    centred = logs - logs.mean() - np.euler_gamma
    return bool(np.exp(-np.exp(centred.max())) <= LEVEL / len(logs))


def twice(h1: Diagram) -> bool:
    """Say whether the longest bar is over twice as long as the second."""
    lengths = np.sort(h1.death - h1.birth)[::-1]
    return bool(len(lengths) == 1 or (len(lengths) > 1 and lengths[0] > 2.0 * lengths[1]))


def called(family: str, make: Family, n: int, clouds: int) -> dict[str, object]:
    counts = {"ring test": 0, "universal": 0, "twice the second": 0}
    for number in range(clouds):
        points = make(n, rng(benchmark="ring", family=family, points=n, cloud=number))
        h1 = rips(points)[1]
        counts["universal"] += universal(h1)
        counts["twice the second"] += twice(h1)
        counts["ring test"] += ring_test(points, h1=h1, seed=number, stop=True).found
    return {"family": family, "points": n, "clouds": clouds, **counts}


def said(count: int, number: int) -> str:
    low, high = binomial_interval(count, number)
    return f"{100 * count / number:.1f}% ({100 * low:.1f} to {100 * high:.1f})"


def show(row: dict[str, object]) -> None:
    rates = {
        name: said(int(row[name]), int(row["clouds"]))
        for name in ("ring test", "universal", "twice the second")
    }  # type: ignore[call-overload]
    print(f"{row['family']:32s} n={row['points']:<4} {row['clouds']} clouds: {rates}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="59,128,256,512")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    begun, rows, powers = time.process_time(), [], []
    for n in map(int, given.sizes.split(",")):
        for family, make in FAMILIES.items():
            rows.append(called(family, make, n, CLOUDS[n]))
            show(rows[-1])
        mine = [row for row in rows if row["points"] == n and row["family"] in FAMILIES]
        pooled = {
            key: sum(int(row[key]) for row in mine)
            for key in ("clouds", "ring test", "universal", "twice the second")
        }  # type: ignore[call-overload]
        show({"family": "all families", "points": n, **pooled})
        for d, noise in PLANTED:
            power = ring_power(n, d, noise, circles=CIRCLES)
            powers.append(
                {
                    "points": n,
                    "d": d,
                    "noise": noise,
                    "share": power.share,
                    "low": power.low,
                    "high": power.high,
                }
            )
            print(
                f"circle, {d}-D, noise {noise}: n={n} found {said(round(power.share * CIRCLES), CIRCLES)}",
                flush=True,
            )
        for family, make in CURVED.items():
            if CURVED_CLOUDS[n]:
                rows.append(called(family, make, n, CURVED_CLOUDS[n]))
                show(rows[-1])
        print(f"{time.process_time() - begun:.0f} s of processor time so far", flush=True)
        if given.json:
            given.json.write_text(json.dumps({"rates": rows, "powers": powers}, indent=2))


if __name__ == "__main__":
    main()
