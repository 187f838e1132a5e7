"""The training's state in PyTorch's distributed checkpoints: torchtitan's, FSDP's, and PyTorch's recipe."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Folder
from toposcope.files.formats.distributed import APP, DistributedReader
from toposcope.files.formats.pickled import PickleData
from toposcope.files.training_state._torch_dist_parts import is_torch_dist, tensor_in, torch_dist_state
from toposcope.files.training_state.nouns import (
    OptimizerState,
    ParameterGroup,
    ParameterState,
    StateTensor,
    TrainingState,
    as_number,
)
from toposcope.files.training_state.torch_parts import (
    FIRST,
    MASTER,
    SECOND,
    UPDATES,
    group_of,
    schedule_of,
)

_OPTIMIZERS = ("optimizer.", "optim.", "optimizers.")
_SETTINGS = (
    "lr", "initial_lr", "betas", "eps", "weight_decay", "params", "amsgrad", "momentum", "dampening",
    "nesterov", "maximize", "ns_steps", "ns_coefficients", "adjust_lr_fn", "beta2_decay", "d",
    "decoupled_weight_decay",
)  # fmt: skip
_COUNTER = re.compile(r"yielded|_idx|index|count|consumed|position|offset|epoch|batch(es)?$|samples", re.I)
_MOST_COUNTS, _DEEPEST = 256, 8
_STEPS = ("train_state.step", "step", "global_step", "iteration")


def distributed_state(folder: Folder) -> TrainingState:
    """Return the training's state of a distributed checkpoint."""
    reader = DistributedReader(folder, weightless=True, of_state=True)
    names = {_plain(name): name for name in (*reader.infos(), *reader.values())}
    if is_torch_dist(names):
        return torch_dist_state(folder, reader, names)
    optimizer = _optimizer(reader, names)
    schedule = schedule_of(_part(reader, names, "lr_scheduler."))
    data = dict.fromkeys((name for name in names if name.startswith(("dataloader", "dataset"))), None)
    rng = tuple(name for name in names if "rng" in name.lower() or "random" in name.lower())
    step = next((value for key in _STEPS if (value := _number(reader, names.get(key))) is not None), None)
    return TrainingState(
        "PyTorch's distributed checkpoint", () if optimizer is None else (optimizer,),
        () if schedule is None else (schedule,), rng, dict(data) | _counts(reader, names),
        None if step is None or not step.is_integer() else int(step),
    )  # fmt: skip


def _plain(name: str) -> str:
    return next((name.removeprefix(prefix) for prefix in APP if name.startswith(prefix)), name)


def _counts(reader: DistributedReader, names: Mapping[str, str]) -> dict[str, float | None]:
    """Return how much data was read: the counters of a data loader, by name."""
    counts: dict[str, float | None] = {}
    for name, stored in names.items():
        if name.startswith(("dataloader.", "dataset.")) and not name.endswith("world_size"):
            count = _number(reader, stored)
            counts |= (
                {name: count}
                if count is not None or stored in reader.infos()
                else (_inner_counts(reader, name, stored) or {name: None})
            )
    return counts


def _inner_counts(reader: DistributedReader, name: str, stored: str) -> dict[str, float | None]:
    """Return the counters in the state of one rank's data loader, which torchtitan pickles once more."""
    try:
        inner = reader.value(stored)
        if isinstance(inner, bytes) and inner[:1] == b"\x80":
            inner = PickleData(inner, reader.label).load()
    except SourceError:  # of a class of its own: that it is there is all that is known
        return {}
    counts: dict[str, float | None] = {}
    pending = [(name, inner, 0)]
    while pending and len(counts) < _MOST_COUNTS:
        at, part, depth = pending.pop()
        if isinstance(part, Mapping) and depth < _DEEPEST:
            pending += [(f"{at}.{key}", inner, depth + 1) for key, inner in list(part.items())[:_MOST_COUNTS]
                        if isinstance(key, str)]  # fmt: skip
        elif type(part) is int and _COUNTER.search(at.rsplit(".", 1)[-1]):
            counts[at] = as_number(part)
    return counts


def _optimizer(reader: DistributedReader, names: Mapping[str, str]) -> OptimizerState | None:
    """Return the optimiser whose entries are named optimizer.state.NAME.FIELD; None without one."""
    table: dict[str, dict[str, str]] = {}
    settings: dict[str, dict[str, Any]] = {}
    for name, stored in names.items():
        head = next((prefix for prefix in _OPTIMIZERS if name.startswith(prefix)), None)
        if head is None:
            continue
        part, _, rest = name.removeprefix(head).partition(".")
        key, _, last = rest.rpartition(".")
        if part == "state" and key:
            table.setdefault(key, {})[last] = stored
        elif part == "param_groups" and key and last in _SETTINGS:
            settings.setdefault(key, {})[last] = reader.value(stored)
    if not table:
        return None
    parameters = {key: _parameter(reader, key, fields) for key, fields in table.items()}
    odd = sum(parameter.shape is None for parameter in parameters.values())
    groups = _groups(settings, tuple(parameters))
    return OptimizerState(parameters, groups, any(not key.isdecimal() for key in parameters), odd)


def _groups(settings: Mapping[str, Mapping[str, Any]], keys: tuple[str, ...]) -> tuple[ParameterGroup, ...]:
    """Return the groups; flattened ones state the settings of every parameter by its name."""
    groups: list[ParameterGroup] = []
    for name, fields in settings.items():
        stated = fields.get("params")
        listed = tuple(str(name) for name in stated) if isinstance(stated, list | tuple) else (name,)
        groups.append(group_of(listed if stated is not None or name in keys else keys, fields))
    return tuple(groups)


def _parameter(reader: DistributedReader, key: str, fields: Mapping[str, str]) -> ParameterState:
    def tensor(names: tuple[str, ...]) -> StateTensor | None:
        stored = next((fields[name] for name in names if name in fields), None)
        return None if stored is None else tensor_in(reader, stored)

    moments = {*FIRST, *SECOND, *MASTER, UPDATES}
    others = tuple(name for name in fields if name not in moments)
    updates = _number(reader, fields.get(UPDATES))
    further = {name: moment for name in others if (moment := tensor_in(reader, fields[name])) is not None}
    return ParameterState(key, tensor(FIRST), tensor(SECOND), updates, tensor(MASTER), others, further)


def _number(reader: DistributedReader, name: str | None) -> float | None:
    """Return the number of an entry, be it a tensor of one value or stored by itself."""
    if name is None:
        return None
    info = reader.infos().get(name)
    if info is not None:
        is_scalar = math.prod(info.shape) == 1
        return float(reader.read(name).astype(np.float64).reshape(-1)[0]) if is_scalar else None
    return as_number(reader.value(name))


def _part(reader: DistributedReader, names: Mapping[str, str], head: str) -> dict[str, Any]:
    """Return the entries of one part that are stored by themselves, by their names in it."""
    table: dict[str, Any] = {}
    for name, stored in names.items():
        if name.startswith(head):
            try:
                table[name.removeprefix(head)] = reader.value(stored)
            except SourceError:  # an entry that PyTorch did not write; the others are read
                continue
    return table
