"""Neural persistence and Rips H0: one spanning tree per matrix or cloud, beside other ways to compute it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import njit

from benchmarks.kernels.harness import Case
from toposcope.core.threads import row_blocks, run_blocks
from toposcope.topology import (
    batched_spanning_tree_weights,
    components,
    maximum_spanning_tree_weights,
    shuffled_spanning_tree_weights,
)

MATRICES = ((64, 64), (256, 256), (1024, 512), (2048, 512), (4096, 4096), (11008, 4096))
CLOUDS = ((200, 50), (1000, 512), (4000, 1024), (11008, 4096))
_BATCH = 400


def cases(quick: bool) -> list[Case]:
    """Return every case; the quick ones stop at a million entries."""
    return [
        *(case for shape in MATRICES if not quick or np.prod(shape) <= 1 << 20 for case in _trees(*shape)),
        *_small(),
        *(case for shape in CLOUDS if not quick or np.prod(shape) <= 1 << 20 for case in _clouds(*shape)),
    ]


def _trees(m: int, n: int) -> list[Case]:
    label, size = f"{m} x {n}", m * n
    entries: dict[str, Any] = {"size_name": "entries"}
    plain: dict[str, Any] = {"floor": one_pass, "floor_name": "one threaded pass over W"}

    def case(method: str, run: Any, make: Any = lambda: gaussian(m, n), **floor: Any) -> Case:
        group = "maximum spanning tree, iid gaussian"
        return Case(group, label, size, method, make, run, **floor, **entries)

    found = [
        case("toposcope", maximum_spanning_tree_weights, **plain),
        case("toposcope, bfloat16", maximum_spanning_tree_weights, lambda: halved(m, n)),
        Case(
            "maximum spanning tree, lognormal row and column scales",
            label,
            size,
            "toposcope",
            lambda: heterogeneous(m, n),
            maximum_spanning_tree_weights,
            **plain,
            **entries,
        ),
        Case(
            "weight-shuffle null, one draw",
            label,
            size,
            "toposcope",
            lambda: gaussian(m, n),
            lambda W: shuffled_spanning_tree_weights(W, 5, rng=np.random.default_rng(0)),
            calls=5,
            **entries,
        ),
        Case(
            "weight-shuffle null, one draw",
            label,
            size,
            "full permutation",
            lambda: gaussian(m, n),
            permuted_tree,
            **entries,
        ),
    ]
    if size <= 1 << 24:
        found.append(case("argsort and Kruskal", sorted_kruskal))
        found.append(case("scipy csgraph", scipy_tree))
    if size <= 1 << 20:
        found.append(case("igraph", igraph_tree))
    if size <= 1 << 16:
        found.append(case("networkx", networkx_tree))
    return found


def _small() -> list[Case]:
    def batch() -> list[np.ndarray]:
        return [gaussian(48, 144, seed) for seed in range(_BATCH)]

    def one_by_one(function: Any) -> Any:
        return lambda matrices: [function(W) for W in matrices]

    group, label, size = "many small matrices, each", "48 x 144", 48 * 144
    return [
        Case(group, label, size, "toposcope, batched", batch, batched_spanning_tree_weights, calls=_BATCH),
        Case(group, label, size, "toposcope", batch, one_by_one(maximum_spanning_tree_weights), calls=_BATCH),
        Case(group, label, size, "scipy csgraph", batch, one_by_one(scipy_tree), calls=_BATCH),
    ]


def _clouds(n: int, d: int) -> list[Case]:
    label, size = f"{n} x {d}", n

    def case(method: str, run: Any, make: Any = lambda: pair(n, d), group: str = "gaussian") -> Case:
        return Case(
            f"H0 of a cloud, {group}",
            label,
            size,
            method,
            make,
            run,
            floor=product,
            floor_name="the product X @ Y.T alone",
            size_name="points",
        )

    found = [
        case("toposcope", lambda XY: components(XY[0])),
        case("toposcope", lambda XY: components(XY[0]), lambda: clustered(n, d), "tight far-apart clusters"),
        case("toposcope, cosine", lambda XY: components(XY[0], metric="cosine")),
    ]
    if n <= 4000:
        found.append(case("hdbscan's Prim", hdbscan_tree))
    if n <= 1000:
        found.append(case("scipy pdist and csgraph", scipy_cloud))
        found.append(case("gudhi", gudhi_cloud))
        found.append(case("ripser.py", ripser_cloud))
    return found


def gaussian(m: int, n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((m, n), dtype=np.float32)


def halved(m: int, n: int) -> np.ndarray:
    import ml_dtypes

    return gaussian(m, n).astype(ml_dtypes.bfloat16)


def heterogeneous(m: int, n: int) -> np.ndarray:
    """Return gaussian weights with lognormal scales, dead rows and outlier columns, as in trained models."""
    generator = np.random.default_rng(1)
    W = gaussian(m, n)
    W *= np.exp(generator.standard_normal((m, 1), dtype=np.float32))
    W *= np.exp(generator.standard_normal((1, n), dtype=np.float32))
    W[generator.integers(m, size=5)] = 0
    W[:, generator.integers(n, size=6)] *= 30
    return W


def pair(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a cloud and a copy of it, so that its product with itself cannot use the symmetry."""
    X = gaussian(n, d)
    return X, X.copy()


def clustered(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(2)
    centres = 100 * generator.standard_normal((64, d), dtype=np.float32)
    X = centres[generator.integers(64, size=n)] + gaussian(n, d)
    return X, X.copy()


@njit(cache=True, nogil=True)
def _count(W, threshold, first, last):
    count = 0
    for i in range(first, last):
        row = W[i]
        for j in range(row.size):
            count += abs(row[j]) > threshold
    return count


def one_pass(W: np.ndarray) -> int:
    """Count the weights above a threshold, by threads where that pays: what reading W costs."""
    serial = W.size < 1_000_000
    return sum(run_blocks(lambda b: _count(W, 3.0, *b), row_blocks(len(W), serial=serial), serial=serial))


def product(XY: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    return XY[0] @ XY[1].T


def permuted_tree(W: np.ndarray) -> np.ndarray:
    shuffled = np.random.default_rng(0).permutation(W.reshape(-1)).reshape(W.shape)
    return maximum_spanning_tree_weights(shuffled)


@njit(cache=True)
def _kruskal(order, n_out, n_in):
    parent = np.arange(n_out + n_in)
    taken = 0
    for flat in order:
        a, b = flat // n_in, n_out + flat % n_in
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        if a != b:
            parent[a] = b
            taken += 1
            if taken == n_out + n_in - 1:
                break
    return taken


def sorted_kruskal(W: np.ndarray) -> int:
    return _kruskal(np.argsort(-np.abs(W), axis=None), *W.shape)


def scipy_tree(W: np.ndarray) -> Any:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    m, n = W.shape
    pointers = np.concatenate((np.arange(m + 1) * n, np.full(n, m * n)))
    columns = np.tile(np.arange(m, m + n, dtype=np.int32), m)
    graph = csr_array((-np.abs(W).ravel(), columns, pointers), shape=(m + n, m + n))
    return minimum_spanning_tree(graph).data


def igraph_tree(W: np.ndarray) -> Any:
    import igraph

    m, n = W.shape
    graph = igraph.Graph(n=m + n, edges=_ends(m, n))
    return graph.spanning_tree(weights=(-np.abs(W)).ravel())


def networkx_tree(W: np.ndarray) -> Any:
    import networkx

    graph = networkx.Graph()
    graph.add_weighted_edges_from(
        (u, v, w) for (u, v), w in zip(_ends(*W.shape).tolist(), np.abs(W).ravel().tolist(), strict=True)
    )
    return list(networkx.maximum_spanning_edges(graph, data=True))


@cache
def _ends(m: int, n: int) -> np.ndarray:
    rows, columns = np.divmod(np.arange(m * n), n)
    return np.stack((rows, columns + m), axis=1)


def scipy_cloud(XY: tuple[np.ndarray, np.ndarray]) -> Any:
    from scipy.sparse.csgraph import minimum_spanning_tree
    from scipy.spatial.distance import pdist, squareform

    return minimum_spanning_tree(squareform(pdist(XY[0]))).data


def hdbscan_tree(XY: tuple[np.ndarray, np.ndarray]) -> Any:
    from hdbscan._hdbscan_linkage import mst_linkage_core
    from sklearn.metrics import pairwise_distances

    return mst_linkage_core(np.asarray(pairwise_distances(XY[0]), dtype=np.float64))


def gudhi_cloud(XY: tuple[np.ndarray, np.ndarray]) -> Any:
    import gudhi

    tree = gudhi.RipsComplex(points=XY[0]).create_simplex_tree(max_dimension=1)
    tree.compute_persistence(persistence_dim_max=True)
    return tree.persistence_intervals_in_dimension(0)


def ripser_cloud(XY: tuple[np.ndarray, np.ndarray]) -> Any:
    import warnings

    from ripser import ripser

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # more columns than rows is no mistake here
        return ripser(XY[0], maxdim=0)["dgms"][0]
