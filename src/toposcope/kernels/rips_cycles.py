"""A cycle of points for each H1 class: its birth edge, closed by the shortest path over earlier edges.

Edges are compared by rank alone, as in the reduction, so every other edge of a cycle precedes its birth edge
in the filtration. The edge joins no components, so there always is such a path.
"""

from __future__ import annotations

import numpy as np

from toposcope.core.compiling import inner_kernel, kernel
from toposcope.core.threads import run_blocks
from toposcope.kernels.columns import append
from toposcope.kernels.rips_edges import RipsEdges, ends

# Classes of a block, so that threads share the work evenly. Changes speed only.
_BLOCK = 16


def shortest_cycles(
    distances: np.ndarray, edges: RipsEdges, births: np.ndarray, *, serial: bool = False
) -> list[tuple[int, ...]]:
    """Return the points of a cycle for each birth edge, in order; this edge joins the last to the first.

    The sum of the distances along the path is the least possible.

    >>> sides = np.array([[0.0, 1, 2, 1], [1, 0, 1, 2], [2, 1, 0, 1], [1, 2, 1, 0]])
    >>> edges = RipsEdges(sides, 1.0)
    >>> shortest_cycles(sides, edges, edges.open_edges())
    [(2, 1, 0, 3)]
    """
    cycles: list[tuple[int, ...]] = [()] * len(births)
    n = len(distances)
    starts, neighbours = np.zeros(n + 1, np.int64), np.empty(2 * len(edges.packed), np.int32)
    nearest = np.empty(n)
    _by_rank(edges.packed, distances, starts, np.empty(n, np.int64), neighbours, nearest)

    def close(block: tuple[int, int]) -> None:
        start, stop = block
        stops = np.empty(stop - start, np.int64)
        points = _close(
            edges.packed, edges.ranks, distances, starts, neighbours, births[start:stop], nearest,
            np.empty(n), np.empty(n, np.int64), np.empty(n, np.int64), np.zeros(n, np.bool_),
            np.empty(4 * n + 16, np.int32), stops,
        )[: stops[-1]]  # fmt: skip
        parts = np.split(points, stops[:-1])
        cycles[start:stop] = [tuple(part.tolist()) for part in parts]

    blocks = [(start, min(start + _BLOCK, len(births))) for start in range(0, len(births), _BLOCK)]
    run_blocks(close, blocks, serial=serial)
    return cycles


@kernel
def _by_rank(
    packed: np.ndarray,
    distances: np.ndarray,
    starts: np.ndarray,
    at: np.ndarray,
    neighbours: np.ndarray,
    nearest: np.ndarray,
) -> None:
    """Write each point's neighbours in the order of the edges, where they start, and the nearest distance.

    `starts` is 0 before, `at` is room for one number a point.
    """
    n = len(at)
    for rank in range(len(packed)):
        u, v = ends(packed, rank, n)
        starts[u + 1] += 1
        starts[v + 1] += 1
    for x in range(n):
        at[x] = starts[x]
        starts[x + 1] += starts[x]
    for rank in range(len(packed)):
        u, v = ends(packed, rank, n)
        neighbours[at[u]], neighbours[at[v]] = v, u
        at[u] += 1
        at[v] += 1
    for x in range(n):
        nearest[x] = distances[x, neighbours[starts[x]]] if starts[x] < starts[x + 1] else np.inf


@kernel
def _close(
    packed, ranks, distances, starts, neighbours, births, nearest, way, before, queue, in_queue, points, stops
):  # fmt: skip
    """Return the cycles of several edges, one behind the other, and write to `stops` where each ends.

    `way`, `before`, `queue` and `in_queue` are room for `_walk`; `points` is room for the cycles, which may
    have to move.
    """
    n = len(ranks)
    size = np.int64(0)
    for b in range(len(births)):
        rank = np.int64(births[b])
        last, first = ends(packed, rank, n)
        for x in range(n):
            way[x] = np.inf
        _walk(ranks, distances, starts, neighbours, nearest, rank, last, first, way, before, queue, in_queue)
        x = first
        while x != last:
            points, size = append(points, size, x)
            x = before[x]
        points, size = append(points, size, last)
        stops[b] = size
    return points


@inner_kernel
def _walk(ranks, distances, starts, neighbours, nearest, rank, source, target, way, before, queue, in_queue):
    """Fill `way` and `before` on the shortest path from `source` to `target` (Dijkstra).

    `nearest` is the length of each point's first edge: no step from or to a point is shorter.
    """
    to_target, lengths_to = ranks[target], distances[target]
    way[source] = 0.0
    queue[0], count = source, 1
    while count > 0:
        least = 0
        for i in range(1, count):
            if way[queue[i]] < way[queue[least]]:
                least = i
        x = queue[least]
        count -= 1
        queue[least], in_queue[x] = queue[count], False
        if way[x] + nearest[target] >= way[target]:
            break
        row, lengths = ranks[x], distances[x]
        for at in range(starts[x], starts[x + 1]):
            y = np.int64(neighbours[at])
            if row[y] >= rank:
                break
            if y == target:
                continue
            length = way[x] + lengths[y]
            if length >= way[y]:
                continue
            way[y], before[y] = length, x
            if to_target[y] < rank and length + lengths_to[y] < way[target]:
                way[target], before[target] = length + lengths_to[y], y
            # A path through a third point takes two steps more.
            if not in_queue[y] and length + nearest[y] + nearest[target] < way[target]:
                queue[count], in_queue[y] = y, True
                count += 1
    for i in range(count):
        in_queue[queue[i]] = False
