"""The back ends for Rips persistence: toposcope's kernel, or gudhi where the kernel does not apply.

Both take float64 distances within the range of single precision, the highest dimension and the longest edge,
and return the bars (birth, death) of the dimensions 1..maxdim.
"""

from __future__ import annotations

import numpy as np

from toposcope.kernels.rips_edges import MAX_POINTS, RipsEdges, ends_of
from toposcope.kernels.rips_h1 import h1_pairs
from toposcope.kernels.rips_h2 import h2_pairs

Bars = list[np.ndarray]

# The highest dimension that the native kernels compute; above it gudhi takes over.
NATIVE_MAXDIM = 2
BACKENDS = ("auto", "native", "gudhi")


def choose(backend: str, maxdim: int, field: int, n: int) -> str:
    """Return the back end for "auto".

    It is the native kernel in dimensions 1 and 2 over Z/2, where it was the fastest on every measured cloud
    (by the smallest margin in dimension 2 if one class lives very long). gudhi is used otherwise.

    >>> choose("auto", 2, 2, 500), choose("auto", 3, 2, 500), choose("auto", 1, 3, 500)
    ('native', 'gudhi', 'gudhi')
    """
    if backend != "auto":
        return backend
    return "native" if maxdim <= NATIVE_MAXDIM and field == 2 and n <= MAX_POINTS else "gudhi"


def native(
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
    found = [_bars(distances, edges, births, deaths)]
    if maxdim == 2:
        found.append(_bars(distances, edges, *h2_pairs(edges, triangles, serial=serial)))
    return _lookup(distances, edges, edges.tree), found


def gudhi(distances: np.ndarray, maxdim: int, limit: float, field: int) -> Bars:
    """Bars by gudhi, which decides itself whether to collapse edges."""
    from gudhi.sklearn import RipsPersistence

    solver = RipsPersistence(
        homology_dimensions=list(range(1, maxdim + 1)),
        threshold=limit,
        input_type="full distance matrix",
        num_collapses="auto",
        homology_coeff_field=field,
    )
    return [np.asarray(bars, np.float64).reshape(-1, 2) for bars in solver.fit_transform([distances])[0]]


def _bars(distances: np.ndarray, edges: RipsEdges, births: np.ndarray, deaths: np.ndarray) -> np.ndarray:
    """Return the bars of positive length, in the given distances."""
    lengths = edges.lengths
    lasting = (deaths < 0) | (lengths[births] < lengths[deaths])
    births, deaths = births[lasting], deaths[lasting]
    bars = np.full((len(births), 2), np.inf)
    bars[:, 0] = _lookup(distances, edges, births)
    bars[deaths >= 0, 1] = _lookup(distances, edges, deaths[deaths >= 0])
    return bars


def _lookup(distances: np.ndarray, edges: RipsEdges, ranks: np.ndarray) -> np.ndarray:
    u, v = ends_of(edges.packed, ranks, len(distances))
    return distances[u, v]
