"""What each function of `toposcope.topology` costs: seconds at two sizes, and how they grow.

`python -m benchmarks.toolbox` measures every function at a size and at one four times as large (two_sample:
twice), the fastest of several calls, on one core; `--write` writes docs/evidence/toolbox-costs.csv, which
the page of each function quotes; `--only NAME` measures one function anew. `to_akriti` is measured if akriti
is installed.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
from threadpoolctl import threadpool_limits

from toposcope import topology as tp
from toposcope.core.errors import InputError
from toposcope.core.types import Diagram

TABLE = Path(__file__).parents[1] / "docs" / "evidence" / "toolbox-costs.csv"
COLUMNS = ("function", "order", "size is", "small", "large", "seconds, small", "seconds, large", "exponent")


@dataclass(frozen=True)
class Case:
    """A function, its order as the code says, and what a size means; `make` prepares the arguments."""

    name: str
    order: str
    size: str
    make: Callable[[int], tuple[Any, ...]]
    small: int = 1000
    times: int = 4
    settings: tuple[tuple[str, Any], ...] = ()


def _generator() -> np.random.Generator:
    return np.random.default_rng(0)


def _matrix(n: int) -> tuple[np.ndarray]:
    return (_generator().standard_normal((n, n)).astype(np.float32),)


def _cloud(n: int) -> tuple[np.ndarray]:
    return (_generator().standard_normal((n, 50)),)


def _bars(n: int, seed: int = 0) -> Diagram:
    generator = np.random.default_rng(seed)
    birth = generator.uniform(size=n)
    return Diagram(1, birth, birth + generator.exponential(0.1, size=n))


def _diagram(n: int) -> tuple[Diagram]:
    return (_bars(n),)


def _two(n: int) -> tuple[Diagram, Diagram]:
    return _bars(n), _bars(n, 1)


def _groups(n: int) -> tuple[list[Diagram], list[Diagram]]:
    return [_bars(20, seed) for seed in range(n)], [_bars(20, seed) for seed in range(n, 2 * n)]


def _surface(n: int) -> tuple[np.ndarray]:
    return (_generator().standard_normal((64, n // 64)),)


RNG = (("rng", np.random.default_rng(0)),)
MATRIX = "n: a matrix n x n"
CLOUD = "n: points in 50 dimensions"
DIAGRAM = "n: bars"
LATTICE = "n: points of a lattice, 64 x n/64"
CASES = (
    Case("neural_persistence", "O(n²)", MATRIX, _matrix, 512),
    Case("weight_diagram", "O(n²)", MATRIX, _matrix, 512),
    Case("maximum_spanning_tree_weights", "O(n²)", MATRIX, _matrix, 512),
    Case("batched_spanning_tree_weights", "O(n) matrices", "n: matrices 64 x 64",
         lambda n: ([_matrix(64)[0]] * n,), 50),
    Case("neural_persistence_bounds", "O(n²)", MATRIX, _matrix, 512),
    Case("clipped_neural_persistence", "O(n²)", MATRIX, _matrix, 512),
    Case("magnitude_quantile", "O(n²)", MATRIX, _matrix, 512),
    Case("magnitude_variance", "O(n²)", MATRIX, _matrix, 512),
    Case("shuffled_spanning_tree_weights", "O(n²) for all draws, O(n log n) a draw", MATRIX, _matrix, 512,
         settings=RNG),
    Case("shuffled_neural_persistence", "O(n²) for all draws, O(n log n) a draw", MATRIX, _matrix, 512,
         settings=RNG),
    Case("deep_graph_persistence", "O(n²) a layer", "n: two layers n x n",
         lambda n: (_matrix(n) * 2,), 64),
    Case("shuffled_deep_graph_persistence", "O(n²) for all draws, O(n log n) a draw", "n: two layers n x n",
         lambda n: (_matrix(n) * 2,), 64, settings=RNG),
    Case("stopping_index", "O(n)", "n: checks", lambda n: (list(range(n)),), settings=(("patience", 3),)),
    Case("baselines", "O(n³)", MATRIX, _matrix, 128),
    Case("components", "O(n²)", CLOUD, _cloud, 500),
    Case("rips", "O(n²) for H0; H1 depends on the cloud", CLOUD, _cloud, 200),
    Case("rips_batch", "O(n) clouds", "n: clouds of 50 points", lambda n: ([_cloud(50)[0]] * n,), 20),
    Case("rips_memory", "O(1)", "n: points", lambda n: (n,)),
    Case("merge_tree", "O(n log n)", LATTICE, _surface, 4096),
    Case("surface_homology", "O(n log n)", LATTICE, _surface, 4096),
    Case("wasserstein", "O(n³) up to 2,000 bars", DIAGRAM, _two, 50),
    Case("bottleneck", "O(n^1.5 log n)", DIAGRAM, _two, 50),
    Case("matched_bars", "O(n³)", DIAGRAM, _two, 50),
    Case("two_sample", "O(n²) distances", "n: diagrams of 20 bars in each group", _groups, 8, 2),
    Case("rtd_lite", "O(n²)", CLOUD, lambda n: (_cloud(n)[0], _cloud(n)[0] ** 2), 200),
    Case("rtd_lite_matrix", "O(n²) pairs", "n: clouds of 100 points",
         lambda n: ([_cloud(100)[0] ** k for k in range(1, n + 1)],), 4),
    Case("summaries", "O(n)", DIAGRAM, _diagram),
    Case("persistent_entropy", "O(n)", DIAGRAM, _diagram),
    Case("common_grid", "O(n)", DIAGRAM, lambda n: ([_bars(n)],)),
    Case("betti_curve", "O(n log n)", DIAGRAM, _diagram),
    Case("euler_curve", "O(n log n)", DIAGRAM, lambda n: ([_bars(n)],)),
    Case("entropy_curve", "O(n log n)", DIAGRAM, _diagram),
    Case("landscape", "O(n) a value of the grid", DIAGRAM, _diagram),
    Case("silhouette", "O(n) a value of the grid", DIAGRAM, _diagram),
    Case("persistence_image", "O(n) a pixel", DIAGRAM, _diagram),
    Case("crocker", "O(n log n) a diagram", DIAGRAM, lambda n: ([_bars(n)] * 10,)),
    Case("twonn", "O(n²)", CLOUD, _cloud, 500),
    Case("mle_dimension", "O(n²)", CLOUD, _cloud, 500),
    Case("ph_dimension", "O(n²) a subsample, at most 1,000 points each", CLOUD, _cloud, 200),
    Case("magnitude", "O(n³)", CLOUD, _cloud, 200),
    Case("pooled_rows", "O(n)", "n: matrices 64 x 64", lambda n: ([_matrix(64)[0]] * n,), 50),
    Case("subsample", "O(n)", "n: indices, 100 of them drawn", lambda n: (n, 100), settings=(("draw", 0),)),
    Case("check_matrix", "O(n²)", MATRIX, _matrix, 512),
    Case("check_points", "O(n)", CLOUD, _cloud),
    Case("check_distance_matrix", "O(n²)", "n: points",
         lambda n: (np.ones((n, n)) - np.eye(n),), 200),
    Case("check_diagram", "O(n)", DIAGRAM, _diagram),
    Case("from_gudhi", "O(n)", DIAGRAM, lambda n: (tp.to_gudhi(_diagram(n)),)),
    Case("to_gudhi", "O(n)", DIAGRAM, lambda n: ([_bars(n)],)),
    Case("from_ripser", "O(n)", DIAGRAM, lambda n: (tp.to_ripser(_diagram(n)),)),
    Case("to_ripser", "O(n)", DIAGRAM, lambda n: ([_bars(n)],)),
    Case("from_giotto", "O(n)", DIAGRAM, lambda n: (tp.to_giotto([_diagram(n)]),)),
    Case("to_giotto", "O(n)", DIAGRAM, lambda n: ([[_bars(n)]],)),
    Case("from_akriti", "O(n)", DIAGRAM,
         lambda n: (SimpleNamespace(dims=np.ones(n), births=_bars(n).birth, deaths=_bars(n).death),)),
    Case("to_akriti", "O(n)", DIAGRAM, lambda n: ([_bars(n)],)),
)  # fmt: skip


def seconds(call: Callable[[], object], *, least: float = 0.3) -> float:
    """Return the fewest seconds that a call takes, of at least three calls and `least` seconds in all."""
    call()  # the first one compiles
    best, count, began = math.inf, 0, time.perf_counter()
    while count < 3 or time.perf_counter() - began < least:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
        count += 1
    return best


def row(case: Case, small: int | None = None) -> dict[str, str]:
    """Return the line of the table of a function; `small` is another size to begin with."""
    sizes = (small or case.small, (small or case.small) * case.times)
    function, settings = getattr(tp, case.name), dict(case.settings)
    taken = []
    for size in sizes:
        arguments = case.make(size)
        taken.append(seconds(lambda arguments=arguments: function(*arguments, **settings)))  # type: ignore[misc]
    exponent = math.log(taken[1] / taken[0]) / math.log(case.times)
    cells = (case.name, case.order, case.size, f"{sizes[0]:,}", f"{sizes[1]:,}")
    return dict(zip(COLUMNS, (*cells, *(f"{one:.2g}" for one in taken), f"{exponent:.1f}"), strict=True))


def written() -> dict[str, dict[str, str]]:
    """Return the rows of the table as it stands, by function."""
    with TABLE.open(newline="", encoding="utf-8") as handle:
        return {line["function"]: line for line in csv.DictReader(handle)}


def main() -> None:
    """Measure all or some, print each line, and write the table on request."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.name}")
    parser.add_argument("--only", nargs="+", default=[], help="these functions; the other rows stay")
    given = parser.parse_args()
    threadpool_limits(1)  # on a busy machine, threads that wait for each other would be measured
    numba.set_num_threads(1)
    rows = written() if given.only else {}
    for case in CASES:
        if given.only and case.name not in given.only:
            continue
        try:
            rows[case.name] = row(case)
        except InputError as error:  # akriti is not installed
            print(f"{case.name}: {error}")
            continue
        print("  ".join(rows[case.name].values()), flush=True)
    if given.write:
        with TABLE.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.DictWriter(handle, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows[case.name] for case in CASES if case.name in rows)


if __name__ == "__main__":
    main()
