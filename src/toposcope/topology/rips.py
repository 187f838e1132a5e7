"""Vietoris-Rips persistence of point clouds and distance matrices."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.threads import thread_count
from toposcope.core.types import Diagram
from toposcope.kernels.blas import one_blas_thread
from toposcope.kernels.euclidean_tree import dense_tree
from toposcope.kernels.rips_cycles import shortest_cycles
from toposcope.kernels.rips_edges import MAX_POINTS, RipsEdges, ends_of
from toposcope.kernels.rips_h1 import h1_pairs
from toposcope.kernels.rips_h2 import h2_pairs
from toposcope.topology._graphs import edge_lengths, warn_of_mistakes
from toposcope.topology.clouds import distance_matrix
from toposcope.topology.components import components
from toposcope.topology.units import binary_exponent, scaled

Bars = list[np.ndarray]

BACKENDS = ("auto", "native", "gudhi")
NATIVE_MAXDIM = 2
"""The highest dimension that toposcope's kernels compute; above it gudhi takes over."""
MEMORY_LIMIT = 4 * 2**30
"""By default, `rips` refuses to start if it needs more bytes than this beyond its input."""


def rips(
    X: Any,
    maxdim: int = 1,
    metric: str = "euclidean",
    thresh: float | None = None,
    backend: str = "auto",
    *,
    field: int = 2,
    cycles: bool = False,
    memory_limit: int = MEMORY_LIMIT,
    name: str = "X",
) -> list[Diagram]:
    r"""Return the persistence diagrams of the Vietoris-Rips filtration, one for each dimension 0..maxdim.

    A simplex enters at its longest edge. The filtration is cut at the enclosing radius
    :math:`\min_i \max_j d(x_i, x_j)`, beyond which the complex is a cone and nothing changes, or at `thresh`
    if that is smaller; then the classes alive at `thresh` die at infinity and `truncated_at` says so.
    H0 has a bar for each of the n points, including duplicates (their bars have length 0); one of them is
    essential. In higher dimensions, bars of length 0 are left out.

    Parameters
    ----------
    X : array of shape (n, d), or (n, n) when `metric` is "precomputed"
        Points of any float type, or distances. A distance may be infinite, and a scipy sparse matrix may be
        given: then there is no edge, and the complex is the flag complex of the weighted graph. Entries that
        are stored as 0 are edges of length 0.
    maxdim : int
        Highest homology dimension.
    metric : {"euclidean", "cosine", "precomputed"}
        Unit of births and deaths; cosine is 1 - cos of the angle.
    thresh : float, optional
        Longest edge of the complex.
    backend : {"auto", "native", "gudhi"}
        The code that computes H1 and above. "native" is toposcope's kernel, for dimensions 1 and 2 over Z/2;
        "auto" uses it where it applies and gudhi elsewhere. Both give the same diagrams.
    field : int
        The coefficients are Z/field, a prime. H0 does not depend on it.
    cycles : bool
        Give each H1 class a cycle of points, in `cycles` of the H1 diagram: the edge at which the class is
        born, which joins the last point to the first, closed by the shortest path over edges before it. H1
        is then computed by toposcope's kernel, whatever the backend.
    memory_limit : int
        Refuse to start when `rips_memory` exceeds this many bytes.
    name : str
        Name of the cloud in errors.

    Returns
    -------
    list of Diagram
        float64 births and deaths; `filtration` is the metric and `n_vertices` is n.

    Raises
    ------
    InputError
        Bad points, distances or options, or a computation over the memory limit.

    Warns
    -----
    UserWarning
        If X looks transposed, or like a matrix of distances whose metric was not named.

    Notes
    -----
    Until its class dies, a cycle is independent of all cycles that are older than its birth edge. At the
    death it becomes a sum of such cycles, or the boundary of triangles. So it represents its class up to
    older classes: of two rings that are joined, the cycle of the younger one may go around both. Of all
    cycles through the birth edge and edges before it, it is the shortest by the sum of the distances. Edges
    that are equal in single precision are ordered by the indices of their points.

    References
    ----------
    Bauer, "Ripser: efficient computation of Vietoris-Rips persistence barcodes", J. Appl. Comput. Topology
    5 (2021), for clearing and apparent pairs.

    Examples
    --------
    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> h0, h1 = rips(square)
    >>> [(round(float(b), 6), round(float(d), 6)) for b, d in zip(h1.birth, h1.death)]
    [(1.0, 1.414214)]

    A weighted graph: a cycle of four edges, which nothing fills.

    >>> no = np.inf
    >>> cycle = np.array([[0, 1, no, 1], [1, 0, 1, no], [no, 1, 0, 1], [1, no, 1, 0]])
    >>> h0, h1 = rips(cycle, metric="precomputed")
    >>> h1.birth.tolist(), h1.death.tolist()
    ([1.0], [inf])
    >>> rips(cycle, metric="precomputed", cycles=True)[1].cycles
    ((2, 1, 0, 3),)
    """
    _check_options(maxdim, thresh, backend, field, cycles=cycles)
    if maxdim == 0 and metric != "precomputed":
        return [_cut(components(X, metric=metric, name=name), thresh)]  # type: ignore[arg-type]
    if metric == "precomputed" and (graph := edge_lengths(X, name=name)) is not None:
        _check_memory(graph, maxdim, field, memory_limit, name)
        return _of_graph(graph, maxdim, thresh, backend, field, cycles=cycles)
    _check_memory(X, maxdim, field, memory_limit, name)
    distances = distance_matrix(X, metric, name=name)
    warn_of_mistakes(X, metric, name=name)
    return _persistence(distances, maxdim, metric, thresh, backend, field, cycles=cycles)


def _of_graph(
    lengths: np.ndarray, maxdim: int, thresh: float | None, backend: str, field: int, *, cycles: bool
) -> list[Diagram]:
    """Return the diagrams of the flag complex of a weighted graph: infinity means no edge.

    Missing edges get a length beyond all others, and the filtration is cut before it.
    """
    edges = lengths[np.isfinite(lengths)]
    longest = float(edges.max())
    cut = longest if thresh is None else min(float(thresh), longest)
    beyond = min(2 * longest, float(np.finfo(np.float64).max)) or 1.0
    filled = np.where(np.isfinite(lengths), lengths, beyond)
    diagrams = _persistence(filled, maxdim, "precomputed", cut, backend, field, cycles=cycles)
    truncated = float(thresh) if thresh is not None and thresh < longest else None
    return [replace(diagram, truncated_at=truncated) for diagram in diagrams]


def rips_batch(
    clouds: Sequence[Any],
    maxdim: int = 1,
    metric: str = "euclidean",
    thresh: float | None = None,
    backend: str = "auto",
    *,
    field: int = 2,
    cycles: bool = False,
) -> list[list[Diagram]]:
    """Return `rips` of many small clouds, in parallel: one thread per core and one cloud per thread.

    The values are the same as from single calls, in the same unit; clouds have the shape (n, d) (Bauer 2021).
    This is faster for clouds of up to about a thousand points. Parameters and errors are those of `rips`; an
    error names the cloud by its index in `clouds`.

    >>> clouds = [np.eye(3), np.eye(4)]
    >>> [len(h0) for h0, h1 in rips_batch(clouds)]
    [3, 4]
    """
    _check_options(maxdim, thresh, backend, field, cycles=cycles)

    def one(item: tuple[int, Any]) -> list[Diagram]:
        distances = distance_matrix(item[1], metric, name=f"clouds[{item[0]}]")
        return _persistence(distances, maxdim, metric, thresh, backend, field, cycles=cycles, serial=True)

    # Threads of its own: those of the kernels must not wait for each other.
    with one_blas_thread(), ThreadPoolExecutor(thread_count()) as threads:
        return list(threads.map(one, enumerate(clouds)))


def rips_memory(n: int, maxdim: int = 1, *, field: int = 2) -> int:
    """Return an estimate of the bytes that `rips` needs for n points beyond its input.

    toposcope's kernel (up to dimension 2 over Z/2) needs 28 bytes per entry of the distance matrix, including
    the distances, and 40 in dimension 2; measurements from 500 to 8000 points were not higher. gudhi is
    counted with 64, plus a fifth of a byte per tuple of maxdim + 1 points, several times what was measured.

    >>> rips_memory(4000) < 500e6 < rips_memory(4000, field=3)
    True
    """
    if maxdim <= NATIVE_MAXDIM and field == 2:
        return (40 if maxdim == 2 else 28) * n * n + 2**20
    return 64 * n * n + n ** (maxdim + 1) // 5 + 2**20


def _check_options(maxdim: int, thresh: float | None, backend: str, field: int, *, cycles: bool) -> None:
    if maxdim < 0:
        raise InputError(f"maxdim is {maxdim}; use 0 or more")
    if thresh is not None and not thresh > 0:
        raise InputError(f"thresh is {thresh}; use a positive length, or None for the whole filtration")
    if backend not in BACKENDS:
        raise InputError(f"backend is {backend!r}; use one of {', '.join(BACKENDS)}")
    if field < 2 or any(field % k == 0 for k in range(2, int(field**0.5) + 1)):
        raise InputError(f"field is {field}; the coefficients Z/field need a prime, such as 2 or 3")
    if backend == "native" and (maxdim > NATIVE_MAXDIM or field != 2):
        raise InputError(
            f"backend 'native' goes up to maxdim {NATIVE_MAXDIM} over Z/2, not {maxdim} over "
            f"Z/{field}; use 'auto'"
        )
    if cycles and (maxdim < 1 or field != 2):
        raise InputError(
            f"cycles are those of H1 over Z/2, not of maxdim {maxdim} over Z/{field}; use maxdim 1 or more, "
            "and field 2"
        )


def _check_memory(X: Any, maxdim: int, field: int, memory_limit: int, name: str) -> None:
    n = len(X) if hasattr(X, "__len__") else 0
    need = rips_memory(n, maxdim, field=field)
    if need > memory_limit:
        raise InputError(
            f"{name} has {n:,} points: H{maxdim} needs about {need / 2**30:.1f} GiB, over memory_limit = "
            f"{memory_limit / 2**30:.1f} GiB; draw points with subsample(), lower maxdim, or raise the limit"
        )


def _persistence(
    distances: np.ndarray,
    maxdim: int,
    metric: str,
    thresh: float | None,
    backend: str,
    field: int,
    *,
    cycles: bool,
    serial: bool = False,
) -> list[Diagram]:
    # Libraries sort or store lengths in single precision: far outside its range, rescale by a power of two.
    exponent = binary_exponent(distances)
    if exponent:
        distances = scaled(distances, -exponent)
        thresh = None if thresh is None else float(scaled(np.array(thresh), -exponent))
        unitless = _persistence(
            distances, maxdim, metric, thresh, backend, field, cycles=cycles, serial=serial
        )
        return [_in_units(diagram, exponent) for diagram in unitless]
    n = len(distances)
    radius = float(distances.max(axis=1).min())
    limit = radius if thresh is None else min(float(thresh), radius)
    chosen = _chosen(backend, maxdim, field, n)
    if chosen == "native" and maxdim > 0:
        merges, higher = _native(distances, maxdim, limit, serial=serial)
    else:
        merges = np.sort(dense_tree(distances)[2])
        merges = merges[merges <= limit]
        higher = gudhi_bars(distances, maxdim, limit, field) if maxdim else []
    deaths = np.concatenate([np.sort(merges), np.full(n - len(merges), np.inf)])
    truncated = float(thresh) if thresh is not None and thresh < radius else None
    diagrams = [Diagram(0, np.zeros(n), deaths, metric, n, truncated)]
    for dim, bars in enumerate(higher, start=1):
        bars = bars[np.lexsort((bars[:, 1], bars[:, 0]))]
        diagrams.append(Diagram(dim, bars[:, 0].copy(), bars[:, 1].copy(), metric, n, truncated))
    if cycles:
        diagrams[1] = _with_cycles(diagrams[1], distances, limit, serial=serial)
    return diagrams


def _with_cycles(h1: Diagram, distances: np.ndarray, limit: float, *, serial: bool) -> Diagram:
    """Return H1 with a cycle for each bar.

    It is computed again in the order of the points, so that neither the backend nor `maxdim` has a say.
    """
    edges = RipsEdges(distances, limit, serial=serial)
    births, deaths, _ = h1_pairs(edges)
    births, deaths = _lasting(edges, births, deaths)
    bars = _bars(distances, edges, births, deaths)
    order = np.lexsort((bars[:, 1], bars[:, 0]))
    cycles = shortest_cycles(distances, edges, births[order], serial=serial)
    return replace(h1, birth=bars[order, 0].copy(), death=bars[order, 1].copy(), cycles=tuple(cycles))


def _chosen(backend: str, maxdim: int, field: int, n: int) -> str:
    """Return the back end for "auto".

    It is the native kernel in dimensions 1 and 2 over Z/2, where it was the fastest on every measured cloud
    (by the smallest margin in dimension 2 if one class lives very long). gudhi is used otherwise.

    >>> _chosen("auto", 2, 2, 500), _chosen("auto", 3, 2, 500), _chosen("auto", 1, 3, 500)
    ('native', 'gudhi', 'gudhi')
    """
    if backend != "auto":
        return backend
    return "native" if maxdim <= NATIVE_MAXDIM and field == 2 and n <= MAX_POINTS else "gudhi"


def _native(
    distances: np.ndarray, maxdim: int, limit: float, *, serial: bool = False
) -> tuple[np.ndarray, Bars]:
    """Return the deaths of the components that merge, and the bars of H1 and H2, over Z/2.

    In dimension 2 the points are ordered from the centre outwards. The order determines which simplices form
    pairs of length 0: a central point is near most others and pairs off most of their triangles, so several
    times fewer columns are left to reduce than in an arbitrary order.
    """
    if maxdim == 2:
        order = np.argsort(distances.sum(axis=1), kind="stable")
        distances = distances[np.ix_(order, order)]
    edges = RipsEdges(distances, limit, serial=serial)
    births, deaths, triangles = h1_pairs(edges)
    barcodes = [_bars(distances, edges, *_lasting(edges, births, deaths))]
    if maxdim == 2:
        voids = _lasting(edges, *h2_pairs(edges, triangles, serial=serial))
        barcodes.append(_bars(distances, edges, *voids))
    return _lookup(distances, edges, edges.tree), barcodes


def gudhi_bars(distances: np.ndarray, maxdim: int, limit: float, field: int) -> Bars:
    """Return the bars of the dimensions 1..maxdim; gudhi decides itself whether to collapse edges."""
    from gudhi.sklearn import RipsPersistence

    solver = RipsPersistence(
        homology_dimensions=list(range(1, maxdim + 1)),
        threshold=limit,
        input_type="full distance matrix",
        num_collapses="auto",
        homology_coeff_field=field,
    )
    return [np.asarray(bars, np.float64).reshape(-1, 2) for bars in solver.fit_transform([distances])[0]]


def _lasting(edges: RipsEdges, births: np.ndarray, deaths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ranks at which the classes of positive length are born and die."""
    lengths = edges.lengths
    lasting = (deaths < 0) | (lengths[births] < lengths[deaths])
    return births[lasting], deaths[lasting]


def _bars(distances: np.ndarray, edges: RipsEdges, births: np.ndarray, deaths: np.ndarray) -> np.ndarray:
    """Return births and deaths in the given distances."""
    bars = np.full((len(births), 2), np.inf)
    bars[:, 0] = _lookup(distances, edges, births)
    bars[deaths >= 0, 1] = _lookup(distances, edges, deaths[deaths >= 0])
    return bars


def _lookup(distances: np.ndarray, edges: RipsEdges, ranks: np.ndarray) -> np.ndarray:
    u, v = ends_of(edges.packed, ranks, len(distances))
    return distances[u, v]


def _in_units(diagram: Diagram, exponent: int) -> Diagram:
    cut = diagram.truncated_at
    return replace(
        diagram,
        birth=scaled(diagram.birth, exponent),
        death=scaled(diagram.death, exponent),
        truncated_at=None if cut is None else float(scaled(np.array(cut), exponent)),
    )


def _cut(diagram: Diagram, thresh: float | None) -> Diagram:
    """Return the part of an H0 diagram up to `thresh`: components that merge later never die."""
    if thresh is None or not (np.isfinite(diagram.death) & (diagram.death > thresh)).any():
        return diagram
    death = np.where(diagram.death > thresh, np.inf, diagram.death)
    return Diagram(0, diagram.birth, death, diagram.filtration, diagram.n_vertices, float(thresh))
