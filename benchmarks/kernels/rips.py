"""Rips H1, H2 and batches of small clouds beside gudhi, ripser.py and giotto-ph, distances included.

All contenders get our distances, Z/2 and the enclosing radius as the threshold. giotto-ph has no wheel for new
Pythons: TOPOSCOPE_GIOTTO_PYTHON names the interpreter of an environment that has it, and it runs there.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from case import Case

from toposcope.topology import rips, rips_batch
from toposcope.topology.clouds import distance_matrix

H1 = [
    ("gauss", 50, 20), ("gauss", 100, 64), ("gauss", 200, 50), ("gauss", 200, 512), ("gauss", 500, 128),
    ("gauss", 1000, 512), ("gauss", 2000, 512), ("clustered", 2000, 512), ("gauss", 4000, 512),
    ("clustered", 4000, 512),
]  # fmt: skip
H2 = [("gauss", 50, 16), ("gauss", 100, 16), ("gauss", 200, 50), ("gauss", 300, 3), ("clustered", 300, 50),
      ("gauss", 300, 50), ("gauss", 500, 8), ("gauss", 500, 128)]  # fmt: skip
BATCH = 100
RIPSER_MOST = {1: 4000, 2: 300}
"""Points above which ripser.py is left out: it would take minutes in dimension 2."""

_GIOTTO = """
import sys, time
import numpy as np
from gph import ripser_parallel
distances = np.load(sys.argv[1])
options = dict(metric="precomputed", maxdim=int(sys.argv[2]), thresh=float(distances.max(1).min()), n_threads=int(sys.argv[3]))
ripser_parallel(distances[:20, :20], **options)
seconds = []
for _ in range(int(sys.argv[4])):
    start = time.perf_counter()
    ripser_parallel(distances, **options)
    seconds.append(time.perf_counter() - start)
print(min(seconds))
"""


def cloud(kind: str, n: int, d: int, seed: int = 0) -> np.ndarray:
    """Gaussian points, or gaussian points around 20 far centres."""
    random = np.random.default_rng(seed)
    points = random.standard_normal((n, d))
    if kind == "clustered":
        points += 3.0 * random.standard_normal((20, d))[random.integers(0, 20, n)]
    return points.astype(np.float32)


def with_backend(backend: str, maxdim: int, kind: str, n: int, d: int) -> Callable[[], object]:
    if backend == "ripser" and importlib.util.find_spec("ripser") is None:
        raise ImportError("ripser")
    points = cloud(kind, n, d)
    rips(points[:20], maxdim=maxdim, backend=backend)  # compiles and imports
    return functools.partial(rips, points, maxdim=maxdim, backend=backend, memory_limit=2**40)


def with_giotto(maxdim: int, kind: str, n: int, d: int, repeats: int = 3) -> Callable[[], object]:
    """Time giotto-ph in its own interpreter, by its own clock; distances are not counted against it."""
    python = os.environ.get("TOPOSCOPE_GIOTTO_PYTHON")
    if python is None:
        raise ImportError("giotto-ph: set TOPOSCOPE_GIOTTO_PYTHON")
    distances = distance_matrix(cloud(kind, n, d))

    def call() -> float:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "distances.npy"
            np.save(path, distances)
            threads = str(len(os.sched_getaffinity(0)))
            command = [python, "-c", _GIOTTO, str(path), str(maxdim), threads, str(repeats)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        return float(done.stdout)

    return call


def one_by_one(backend: str) -> Callable[[], object]:
    clouds = [cloud("gauss", 200, 50, seed) for seed in range(BATCH)]
    rips(clouds[0], backend=backend)
    return lambda: [rips(points, backend=backend) for points in clouds]


def batched() -> Callable[[], object]:
    clouds = [cloud("gauss", 200, 50, seed) for seed in range(BATCH)]
    rips_batch(clouds[:2])
    return functools.partial(rips_batch, clouds)


def cases() -> list[Case]:
    """Return all comparisons, ours first."""
    found = []
    for maxdim, inputs in ((1, H1), (2, H2)):
        for kind, n, d in inputs:
            task = f"Rips H{maxdim}, {kind} in {d} dimensions"
            for contender, backend in (("toposcope", "auto"), ("gudhi", "gudhi"), ("ripser.py", "ripser")):
                if backend != "ripser" or n <= RIPSER_MOST[maxdim]:
                    prepare = functools.partial(with_backend, backend, maxdim, kind, n, d)
                    found.append(Case(task, n, contender, prepare))
            giotto = functools.partial(with_giotto, maxdim, kind, n, d)
            found.append(Case(task, n, "giotto-ph", giotto, own_clock=True))
    task = f"Rips H1 of {BATCH} clouds of 200 points in 50 dimensions"
    found.append(Case(task, 200, "toposcope, batched", batched))
    found.append(Case(task, 200, "toposcope, one by one", functools.partial(one_by_one, "auto")))
    found.append(Case(task, 200, "gudhi, one by one", functools.partial(one_by_one, "gudhi")))
    return found
