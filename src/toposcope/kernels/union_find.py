"""Disjoint sets: union by size with path halving, on two plain integer arrays."""

from __future__ import annotations

import numpy as np

from toposcope.core.compiling import inner_kernel, kernel


@inner_kernel
def find(parent: np.ndarray, x: int) -> int:
    """Return the root of `x`, halving the path on the way."""
    while parent[x] != x:
        parent[x] = parent[parent[x]]
        x = parent[x]
    return x


@inner_kernel
def unite(parent: np.ndarray, size: np.ndarray, x: int, y: int) -> bool:
    """Join the sets of `x` and `y`; return whether they were separate."""
    a, b = find(parent, x), find(parent, y)
    if a == b:
        return False
    if size[a] < size[b]:
        a, b = b, a
    parent[b] = a
    size[a] += size[b]
    return True


@kernel
def kruskal(
    order: np.ndarray, u: np.ndarray, v: np.ndarray, parent: np.ndarray, size: np.ndarray
) -> np.ndarray:
    """Return the entries of `order` whose edges (u, v) join two sets, stopping at one set.

    `parent` and `size` describe the sets at the start and are updated in place.
    """
    n_sets = 0
    for x in range(parent.size):
        if parent[x] == x:
            n_sets += 1
    chosen = np.empty(max(n_sets - 1, 0), np.int64)
    taken = 0
    for e in order:
        if taken == chosen.size:
            break
        if unite(parent, size, u[e], v[e]):
            chosen[taken] = e
            taken += 1
    return chosen[:taken]


@kernel
def roots(parent: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the root of every vertex and the root of the largest component."""
    labels = np.empty_like(parent)
    count = np.zeros(parent.size, np.int64)
    for x in range(parent.size):
        labels[x] = find(parent, x)
        count[labels[x]] += 1
    return labels, labels.dtype.type(np.argmax(count))
