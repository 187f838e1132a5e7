"""The maximum spanning tree of the widest paths through a stack of layers, without the matrix of the paths.

S[o, i] is the width of the widest path from input i to output o. Its tree needs no S. An edge of the stack
is on a path of width t if its weight is at least t, a path of that width ends at it, and one begins at it. So
its weight is lowered to what its ends can reach, and Kruskal's algorithm runs on the stack. An input and an
output are then in one component at t exactly if the same holds in S: all inputs and outputs whose paths meet
in a hidden unit are joined in S through any of them. A hidden unit joins its first component at the width of
its own widest path, so one edge of that weight for each hidden unit is left out.

Weights are bits of float32, not negative: their order is that of the integers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toposcope.core.compiling import kernel
from toposcope.core.threads import row_blocks, run_blocks
from toposcope.kernels.bipartite_scan import SERIAL_BELOW, Edges, descending
from toposcope.kernels.bipartite_tree import spanning_tree
from toposcope.kernels.union_find import kruskal

ANY = np.uint32(0x7F800000)
"""The bits of infinity: the width at an input or an output, which limits no path."""


def widest_path_tree(stack: Sequence[np.ndarray]) -> np.ndarray:
    """Return the keys of the maximum spanning tree of S, heaviest first; the matrices are changed.

    `stack` has matrices (n_out, n_in) of float32 that compose, from the inputs to the outputs.
    """
    layers = [layer.view(np.uint32) for layer in stack]
    below = [np.full(layers[0].shape[1], ANY)]
    for layer in layers[:-1]:
        below.append(_from_inputs(layer, below[-1]))
    above = [np.full(layers[-1].shape[0], ANY)]
    for layer in layers[:0:-1]:
        above.insert(0, _to_outputs(layer, above[0]))
    trees = []
    for layer, source, target in zip(layers, below, above, strict=True):
        if len(layers) > 1:
            _lower(layer, source, target)
        trees.append(spanning_tree(layer.view(np.float32)))
    hidden = [np.minimum(a, b) for a, b in zip(below[1:], above[:-1], strict=True)]
    return tree_of_paths(trees, [layer.shape for layer in layers], hidden)


def tree_of_paths(
    edges: Sequence[Edges], shapes: Sequence[tuple[int, ...]], hidden: Sequence[np.ndarray]
) -> np.ndarray:
    """Return the keys of the tree of S above those of `edges`, from the lowered edges of each layer.

    `hidden` has the width of the widest path through each hidden unit, 0 where none is known.
    """
    starts = np.cumsum([0, shapes[0][1], *(shape[0] for shape in shapes)])
    keys = np.concatenate([layer.keys for layer in edges])
    u = np.concatenate([layer.columns + np.int32(at) for layer, at in zip(edges, starts, strict=False)])
    v = np.concatenate([layer.rows + np.int32(at) for layer, at in zip(edges, starts[1:], strict=False)])
    parent, size = np.arange(starts[-1], dtype=np.int32), np.ones(starts[-1], np.int32)
    joined = keys[kruskal(descending(keys), u, v, parent, size)]
    if not hidden:
        return joined
    path_values = np.concatenate(hidden)
    values, counts = np.unique(joined, return_counts=True)
    np.subtract.at(counts, np.searchsorted(values, path_values), 1)
    return np.repeat(values, counts)[::-1]


_LEAST_SPREAD = 1.0 / float(np.finfo(np.float32).max)
"""The reciprocal of a smaller spread is beyond float32."""


def standardised(W: np.ndarray) -> np.ndarray:
    """Return |W - mean| / std as float32; zeros if all entries are equal."""
    if W.dtype == np.float64:  # its range is wider than that of float32
        wide = W / (np.abs(W).max() or 1.0)  # no square overflows
        spread = wide.std()
        return (np.abs((wide - wide.mean()) / spread) if spread > 0 else np.zeros(W.shape)).astype(np.float32)
    wide = np.ascontiguousarray(W, np.float32)
    serial = wide.size < SERIAL_BELOW
    blocks = row_blocks(wide.shape[0], serial=serial)
    centre = float(wide[0].mean(dtype=np.float64))
    sums = run_blocks(lambda block: _sums(wide[slice(*block)].reshape(-1), centre), blocks, serial=serial)
    first, second = np.sum(sums, axis=0) / wide.size
    spread = np.sqrt(max(second - first * first, 0.0))
    if 0 < spread < _LEAST_SPREAD:
        return standardised(wide.astype(np.float64))
    out = np.zeros(wide.shape, np.float32)
    if spread > 0:
        mean, inverse = np.float32(centre + first), np.float32(1 / spread)
        run_blocks(lambda block: _standardise(wide, mean, inverse, *block, out), blocks, serial=serial)
    return out


def _from_inputs(layer: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Return the width of the widest path from any input to each row of a layer."""
    out = np.zeros(layer.shape[0], np.uint32)
    serial = layer.size < SERIAL_BELOW
    blocks = row_blocks(layer.shape[0], serial=serial)
    run_blocks(lambda block: _reach_rows(layer, source, *block, out), blocks, serial=serial)
    return out


def _to_outputs(layer: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the width of the widest path from each column of a layer to any output."""
    serial = layer.size < SERIAL_BELOW

    def best(block: tuple[int, int]) -> np.ndarray:
        out = np.zeros(layer.shape[1], np.uint32)
        _reach_columns(layer, target, *block, out)
        return out

    return np.max(run_blocks(best, row_blocks(layer.shape[0], serial=serial), serial=serial), axis=0)


def _lower(layer: np.ndarray, source: np.ndarray, target: np.ndarray) -> None:
    serial = layer.size < SERIAL_BELOW
    blocks = row_blocks(layer.shape[0], serial=serial)
    run_blocks(lambda block: _lower_rows(layer, source, target, *block), blocks, serial=serial)


@kernel(fastmath={"reassoc"})
def _sums(flat: np.ndarray, centre: float) -> tuple[float, float]:
    total = 0.0
    square = 0.0
    for k in range(flat.size):
        value = np.float64(flat[k]) - centre
        total += value
        square += value * value
    return total, square


@kernel
def _standardise(
    W: np.ndarray, mean: np.float32, inverse: np.float32, first: int, last: int, out: np.ndarray
) -> None:
    for i in range(first, last):
        for j in range(W.shape[1]):
            out[i, j] = abs((W[i, j] - mean) * inverse)


@kernel
def _reach_rows(layer: np.ndarray, source: np.ndarray, first: int, last: int, out: np.ndarray) -> None:
    for i in range(first, last):
        top = np.uint32(0)
        for j in range(layer.shape[1]):
            top = max(top, min(layer[i, j], source[j]))
        out[i] = top


@kernel
def _reach_columns(layer: np.ndarray, target: np.ndarray, first: int, last: int, out: np.ndarray) -> None:
    for i in range(first, last):
        limit = target[i]
        for j in range(layer.shape[1]):
            out[j] = max(out[j], min(layer[i, j], limit))


@kernel
def _lower_rows(layer: np.ndarray, source: np.ndarray, target: np.ndarray, first: int, last: int) -> None:
    for i in range(first, last):
        limit = target[i]
        for j in range(layer.shape[1]):
            layer[i, j] = min(layer[i, j], min(source[j], limit))
