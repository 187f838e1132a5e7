"""Slow growth, fading and stalls, compared with references that the change itself does not move."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

LAGS = (4, 8, 16)
"""Checkpoints over which growth is summed up; what grows too slowly to show over the longest is missed."""

EARLIEST = 4
"""The first checkpoints that are no reference, because training begins with a leap."""

EARLIER = 8
"""The fewest values whose median is a level."""

KEPT = 128
"""The most values whose median is a level; older ones are thinned evenly."""

NEWEST = 3
"""The number of newest values whose median is compared with the level: one value alone is a spike."""

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Change(Generic[K]):
    """A series that left its reference: its logarithm before and now, and how far in shares of its limit."""

    key: K
    before: float
    now: float
    since: int
    size: float


@dataclass
class Growth(Generic[K]):
    """Finds series of norms that grow or fade faster than training makes them.

    Weights that are trained grow as a power of the step, so that log x moves by some log(s / s') between
    steps s' and s. A series is reported when, over the last 4, 8 or 16 checkpoints,

        |x(s) - x(s')| - log(s / s') > limit of its kind.

    Neither the first 4 checkpoints nor the first third of all so far serve as a reference. A series that
    stands still was frozen, so it begins anew. Each series needs memory for 17 values.
    """

    limits: Mapping[Hashable, float]
    rises: frozenset[Hashable] = frozenset()
    """Kinds of series whose fall is not a fault."""
    _past: dict[K, deque[tuple[int, float]]] = field(default_factory=dict)
    _count: dict[K, int] = field(default_factory=dict)
    _origin: dict[K, int] = field(default_factory=dict)

    def update(self, step: int, values: Mapping[K, tuple[Hashable, float]]) -> list[Change[K]]:
        """Take a checkpoint's logarithms, each with its kind; return what left its limit, farthest first."""
        found = []
        for key, (kind, value) in values.items():
            if not math.isfinite(value) or kind not in self.limits:
                continue
            past = self._past.setdefault(key, deque(maxlen=max(LAGS) + 1))
            if past and past[-1][1] == value:
                past.clear()
                self._count[key] = 0
                self._origin[key] = step
            change = self._judge(key, step, value, self.limits[kind])
            if change is not None and (kind not in self.rises or change.now > change.before):
                found.append(change)
            past.append((step, value))
            self._count[key] = self._count.get(key, 0) + 1
        return sorted(found, key=lambda one: -one.size)

    def _judge(self, key: K, step: int, value: float, limit: float) -> Change[K] | None:
        past, count, origin = self._past[key], self._count.get(key, 0), self._origin.get(key, 0)
        best: Change[K] | None = None
        for lag in LAGS:
            if lag > len(past) or count - lag < max(EARLIEST, count // 3):
                continue
            then, before = past[-lag]
            size = (abs(value - before) - math.log((step - origin) / max(then - origin, 1))) / limit
            if size > 1.0 and (best is None or size > best.size):
                best = Change(key, before, value, then, size)
        return best


@dataclass
class Level(Generic[K]):
    """Finds series that leave a level that they should keep, up or down, at once or slowly.

    The median of the newest three values is compared with that of all earlier ones without the first two,
    thinned to 128. Slow growth does not move that median until it has lasted for half of the run.
    """

    up: float
    down: float
    _past: dict[K, list[float]] = field(default_factory=dict)
    _stride: dict[K, int] = field(default_factory=dict)
    _seen: dict[K, int] = field(default_factory=dict)
    _newest: dict[K, deque[tuple[int, float]]] = field(default_factory=dict)

    def update(self, step: int, values: Iterable[tuple[K, float]]) -> list[Change[K]]:
        """Take a checkpoint's logarithms; return what left its level, the farthest first."""
        found = []
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
            level, now = float(np.median(past)), float(np.median([one for _, one in newest]))
            size = max((now - level) / self.up, (level - now) / self.down)
            if size > 1.0:
                found.append(Change(key, level, now, newest[0][0], size))
        return sorted(found, key=lambda one: -one.size)

    def _keep(self, key: K, value: float) -> None:
        """Add a value to the reference: every one at first, then every second, every fourth."""
        seen = self._seen[key] = self._seen.get(key, 0) + 1
        stride = self._stride.setdefault(key, 1)
        if seen <= 2 or seen % stride:
            return
        past = self._past.setdefault(key, [])
        past.append(value)
        if len(past) > KEPT:
            del past[::2]
            self._stride[key] = 2 * stride
