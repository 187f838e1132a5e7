"""How often the ring test calls a ring where there is none, and how often it finds one, beside two peers.

    python -m benchmarks.ring [--sizes 59,128] [--json FILE]
    toposcope train --recipe grokking --seeds 1 --out RUNS
    python -m benchmarks.ring --grokking RUNS/adder-seed1

Clouds without a ring from eleven families; five curved shapes that are no ring (a sheet, a sphere, a spiral,
a tree, three quarters of a circle); planted circles; shapes with two loops (a figure eight, tori). Peers: the
universal p-value of Bobrowski and Skraba 2023 with Bonferroni's correction, and "the longest bar is over
twice the second". The seeds are not those on which the test's constants were chosen. The positive control is
modular addition: the planes of the key frequencies, which have circles at the last checkpoint, beside those
of shuffled residues.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from toposcope.clouds.power import planted_circle
from toposcope.clouds.ring import LEVEL, log_log, ring_test
from toposcope.core.distributions import binomial_interval
from toposcope.core.seeding import rng
from toposcope.core.types import Diagram
from toposcope.studies.grokking.fourier import KEYS, key_frequencies
from toposcope.topology import rips
from toposcope.training.grokking import fourier_plane, frequency_power

CLOUDS = {59: 200, 128: 100, 256: 50, 512: 8}
"""Clouds of each family, by the number of points."""
CURVED_CLOUDS = {59: 100, 128: 60, 256: 0, 512: 0}
CIRCLES = {59: 80, 128: 40, 256: 15, 512: 0}
LOOPED_CLOUDS = {59: 80, 128: 40, 256: 10, 512: 5}
SHUFFLES = 20
TESTS = ("ring test", "universal", "twice the second")
COUNTED = ("clouds", *TESTS)
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


def figure_eight(n: int, g: np.random.Generator) -> np.ndarray:
    """Draw two circles that touch, noise .07 radii."""
    angle, centre = g.uniform(0.0, 2.0 * np.pi, n), g.choice([-1.0, 1.0], n)
    return np.column_stack([np.cos(angle) + centre, np.sin(angle)]) + 0.05 * g.standard_normal((n, 2))


def torus(tube: float) -> Family:
    """Draw uniformly from a torus in space whose ring has radius 1; `tube` is the radius of its tube."""

    def draw(n: int, g: np.random.Generator) -> np.ndarray:
        around, across = g.uniform(0.0, 2.0 * np.pi, (2, 8 * n))
        away = 1.0 + tube * np.cos(across)
        kept = np.flatnonzero(g.uniform(0.0, 1.0 + tube, 8 * n) < away)[:n]  # the area grows as `away`
        around, across, away = around[kept], across[kept], away[kept]
        return np.column_stack([away * np.cos(around), away * np.sin(around), tube * np.sin(across)])

    return draw


def flat_torus(n: int, g: np.random.Generator) -> np.ndarray:
    """Draw from the product of two circles, in four dimensions."""
    angles = g.uniform(0.0, 2.0 * np.pi, (n, 2))
    return np.hstack([np.cos(angles), np.sin(angles)])


LOOPED: dict[str, Family] = {
    "figure eight": figure_eight,
    "torus, tube .3": torus(0.3),
    "torus, tube .5": torus(0.5),
    "two circles' product, 4-D": flat_torus,
}
"""Shapes whose H1 has two classes."""
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


def called(family: str, make: Family, n: int, clouds: int) -> dict[str, Any]:
    """Count and print how many clouds of a family each test calls rings."""
    counts = dict.fromkeys(TESTS, 0)
    for number in range(clouds):
        points = make(n, rng(benchmark="ring", family=family, points=n, cloud=number))
        h1 = rips(points)[1]
        counts["universal"] += universal(h1)
        counts["twice the second"] += twice(h1)
        counts["ring test"] += ring_test(points, h1=h1, seed=number, stop=True).found
    print(f"{family}, {n} points, {clouds} clouds:", rates(counts, clouds), flush=True)
    return {"family": family, "points": n, "clouds": clouds, **counts}


def found(n: int, d: int, noise: float) -> dict[str, Any]:
    """Count and print how many planted circles each test finds, the whole test on each."""
    counts = dict.fromkeys(TESTS, 0)
    for number in range(CIRCLES[n]):
        points = planted_circle(
            n, d, noise, rng(benchmark="ring power", points=n, d=d, noise=str(noise), cloud=number)
        )
        h1 = rips(points)[1]
        counts["universal"] += universal(h1)
        counts["twice the second"] += twice(h1)
        counts["ring test"] += ring_test(points, h1=h1, seed=number, stop=True).found
    print(f"circle, {d}-D, noise {noise}, {n} points:", rates(counts, CIRCLES[n]), flush=True)
    return {"points": n, "d": d, "noise": noise, "clouds": CIRCLES[n], **counts}


def rates(counts: dict[str, int], number: int) -> str:
    return ", ".join(f"{name} {said(counts[name], number)}" for name in TESTS)


def grokking(run: Path) -> None:
    """Test the planes of the key frequencies of a run's first and last token embedding, and shuffled ones."""
    from safetensors.numpy import load_file

    places = sorted((run / "checkpoints").glob("*.safetensors"))
    for place in (places[0], places[-1]):
        table = load_file(place)["token_emb.weight"]
        print(place.name, "key frequencies:", *planes_called(table, 0), flush=True)
    rings = [
        planes_called(rng(purpose="ring shuffle", draw=k).permutation(table), k)[0] for k in range(SHUFFLES)
    ]
    print("residues shuffled:", said(sum(rings), KEYS * SHUFFLES), "of the planes", flush=True)


def planes_called(table: np.ndarray, seed: int) -> tuple[int, str]:
    """Return in how many planes of the key frequencies a ring is called, and the bars and p-values."""
    keys = [int(key) for key in key_frequencies(frequency_power(table))]
    found = [ring_test(fourier_plane(table, key), seed=seed) for key in keys]
    each = ", ".join(
        f"{key}: {one.ratio:.2f} (allowed {one.most_allowed:.2f}, p {one.largest_p:.2f})"
        for key, one in zip(keys, found, strict=True)
    )
    return sum(one.found for one in found), f"rings of {len(keys)}; {each}"


def said(count: int, number: int) -> str:
    low, high = binomial_interval(count, number)
    return f"{100 * count / number:.1f}% ({100 * low:.1f} to {100 * high:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="59,128,256,512")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--circles", action="store_true", help="Only the planted circles.")
    parser.add_argument("--false", action="store_true", help="Only the clouds without a ring.")
    parser.add_argument("--looped", action="store_true", help="Only the figure eight and the tori.")
    parser.add_argument("--grokking", type=Path, metavar="RUN", help="Only the positive control.")
    given = parser.parse_args()
    if given.grokking:
        grokking(given.grokking)
        return
    chosen = [name for name in ("circles", "false", "looped") if getattr(given, name)]
    parts = chosen or ["circles", "false", "looped"]
    begun, rows, powers = time.process_time(), [], []
    for n in map(int, given.sizes.split(",")):
        if "circles" in parts and CIRCLES[n]:
            powers += [found(n, d, noise) for d, noise in PLANTED]
        if "looped" in parts:
            rows += [called(family, make, n, LOOPED_CLOUDS[n]) for family, make in LOOPED.items()]
        if "false" in parts:
            rows += without_a_ring(n)
        print(f"{time.process_time() - begun:.0f} s of processor time so far", flush=True)
        if given.json:
            given.json.write_text(json.dumps({"rates": rows, "powers": powers}, indent=2))


def without_a_ring(n: int) -> list[dict[str, Any]]:
    """Return the counts of every family without a ring, of all together, and of the curved shapes."""
    rows = [called(family, make, n, CLOUDS[n]) for family, make in FAMILIES.items()]
    pooled = {key: sum(row[key] for row in rows) for key in COUNTED}
    print(f"all families, {n} points:", rates(pooled, pooled["clouds"]), flush=True)
    rows.append({"family": "all families", "points": n, **pooled})
    if CURVED_CLOUDS[n]:
        rows += [called(family, make, n, CURVED_CLOUDS[n]) for family, make in CURVED.items()]
    return rows


if __name__ == "__main__":
    main()
