"""Slow growth, fading and stalls, relative to references that the change itself does not shift.

`benchmarks.planted` judges the lags and windows on planted values that double or halve within 2, 4 or 8
checkpoints, and on healthy runs (docs/watch.md, "How well it does"). Half and double of each are judged in
docs/evidence/benchmarks-limits.csv (`python -m benchmarks.limits growth`): half of the lags accuses 11 of 240
healthy series instead of 8, double of `SPREADS` finds 192 of 240 faults instead of 210, and half or double
of the others changes at most 2.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import numpy as np

LAGS = (4, 8, 16)
"""Growth is measured over these numbers of checkpoints; slower growth than the longest shows is missed."""

EARLIEST = 4
"""The number of first checkpoints that do not serve as a reference, because training begins with a leap."""

EARLIER = 8
"""The fewest values whose median is a level."""

KEPT = 128
"""The largest number of values for the median of a level; older ones are thinned evenly."""

SPREADS = 3.0
"""How many robust standard deviations of its past a level must be left by: what is usual for an outlier."""

NEWEST = 3
"""The median of this many newest values is compared with the level: a single value is a spike."""

_SMALL = math.log(4.0)
"""What is smaller than usual by this factor may fall: the position embeddings of a model of 3,000 parameters
fell by a third while they were a thirteenth of the median matrix (2026-11-27)."""

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Change(Generic[K]):
    """A series that left its reference: its logarithm before and now, and the distance over its limit."""

    key: K
    before: float
    now: float
    since: int
    size: float


class _Reference(NamedTuple):
    """The logarithm of a series at a step, and what was usual for its like then."""

    step: int
    value: float
    usual: float


@dataclass
class Growth(Generic[K]):
    """Finds series of norms that grow or fade faster than training makes them.

    Trained weights grow as a power of the step, so log x changes by about log(s / s') between steps s' and s.
    A series is reported if, over the last 4, 8 or 16 checkpoints,

        x(s) - max(x(s'), start, usual) - log(s / s') > limit of its kind, or
        x(s') - x(s) > its limit for falls.

    Growth counts from the series' start and from what is usual for its like: a tensor that begins near 0 and
    becomes as large as the others learns. A fall has no allowance, since training does not make it. It counts
    if the series was not small: at least a quarter of what is usual, or all of it for the kinds of `few`
    numbers, which wander. What is close to 0 may cross it.

    Neither the first 4 checkpoints nor the first third of all so far serve as a reference. A series that
    stands still was frozen, so its history restarts. Each series keeps 17 values in memory.
    """

    limits: Mapping[Hashable, float]
    falls: Mapping[Hashable, float] | None = None
    """The limits of falls; None for those of growth. The fall of a kind without one is not a fault."""
    few: frozenset[Hashable] = frozenset()
    """The kinds of tensors of few numbers."""
    _past: dict[K, deque[_Reference]] = field(default_factory=dict)
    _count: dict[K, int] = field(default_factory=dict)
    _origin: dict[K, _Reference] = field(default_factory=dict)

    def update(
        self, step: int, values: Mapping[K, tuple[Hashable, float]], usual: Mapping[K, float] | None = None
    ) -> list[Change[K]]:
        """Take a checkpoint's logarithms, each with its kind; return those beyond their limit.

        `usual` has the logarithm that is usual for the like of a series, where there are such.
        """
        changes = []
        for key, (kind, value) in values.items():
            if not math.isfinite(value) or kind not in self.limits:
                continue
            past = self._past.setdefault(key, deque(maxlen=max(LAGS) + 1))
            now = _Reference(step, value, (usual or {}).get(key, -math.inf))
            if past and past[-1].value == value:
                past.clear()
                self._count[key] = 0
                self._origin[key] = now
            self._origin.setdefault(key, now._replace(step=0))
            change = self._judge(key, now, kind)
            if change is not None:
                changes.append(change)
            past.append(now)
            self._count[key] = self._count.get(key, 0) + 1
        return sorted(changes, key=lambda change: -change.size)

    def _judge(self, key: K, now: _Reference, kind: Hashable) -> Change[K] | None:
        past, count, origin = self._past[key], self._count.get(key, 0), self._origin[key]
        limit, falls = self.limits[kind], (self.limits if self.falls is None else self.falls).get(kind)
        small = 0.0 if kind in self.few else _SMALL
        best: Change[K] | None = None
        for lag in LAGS:
            if lag > len(past) or count - lag < max(EARLIEST, count // 3):
                continue
            then = past[-lag]
            allowed = math.log((now.step - origin.step) / max(then.step - origin.step, 1))
            size = (now.value - max(then.value, origin.value, then.usual) - allowed) / limit
            if falls is not None and then.value >= then.usual - small:
                size = max(size, (then.value - now.value) / falls)
            if size > 1.0 and (best is None or size > best.size):
                best = Change(key, then.value, now.value, then.step, size)
        return best


@dataclass
class Level(Generic[K]):
    """Finds series that leave a level that they should keep, up or down, suddenly or slowly.

    The median of the newest three values is compared with that of all earlier ones except the first two,
    thinned to 128. Slow growth does not shift that median until it has lasted for half of the run. A series
    that is restless by itself has to leave its level by three of its own robust standard deviations, too.
    """

    up: float
    down: float
    usual: float = -math.inf
    """Rises count from here: a level below what is usual may rise up to it."""
    _past: dict[K, list[float]] = field(default_factory=dict)
    _stride: dict[K, int] = field(default_factory=dict)
    _seen: dict[K, int] = field(default_factory=dict)
    _newest: dict[K, deque[tuple[int, float]]] = field(default_factory=dict)

    def update(self, step: int, values: Iterable[tuple[K, float]]) -> list[Change[K]]:
        """Take a checkpoint's logarithms; return those that left their level, farthest first."""
        changes = []
        for key, value in values:
            if not math.isfinite(value):
                continue
            newest = self._newest.setdefault(key, deque(maxlen=NEWEST))
            if len(newest) == NEWEST:
                self._keep(key, newest[0][1])
            newest.append((step, value))
            past = self._past.get(key, [])
            if len(past) < EARLIER or len(newest) < NEWEST:
                continue
            level, now = float(np.median(past)), float(np.median([value for _, value in newest]))
            spread = SPREADS * 1.4826 * float(np.median(np.abs(np.array(past) - level)))
            rise, fall = now - max(level, self.usual), level - now
            size = max(rise / max(self.up, spread), fall / max(self.down, spread))
            if size > 1.0:
                changes.append(Change(key, level, now, newest[0][0], size))
        return sorted(changes, key=lambda change: -change.size)

    def _keep(self, key: K, value: float) -> None:
        """Add a value to the reference: every value at first, then every second, then every fourth."""
        seen = self._seen[key] = self._seen.get(key, 0) + 1
        stride = self._stride.setdefault(key, 1)
        if seen <= 2 or seen % stride:
            return
        past = self._past.setdefault(key, [])
        past.append(value)
        if len(past) > KEPT:
            del past[::2]
            self._stride[key] = 2 * stride
