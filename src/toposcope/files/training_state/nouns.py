"""The state of a training as plain nouns; its tensors are read when they are asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Rows = tuple[int, int]
Setting = float | str | tuple[float, ...]

BLOCK_BYTES = 1 << 22
"""How many bytes of a moment are in memory at once."""


def as_number(value: Any) -> float | None:
    """Return a stated number; None for anything else, and for one that no count or rate can be.

    >>> as_number(3), as_number(True), as_number("3"), as_number(10**400)
    (3.0, None, None, None)
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if isinstance(value, float) or abs(value) < 2**63 else None


@dataclass(frozen=True, slots=True)
class StateTensor:
    """A tensor of an optimiser's state: its shape and type, and a function that reads some of its rows."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    read: Callable[[Rows | None], np.ndarray]

    @property
    def size(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)

    def values(self, rows: Rows | None = None) -> np.ndarray:
        """Return its values, or those of some rows, flat and in float64."""
        return np.asarray(self.read(rows if self.shape else None)).astype(np.float64).reshape(-1)


@dataclass(frozen=True, slots=True)
class ParameterState:
    """What an optimiser keeps of one parameter: its moments, its number of updates, and its master copy.

    `key` is the parameter's name, or its place in the order of the groups. `others` names further fields, and
    `further` has those among them that are tensors of floating-point numbers, such as Adafactor's factors.
    """

    key: str
    first: StateTensor | None = None
    second: StateTensor | None = None
    updates: float | None = None
    master: StateTensor | None = None
    others: tuple[str, ...] = ()
    further: Mapping[str, StateTensor] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The parameter's shape by its moments; None without any."""
        tensor = self.first or self.second or self.master
        return None if tensor is None else tensor.shape


@dataclass(frozen=True, slots=True)
class ParameterGroup:
    """The settings of a group of parameters, and its parameters' keys.

    `settings` has every setting that is a number, a text, or a few numbers, by PyTorch's name; a number of
    bool is 0 or 1.
    """

    parameters: tuple[str, ...]
    rate: float | None = None
    initial_rate: float | None = None
    betas: tuple[float, float] | None = None
    epsilon: float | None = None
    decay: float | None = None
    settings: Mapping[str, Setting] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FlatBuffer:
    """Parameters one after the other without names: their flat moments, and how they lie in them.

    They follow `order`, or the model's order where that is empty, or its reverse; each begins at a multiple
    of `aligned` values.
    """

    state: ParameterState
    reverse: bool = False
    aligned: int = 1
    order: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OptimizerState:
    """One optimiser: the state of each parameter by its key, and the groups.

    `named` says that keys are the parameters' names, not their places in the groups. `odd` counts the
    parameters whose moments are in a form that is not read, such as 8-bit ones. `flat` says that the
    parameters are parts of ranks or buffers: only their number of elements can be held against weights.
    `buffers` are those in which the weights' order gives each its place, and `by_order` says that it did.
    """

    parameters: Mapping[str, ParameterState]
    groups: tuple[ParameterGroup, ...] = ()
    named: bool = False
    odd: int = 0
    flat: bool = False
    buffers: tuple[FlatBuffer, ...] = ()
    by_order: bool = False

    @property
    def elements(self) -> int:
        """How many elements have a moment."""
        return sum(
            math.prod(parameter.shape)
            for parameter in self.parameters.values()
            if parameter.shape is not None
        )

    def group_of(self, key: str) -> ParameterGroup | None:
        """Return the group of a parameter."""
        return next((group for group in self.groups if key in group.parameters), None)

    def betas(self) -> dict[str, tuple[float, float]]:
        """Return Adam's two decay rates of each parameter whose group states them."""
        return {
            key: group.betas for group in self.groups if group.betas is not None for key in group.parameters
        }


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """A schedule of the learning rate: how many updates it counts, and the rates that it set last."""

    updates: float | None
    rates: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainingState:
    """Everything that a checkpoint keeps beside its weights.

    `step` and `epoch` are those that the trainer states. `data` holds counters of the data read so far, by
    name, or None for a position that is stored in a form that is not read. `rng` names the generators whose
    states are there. `unread` names what is there in a form that is not read, with its writer.
    """

    writer: str
    optimizers: tuple[OptimizerState, ...] = ()
    schedules: tuple[ScheduleState, ...] = ()
    rng: tuple[str, ...] = ()
    data: Mapping[str, float | None] = field(default_factory=dict)
    step: int | None = None
    epoch: float | None = None
    unread: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is no optimiser, in any form."""
        return not self.optimizers and not self.unread


def blocks(tensor: StateTensor, rows: int | None = None) -> Iterator[Rows | None]:
    """Yield the rows of a tensor, a few megabytes at a time; with `rows` three stretches of so many at most.

    >>> one = StateTensor((10, 4), np.dtype("f4"), lambda rows: np.zeros((10, 4))[slice(*rows)])
    >>> list(blocks(one)), list(blocks(one, 3))
    ([(0, 10)], [(0, 1), (4, 5), (9, 10)])
    """
    if not tensor.shape:
        yield None
        return
    count = tensor.shape[0]
    per_row = max(1, tensor.size // max(count, 1)) * tensor.dtype.itemsize
    if rows is not None and count > rows:
        part = max(1, rows // 3)
        yield from ((start, start + part) for start in sorted({0, (count - part) // 2, count - part}))
        return
    stride = max(1, BLOCK_BYTES // per_row)
    for start in range(0, count, stride):
        yield start, min(start + stride, count)
