"""The tree of the widest paths through a stack whose layers are permuted, without permuting them.

The heaviest edges of each layer, all those above one floor, are laid on random cells. If they connect all
inputs and outputs, lighter edges have no part in the tree. Else the floor is lowered, and more of the same
random order of cells is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from toposcope.core.compiling import kernel
from toposcope.core.threads import run_blocks
from toposcope.kernels.bipartite_scan import SERIAL_BELOW, Edges
from toposcope.kernels.bipartite_tree import magnitude_bits
from toposcope.kernels.selection import largest_keys
from toposcope.kernels.widest_paths import ANY, tree_of_paths

_PREFIX = 1.3
"""Edges of a layer above the first floor, in units of n ln n for its longer side: enough in most draws."""
_DENSE = 0.25
"""From this share of a layer's cells on, a full permutation is cheaper."""
_SPARE = 1.02
"""Cells drawn for each that is missing, because some are drawn twice."""


def shuffled_path_trees(
    stack: Sequence[np.ndarray], generators: Sequence[np.random.Generator]
) -> list[np.ndarray]:
    """Return, for each generator, the tree's keys after a random permutation of each layer's entries.

    `stack` has matrices (n_out, n_in) of float32 that compose, not negative.
    """
    heavy = _Heaviest(stack)
    together = len({id(generator) for generator in generators}) < len(
        generators
    )  # its draws follow each other
    serial = together or max(layer.size for layer in stack) < SERIAL_BELOW
    return run_blocks(lambda generator: _shuffled(heavy, generator), generators, serial=serial)


@dataclass(slots=True)
class _Heaviest:
    """The keys of each layer above a floor, for ever lower floors, the last of which is 0."""

    stack: Sequence[np.ndarray]
    found: list[tuple[np.uint32, list[np.ndarray]]] = field(default_factory=list)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [layer.shape for layer in self.stack]

    def above(self, level: int) -> tuple[np.uint32, list[np.ndarray]]:
        """Return a floor, and the keys of at least the floor, descending; twice as many at each level."""
        while len(self.found) <= level:
            share = _PREFIX * 2.0 ** len(self.found)
            self.found.append(self._above(share))
        return self.found[level]

    def _above(self, share: float) -> tuple[np.uint32, list[np.ndarray]]:
        bits = [magnitude_bits(layer) for layer in self.stack]
        floors = []
        for (keys, mask), shape in zip(bits, self.shapes, strict=True):
            wanted = int(share * max(shape) * np.log(max(shape))) + 16
            floors.append(largest_keys(keys, mask, wanted)[-1] if wanted < keys.size else keys.dtype.type(0))
        floor = min(floors)
        counts = [int(np.count_nonzero(keys >= floor)) for keys, _ in bits]
        return floor, [
            largest_keys(*bits_of_tree, count) for bits_of_tree, count in zip(bits, counts, strict=True)
        ]


def _shuffled(heavy: _Heaviest, generator: np.random.Generator) -> np.ndarray:
    shapes = heavy.shapes
    cells = [np.empty(0, np.int64) for _ in shapes]
    level = 0
    while True:
        floor, keys = heavy.above(level)
        cells = [
            _drawn(before, n_out * n_in, of_layer.size, generator)
            for before, (n_out, n_in), of_layer in zip(cells, shapes, keys, strict=True)
        ]
        layers = [
            Edges(of_layer, *_places(at[: of_layer.size], n_in))
            for of_layer, at, (_, n_in) in zip(keys, cells, shapes, strict=True)
        ]
        tree = _tree(layers, shapes, floor)
        if tree.size == shapes[0][1] + shapes[-1][0] - 1:
            return tree
        level += 1


def _drawn(cells: np.ndarray, total: int, count: int, generator: np.random.Generator) -> np.ndarray:
    """Return a random order of at least `count` distinct cells that continues `cells`."""
    while cells.size < count:
        missing = int(_SPARE * (count - cells.size)) + 16
        if count <= _DENSE * total:
            more = generator.integers(total, size=missing)
        elif cells.size:
            more = generator.permutation(total)
        else:
            return generator.permutation(total)
        every = np.concatenate((cells, more))
        # Without repeats, draws with replacement are a random order.
        cells = _distinct(every, np.full(1 << (2 * every.size).bit_length(), -1, np.int64))
    return cells


def _places(cells: np.ndarray, n_in: int) -> tuple[np.ndarray, np.ndarray]:
    rows = cells // n_in
    return rows.astype(np.int32), (cells - rows * n_in).astype(np.int32)


def _tree(layers: Sequence[Edges], shapes: Sequence[tuple[int, ...]], floor: np.uint32) -> np.ndarray:
    """Return the tree's keys of at least `floor`, from the edges of at least that weight."""
    below = [np.full(shapes[0][1], ANY)]
    for layer, shape in zip(layers[:-1], shapes, strict=False):
        below.append(_reach(layer.keys, layer.columns, layer.rows, below[-1], shape[0]))
    above = [np.full(shapes[-1][0], ANY)]
    for layer, shape in zip(layers[:0:-1], shapes[:0:-1], strict=True):
        above.insert(0, _reach(layer.keys, layer.rows, layer.columns, above[0], shape[1]))
    lowered = []
    for layer, source, target in zip(layers, below, above, strict=True):
        keys = np.minimum(layer.keys, np.minimum(source[layer.columns], target[layer.rows]))
        kept = keys >= floor
        lowered.append(Edges(keys[kept], layer.rows[kept], layer.columns[kept]))
    hidden = [np.minimum(a, b) for a, b in zip(below[1:], above[:-1], strict=True)]
    return tree_of_paths(lowered, shapes, [width[width >= floor] for width in hidden])


@kernel
def _distinct(cells: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return the cells without repeats, in order; `table` is a hash set, as in `random_tree`."""
    out = np.empty(cells.size, np.int64)
    taken = 0
    for cell in cells:
        slot = (cell * 0x9E3779B97F4A7C1 >> 20) & (table.size - 1)
        while table[slot] != -1 and table[slot] != cell:
            slot = (slot + 1) & (table.size - 1)
        if table[slot] == -1:
            table[slot] = cell
            out[taken] = cell
            taken += 1
    return out[:taken]


@kernel
def _reach(keys: np.ndarray, begin: np.ndarray, end: np.ndarray, source: np.ndarray, n: int) -> np.ndarray:
    """Return the widest path to each of `n` ends, over edges from `begin` to `end`."""
    out = np.zeros(n, np.uint32)
    for e in range(keys.size):
        out[end[e]] = max(out[end[e]], min(keys[e], source[begin[e]]))
    return out
