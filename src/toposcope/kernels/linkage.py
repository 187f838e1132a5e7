"""Single linkage in leaf order, where the height that joins two points is a maximum over a range.

At every merge, Kruskal's algorithm appends one component's list of points to the other's, and stores the
edge's length at the seam. Two points are then joined at the largest seam between their positions: their
bottleneck in the minimum spanning tree, which no path can beat.
"""

from __future__ import annotations

import numpy as np

from toposcope.core.compiling import kernel
from toposcope.kernels.union_find import find


@kernel
def link(
    order: np.ndarray, u: np.ndarray, v: np.ndarray, length: np.ndarray, n: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the tree's edges (positions in u, v), the leaf order and the seams before each leaf.

    `order` sorts the edges, which connect all `n` points, by length. `seams[0]` is infinite.
    """
    parent, size = np.arange(n), np.ones(n, np.int64)
    first, last, after = np.arange(n), np.arange(n), np.full(n, -1)
    seam = np.full(n, np.inf)
    tree = np.empty(n - 1, np.int64)
    count = 0
    for e in order:
        if count == n - 1:
            break
        a, b = find(parent, u[e]), find(parent, v[e])
        if a == b:
            continue
        after[last[a]] = first[b]
        seam[first[b]] = length[e]
        if size[a] < size[b]:
            parent[a] = b
            size[b] += size[a]
            first[b] = first[a]
        else:
            parent[b] = a
            size[a] += size[b]
            last[a] = last[b]
        tree[count] = e
        count += 1
    leaves = np.empty(n, np.int64)
    seams = np.empty(n)
    x = first[find(parent, 0)]
    for k in range(n):
        leaves[k] = x
        seams[k] = seam[x]
        x = after[x]
    return tree[:count], leaves, seams


@kernel
def light_edges(
    distances: np.ndarray,
    leaves: np.ndarray,
    seams: np.ndarray,
    place: int,
    height: float,
    heights: np.ndarray,
    ends: np.ndarray,
    lengths: np.ndarray,
    count: int,
) -> int:
    """Store the leaves nearer to a new point than any path to them so far; return the new count.

    The point is attached to the leaf at `place` by an edge of length `height`, leaf j by one of `heights[j]`
    (0 if it is in the tree). Leaf j at distance d is stored if d < max(height, heights[j], the largest seam
    between): every other edge is the longest of a cycle. Edges beyond the length of the buffers are only
    counted.
    """
    for step in (1, -1):
        bound = height
        k = place + step
        while 0 <= k < leaves.size:
            bound = max(bound, seams[k] if step > 0 else seams[k + 1])
            j = leaves[k]
            if distances[j] < max(bound, heights[j]):
                if count < ends.size:
                    ends[count] = j
                    lengths[count] = distances[j]
                count += 1
            k += step
    return count
