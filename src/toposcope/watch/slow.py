"""What happens to a run slowly: norms that grow or fade, updates that leave their level, stalls."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.types import Role, Scope
from toposcope.statistics.alarms.growth import Change, Growth, Level
from toposcope.subjects.weights import features as of

if TYPE_CHECKING:
    import pandas as pd

Key = tuple[str, int, str]
"""Name of the tensor, head (-1: none), feature."""

GROWTHS: dict[Hashable, float] = {
    of.QK_NORM.name: 2.1,
    of.OV_NORM.name: 1.6,
    of.ROW_LARGEST.name: 0.55,
    "matrix": 0.6,
    "vector": 1.2,
    "scalar": 0.6,
}
"""How far a logarithm may move beyond what the step's logarithm did: above the most that healthy runs 0, 3,
6 and 102 to 104 of `benchmarks.planted` did, SGD apart; what it lets through stands in docs/watch.md."""

WHOLE, SINGLE = (0.95, 0.75), (1.4, 1.2)
"""How far updates over the learning rate may leave their level up and down, of the model and of a matrix."""


RATE_ENDED = 0.1
"""Share of its peak below which a learning rate is no measure of updates: averaged weights go on moving."""


@dataclass(frozen=True, slots=True)
class Slow:
    """A change that came about slowly, and which test tells it."""

    test: str
    change: Change[Key]
    row: int = -1

    @property
    def how(self) -> str:
        """Say what the number did."""
        one = self.change
        _, head, feature = one.key
        fold, up = math.exp(abs(one.now - one.before)), one.now > one.before
        who = "" if head < 0 else f"head {head}: "
        row = f" (row {self.row})" if self.row >= 0 else ""
        if self.test == "update level":
            times = f"{fold:.3g} times" if up else f"1/{fold:.3g} of"
            return f"updates over the learning rate are {times} their usual size"
        did = f"grew {fold:.3g}-fold" if up else f"fell to 1/{fold:.3g}"
        return f"{who}{LABELS[feature]}{row} {did} since step {one.since}"

    @property
    def sentence(self) -> str:
        """Say it of the tensor by name."""
        return f"{self.change.key[0]}: {self.how}"

    def line(self) -> dict[str, object]:
        """Return the line of a culprit table."""
        name, head, feature = self.change.key
        return {
            "name": name, "head": None if head < 0 else head, "feature": feature,
            "before": math.exp(self.change.before), "now": math.exp(self.change.now), "sentence": self.how,
        }  # fmt: skip


LABELS = {
    of.QK_NORM.name: "QK product",
    of.OV_NORM.name: "OV product",
    of.ROW_LARGEST.name: "largest row over the median row",
    of.TENSOR_NORM.name: "norm",
}


@dataclass
class SlowWatch:
    """Follows the norms and the updates of one run."""

    _growth: Growth[Key] = field(default_factory=lambda: Growth(GROWTHS, frozenset({of.ROW_LARGEST.name})))
    _whole: Level[Hashable] = field(default_factory=lambda: Level(*WHOLE))
    _single: Level[Hashable] = field(default_factory=lambda: Level(*SINGLE))
    _peak: float = 0.0

    def update(self, step: int, since: int, rate: float, rows: pd.DataFrame) -> list[Slow]:
        """Take the features of one checkpoint, and the mean rate of its updates, 0 where none is known."""
        self._peak = max(self._peak, rate)
        ended = rate < RATE_ENDED * self._peak
        found = [] if ended else self._levels(step, since, rate, rows)
        index = rows[rows["feature"] == of.ROW_INDEX.name].set_index("name")["value"].to_dict()
        for change in self._growth.update(step, _norms(rows)):
            row = int(index.get(change.key[0], -1)) if change.key[2] == of.ROW_LARGEST.name else -1
            found.append(Slow("growth", change, row))
        return found

    def _levels(self, step: int, since: int, rate: float, rows: pd.DataFrame) -> list[Slow]:
        part = rows[(rows["feature"] == of.UPDATE_NORM.name) & (rows["value"] > 0)]
        # where checkpoints lie farther apart than before, updates are longer: they have a level of their own
        spacing = round(math.log2(max(step - since, 1)))
        single = part[part["scope"] == Scope.MATRIX]
        logs = {str(n): math.log(v) for n, v in zip(single["name"], single["value"], strict=True)}
        if not rate and len(logs) < 3:
            return []
        less = math.log(rate) if rate else float(np.median(list(logs.values())))
        found = []
        if rate:
            whole = part.loc[part["scope"] == Scope.MODEL, "value"]
            for one in self._whole.update(step, ((spacing, math.log(v) - less) for v in whole)):
                found.append(_slow(one, "model"))
        for one in self._single.update(step, (((name, spacing), log - less) for name, log in logs.items())):
            found.append(_slow(one, str(one.key[0])))  # type: ignore[index]
        return found


def _slow(one: Change[Hashable], name: str) -> Slow:
    key = (name, -1, of.UPDATE_NORM.name)
    return Slow("update level", Change(key, one.before, one.now, one.since, one.size))


def _norms(rows: pd.DataFrame) -> dict[Key, tuple[Hashable, float]]:
    """Return the logarithms of all norms, each with the kind whose limit it has."""
    wanted = [of.QK_NORM.name, of.OV_NORM.name, of.ROW_LARGEST.name, of.TENSOR_NORM.name]
    part = rows[rows["feature"].isin(wanted) & (rows["value"] > 0)]
    matrices = set(rows.loc[rows["feature"] == of.ROW_LARGEST.name, "name"])
    zeros = rows.loc[rows["feature"] == of.ZERO.name].set_index("name")["value"].to_dict()
    found: dict[Key, tuple[Hashable, float]] = {}
    heads = part["head"].fillna(-1).astype(int)
    for name, head, feature, value, role in zip(
        part["name"], heads, part["feature"], part["value"], part["role"], strict=True
    ):
        kind: Hashable = feature
        if feature == of.TENSOR_NORM.name:
            kind = "matrix" if name in matrices else "scalar" if _scalar(name, role) else "vector"
            if zeros.get(name, 0.0) == 1.0:
                continue
        found[name, head, feature] = (kind, math.log(value))
    return found


def _scalar(name: str, role: str) -> bool:
    """Say whether a tensor is no norm and no bias: a scale or a temperature of its own."""
    return role not in (Role.NORM,) and not name.endswith((".bias", ".weight"))
