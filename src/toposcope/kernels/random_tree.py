"""The spanning tree of a randomly permuted matrix, without permuting it.

After a uniform permutation of the entries, Kruskal's algorithm visits the cells of the matrix in a uniformly
random order, independent of the values. So the ranks at which it joins two components can be drawn first,
from random cells alone; the weights of the tree are the order statistics of |W| at these ranks. About N ln N
cells are drawn instead of n_out n_in, and the distribution is exactly that of a full permutation.
"""

from __future__ import annotations

import numpy as np

from toposcope.core.compiling import kernel
from toposcope.kernels.union_find import unite

_CELLS = 1.2
"""Cells drawn at first, in units of N ln N; more follow if the graph is not connected by then."""
_DENSE = 0.25
"""From this share of all cells on, a full permutation is cheaper."""


def merge_ranks(n_out: int, n_in: int, generator: np.random.Generator) -> np.ndarray:
    """Return the n_out + n_in - 1 ranks (0-based, ascending) of a random order's joining cells."""
    n, total = n_out + n_in, n_out * n_in
    batch = int(_CELLS * n * np.log(n)) + 16
    if batch > _DENSE * total:
        return _ranks(generator.permutation(total), n_out, n_in, np.empty(0, np.int64))
    cells = generator.integers(total, size=batch)
    while True:
        table = np.full(1 << (2 * cells.size).bit_length(), -1, np.int64)
        ranks = _ranks(cells, n_out, n_in, table)
        if ranks.size == n - 1:
            return ranks
        cells = np.concatenate((cells, generator.integers(total, size=cells.size)))


def _ranks(cells: np.ndarray, n_out: int, n_in: int, table: np.ndarray) -> np.ndarray:
    """Return the ranks, among the distinct `cells` in order, of those that join two components."""
    n = n_out + n_in
    parent, size, ranks = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n - 1, np.int64)
    return ranks[: _joins(cells, n_out, n_in, table, parent, size, ranks)]


@kernel
def _joins(
    cells: np.ndarray,
    n_out: int,
    n_in: int,
    table: np.ndarray,
    parent: np.ndarray,
    size: np.ndarray,
    ranks: np.ndarray,
) -> int:
    """Write the ranks of the cells that join two components, from single ones; return their number.

    `table` is a hash set (a power of two, -1 for free, more than `cells`) that finds repeated cells;
    an empty one says that there are none. Dropping repeats makes draws with replacement a random order.
    """
    for x in range(len(parent)):
        parent[x], size[x] = x, 1
    rank, count = 0, 0
    for i in range(len(cells)):
        cell = cells[i]
        if table.size:
            slot = (cell * 0x9E3779B97F4A7C1 >> 20) & (table.size - 1)
            while table[slot] != -1 and table[slot] != cell:
                slot = (slot + 1) & (table.size - 1)
            if table[slot] == cell:
                continue
            table[slot] = cell
        if unite(parent, size, cell // n_in, n_out + cell % n_in):
            ranks[count] = rank
            count += 1
            if count == len(ranks):
                break
        rank += 1
    return count
