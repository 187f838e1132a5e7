"""How often the two-sample test calls equal clouds different, and whether its power is as stated; a peer.

    python -m benchmarks.two_sample [--only size|power|peer] [--pairs 334] [--out FOLDER]

Size: pairs of equal clouds of six unkind kinds, and of clouds of one shape in different places. Power: pilots
of 24 blocks state how many blocks find half their shift in 80%; fresh blocks are then tested. Peer: gudhi's
diagrams and distances of the same blocks, permuted in a plain loop. `--out` writes the tables of the docs.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import gudhi
import numpy as np
from gudhi.hera import wasserstein_distance

from toposcope.core.distributions import binomial_interval
from toposcope.core.seeding import rng
from toposcope.topology import two_sample
from toposcope.topology.energy import (
    Effect,
    label_effect,
    label_energies,
    label_splits,
    rank_p,
    swap_effect,
    swap_energies,
    swap_splits,
)
from toposcope.topology.exchanged import dealt, distances_of_clouds
from toposcope.topology.planning import LEVEL, Planning, label_planning, swap_planning

Cloud = Callable[[int, np.random.Generator], np.ndarray]
Row = dict[str, object]

PAIRS = 334
"""Pairs of each of the six kinds: 2,004 in all, half of them paired."""
POOL, PILOT, PILOTS, FRESH, BLOCK = 150, 24, 40, 10, 16
"""Blocks of each cloud in the pool, blocks of a pilot, pilots, fresh samples of each, rows of a block."""
PEER_PAIRS = 40


def student(n: int, g: np.random.Generator) -> np.ndarray:
    return g.standard_t(1.5, (n, 3))


def uneven(n: int, g: np.random.Generator) -> np.ndarray:
    """Four in five points in a ball a fortieth as wide as the rest."""
    return g.standard_normal((n, 2)) * np.where(g.random(n) < 0.8, 0.05, 2.0)[:, None]


def clusters(n: int, g: np.random.Generator) -> np.ndarray:
    centres = np.array([[0, 0, 0], [9, 0, 0], [0, 9, 0], [4, 4, 20]])
    return centres[g.choice(4, n, p=[0.5, 0.3, 0.15, 0.05])] + g.standard_normal((n, 3))


def ties(n: int, g: np.random.Generator) -> np.ndarray:
    return g.integers(0, 3, (n, 2)).astype(float)


def wide(n: int, g: np.random.Generator) -> np.ndarray:
    return g.standard_normal((n, 256))


KINDS: dict[str, tuple[Cloud, int]] = {
    "heavy tails (Student, 1.5 degrees)": (student, 64),
    "uneven density": (uneven, 64),
    "four unequal clusters": (clusters, 64),
    "16 rows": (student, 16),
    "ties (a grid of 9 points)": (ties, 64),
    "32 rows of 256 columns": (wide, 32),
}
ELSEWHERE = "one shape, turned and moved"


def equal_pair(draw: Cloud, n: int, g: np.random.Generator, *, paired: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return two clouds of one law; if paired, about half of their rows are equal."""
    first, second = draw(n, g), draw(n, g)
    same = g.random(n) < 0.5 * paired
    return first, np.where(same[:, None], first, second)


def sizes(pairs: int) -> Iterator[Row]:
    """Yield how often equal clouds are called different, for each kind, distance and design."""
    for kind, (draw, n) in {**KINDS, ELSEWHERE: (clusters, 64)}.items():
        found: dict[tuple[str, bool], int] = defaultdict(int)
        for pair in range(pairs):
            paired, g = bool(pair % 2), rng(purpose="equal clouds", kind=kind, pair=pair)
            first, second = equal_pair(draw, n, g, paired=paired)
            if kind == ELSEWHERE:
                second = 50 + second @ np.linalg.qr(g.standard_normal((3, 3)))[0]
            distances = ["wasserstein", "bottleneck", "landscape"]
            distances += [] if kind == ELSEWHERE else ["points", *["rtd-lite"] * paired]
            for distance in distances:
                draws = 99 if distance == "rtd-lite" else 999
                test = two_sample(first, second, paired=paired, distance=distance, draws=draws, seed=pair)
                found[distance, paired] += test.p <= LEVEL
        for (distance, paired), count in sorted(found.items()):
            yield {"kind": kind, "distance": distance, "paired": paired, "pairs": pairs // 2, "differ": count}


def summed(rows: list[Row]) -> Iterator[Row]:
    """Yield the rates over the six kinds, with their exact 95% intervals."""
    totals: dict[tuple[object, object], list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        if row["kind"] != ELSEWHERE:
            for paired in (row["paired"], "both"):
                total = totals[row["distance"], paired]
                total[0] += int(str(row["differ"]))
                total[1] += int(str(row["pairs"]))
    for (distance, paired), (count, pairs) in totals.items():
        yield {"kind": "all six", "distance": distance, "paired": paired, "pairs": pairs, "differ": count}


def in_percent(row: Row) -> Row:
    count, pairs = int(str(row["differ"])), int(str(row["pairs"]))
    low, high = binomial_interval(count, pairs)
    return {
        **row,
        "percent": f"{100 * count / pairs:.1f}",
        "low": f"{100 * low:.1f}",
        "high": f"{100 * high:.1f}",
    }


def ring(n: int, g: np.random.Generator) -> np.ndarray:
    angle = g.uniform(0, 2 * np.pi, n)
    return np.column_stack([np.cos(angle), np.sin(angle)]) + 0.25 * g.standard_normal((n, 2))


def disc(n: int, g: np.random.Generator) -> np.ndarray:
    angle, radius = g.uniform(0, 2 * np.pi, n), 1.2 * np.sqrt(g.random(n))
    return radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])


def gauss(n: int, g: np.random.Generator) -> np.ndarray:
    return g.standard_normal((n, 3))


SHIFTS: dict[str, tuple[Cloud, Cloud]] = {
    "a ring and a disc": (ring, disc),
    "a cloud and one 1.3 times as large": (gauss, lambda n, g: 1.3 * gauss(n, g)),
    "two clusters and one": (
        lambda n, g: gauss(n, g) + 3.0 * (g.random(n) < 0.5)[:, None] * [1, 0, 0],
        lambda n, g: gauss(n, g) * [1.8, 1, 1],
    ),
    "heavy tails and none": (lambda n, g: g.standard_t(2.5, (n, 3)), lambda n, g: 1.5 * gauss(n, g)),
}


def powers() -> Iterator[Row]:
    """Yield the stated and the actual power of every shift, with blocks from one pool of distances."""
    for shift, (draw_a, draw_b) in SHIFTS.items():
        for paired in (False, True):
            g = rng(purpose="power on fresh data", shift=shift, paired=paired)
            first, second = draw_a(POOL * BLOCK, g), draw_b(POOL * BLOCK, g)
            blocks = dealt(first, second, BLOCK, 0, paired=paired)
            between = distances_of_clouds(blocks, "wasserstein", "euclidean", rescale=False)
            yield {"shift": shift, "paired": paired, **_on_fresh(between / between.max(), g, paired=paired)}


def _on_fresh(between: np.ndarray, g: np.random.Generator, *, paired: bool) -> Row:
    truth = _effect(between, paired=paired).share
    stated, needed, actual, covered, same = [], [], [], [], []
    for _ in range(PILOTS):
        order = g.permutation(POOL)
        pilot, rest = order[:PILOT], order[PILOT:]
        chosen = _of(between, pilot, pilot)
        effect, planning = _effect(chosen, paired=paired), _planning(chosen, paired=paired)
        covered.append(effect.low <= truth <= effect.high)
        stated.append(planning.power(PILOT, 0.5))
        same += [_found(between, g, rest, PILOT, paired=paired) for _ in range(FRESH)]
        n = planning.needed()
        needed.append(n * BLOCK)
        if n <= len(rest):
            actual += [_found(between, g, rest, int(n), paired=paired) for _ in range(FRESH)]
    low, middle, high = np.quantile(needed, [0.1, 0.5, 0.9])
    return {
        "share": f"{truth:.2f}", "interval_covers": f"{100 * np.mean(covered):.0f}",
        "stated_at_pilot_size": f"{100 * np.mean(stated):.0f}",
        "actual_at_pilot_size": f"{100 * np.mean(same):.0f}",
        "rows_needed": f"{middle:.0f}", "rows_10": f"{low:.0f}", "rows_90": f"{high:.0f}",
        "stated": 80, "actual": f"{100 * np.mean(actual):.0f}", "fresh_tests": len(actual),
    }  # fmt: skip


def _of(between: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    members = np.concatenate([first, POOL + second])
    return between[np.ix_(members, members)]


def _found(between: np.ndarray, g: np.random.Generator, rest: np.ndarray, n: int, *, paired: bool) -> bool:
    """Return whether n fresh blocks of each differ, where every fourth block has changed sides."""
    first = g.choice(rest, n, replace=False)
    second = first if paired else g.choice(rest, n, replace=False)
    wrong = g.random((2, n)) < 0.25
    wrong[1] = wrong[0] if paired else wrong[1]
    # A block on the wrong side is the one of the same rows (paired), or another block of the other cloud.
    members = np.concatenate([first + POOL * wrong[0], second + POOL * ~wrong[1]])
    chosen, seed = between[np.ix_(members, members)], int(g.integers(1 << 30))
    if paired:
        return rank_p(swap_energies(chosen, swap_splits(n, 199, seed).first)) <= LEVEL
    return rank_p(label_energies(chosen, label_splits((n, n), 199, seed).first)) <= LEVEL


def _effect(between: np.ndarray, *, paired: bool) -> Effect:
    n = len(between) // 2
    if paired:
        return swap_effect(between, swap_energies(between, swap_splits(n, 99, 0).first))
    return label_effect(between, n, label_energies(between, label_splits((n, n), 99, 0).first))


def _planning(between: np.ndarray, *, paired: bool) -> Planning:
    return swap_planning(between) if paired else label_planning(between, len(between) // 2)


def gudhi_diagrams(cloud: np.ndarray) -> list[np.ndarray]:
    tree = gudhi.RipsComplex(points=cloud).create_simplex_tree(max_dimension=2)
    tree.persistence()
    diagrams = [tree.persistence_intervals_in_dimension(dim).reshape(-1, 2) for dim in (0, 1)]
    return [diagram[np.isfinite(diagram[:, 1])] for diagram in diagrams]


def plain_p(first: np.ndarray, second: np.ndarray, seed: int, draws: int = 999) -> float:
    """Return p of the mean distance within the groups: gudhi's diagrams and distances, a loop of splits."""
    diagrams = [gudhi_diagrams(block) for block in dealt(first, second, 8, seed, paired=False)]
    n = len(diagrams)
    between = np.zeros((2, n, n))
    for dim in (0, 1):
        for i in range(n):
            for j in range(i):
                between[dim, i, j] = between[dim, j, i] = wasserstein_distance(
                    diagrams[i][dim], diagrams[j][dim], order=1, internal_p=2
                )
    total = sum(one / one.mean() for one in between if one.any())
    g, group = np.random.default_rng(seed), np.arange(n) < n // 2
    within = []
    for _ in range(draws + 1):
        within.append(total[np.ix_(group, group)].sum() + total[np.ix_(~group, ~group)].sum())
        group = g.permutation(group)
    return float(np.mean(np.array(within) <= within[0] + 1e-9))


def whole_p(first: np.ndarray, second: np.ndarray, seed: int, draws: int = 99) -> float:
    """Return p of the distance of the whole clouds' diagrams, with rows permuted between the clouds."""
    g, rows, n = np.random.default_rng(seed), np.concatenate([first, second]), len(first)
    values = []
    for draw in range(draws + 1):
        order = g.permutation(2 * n) if draw else np.arange(2 * n)
        parts = [gudhi_diagrams(rows[half]) for half in (order[:n], order[n:])]
        values.append(
            [wasserstein_distance(a, b, order=1, internal_p=2) for a, b in zip(*parts, strict=True)]
        )
    total = (np.array(values) / np.maximum(np.mean(values, axis=0), 1e-300)).sum(axis=1)
    return float(np.mean(total >= total[0] - 1e-9))


def peers() -> Iterator[Row]:
    """Yield power and time of the test and of two plain ones on the same clouds of 64 rows."""
    tests = {
        "toposcope, blocks of 8": lambda a, b, seed: two_sample(a, b, seed=seed, block=8).p,
        "gudhi, blocks of 8, plain loop": plain_p,
        "gudhi, whole clouds, rows permuted (99)": whole_p,
    }
    for shift, (draw_a, draw_b) in SHIFTS.items():
        found, seconds = defaultdict(int), defaultdict(float)
        for pair in range(PEER_PAIRS):
            g = rng(purpose="peers", shift=shift, pair=pair)
            first, second = draw_a(64, g), draw_b(64, g)
            for name, test in tests.items():
                started = time.process_time()
                found[name] += test(first, second, pair) <= LEVEL
                seconds[name] += time.process_time() - started
        own = seconds["toposcope, blocks of 8"]
        for name in tests:
            yield {
                "shift": shift, "test": name, "pairs": PEER_PAIRS, "found": found[name],
                "ms": f"{1000 * seconds[name] / PEER_PAIRS:.0f}", "times_ours": f"{seconds[name] / own:.1f}",
            }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("size", "power", "peer"))
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    two_sample(*np.random.default_rng(0).standard_normal((2, 16, 2)))  # compiled before anything is timed
    made = {
        "size": lambda: [
            in_percent(row) for rows in [list(sizes(given.pairs))] for row in [*rows, *summed(rows)]
        ],
        "power": lambda: list(powers()),
        "peer": lambda: list(peers()),
    }
    for name, rows in made.items():
        if given.only in (None, name):
            table = rows()
            for row in table:
                print(" | ".join(str(value) for value in row.values()), flush=True)
            if given.out is not None:
                with (given.out / f"two-sample-{name}.csv").open("w", newline="", encoding="utf-8") as file:
                    writer = csv.DictWriter(file, list(table[0]))
                    writer.writeheader()
                    writer.writerows(table)


if __name__ == "__main__":
    main()
