"""Updates that leave their usual size, up or down, suddenly or slowly; also stalls."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.types import Role, Scope
from toposcope.statistics.alarms.growth import Change, Level
from toposcope.statistics.alarms.panel import SIBLINGS
from toposcope.subjects.weights import features as of
from toposcope.watch.alarms.base import Alarm, Alert, SeenCheckpoint, Watched
from toposcope.watch.alarms.slow import WHOLE_MODEL, Slow, slow_alerts

if TYPE_CHECKING:
    import pandas as pd

WHOLE, SINGLE = (0.95, 0.75), (1.4, 1.2)
"""How far updates over the learning rate may rise or fall from their level: the model's, and a matrix's.

These limits were set on runs 0, 3 and 6 of `benchmarks.planted`; docs/watch.md, "How well it does", has the
rates on others."""

RATE_ENDED = 0.1
"""Below this share of its peak, the learning rate says little about updates: averaged weights keep moving.

This rule was decided after all runs of docs/watch.md had been seen."""

GATE = 0.1
"""The most that a gate begins with: LayerScale has .1, 1e-5 or 1e-6 (Touvron et al. 2021), ReZero 0."""


class UpdateLevel(Alarm):
    """The updates of the model or of a matrix, over the learning rate, are far off their past median."""

    test = "update level"
    next = "check what scales the updates: schedule, clipping, loss scale, frozen parameters"

    def __init__(self, watched: Watched) -> None:
        super().__init__(watched)
        self._levels = UpdateLevels()

    def on_checkpoint(self, checkpoint: SeenCheckpoint) -> list[Alert]:
        """Judge the updates since the previous checkpoint."""
        assert checkpoint.rows is not None
        step, since, rate = checkpoint.step, checkpoint.since, checkpoint.rate
        return slow_alerts(self, checkpoint, self._levels.update(step, since, rate, checkpoint.rows))


class UpdateLevels:
    """Follows the updates of one run.

    The updates of a matrix have to leave their level twice: divided by the learning rate, and relative to the
    median of the matrices outside its layer. A rise counts from the size of the others' updates: an expert
    that is used again, or a matrix whose gradient was close to 0, may become as fast as they are. A fall is
    no alarm while a gate in front of the matrix is below `GATE`: gradients behind it vanish by themselves.
    """

    def __init__(self) -> None:
        self._whole: Level[Hashable] = Level(*WHOLE)
        self._single: Level[Hashable] = Level(*SINGLE)
        self._beside: Level[Hashable] = Level(*SINGLE, usual=0.0)
        self._peak = 0.0

    def update(self, step: int, since: int, rate: float, rows: pd.DataFrame) -> list[Slow]:
        """Take the features of one checkpoint, and the mean learning rate of its updates (0 if unknown)."""
        self._peak = max(self._peak, rate)
        if rate < RATE_ENDED * self._peak:
            return []
        part = rows[(rows["feature"] == of.UPDATE_NORM.name) & (rows["value"] > 0)]
        # updates between checkpoints that lie farther apart are longer: each spacing has its own level
        spacing = round(math.log2(max(step - since, 1)))
        single = part[part["scope"] == Scope.MATRIX]
        logs = {str(n): math.log(v) for n, v in zip(single["name"], single["value"], strict=True)}
        if not rate and len(logs) < SIBLINGS:
            return []
        less = math.log(rate) if rate else float(np.median(list(logs.values())))
        slow_changes = []
        if rate:
            whole = part.loc[part["scope"] == Scope.MODEL, "value"]
            for change in self._whole.update(step, ((spacing, math.log(v) - less) for v in whole)):
                slow_changes.append(_slow(change, WHOLE_MODEL))
        beside = _beside_others(single, rows)
        left = self._beside.update(step, (((name, spacing), log) for name, log in beside.items()))
        left_too = {change.key for change in left}
        gated = _behind_gates(rows)
        for change in self._single.update(
            step, (((name, spacing), log - less) for name, log in logs.items())
        ):
            name = str(change.key[0])  # type: ignore[index]
            if change.now < change.before and name in gated:
                continue
            if name not in beside or change.key in left_too:
                slow_changes.append(_slow(change, name))
        return slow_changes


def _beside_others(single: pd.DataFrame, rows: pd.DataFrame) -> dict[str, float]:
    """Return the logarithm of each matrix's update per value over the median one outside its layer."""
    sizes = rows[rows["feature"].isin([of.TENSOR_NORM.name, of.TENSOR_RMS.name])]
    norms, means = (
        sizes[sizes["feature"] == feature.name].set_index("name")["value"].to_dict()
        for feature in (of.TENSOR_NORM, of.TENSOR_RMS)
    )
    comparable_names = [name for name in norms if norms[name] > 0 and means.get(name, 0.0) > 0]
    part = single[single["name"].isin(comparable_names)]
    names = part["name"].astype(str).tolist()
    values = np.array(
        [value * means[name] / norms[name] for name, value in zip(names, part["value"], strict=True)]
    )
    logs = np.log(values.astype(float))
    at = part["layer"].fillna(-1).to_numpy(float) if "layer" in part else np.full(len(part), -1.0)
    medians = np.full(len(logs), np.nan)
    for layer in np.unique(at):
        others = logs[(at != layer) | (layer < 0)]
        if len(others) >= SIBLINGS:
            medians[at == layer] = np.median(others)
    return {
        name: log for name, log in zip(names, (logs - medians).tolist(), strict=True) if math.isfinite(log)
    }


def _behind_gates(rows: pd.DataFrame) -> set[str]:
    """Return the matrices that a gate near 0 may stand in front of: those of its layer, if it has one.

    A gate is a vector or a number that is neither a bias nor of a norm.
    """
    matrices = rows[rows["feature"] == of.ROW_LARGEST.name]
    sizes = rows[(rows["feature"] == of.TENSOR_RMS.name) & rows["value"].between(0, GATE, inclusive="left")]
    names = sizes["name"].astype(str)
    other = names.isin(matrices["name"]) | names.str.endswith("bias") | names.str.contains("norm", case=False)
    gates = sizes[~other & (sizes["role"] != Role.NORM)]
    if gates.empty:
        return set()
    if "layer" not in gates or gates["layer"].isna().any():
        return set(matrices["name"].astype(str))
    return set(matrices.loc[matrices["layer"].isin(gates["layer"]), "name"].astype(str))


def _slow(level_change: Change[Hashable], name: str) -> Slow:
    fold, key = math.exp(abs(level_change.now - level_change.before)), (name, -1, of.UPDATE_NORM.name)
    times = f"{fold:.3g} times" if level_change.now > level_change.before else f"1/{fold:.3g} of"
    change = Change(key, level_change.before, level_change.now, level_change.since, level_change.size)
    return Slow(change, f"updates divided by the learning rate are {times} their usual size")
