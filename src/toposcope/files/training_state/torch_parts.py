"""Optimisers and schedules as PyTorch's `state_dict` returns them, from a file that is never unpickled."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.files.formats.reader import WEIGHT_DTYPES
from toposcope.files.formats.torch_file import StoredTensor, TorchArchive, UnreadTensor
from toposcope.files.training_state._factored import COLUMNS, ROWS, from_factors
from toposcope.files.training_state.nouns import (
    OptimizerState,
    ParameterGroup,
    ParameterState,
    Rows,
    ScheduleState,
    Setting,
    StateTensor,
    as_number,
)

FIRST = ("exp_avg", "momentum_buffer")
SECOND = ("exp_avg_sq", "square_avg", "variance")
MASTER = ("master_param", "master_params", "master_weight", "fp32_param", "master")
"""The fields of the first and second moment and of the copy in full precision: of PyTorch's optimisers, and
of those of Apex and Transformer Engine."""
UPDATES = "step"

_FEW = 8
"""The most numbers of one setting: Muon's iteration has three coefficients."""
_MOST = 200_000
"""The most parameters and groups of an optimiser: no model comes near it, a hostile file would."""


def is_optimizer(tree: Any) -> bool:
    """Return whether a tree is what the `state_dict` of an optimiser returns."""
    return isinstance(tree, Mapping) and isinstance(tree.get("state"), Mapping) and "param_groups" in tree


def optimizer_of(archive: TorchArchive, tree: Mapping[Any, Any]) -> OptimizerState:
    """Return the optimiser that a tree holds."""
    table = tree["state"]
    if len(table) > _MOST:
        raise SourceError(f"{archive.label}: has {len(table):,} parameters in its optimiser; fetch it again")
    parameters: dict[str, ParameterState] = {}
    odd = 0
    for key, fields in table.items():
        if not isinstance(key, str | int) or not isinstance(fields, Mapping):
            continue
        parameters[str(key)] = parameter_of(str(key), archive, fields)
        odd += any(isinstance(field, StoredTensor | UnreadTensor) for field in fields.values()) and (
            parameters[str(key)].shape is None
        )
    stated = [group for group in _items(tree["param_groups"]) if isinstance(group, Mapping)]
    groups = tuple(_group(group) for group in stated)
    parameters |= _counted(parameters, groups, [number(archive, group.get(UPDATES)) for group in stated])
    names = _stated_names(tree)
    if names:
        parameters = {
            names.get(key, key): _renamed(parameter, names) for key, parameter in parameters.items()
        }
        groups = tuple(_renamed_group(group, names) for group in groups)
    named = bool(names) or any(not key.isdecimal() for key in parameters)
    return OptimizerState(parameters, groups, named, odd)


def _counted(
    parameters: Mapping[str, ParameterState], groups: Sequence[ParameterGroup], counts: Sequence[float | None]
) -> dict[str, ParameterState]:
    """Return the parameters whose count of updates their group keeps, as Apex's and DeepSpeed's Adam do."""
    counted: dict[str, ParameterState] = {}
    for group, count in zip(groups, counts, strict=True):
        for key in group.parameters if count is not None else ():
            parameter = parameters.get(key)
            if parameter is not None and parameter.updates is None:
                counted[key] = dataclasses.replace(parameter, updates=count)
    return counted


def _stated_names(tree: Mapping[Any, Any]) -> dict[str, str]:
    """Return the names of parameters by their places, where the optimiser was made from named parameters."""
    names: dict[str, str] = {}
    kept = tree.get("names")  # nanotron's
    if isinstance(kept, Mapping):
        names = {
            str(place): name for place, name in kept.items() if isinstance(name, str) and type(place) is int
        }
    for group in _items(tree["param_groups"]):
        if isinstance(group, Mapping):
            places, stated = _items(group.get("params")), _items(group.get("param_names"))
            if len(places) == len(stated):
                names |= {str(place): name for place, name in zip(places, stated, strict=True)
                          if isinstance(name, str) and type(place) is int}  # fmt: skip
    return names


def _renamed(state: ParameterState, names: Mapping[str, str]) -> ParameterState:
    return dataclasses.replace(state, key=names.get(state.key, state.key))


def _renamed_group(group: ParameterGroup, names: Mapping[str, str]) -> ParameterGroup:
    return dataclasses.replace(group, parameters=tuple(names.get(key, key) for key in group.parameters))


def parameter_of(key: str, archive: TorchArchive, fields: Mapping[Any, Any]) -> ParameterState:
    """Return the state of one parameter by the fields that its optimiser keeps."""

    def tensor(names: Sequence[str]) -> StateTensor | None:
        return next((stored for name in names if (stored := tensor_of(archive, fields.get(name)))), None)

    known_fields = {*FIRST, *SECOND, *ROWS, *COLUMNS, *MASTER, UPDATES}
    others = tuple(name for name in fields if isinstance(name, str) and name not in known_fields)
    second = tensor(SECOND) or from_factors(tensor(ROWS), tensor(COLUMNS))
    updates = number(archive, fields.get(UPDATES))
    moments = {*FIRST, *SECOND, *MASTER, UPDATES}
    further = {name: moment for name in fields if isinstance(name, str) and name not in moments
               and (moment := tensor_of(archive, fields[name])) is not None}  # fmt: skip
    return ParameterState(key, tensor(FIRST), second, updates, tensor(MASTER), others, further)


def tensor_of(archive: TorchArchive, value: Any) -> StateTensor | None:
    """Return a stored tensor of floating-point numbers; None for anything else."""
    if not isinstance(value, StoredTensor) or value.dtype not in WEIGHT_DTYPES:
        return None
    stored = value

    def read(rows: Rows | None) -> np.ndarray:
        return archive.read(stored, rows)

    return StateTensor(stored.shape, stored.dtype, read)


def number(archive: TorchArchive, value: Any) -> float | None:
    """Return a number, or that in a tensor of one value; None for anything else."""
    if isinstance(value, StoredTensor) and math.prod(value.shape) == 1:
        value = float(archive.read(value).astype(np.float64).reshape(()))
    return as_number(value)


def _group(fields: Mapping[Any, Any]) -> ParameterGroup:
    keys = tuple(str(master) for master in _items(fields.get("params")) if isinstance(master, str | int))
    return group_of(keys, fields)


def group_of(keys: tuple[str, ...], fields: Mapping[Any, Any]) -> ParameterGroup:
    """Return a group of parameters by the settings that PyTorch's optimisers keep."""

    def setting(name: str) -> float | None:
        return as_number(fields.get(name))

    betas = [beta for entry in _items(fields.get("betas")) if (beta := as_number(entry)) is not None]
    pair = (betas[0], betas[1]) if len(betas) == 2 else None
    settings = {name: plain for name, value in fields.items()
                if isinstance(name, str) and (plain := _plain(value)) is not None}  # fmt: skip
    return ParameterGroup(
        keys, setting("lr"), setting("initial_lr"), pair, setting("eps"), setting("weight_decay"), settings
    )


def _plain(value: Any) -> Setting | None:
    """Return a setting that is a number, a text or a few numbers (NaN for None among them); None for others.

    >>> _plain(True), _plain((None, 0.001)), _plain([1] * 100), _plain({})
    (1.0, (nan, 0.001), None, None)
    """
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float):
        return as_number(value)
    if isinstance(value, str):
        return value
    few = isinstance(value, list | tuple) and len(value) <= _FEW
    if not few or not all(entry is None or isinstance(entry, int | float) for entry in value):
        return None
    numbers = (as_number(entry) for entry in value)
    return tuple(math.nan if entry is None else entry for entry in numbers)


def schedule_of(tree: Any) -> ScheduleState | None:
    """Return the schedule that a tree holds; None if it holds none."""
    if not isinstance(tree, Mapping) or not {"last_epoch", "_step_count"} & set(tree):
        return None
    updates = as_number(tree.get("last_epoch", tree.get("_step_count")))
    rates = tuple(rate for entry in _items(tree.get("_last_lr")) if (rate := as_number(entry)) is not None)
    return ScheduleState(updates, rates)


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) and len(value) <= _MOST else ()
