"""Many short series side by side, one per matrix or head: which of them left its own history just now."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from toposcope.analysis.alarms.residuals import tail_degrees, upper_tail

FEWEST = 6
"""Past values of a series before it is judged."""

FEWEST_RESIDUALS = 40
"""Past residuals of the whole panel before anything is judged."""

KEPT = 64
LEVEL_WINDOW = 4
_PRIOR = 8.0
_POOL = 4096

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Move(Generic[K]):
    """How far one series moved beyond its own history.

    `before` is the median of its last 4 values and `now` the newest; `size` is the difference, less what
    all series of its kind did at this checkpoint, in standard deviations of its past ones.
    """

    key: K
    before: float
    now: float
    size: float


@dataclass(frozen=True, slots=True)
class Judged(Generic[K]):
    """All moves of one checkpoint, the largest first, and the p-value of the largest among them all."""

    moves: tuple[Move[K], ...]
    p: float


class Panel(Generic[K]):
    """Judges the values of many series, one checkpoint at a time.

    A series moves by x - median of its last 4 values. What the series of one kind did in common (their
    median move) is taken out: a learning rate that falls moves all of them. The rest is divided by the
    series' own scale, the root mean square of its past ones shrunk towards the median scale of its kind with
    the weight of 8 observations. The tail comes from all past sizes of the panel (Student t), and the
    p-value of the largest is Bonferroni's over the series. Memory is flat: 64 moves of each series are
    kept, and 4,096 sizes of the panel.
    """

    def __init__(self) -> None:
        self._values: dict[K, deque[float]] = {}
        self._moves: dict[K, deque[float]] = {}
        self._sizes: deque[float] = deque(maxlen=_POOL)

    def update(self, values: Mapping[K, tuple[Hashable, float]]) -> Judged[K] | None:
        """Take a checkpoint's values, each with its kind; return its moves, None while there are too few."""
        raw: dict[K, tuple[Hashable, float, float]] = {}
        for key, (kind, value) in values.items():
            past = self._values.setdefault(key, deque(maxlen=LEVEL_WINDOW))
            if np.isfinite(value) and past:
                middle = float(np.median(past))
                raw[key] = (kind, value - middle, middle)
        common = {
            kind: float(np.median([move for k, move, _ in raw.values() if k == kind]))
            for kind in {kind for kind, _, _ in raw.values()}
        }
        moves = {key: move - common[kind] for key, (kind, move, _) in raw.items()}
        judged = self._judge(moves, {key: middle for key, (_, _, middle) in raw.items()}, values)
        for key, move in moves.items():
            self._moves.setdefault(key, deque(maxlen=KEPT)).append(move)
        for key, (_, value) in values.items():
            if np.isfinite(value):
                self._values[key].append(value)
        return judged

    def _judge(
        self,
        moves: Mapping[K, float],
        middles: Mapping[K, float],
        values: Mapping[K, tuple[Hashable, float]],
    ) -> Judged[K] | None:
        past = {key: np.array(self._moves.get(key, ())) for key in moves}
        squares = {key: float(np.mean(one**2)) for key, one in past.items() if len(one) >= 2}
        by_kind: dict[Hashable, list[float]] = {}
        for key, square in squares.items():
            by_kind.setdefault(values[key][0], []).append(square)
        typical = {kind: float(np.median(found)) for kind, found in by_kind.items()}
        sizes: dict[K, float] = {}
        for key, square in squares.items():
            n = len(past[key])
            variance = (n * square + _PRIOR * typical[values[key][0]]) / (n + _PRIOR)
            if variance > 0 and n >= FEWEST:
                sizes[key] = moves[key] / float(np.sqrt(variance))
        known = np.abs(np.array(self._sizes))
        self._sizes.extend(sizes.values())
        if not sizes or len(known) < FEWEST_RESIDUALS:
            return None
        ordered = sorted(sizes, key=lambda key: -abs(sizes[key]))
        found = tuple(Move(key, middles[key], values[key][1], sizes[key]) for key in ordered)
        return Judged(found, min(1.0, len(sizes) * _two_sided(abs(found[0].size), known)))


def _two_sided(size: float, known: np.ndarray) -> float:
    middle = float(np.median(known))
    if middle <= 0:
        return 1.0
    return 2.0 * upper_tail(size, middle, tail_degrees(known, middle))
