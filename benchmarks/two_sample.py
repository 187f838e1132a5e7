"""How often the two-sample test calls equal groups different, and whether its power is as stated; a peer.

    python -m benchmarks.two_sample [--only size|power|peer] [--pairs 334] [--jobs 2] [--csv FOLDER]

Size: pairs of equal groups of six unkind kinds; and of rows that follow each other, which the test does not
admit. Power: pilots of 24 blocks (or diagrams) state how many find half their shift in 80%; fresh ones are
then tested. Peer: gudhi's diagrams and distances of the same blocks, permuted in a plain loop. `--csv` writes
the tables of the docs.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import gudhi
import numpy as np
from gudhi.hera import wasserstein_distance

from benchmarks.two_sample_kinds import EQUAL, LIMIT, SHIFTS, ring, rings
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
from toposcope.topology.exchanged import dealt, distances_of_clouds, distances_of_diagrams
from toposcope.topology.planning import LEVEL, Planning, label_planning, swap_planning

Row = dict[str, object]

PAIRS = 334
"""Pairs of each of the six kinds: 2,004 in all."""
POOL, PILOT, PILOTS, FRESH, BLOCK = 300, 24, 60, 10, 16
"""Blocks of each cloud in the pool, blocks of a pilot, pilots, fresh samples of each, rows of a block."""
POOL_OF_DIAGRAMS = 200
PEER_PAIRS, WHOLE_PAIRS = 100, 12
"""Pairs of clouds for the tests of blocks, and for that of whole clouds, which takes three seconds each."""


def sizes_of(kind: str, pairs: int) -> list[Row]:
    """Return how often equal groups of a kind are called different, by distance."""
    equal, found = {**EQUAL, **LIMIT}[kind], defaultdict(int)
    for pair in range(pairs):
        first, second = equal.draw(rng(purpose="equal groups", kind=kind, pair=pair))
        for distance in equal.distances:
            draws = 99 if distance == "rtd-lite" else 999
            test = two_sample(
                first, second, paired=equal.paired, kind=equal.kind, distance=distance, draws=draws, seed=pair
            )
            found[distance] += test.p <= LEVEL
    return [
        in_percent({"kind": kind, "distance": name, "paired": equal.paired, "pairs": pairs, "differ": count})
        for name, count in found.items()
    ]


def summed(rows: list[Row]) -> Iterator[Row]:
    """Yield the rates over the six kinds, with their exact 95% intervals."""
    totals: dict[object, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        if row["kind"] in EQUAL:
            totals[row["distance"]][0] += int(str(row["differ"]))
            totals[row["distance"]][1] += int(str(row["pairs"]))
    for distance, (count, pairs) in totals.items():
        row = {"kind": "all", "distance": distance, "paired": "both", "pairs": pairs, "differ": count}
        yield in_percent(row)


def in_percent(row: Row) -> Row:
    count, pairs = int(str(row["differ"])), int(str(row["pairs"]))
    low, high = binomial_interval(count, pairs)
    shares = {"percent": count / pairs, "low": low, "high": high}
    return {**row, **{name: f"{100 * share:.1f}" for name, share in shares.items()}}


def power_of(name: str) -> Row:
    """Return the stated and the actual power of a shift, with members from one pool of distances."""
    shift, g = SHIFTS[name], rng(purpose="power on fresh data", shift=name)
    if shift.diagrams:
        first, second = shift.draw(POOL_OF_DIAGRAMS, g)
        between = distances_of_diagrams([*first, *second], "wasserstein")
    else:
        first, second = shift.draw(POOL * BLOCK, g)
        blocks = dealt(first, second, BLOCK, 0, paired=shift.paired)
        between = distances_of_clouds(blocks, "wasserstein", "euclidean", rescale=False)
    found = _on_fresh(between / between.max(), g, paired=shift.paired)
    unit = "diagram" if shift.diagrams else f"block of {BLOCK} rows"
    return {"shift": name, "paired": shift.paired, "unit": unit, **found}


def _on_fresh(between: np.ndarray, g: np.random.Generator, *, paired: bool) -> Row:
    pool, truth = len(between) // 2, _effect(between, paired=paired).share
    stated, needed, actual, covered, same, held = [], [], [], [], [], []
    whole = _planning(between, paired=paired).needed()
    for _ in range(PILOTS):
        order = g.permutation(pool)
        pilot, rest = order[:PILOT], order[PILOT:]
        chosen = between[np.ix_(*[np.concatenate([pilot, pool + pilot])] * 2)]
        effect, planning = _effect(chosen, paired=paired), _planning(chosen, paired=paired)
        covered.append(effect.low <= truth <= effect.high)
        stated.append(planning.power(PILOT, 0.5))
        same += [_found(between, g, rest, PILOT, paired=paired) for _ in range(FRESH)]
        n = planning.needed()
        needed.append(n)
        low, high = (
            planning.scaled_to(planning.squared * end / effect.share).needed()
            for end in (effect.high, effect.low)
        )
        held.append(low <= whole <= high)
        tested = int(min(n, len(rest)))  # a plan beyond the pool is tested with all of it
        actual += [_found(between, g, rest, tested, paired=paired) for _ in range(FRESH)]
    low, middle, high = np.quantile(needed, [0.1, 0.5, 0.9], method="nearest")
    percents = {
        "interval_of_share_covers": covered, "interval_of_needed_covers": held,
        "stated_with_24": stated, "actual_with_24": same,
    }  # fmt: skip
    return {
        "share": f"{truth:.2f}",
        **{name: f"{100 * np.mean(values):.0f}" for name, values in percents.items()},
        "needed": f"{middle:.0f}", "needed_10": f"{low:.0f}", "needed_90": f"{high:.0f}",
        "needed_by_pool": f"{whole:.0f}", "stated_with_needed": 80,
        "actual_with_needed": f"{100 * np.mean(actual):.0f}", "fresh_tests": len(actual),
    }  # fmt: skip


def _found(between: np.ndarray, g: np.random.Generator, rest: np.ndarray, n: int, *, paired: bool) -> bool:
    """Return whether n fresh members of each differ, where every fourth member has changed sides."""
    pool = len(between) // 2
    first = g.choice(rest, n, replace=False)
    second = first if paired else g.choice(rest, n, replace=False)
    wrong = g.random((2, n)) < 0.25
    wrong[1] = wrong[0] if paired else wrong[1]
    # A member on the wrong side is the one of the same rows (paired), or another one of the other cloud.
    members = np.concatenate([first + pool * wrong[0], second + pool * ~wrong[1]])
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


PEER_CLOUDS: dict[str, tuple[Callable[[int, np.random.Generator], np.ndarray], ...]] = {
    "one ring and two": (ring, rings),
    "a cloud and one 1.3 times as large": (
        lambda n, g: g.standard_normal((n, 3)), lambda n, g: 1.3 * g.standard_normal((n, 3)),
    ),
    "none (one ring each)": (ring, ring),
}  # fmt: skip


WHOLE = "gudhi, whole clouds, rows permuted (99)"


def peers() -> Iterator[Row]:
    """Yield rates and times of the test and of two plain ones on the same clouds of 64 rows."""
    tests = {
        "toposcope, blocks of 8": lambda a, b, seed: two_sample(a, b, seed=seed, block=8).p,
        "gudhi, blocks of 8, plain loop": plain_p,
        WHOLE: whole_p,
    }
    for shift, (draw_a, draw_b) in PEER_CLOUDS.items():
        found, seconds = defaultdict(int), defaultdict(float)
        pairs = {name: WHOLE_PAIRS if name == WHOLE else PEER_PAIRS for name in tests}
        for pair in range(PEER_PAIRS):
            g = rng(purpose="peers", shift=shift, pair=pair)
            first, second = draw_a(64, g), draw_b(64, g)
            for name, test in tests.items():
                if pair >= pairs[name]:
                    continue
                started = time.process_time()
                found[name] += test(first, second, pair) <= LEVEL
                seconds[name] += time.process_time() - started
        each = {name: seconds[name] / count for name, count in pairs.items()}
        for name, count in pairs.items():
            row = in_percent({"shift": shift, "test": name, "pairs": count, "differ": found[name]})
            ratio = each[name] / each["toposcope, blocks of 8"]
            yield {**row, "ms": f"{1000 * each[name]:.0f}", "times_ours": f"{ratio:.1f}"}
    if shutil.which("Rscript") is None:
        print("R is not installed, so its package TDA was not compared")


def tables(pairs: int, jobs: int) -> dict[str, Callable[[], list[Row]]]:
    """Return how each table is made; the peers, which are timed, have one process."""

    def size() -> list[Row]:
        kinds = [*EQUAL, *LIMIT]
        with ProcessPoolExecutor(jobs) as pool:
            rows = [row for part in pool.map(sizes_of, kinds, [pairs] * len(kinds)) for row in part]
        return [*rows, *summed(rows)]

    def power() -> list[Row]:
        with ProcessPoolExecutor(jobs) as pool:
            return list(pool.map(power_of, SHIFTS))

    return {"size": size, "power": power, "peer": lambda: list(peers())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("size", "power", "peer"))
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--csv", type=Path, help="the folder of the tables two-sample-*.csv")
    given = parser.parse_args()
    for _ in range(2):  # compiled and loaded before anything is timed
        two_sample(*np.random.default_rng(0).standard_normal((2, 64, 2)), block=8)
    for name, make in tables(given.pairs, given.jobs).items():
        if given.only in (None, name):
            began, table = time.perf_counter(), make()
            print(" | ".join(table[0]))
            for row in table:
                print(" | ".join(str(value) for value in row.values()))
            print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
            if given.csv is not None:
                with (given.csv / f"two-sample-{name}.csv").open("w", newline="", encoding="utf-8") as file:
                    writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
                    writer.writeheader()
                    writer.writerows(table)


if __name__ == "__main__":
    main()
