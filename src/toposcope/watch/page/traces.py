"""The traces of the page in memory: one for every run and measure, with versions."""

from __future__ import annotations

import bisect
import re
import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from toposcope.core.types import Scope
from toposcope.watch.page.decimate import decimate

if TYPE_CHECKING:
    import pandas as pd

LOGGED = ("loss", "heldout_loss", "grad_norm", "learning_rate", "weight_norm", "seconds")
"""Columns of the metrics that become traces."""

HELD, HELD_LOGGED = 1 << 12, 1 << 15
"""The largest number of points that a measured and a logged trace keep."""

_OF_LAYERS = (Scope.MATRIX, Scope.HEAD, Scope.LAYER)
_KEYS = ("run", "probe", "filtration", "scope", "name", "head", "feature")


@dataclass(frozen=True, slots=True)
class Measure:
    """What a trace shows, in any run; `key` is its name in links and requests."""

    probe: str
    filtration: str
    scope: str
    name: str
    feature: str
    head: int = -1

    @property
    def key(self) -> str:
        """The measure as one string."""
        head = "" if self.head < 0 else f"#{self.head}"
        return "/".join((self.probe, self.filtration, self.name + head, self.feature))

    @property
    def map_key(self) -> str:
        """The heat map in which a measure of a matrix, head or layer is a line."""
        return "/".join((self.probe, self.filtration, self.scope, self.feature))


class LiveTrace:
    """Values of one measure in one run by step; every point stores the version in which it came.

    It holds 24 bytes per point (40 with draws) and at most `most` points; beyond them, a quarter or more are
    removed. The last points stay, and the smallest and largest value of every range of steps and log steps.

    >>> trace = LiveTrace(0)
    >>> trace.put(10, 2.0, 1.5, 2.5, 1), trace.put(20, 3.0, 3.0, 3.0, 2), trace.put(10, 2.1, 2.1, 2.1, 3)
    (None, None, None)
    >>> trace.step.tolist(), trace.value.tolist(), trace.low.tolist(), trace.newer(1).tolist()
    ([10, 20], [2.1, 3.0], [2.1, 3.0], [0, 1])
    """

    __slots__ = ("_band", "_most", "_step", "_value", "_version", "id", "latest", "seen")

    def __init__(self, id: int, most: int = HELD) -> None:
        self.id, self._most = id, most
        self.latest = 0
        self.seen = 0
        """The number of points received, including those since removed."""
        self._step, self._version = array("q"), array("q")
        self._value = array("d")
        self._band: tuple[array[float], array[float]] | None = None
        """Smallest and largest draw, once a point has any."""

    def __len__(self) -> int:
        return len(self._step)

    @property
    def thinned(self) -> bool:
        """Whether some of its points were removed."""
        return self.seen > len(self._step)

    def put(self, step: int, value: float, low: float, high: float, version: int) -> None:
        """Add a point, or replace the one at its step."""
        self.latest = version
        if self._band is None and (low < value or high > value):
            self._band = self._value[:], self._value[:]
        at = bisect.bisect_left(self._step, step)
        point = (step, version, value, low, high)
        if at < len(self._step) and self._step[at] == step:
            for column, content in zip(self._columns(), point, strict=False):
                column[at] = content
            return
        for column, content in zip(self._columns(), point, strict=False):
            column.insert(at, content)
        self.seen += 1
        if len(self._step) > self._most:
            self._thin()

    def put_new(self, steps: np.ndarray, values: np.ndarray, version: int) -> bool:
        """Put the points (n,) that are new or have changed; return whether there were any.

        Empty cells are not points. In a thinned trace, a missing step before the last was removed: not new.
        """
        held = np.array(self._step)
        at = np.searchsorted(held, steps)
        there = at < len(held)
        there[there] = held[at[there]] == steps[there]
        other = ~np.isnan(values)
        other[there] &= np.array(self._value)[at[there]] != values[there]
        if self.thinned:
            other &= there | (steps > held[-1])
        for step, value in zip(steps[other].tolist(), values[other].tolist(), strict=True):
            self.put(int(step), value, value, value, version)
        return bool(other.any())

    def newer(self, version: int) -> np.ndarray:
        """Return the indices of the points that came after a version."""
        if self.latest <= version:
            return np.empty(0, dtype=int)
        return np.flatnonzero(np.array(self._version) > version)

    @property
    def step(self) -> np.ndarray:
        """The steps (n,), a copy."""
        return np.array(self._step)

    @property
    def value(self) -> np.ndarray:
        """The values (n,), a copy: means over draws."""
        return np.array(self._value)

    @property
    def low(self) -> np.ndarray:
        """The smallest draw (n,)."""
        return np.array(self._value if self._band is None else self._band[0])

    @property
    def high(self) -> np.ndarray:
        """The largest draw (n,)."""
        return np.array(self._value if self._band is None else self._band[1])

    def _columns(self) -> tuple[array[Any], ...]:
        return (self._step, self._version, self._value, *(self._band or ()))

    def _thin(self) -> None:
        quarter = self._most // 4
        shapes = [decimate(self.step, self.value, most=quarter, log=log) for log in (False, True)]
        selected = np.unique(np.concatenate([*shapes, np.arange(len(self) - quarter, len(self))]))
        for column in self._columns():
            column[:] = array(column.typecode, np.array(column)[selected].tolist())


@dataclass
class Traces:
    """All traces, by measure and run; `lines` holds for each heat map its measures with layer and role."""

    by_measure: dict[str, dict[str, LiveTrace]] = field(default_factory=dict)
    measures: dict[str, Measure] = field(default_factory=dict)
    lines: dict[str, dict[str, tuple[int, str]]] = field(default_factory=dict)
    count: int = 0
    bounded: bool = True
    """Whether long traces are thinned."""

    def trace(self, measure: Measure, run: str) -> LiveTrace:
        """Return the trace of a run; it is created if missing."""
        key = measure.key
        if key not in self.measures:
            self.measures[key] = measure
        runs = self.by_measure.setdefault(key, {})
        if run not in runs:
            most = HELD if measure.probe != "metrics" else HELD_LOGGED
            runs[run] = LiveTrace(self.count, most if self.bounded else sys.maxsize)
            self.count += 1
        return runs[run]

    def take_metrics(self, table: pd.DataFrame, version: int) -> bool:
        """Add rows of the metrics; return whether anything was new or had changed."""
        changed = False
        for run, rows in table.groupby("run", sort=True):
            for column in LOGGED:
                part = rows[["step", column]].dropna(subset=["step"])
                earlier = self.by_measure.get(f"metrics///{column}", {}).get(str(run))
                if part[column].isna().all() and earlier is None:
                    continue
                trace = self.trace(Measure("metrics", "", "model", "", column), str(run))
                changed |= trace.put_new(part["step"].to_numpy(), part[column].to_numpy(float), version)
        return changed

    def take_features(self, table: pd.DataFrame, version: int) -> bool:
        """Add long feature rows; draws become their mean, smallest and largest value."""
        from toposcope.store.draws import counted

        table = counted(table)
        for key, layer, role, steps, values in _grouped(table):
            run, measure = key[0], Measure(key[1], key[2], key[3], key[4], key[6], int(key[5]))
            trace = self.trace(measure, run)
            if measure.scope in _OF_LAYERS and not np.isnan(layer):
                self.lines.setdefault(measure.map_key, {})[measure.key] = (int(layer), role)
            for step, (mean, low, high) in zip(steps.tolist(), values.tolist(), strict=True):
                trace.put(step, mean, low, high, version)
        return len(table) > 0

    def of_map(self, key: str) -> list[tuple[str, int, str]]:
        """Return the measures of a heat map with layer and role, from the first layer up."""
        lines = [(name, layer, role) for name, (layer, role) in self.lines.get(key, {}).items()]
        return sorted(lines, key=lambda line: (line[1], _natural(line[0])))


Group = tuple[tuple[str, ...], float, str, np.ndarray, np.ndarray]


def _grouped(table: pd.DataFrame) -> Iterator[Group]:
    """Yield key, layer, role, steps (n,) and mean, smallest, largest (n, 3) of every trace of long rows."""
    import pandas as pd

    if not len(table):
        return
    columns = {name: table[name].fillna(-1 if name == "head" else "") for name in _KEYS}
    code = np.zeros(len(table), dtype=np.int64)
    for column in columns.values():
        codes, seen = pd.factorize(column)
        code = pd.factorize(code * (len(seen) + 1) + codes)[0]
    step, value = table["step"].to_numpy(np.int64), table["value"].to_numpy(float)
    order = np.lexsort((step, code))
    code, step, value = code[order], step[order], value[order]
    points = np.flatnonzero((np.diff(code, prepend=-1) != 0) | (np.diff(step, prepend=-1) != 0))
    # `over_draws` of rows that count, with the largest draw, too, on the arrays that find the traces
    n = np.diff(points, append=len(code))
    with np.errstate(invalid="ignore"):
        stacked = np.column_stack(
            [
                np.add.reduceat(value, points) / n,
                *(f.reduceat(value, points) for f in (np.minimum, np.maximum)),
            ]
        )
    starts = np.flatnonzero(np.diff(code[points], prepend=-1))
    layers, roles = table["layer"].to_numpy(float), table["role"].fillna("").to_numpy(object)
    held = {name: column.to_numpy(object) for name, column in columns.items()}
    for start, end in zip(starts, [*starts[1:], len(points)], strict=True):
        row = order[points[start]]
        key = tuple(str(int(held[k][row])) if k == "head" else str(held[k][row]) for k in _KEYS)
        yield key, layers[row], str(roles[row]), step[points[start:end]], stacked[start:end]


def _natural(text: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text)]
