"""Parameters that several ranks keep in flat parts: a tensor is put together from the parts that it needs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.files.training_state.nouns import (
    FlatBuffer,
    OptimizerState,
    ParameterGroup,
    ParameterState,
    Rows,
    StateTensor,
)


@dataclass(frozen=True, slots=True)
class FlatPart:
    """Values `start` to `start + count` of a flat tensor, which hold a parameter's values from `at` on."""

    tensor: StateTensor
    start: int
    count: int
    at: int


def assembled(shape: tuple[int, ...], parts: Sequence[FlatPart]) -> StateTensor | None:
    """Return a parameter's tensor from its parts; None if they do not cover it exactly.

    >>> flat = StateTensor((6,), np.dtype("f4"), lambda rows: np.arange(6.0)[slice(*(rows or (0, 6)))])
    >>> whole = assembled((2, 2), [FlatPart(flat, 4, 2, 0), FlatPart(flat, 0, 2, 2)])
    >>> whole.values(), whole.values((1, 2)), assembled((2, 3), [FlatPart(flat, 0, 2, 0)])
    (array([4., 5., 0., 1.]), array([0., 1.]), None)
    """
    ordered = sorted((part for part in parts if part.count), key=lambda part: part.at)
    reached = 0
    for part in ordered:
        inside = part.start >= 0 and part.start + part.count <= part.tensor.size
        if part.at != reached or not inside or len(part.tensor.shape) != 1:
            return None
        reached += part.count
    if reached != math.prod(shape) or not ordered:
        return None
    per_row = math.prod(shape[1:])
    dtype = ordered[0].tensor.dtype

    def read(rows: Rows | None) -> np.ndarray:
        first, last = (0, reached) if rows is None else (rows[0] * per_row, rows[1] * per_row)
        out = np.empty(last - first, dtype)
        for part in ordered:
            start, stop = max(first, part.at), min(last, part.at + part.count)
            if start < stop:
                shift = part.start - part.at
                out[start - first : stop - first] = part.tensor.read((start + shift, stop + shift))
        return out

    return StateTensor(shape, dtype, read)


def check_ranks(label: str, have: Sequence[int], count: int, what: str) -> None:
    """Refuse a state of which the file of a rank is not there.

    Raises
    ------
    SourceError
        With the first rank that is missing.
    """
    for rank in range(count):
        if rank not in have:
            raise SourceError(f"{label}: {what} of rank {rank} of {count:,} is missing; fetch it again")


def laid_out(optimizer: OptimizerState, shapes: Mapping[str, tuple[int, ...]]) -> OptimizerState:
    """Return an optimiser with its buffer's parameters by name, where the weights fill it exactly.

    `shapes` are the weights' in the model's order. With several buffers it is not known which holds which.
    """
    if len(optimizer.buffers) != 1:
        return optimizer
    (buffer,) = optimizer.buffers
    places = _places(buffer, shapes)
    if places is None:
        return optimizer
    named = {name: _parameter(buffer.state, name, shapes[name], at) for name, at in places.items()}
    groups = tuple(dataclasses.replace(group, parameters=tuple(named)) for group in optimizer.groups[:1])
    return OptimizerState(named, groups or (ParameterGroup(tuple(named)),), True, by_order=not buffer.order)


def _places(buffer: FlatBuffer, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int] | None:
    """Return where each weight begins in a buffer; None if the weights do not fill it."""
    places: dict[str, int] = {}
    end = 0
    order = buffer.order or tuple(shapes)
    if not set(order) <= set(shapes):
        return None
    for name in reversed(order) if buffer.reverse else order:
        start = -(-end // buffer.aligned) * buffer.aligned
        places[name] = start
        end = start + math.prod(shapes[name])
    shape = buffer.state.shape
    return places if shape is not None and end == math.prod(shape) else None


def _parameter(state: ParameterState, name: str, shape: tuple[int, ...], at: int) -> ParameterState:
    def part(tensor: StateTensor | None) -> StateTensor | None:
        return None if tensor is None else assembled(shape, [FlatPart(tensor, at, math.prod(shape), 0)])

    return ParameterState(name, part(state.first), part(state.second), state.updates, part(state.master))


def flattened(state: OptimizerState, part: str) -> OptimizerState:
    """Return the optimiser of one of several ranks or parts: its tensors are parts of the weights."""
    names = {key: f"parameter {key} of {part}" for key in state.parameters}
    parameters = {
        names[key]: dataclasses.replace(parameter, key=names[key])
        for key, parameter in state.parameters.items()
    }
    groups = tuple(
        dataclasses.replace(group, parameters=tuple(names.get(key, key) for key in group.parameters))
        for group in state.groups
    )
    return OptimizerState(parameters, groups, True, state.odd, flat=True)


def joined(optimizers: Sequence[OptimizerState], *, flat: bool = True) -> OptimizerState:
    """Return the optimisers of all ranks as one."""
    if len(optimizers) == 1:
        return optimizers[0]
    parameters = {key: parameter for state in optimizers for key, parameter in state.parameters.items()}
    groups = tuple(group for state in optimizers for group in state.groups)
    return OptimizerState(parameters, groups, True, sum(optimizer.odd for optimizer in optimizers), flat=flat)
