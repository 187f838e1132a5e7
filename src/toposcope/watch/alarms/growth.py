"""Norms that grow or fade faster than training makes them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.types import Role
from toposcope.statistics.alarms.growth import Change, Growth
from toposcope.statistics.alarms.panel import SIBLINGS
from toposcope.subjects.weights import features as of
from toposcope.watch.alarms.base import Alarm, Alert, SeenCheckpoint, Watched
from toposcope.watch.alarms.slow import Key, Slow, slow_alerts

if TYPE_CHECKING:
    import pandas as pd

MATRIX, VECTOR, SCALAR = "matrix", "vector", "scalar"
"""The kinds of a tensor's norm."""

GROWTHS: dict[Hashable, float] = {
    of.QK_NORM.name: 2.1,
    of.OV_NORM.name: 1.6,
    of.ROW_LARGEST.name: 0.55,
    MATRIX: 0.6,
    VECTOR: 1.2,
    SCALAR: 0.6,
}
"""How far a logarithm may move beyond the logarithm of the step: above the most in the healthy runs 0, 3, 6
and 102 to 104 of `benchmarks.planted`, without SGD. docs/watch.md says what these limits let through."""

FALLS: dict[Hashable, float] = {
    MATRIX: 0.65,
    **{name: GROWTHS[name] for name in (of.QK_NORM.name, of.OV_NORM.name, VECTOR, SCALAR)},
}
"""How far a logarithm may fall. A matrix's limit is above the most in 47 healthy runs 100 and 101 of
`benchmarks.watch_rates`, .61. A largest row may come closer to the others."""

LABELS = {
    of.QK_NORM.name: "QK product",
    of.OV_NORM.name: "OV product",
    of.ROW_LARGEST.name: "largest row over the median row",
    of.TENSOR_NORM.name: "norm",
}


class TensorGrowth(Alarm):
    """A QK or OV product, a tensor's norm or its largest row grew or fell far in 4, 8 or 16 checkpoints."""

    test = "growth"
    next = "check what moves this tensor (learning rate, weight decay, clipping), or go back{back}"

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._growth: Growth[Key] = Growth(GROWTHS, FALLS, frozenset({VECTOR, SCALAR}))

    def on_checkpoint(self, checkpoint: SeenCheckpoint) -> list[Alert]:
        """Judge every norm, and name those beyond their limit."""
        rows = checkpoint.rows
        assert rows is not None
        index = rows[rows["feature"] == of.ROW_INDEX.name].set_index("name")["value"].to_dict()
        slow, norms = [], _norms(rows)
        for change in self._growth.update(checkpoint.step, norms, _usual(rows, norms)):
            row = int(index.get(change.key[0], -1)) if change.key[2] == of.ROW_LARGEST.name else -1
            slow.append(Slow(change, _how(change, row)))
        return slow_alerts(self, checkpoint, slow)


def _how(change: Change[Key], row: int) -> str:
    _, head, feature = change.key
    fold = math.exp(abs(change.now - change.before))
    who = "" if head < 0 else f"head {head}: "
    of_row = f" (row {row})" if row >= 0 else ""
    did = f"grew {fold:.3g}-fold" if change.now > change.before else f"fell to 1/{fold:.3g}"
    return f"{who}{LABELS[feature]}{of_row} {did} since step {change.since:,}"


def _norms(rows: pd.DataFrame) -> dict[Key, tuple[Hashable, float]]:
    """Return the logarithms of all norms, each with the kind that sets its limit."""
    wanted = [of.QK_NORM.name, of.OV_NORM.name, of.ROW_LARGEST.name, of.TENSOR_NORM.name]
    part = rows[rows["feature"].isin(wanted) & (rows["value"] > 0)]
    matrices = set(rows.loc[rows["feature"] == of.ROW_LARGEST.name, "name"])
    zeros = rows.loc[rows["feature"] == of.ZERO.name].set_index("name")["value"].to_dict()
    means = rows.loc[rows["feature"] == of.TENSOR_RMS.name].set_index("name")["value"].to_dict()
    norms: dict[Key, tuple[Hashable, float]] = {}
    heads = part["head"].fillna(-1).astype(int)
    for name, head, feature, value, role in zip(
        part["name"], heads, part["feature"], part["value"], part["role"], strict=True
    ):
        kind: Hashable = feature
        if feature == of.TENSOR_NORM.name:
            few = SCALAR if _scalar(name, role, value, means.get(name)) else VECTOR
            kind = MATRIX if name in matrices else few
            if zeros.get(name, 0.0) == 1.0:
                continue
        norms[name, head, feature] = (kind, math.log(value))
    return norms


def _usual(rows: pd.DataFrame, norms: Mapping[Key, tuple[Hashable, float]]) -> dict[Key, float]:
    """Return the norm that each tensor would have with the median root mean square of its like.

    Matrices are alike, and so are norms' gains, biases and scalars together; fewer than three have no median.
    """
    part = rows[(rows["feature"] == of.TENSOR_RMS.name) & (rows["value"] > 0)]
    sizes = dict(zip(part["name"], np.log(part["value"].to_numpy(float)), strict=True))
    alike: dict[bool, dict[Key, float]] = {True: {}, False: {}}
    for key, (kind, _) in norms.items():
        if key[2] == of.TENSOR_NORM.name and key[0] in sizes:
            alike[kind == MATRIX][key] = sizes[key[0]]
    return {
        key: norms[key][1] - size + float(np.median(list(group.values())))
        for group in alike.values()
        for key, size in group.items()
        if len(group) >= SIBLINGS
    }


def _scalar(name: str, role: str, norm: float, mean: float | None) -> bool:
    """Return whether a tensor is one number, a separate scale or temperature; old stores say it by name."""
    if mean is not None:
        return norm < 1.2 * mean  # the norm of two numbers is 1.4 times their root mean square
    return role not in (Role.NORM,) and not name.endswith((".bias", ".weight"))
