"""Many short series, one per matrix or head: finds those that have just departed from their own history.

The constants were set on runs 1 to 33 of an earlier trial of planted faults (2026-11-22). docs/watch.md, "How
well it does", has the rates on others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

FEWEST = 6
"""The fewest past moves of a series for a judgement."""

SIBLINGS = 3
"""The common move of a kind is subtracted if the kind has at least this many series."""

FLOOR = 0.1
"""Added in quadrature to every scale: series are logarithms, and a move of 10% deserves no alarm."""

DEGREES = 8.0
"""Degrees of freedom of the Student t law of a healthy series' moves; set again, from 6 to 8, on the tails of
other healthy runs (2026-11-22)."""

KEPT = 64
"""The number of moves of a series that give its scale."""
LEVEL_WINDOW = 4
"""The number of values whose median is the level before the newest."""
_PRIOR = 8.0
"""The weight, in moves, of the typical scale of all series in the scale of one series."""

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Move(Generic[K]):
    """How far one series moved beyond its own history.

    `before` is the median of its last 4 values and `now` the newest. `size` is the difference without the
    common move of its kind at this checkpoint, in standard deviations of its past moves.
    """

    key: K
    before: float
    now: float
    size: float


@dataclass(frozen=True, slots=True)
class Judged(Generic[K]):
    """All moves at one checkpoint, largest first, and the corrected p-value of the largest."""

    moves: tuple[Move[K], ...]
    p: float


class Panel(Generic[K]):
    """Judges the values of many series, one checkpoint at a time.

    The move of a series is x - median of its last 4 values. The common move of its kind (the median move, if
    there are at least 3 series) is subtracted, because a falling learning rate moves all of them. The rest is
    divided by the series' own scale: the root mean square of its past 64 moves, shrunk towards the median
    scale of its kind with the weight of 8 observations, plus 0.1 in quadrature. The tail is a Student t law
    whose degrees of freedom were set on other healthy runs, because one run is too short to estimate them.
    The p-value of the largest move is corrected over the series by Bonferroni.
    """

    def __init__(self) -> None:
        self._values: dict[K, deque[float]] = {}
        self._moves: dict[K, deque[float]] = {}

    def update(self, values: Mapping[K, tuple[Hashable, float]]) -> Judged[K] | None:
        """Take a checkpoint's values, each with its kind; return the moves, or None if there are too few."""
        raw: dict[K, tuple[Hashable, float, float]] = {}
        for key, (kind, value) in values.items():
            past = self._values.setdefault(key, deque(maxlen=LEVEL_WINDOW))
            if np.isfinite(value) and past:
                middle = float(np.median(past))
                raw[key] = (kind, value - middle, middle)
        common = _common(raw.values())
        moves = {key: move - common[kind] for key, (kind, move, _) in raw.items()}
        judged = self._judge(moves, {key: middle for key, (_, _, middle) in raw.items()}, values)
        for key, move in moves.items():
            self._moves.setdefault(key, deque(maxlen=KEPT)).append(move)
        for key, (_, value) in values.items():
            if np.isfinite(value):
                self._values[key].append(value)
        return judged

    def forget(self, key: K) -> None:
        """Let the history of a series begin anew."""
        self._values.pop(key, None)
        self._moves.pop(key, None)

    def _judge(
        self,
        moves: Mapping[K, float],
        middles: Mapping[K, float],
        values: Mapping[K, tuple[Hashable, float]],
    ) -> Judged[K] | None:
        past = {key: np.array(self._moves.get(key, ())) for key in moves}
        squares = {
            key: float(np.mean(values_of_key**2))
            for key, values_of_key in past.items()
            if len(values_of_key) >= 2
        }
        by_kind: dict[Hashable, list[float]] = {}
        for key, square in squares.items():
            by_kind.setdefault(values[key][0], []).append(square)
        typical = {kind: float(np.median(sizes_of_kind)) for kind, sizes_of_kind in by_kind.items()}
        sizes: dict[K, float] = {}
        for key, square in squares.items():
            n = len(past[key])
            variance = (n * square + _PRIOR * typical[values[key][0]]) / (n + _PRIOR) + FLOOR**2
            if n >= FEWEST:
                sizes[key] = moves[key] / float(np.sqrt(variance))
        if not sizes:
            return None
        from scipy.special import stdtr

        ordered = sorted(sizes, key=lambda key: -abs(sizes[key]))
        judged_moves = tuple(Move(key, middles[key], values[key][1], sizes[key]) for key in ordered)
        return Judged(
            judged_moves, min(1.0, 2.0 * len(sizes) * float(stdtr(DEGREES, -abs(judged_moves[0].size))))
        )


def _common(raw: Iterable[tuple[Hashable, float, float]]) -> dict[Hashable, float]:
    """Return the median move of each kind; 0 if it has too few series."""
    by_kind: dict[Hashable, list[float]] = {}
    for kind, move, _ in raw:
        by_kind.setdefault(kind, []).append(move)
    return {k: float(np.median(m)) if len(m) >= SIBLINGS else 0.0 for k, m in by_kind.items()}
