"""Which of several weights of one shape a first moment belongs to: the one that moved along it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from toposcope.core.types import Checkpoint
from toposcope.files.formats.reader import Reader
from toposcope.files.training_state.nouns import ParameterState
from toposcope.sources.series import Series
from toposcope.subjects.snapshot import unless_unreadable

if TYPE_CHECKING:

    class Moved(Protocol):
        """What has a parameter's state."""

        @property
        def state(self) -> ParameterState:
            """The state."""


SAMPLE = 1 << 16
"""How many values of each parameter are compared."""
MOST = 512
"""Of more parameters of one shape, none is paired: it takes the square of their number."""
BEYOND = 5.0
"""The cosine of unrelated samples has a standard deviation of 1 / sqrt(n); a pair is taken if its cosine is
larger than 0, and than every other of both, by this many of them."""


def pairs_by_angle(
    reader: Reader, earlier: tuple[Series, Checkpoint] | None, parameters: Mapping[str, Moved],
    candidates: Mapping[str, Sequence[str]],
) -> dict[str, str]:  # fmt: skip
    """Return the weights of those parameters whose first moment points along the change of one alone.

    `earlier` is the previous checkpoint; without it no parameter is paired.
    """
    if earlier is None:
        return {}
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for key, names in candidates.items():
        if parameters[key].state.first is not None:
            alike[tuple(names)].append(key)
    pairs: dict[str, str] = {}
    for names, keys in alike.items():
        if len(names) > MOST or len(keys) > MOST:
            continue
        changes = unless_unreadable(lambda names=names: _changes(reader, earlier, names))  # type: ignore[misc]
        if changes is not None:
            moments = np.stack([_moment(parameters[key].state) for key in keys])
            pairs |= {keys[row]: names[column] for row, column in _pairs(_cosines(moments, changes),
                                                                         moments.shape[1])}  # fmt: skip
    return pairs


def _moment(state: ParameterState) -> np.ndarray:
    assert state.first is not None
    shape = state.first.shape
    return state.first.values((0, _rows(shape)))


def _rows(shape: tuple[int, ...]) -> int:
    return min(shape[0], max(1, SAMPLE // max(1, math.prod(shape[1:]))))


def _changes(reader: Reader, earlier: tuple[Series, Checkpoint], names: Sequence[str]) -> np.ndarray:
    """Return the previous weights minus these, a sample of each."""
    series, at = earlier
    changes = []
    with series.reading(at) as past:
        for name in names:
            rows = _rows(reader.infos()[name].shape)
            before, now = (np.asarray(one.rows(name, 0, rows), np.float64) for one in (past, reader))
            changes.append((before - now).reshape(-1))
    return np.stack(changes)


def _cosines(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        units = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in (left, right)]
        return np.nan_to_num(units[0] @ units[1].T, nan=-1.0)


def _pairs(cosines: np.ndarray, size: int) -> list[tuple[int, int]]:
    """Return the pairs (row, column) whose cosine stands out in both its row and its column.

    >>> _pairs(np.array([[0.8, 0.1], [0.0, 0.7]]), 10_000), _pairs(np.array([[0.8, 0.79]]), 10_000)
    ([(0, 0), (1, 1)], [])
    """
    margin = BEYOND / math.sqrt(size)
    pairs = []
    for row, column in enumerate(cosines.argmax(axis=1)):
        best = cosines[row, column]
        others = np.concatenate([np.delete(cosines[row], column), np.delete(cosines[:, column], row), [0.0]])
        if best > others.max() + margin:
            pairs.append((row, int(column)))
    return pairs
