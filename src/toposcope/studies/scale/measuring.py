"""What is measured of one checkpoint, where its weights are: a row for the model, and one for each matrix."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from toposcope.core.seeding import rng
from toposcope.core.threads import run_blocks
from toposcope.topology import (
    batched_spanning_tree_weights,
    components,
    deep_graph_persistence,
    neural_persistence,
    rips_batch,
    shuffled_deep_graph_persistence,
    shuffled_spanning_tree_weights,
    subsample,
)
from toposcope.topology.clouds import distance_matrix
from toposcope.topology.neural_persistence import diagram_of_tree
from toposcope.topology.summaries import lifetimes

_POINTS, _DRAWS, _LONGEST = 200, 20, 2.0
"""Rows of a pooled cloud, draws of it, and the paper's longest bar: the settings of the preset `seed004`."""
_SHUFFLES = 3
"""Shuffles of each matrix: their spread is a hundredth of the excess that is looked for."""
_MATRIX = re.compile(r"layers\.(\d+)\.(?:attn|mlp)\.(\w+)\.weight$")
PERSISTENCE, POOLED, DEEP, LAYERS = "persistence", "pooled", "deep", "layers"
GROUPS = (PERSISTENCE, POOLED, DEEP, LAYERS)
_NEEDED = 2
"""The first groups are always measured: the paper's claims need them."""

Row = dict[str, Any]


@dataclass
class CheckpointMeasurer:
    """Measures the checkpoints of one run: `groups` are the parts that it takes."""

    run: str
    groups: tuple[str, ...] = GROUPS

    def plan(self, weights: Mapping[str, Any], allowed: float) -> float:
        """Leave out groups so that a checkpoint takes at most `allowed` seconds; return what it takes."""
        self.measure(weights, 0)  # the first call compiles
        total, kept = 0.0, list[str]()
        for number, group in enumerate(self.groups):
            started = time.perf_counter()
            self._group(group, _matrices(weights), 0)
            taken = time.perf_counter() - started
            if number < _NEEDED or total + taken <= allowed:
                total, kept = total + taken, [*kept, group]
        self.groups = tuple(kept)
        return total

    def measure(self, weights: Mapping[str, Any], step: int) -> tuple[Row, list[Row]]:
        """Return the row of the model, and those of its matrices and of its MLPs."""
        matrices = _matrices(weights)
        whole: Row = {}
        rows: list[Row] = []
        for group in self.groups:
            values, parts = self._group(group, matrices, step)
            whole |= values
            rows += parts
        return whole, rows

    def _group(self, group: str, matrices: Mapping[str, Any], step: int) -> tuple[Row, list[Row]]:
        if group == PERSISTENCE:
            return self._persistence(matrices)
        if group == POOLED:
            return self._pooled(matrices, step), []
        if group == DEEP:
            return self._deep(matrices)
        totals = [lifetimes(components(matrix)).sum() for matrix in matrices.values()]
        return {"h0_total_layers": float(sum(totals))}, []

    def _persistence(self, matrices: Mapping[str, Any]) -> tuple[Row, list[Row]]:
        """Return neural persistence, that of shuffled weights, and the spread of |w| over its maximum."""
        trees = batched_spanning_tree_weights(list(matrices.values()), names=list(matrices))
        top = max(float(tree[0]) for tree in trees)
        rows = run_blocks(self._of_matrix, list(zip(matrices, matrices.values(), trees, strict=True)))
        by_network = [neural_persistence(diagram_of_tree(tree), "network", top) for tree in trees]
        whole = {
            "neural_persistence": _mean(rows, "neural_persistence"),
            "neural_persistence_shuffled": _mean(rows, "shuffled"),
            "spread": _mean(rows, "spread"),
            "neural_persistence_network": float(np.mean(by_network)),
        }
        return whole, rows

    def _of_matrix(self, given: tuple[str, Any, np.ndarray]) -> Row:
        name, matrix, tree = given
        size = matrix.abs()
        return _named(name) | {
            "rows": int(matrix.shape[0]),
            "columns": int(matrix.shape[1]),
            "neural_persistence": neural_persistence(diagram_of_tree(tree), "matrix"),
            "shuffled": self._shuffled(matrix, name),
            "spread": float(size.std(correction=0) / size.max()),
        }

    def _shuffled(self, matrix: Any, name: str) -> float:
        """Return the mean over shuffles, the same at every checkpoint: their noise does not move."""
        draws = [rng(run=self.run, name=name, draw=draw) for draw in range(_SHUFFLES)]
        trees = shuffled_spanning_tree_weights(matrix, rng=draws, name=name)
        return float(np.mean([neural_persistence(diagram_of_tree(tree), "matrix") for tree in trees]))

    def _pooled(self, matrices: Mapping[str, Any], step: int) -> Row:
        """Return H0 and H1 of rows of all matrices: bars of the paper's length, and of any."""
        chosen = [
            subsample(sum(map(len, matrices.values())), _POINTS, draw=draw, run=self.run, step=step)
            for draw in range(_DRAWS)
        ]
        needed = np.unique(np.concatenate(chosen))
        points = _rows_of(matrices, needed)
        clouds = [points[np.searchsorted(needed, indices)] for indices in chosen]
        distances = run_blocks(distance_matrix, clouds)
        diagrams = rips_batch(distances, maxdim=1, metric="precomputed")
        values: Row = {"mean_distance": float(np.mean([_mean_distance(distance) for distance in distances]))}
        for dim in (0, 1):
            ends = [diagrams_of_draw[dim].death for diagrams_of_draw in diagrams]
            bars = [lifetimes(diagrams_of_draw[dim]) for diagrams_of_draw in diagrams]
            short = [
                bar[end[np.isfinite(end)] <= _LONGEST].sum() for bar, end in zip(bars, ends, strict=True)
            ]
            values[f"h{dim}_total"] = float(np.mean(short))
            values[f"h{dim}_total_sd"] = float(np.std(short, ddof=1))
            values[f"h{dim}_total_free"] = float(np.mean([bar.sum() for bar in bars]))
        return values

    def _deep(self, matrices: Mapping[str, Any]) -> tuple[Row, list[Row]]:
        """Return deep graph persistence of each MLP, and of the same with each factor shuffled alone."""
        pairs = [
            (name, up, matrices[name.replace(".fc1.", ".fc2.")])
            for name, up in matrices.items()
            if ".fc1." in name
        ]
        rows = run_blocks(self._of_mlp, pairs)
        whole = {"deep": _mean(rows, "neural_persistence"), "deep_shuffled": _mean(rows, "shuffled")}
        return whole, rows

    def _of_mlp(self, given: tuple[str, Any, Any]) -> Row:
        name, up, down = given
        stack = [weight.float().cpu().numpy() for weight in (up, down)]  # its tree is found on the host
        draws = [rng(run=self.run, name=f"{name}/deep", draw=draw) for draw in range(_SHUFFLES)]
        return _named(name) | {
            "matrix": name.removesuffix(".fc1.weight"),
            "role": "mlp",
            "rows": int(down.shape[0]),
            "columns": int(up.shape[1]),
            "neural_persistence": deep_graph_persistence(stack),
            "shuffled": float(shuffled_deep_graph_persistence(stack, rng=draws).mean()),
        }


def _matrices(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Return the matrices of the blocks; embeddings and norms are left out, as in the preset `seed004`."""
    return {name: tensor for name, tensor in weights.items() if _MATRIX.match(name)}


def _named(name: str) -> Row:
    layer, role = _MATRIX.match(name).groups()  # type: ignore[union-attr]
    return {"matrix": name.removesuffix(".weight"), "role": role, "layer": int(layer)}


def _mean(rows: list[Row], key: str) -> float:
    return float(np.mean([row[key] for row in rows]))


def _mean_distance(distances: np.ndarray) -> float:
    return float(distances.sum() / (len(distances) * (len(distances) - 1)))


def _rows_of(matrices: Mapping[str, Any], needed: np.ndarray) -> np.ndarray:
    """Return some rows of all matrices together, padded with zeros to the widest."""
    points = np.zeros((len(needed), max(matrix.shape[1] for matrix in matrices.values())), np.float32)
    start = 0
    for matrix in matrices.values():
        mine = (needed >= start) & (needed < start + len(matrix))
        if mine.any():
            points[mine, : matrix.shape[1]] = matrix[needed[mine] - start].float().cpu().numpy()
        start += len(matrix)
    return points
