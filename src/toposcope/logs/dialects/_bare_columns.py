"""Tables without names: which column is the step and which one the loss, by their numbers."""

from __future__ import annotations

import numpy as np

_FEW = 0.05
"""A column of a setting, such as a learning rate in stages, has at most this share of different values."""
_LEAST_ROWS = 20
"""So many rows say whether a column falls."""
_SURE = 3.0
"""Its last third is lower than its first by so many standard errors."""


def names_of(table: np.ndarray) -> list[str]:
    """Return the names of three or more columns (rows, columns): a step, and the one that may be the loss.

    The first column is the step if it counts, and begins again at most. The loss is the only one that falls,
    where all others rise or are constant, or the only one that is no setting. Empty where neither is so.

    >>> place = np.arange(40.0)
    >>> names_of(np.stack([place, 5 / (place + 1), np.full(40, 0.02)], axis=1))
    ['step', 'loss', 'column 3']
    >>> names_of(np.stack([place, place / 40, 5 / (place + 1)], axis=1))
    ['step', 'column 2', 'loss']
    >>> names_of(np.stack([place, 5 / (place + 1), 4 / (place + 1)], axis=1))
    []
    """
    steps, rest = table[:, 0], table[:, 1:]
    rises = np.diff(steps) > 0
    if (steps != np.floor(steps)).any() or not (rises | (steps[1:] == steps[0])).all():
        return []
    first = rest if rises.all() else rest[: int(rises.argmin()) + 1]
    for part in (rest, first):  # all rows, or those of the first epoch
        falling = [_change(column) > _SURE for column in part.T]
        if sum(falling) == 1 and len(part) >= _LEAST_ROWS and not any(map(_is_unclear, part.T)):
            return _named(falling)
    varying = [len(np.unique(column)) > max(1, _FEW * len(table)) for column in rest.T]
    return _named(varying) if rises.all() and sum(varying) == 1 else []


def _named(is_loss: list[bool]) -> list[str]:
    return ["step", *("loss" if has_loss else f"column {place}" for place, has_loss in enumerate(is_loss, 2))]


def _change(column: np.ndarray) -> float:
    """Return how much lower the last third of a column is than its first, in standard errors."""
    first, _, last = np.array_split(column, 3)
    error = np.sqrt((first.var() + last.var()) / max(len(last), 1))
    return float((first.mean() - last.mean()) / error) if error > 0 else 0.0


def _is_unclear(column: np.ndarray) -> bool:
    """Return whether a column varies, and neither falls nor rises."""
    return len(np.unique(column)) > 1 and abs(_change(column)) <= _SURE
