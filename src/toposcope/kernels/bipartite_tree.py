"""Maximum spanning tree of the complete bipartite graph with edge weights |W|, exact.

Three steps, all on the bits of |W| (see `bipartite_scan`), so no copy of the matrix is made:

1. A threshold is estimated from a sample so that about N ln N of the edges lie above it. Kruskal's algorithm
   on exactly these edges is a prefix of Kruskal's algorithm on all edges, whatever the sample: a poor
   threshold costs time, never correctness.
2. Nearly everything is then in one component. The rest is finished by Borůvka rounds, in which every other
   component takes its heaviest edge out; only their rows and columns are scanned.
3. The edges are put in order. Ties are broken by (weight, row, column) throughout, a total order, so
   the tree is unique.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from toposcope.core.threads import row_blocks, run_blocks
from toposcope.kernels._bipartite_rest import finish
from toposcope.kernels.bipartite_scan import SERIAL_BELOW, Edges, collected, descending, joined, sample_keys
from toposcope.kernels.small_tree import SMALL, prim_each, small_tree
from toposcope.kernels.union_find import kruskal

_UNSIGNED: dict[int, Any] = {2: np.uint16, 4: np.uint32, 8: np.uint64}
PREFIX = 0.4
"""Edges of the prefix in units of N ln N: few enough to sort quickly, enough to connect iid weights."""
PREFIX_LIMIT = 4.0
"""If the prefix is more than this many times too long, the threshold is raised."""
# The threshold is raised at most this often; then the prefix is empty and the other steps do all the work.
# Affects speed only.
RAISES = 6
# Entries that estimate the threshold, in runs of neighbours, which are cheaper to read than single ones.
_SAMPLE = 1 << 16
_RUN = 16
# 1 / golden ratio: multiples of it, modulo 1, spread the runs evenly over a matrix of any size.
_GOLDEN = 0.6180339887498949


def magnitude_bits(W: np.ndarray) -> tuple[np.ndarray, np.unsignedinteger]:
    """Return the bits of `W` as unsigned integers (a view if `W` is contiguous) and the mask of the sign."""
    unsigned = _UNSIGNED[W.dtype.itemsize]
    return np.ascontiguousarray(W).view(unsigned), unsigned(np.iinfo(unsigned).max >> 1)


def spanning_tree(W: np.ndarray) -> Edges:
    """Return the maximum spanning tree of |W|, heaviest edge first.

    `W` is any two-dimensional array of float16, bfloat16, float32 or float64, not empty. Its largest
    entry is always an edge of the tree, so if `W` holds NaN or infinity, the first key shows it.
    """
    bits, mask = magnitude_bits(W)
    if bits.size <= SMALL and bits.dtype.itemsize < 8:
        return Edges(*small_tree(bits, mask))
    n_out, n_in = bits.shape
    n = n_out + n_in
    heavy = heaviest_edges(bits, mask, PREFIX * n * np.log(n))
    parent, size = np.arange(n, dtype=np.int32), np.ones(n, np.int32)
    prefix = heavy[kruskal(descending(heavy.keys), heavy.rows, heavy.columns + np.int32(n_out), parent, size)]
    if prefix.keys.size == n - 1:
        return prefix
    tree = joined([prefix, *finish(bits, mask, heavy, parent, size)])
    return tree[_by_weight_row_column(tree, n_in)]


def spanning_tree_keys(matrices: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the keys of each matrix's maximum spanning tree, heaviest first: small ones in one call."""
    keys: list[np.ndarray] = [np.empty(0)] * len(matrices)
    batches: dict[type, list[int]] = {}
    for k, W in enumerate(matrices):
        if W.size <= SMALL and W.dtype.itemsize < 8:
            batches.setdefault(_UNSIGNED[W.dtype.itemsize], []).append(k)
        else:
            keys[k] = spanning_tree(W).keys
    for unsigned, members in batches.items():
        for k, tree_keys in zip(members, _batch([matrices[k] for k in members], unsigned), strict=True):
            keys[k] = tree_keys
    return keys


def _batch(matrices: list[np.ndarray], unsigned: type) -> list[np.ndarray]:
    serial = sum(W.size for W in matrices) < SERIAL_BELOW

    def work(block: tuple[int, int]) -> list[np.ndarray]:
        part = matrices[slice(*block)]
        flat = np.concatenate([magnitude_bits(W)[0].reshape(-1) for W in part])
        shapes = np.array([W.shape for W in part], np.int64)
        ends = np.cumsum(shapes.sum(axis=1) - 1)
        packed = np.empty(ends[-1], np.uint64)
        prim_each(flat, unsigned(np.iinfo(unsigned).max >> 1), shapes, packed)
        for tree in np.split(packed, ends[:-1]):
            tree[::-1].sort()  # here: sorting in a kernel takes a second to compile
        return np.split((packed >> np.uint64(32)).astype(unsigned), ends[:-1])

    blocks = row_blocks(len(matrices), per_thread=1, serial=serial)
    return [keys for part in run_blocks(work, blocks, serial=serial) for keys in part]


def heaviest_edges(bits: np.ndarray, mask: np.unsignedinteger, target: float) -> Edges:
    """Return all edges with a key of at least some tau, about `target` of them, in row-major order.

    There are fewer, possibly none, if many edges tie at the threshold: these are left out together.
    """
    sample = _sample(bits, mask)
    share = target / bits.size
    tau = bits.dtype.type(0)
    if share < 1:
        rank = int(sample.size * (1 - share))
        tau = np.partition(sample, rank)[rank]
    limit = int(max(PREFIX_LIMIT * target, 1024))
    for _ in range(RAISES):
        row_floor, column_floor = np.full(bits.shape[0], tau), np.full(bits.shape[1], tau)
        edges, count = collected(bits, mask, row_floor, column_floor, limit)
        if edges is not None:
            return edges
        # Too many: the sample was unlucky, or many edges tie, which must then be left out together.
        above = sample[sample > tau]
        rank = int(above.size * (1 - target / count))
        tau = np.partition(above, rank)[rank] if above.size else tau + bits.dtype.type(1)
    return Edges(bits[0, :0], np.empty(0, np.int32), np.empty(0, np.int32))


def _sample(bits: np.ndarray, mask: np.unsignedinteger) -> np.ndarray:
    """Return keys at runs of neighbours spread evenly over the matrix (all keys if that is as cheap)."""
    flat = bits.reshape(-1)
    if flat.size <= 2 * _SAMPLE:
        return flat & mask
    spread = (np.arange(_SAMPLE // _RUN) * _GOLDEN) % 1.0
    return sample_keys(flat, mask, (spread * (flat.size - _RUN)).astype(np.int64), _RUN)


def _by_weight_row_column(edges: Edges, n_in: int) -> np.ndarray:
    """Return the order of edges from the heaviest down; ties by row, then column."""
    in_place = np.argsort(edges.rows.astype(np.int64) * n_in + edges.columns)
    return in_place[descending(edges.keys[in_place])]
