"""Maximum spanning tree of the complete bipartite graph with edge weights |W|, exact.

Everything works on the bits of |W| as unsigned integers: with the sign cleared, the order of floats is
the order of their bits, for every floating type, and NaN and infinity sort above all finite values.
"""

from __future__ import annotations

import numpy as np

from toposcope.kernels.union_find import kruskal

_UNSIGNED = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def magnitude_bits(W: np.ndarray) -> np.ndarray:
    """Return the bits of `W` as unsigned integers, a view where `W` is contiguous (sign still set)."""
    return np.ascontiguousarray(W).view(_UNSIGNED[W.dtype.itemsize])


def spanning_tree(W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of the maximum spanning tree's edges, heaviest first."""
    n_out, n_in = W.shape
    bits = magnitude_bits(W)
    keys = (bits & (np.iinfo(bits.dtype).max >> 1)).ravel()
    order = np.argsort(~keys, kind="stable")
    rows, columns = np.divmod(np.arange(keys.size), n_in)
    parent = np.arange(n_out + n_in)
    chosen = kruskal(order, rows, columns + n_out, parent, np.ones(n_out + n_in, np.int64))
    return rows[chosen], columns[chosen]
