"""Rips H1, H2 and batches of small clouds beside gudhi, ripser.py and giotto-ph, distances included.

All contenders get our distances, Z/2 and the enclosing radius as the threshold. giotto-ph has no wheel for
new Pythons: TOPOSCOPE_GIOTTO_PYTHON names the interpreter of an environment that has it. It runs there; its
time is that of the computation alone, and its memory is not measured.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import partial

import numpy as np

from benchmarks.kernels.harness import Case
from toposcope.core.threads import thread_count
from toposcope.topology import rips, rips_batch
from toposcope.topology.clouds import distance_matrix
from toposcope.topology.rips import gudhi_bars

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
import sys
import numpy as np
from gph import ripser_parallel
distances = np.load(sys.argv[1])
options = dict(metric="precomputed", maxdim=int(sys.argv[2]), n_threads=int(sys.argv[3]))
radius = float(distances.max(1).min())
for line in sys.stdin:
    ripser_parallel(distances, thresh=radius, **options)
    print("done", flush=True)
"""


def cloud(kind: str, n: int, d: int, seed: int = 0) -> np.ndarray:
    """Gaussian points, or gaussian points around 20 far centres."""
    random = np.random.default_rng(seed)
    points = random.standard_normal((n, d))
    if kind == "clustered":
        points += 3.0 * random.standard_normal((20, d))[random.integers(0, 20, n)]
    return points.astype(np.float32)


def with_gudhi(maxdim: int, points: np.ndarray) -> object:
    """Compute what `rips` does beyond H0 by gudhi, on our distances."""
    distances = distance_matrix(points)
    return gudhi_bars(distances, maxdim, float(distances.max(axis=1).min()), 2)


def with_ripser(maxdim: int, points: np.ndarray) -> object:
    """Compute what `rips` does by ripser.py, on our distances."""
    from ripser import ripser

    distances = distance_matrix(points)
    return ripser(distances, maxdim, float(distances.max(axis=1).min()), distance_matrix=True)


def start_giotto(maxdim: int, points: np.ndarray) -> subprocess.Popen[str]:
    """Start giotto-ph in its own interpreter, waiting for lines; its distances are not counted against it."""
    python = os.environ.get("TOPOSCOPE_GIOTTO_PYTHON")
    if python is None:
        raise RuntimeError("not installed: set TOPOSCOPE_GIOTTO_PYTHON to an interpreter that has giotto-ph")
    with tempfile.NamedTemporaryFile(suffix=".npy", delete=False) as file:
        np.save(file, distance_matrix(points))
    command = [python, "-c", _GIOTTO, file.name, str(maxdim), str(thread_count())]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask_giotto(server: subprocess.Popen[str]) -> None:
    """Let giotto-ph compute once, and wait for it."""
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write("go\n")
    server.stdin.flush()
    if not server.stdout.readline():
        raise RuntimeError("giotto-ph ended")


def cases(quick: bool) -> list[Case]:
    """Return all comparisons, ours first; the quick ones stop at 200 points."""
    found = []
    for maxdim, inputs in ((1, H1), (2, H2)):
        for kind, n, d in inputs:
            if not quick or n <= 200:
                found += _contest(maxdim, kind, n, d)
    group = f"Rips H1 of {BATCH} clouds"

    def clouds() -> list[np.ndarray]:
        return [cloud("gauss", 200, 50, seed) for seed in range(BATCH)]

    for method, run in (
        ("toposcope, batched", rips_batch),
        ("toposcope, one by one", lambda clouds: [rips(points) for points in clouds]),
        ("gudhi, one by one", lambda clouds: [with_gudhi(1, points) for points in clouds]),
    ):
        found.append(Case(group, "200 x 50", 200, method, clouds, run, calls=BATCH))
    return found


def _contest(maxdim: int, kind: str, n: int, d: int) -> list[Case]:
    group, label = f"Rips H{maxdim}, {kind}", f"{n} x {d}"
    make = partial(cloud, kind, n, d)
    found = [Case(group, label, n, "toposcope", make, lambda X: rips(X, maxdim))]
    found.append(Case(group, label, n, "gudhi", make, partial(with_gudhi, maxdim)))
    if n <= RIPSER_MOST[maxdim]:
        found.append(Case(group, label, n, "ripser.py", make, partial(with_ripser, maxdim)))
    found.append(Case(group, label, n, "giotto-ph", lambda: start_giotto(maxdim, make()), ask_giotto))
    return found
