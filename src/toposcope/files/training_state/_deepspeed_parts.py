"""The training's state that DeepSpeed writes: ZeRO stages 1 and 2 by name, stage 3 by count.

Each rank has a flat part of every group's moments and of the weights in full precision. Stages 1 and 2 state
which values of it belong to which parameter; stage 3 cuts each parameter over all ranks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Folder
from toposcope.files.formats.inert import Record
from toposcope.files.formats.torch_file import TorchArchive
from toposcope.files.training_state.flat import FlatPart, assembled, check_ranks, joined
from toposcope.files.training_state.nouns import (
    OptimizerState,
    ParameterGroup,
    ParameterState,
    Rows,
    ScheduleState,
    StateTensor,
    TrainingState,
    as_number,
)
from toposcope.files.training_state.torch_parts import (
    FIRST,
    SECOND,
    UPDATES,
    group_of,
    number,
    schedule_of,
    tensor_of,
)

WRITER = "DeepSpeed"
PART = re.compile(r"(?:bf16_)?zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt")
MODEL = re.compile(r"(?:zero_pp_rank_\d+_)?mp_rank_(\d+)_model_states\.pt")

Shape = tuple[int, ...]


def deepspeed_folder(folder: Folder) -> Folder | None:
    """Return the folder with DeepSpeed's parts: this one, or `global_stepN` in it, which Trainers add."""
    places = [folder, *(folder.sub(name) for name in folder.folders() if name.startswith("global_step"))]
    return next(
        (inner_folder for inner_folder in places if any(map(PART.fullmatch, inner_folder.files()))), None
    )


def deepspeed_state(folder: Folder) -> TrainingState:
    """Return the state of a checkpoint of DeepSpeed's ZeRO optimisers.

    Raises
    ------
    SourceError
        When the part of a rank is missing or damaged.
    """
    names = {(int(match[2]), int(match[1])): name
             for name in folder.files() if (match := PART.fullmatch(name))}  # fmt: skip
    others = [
        name for name in folder.files() if name.endswith("optim_states.pt") and not PART.fullmatch(name)
    ]
    tensors = sorted({tensor for tensor, _ in names})
    model = _model(folder)
    optimizers = []
    for rank in tensors:
        parts = [_Part(TorchArchive(folder.open(names[key]))) for key in sorted(names) if key[0] == rank]
        check_ranks(folder.label, [data for tensor, data in names if tensor == rank], parts[0].ranks,
                    "the optimiser's state")  # fmt: skip
        optimizers.append(_optimizer(parts, model, f" of mp_rank_{rank:02d}" if len(tensors) > 1 else ""))
    schedule = _schedule(model.get("lr_scheduler"))
    step, samples = model.get("global_steps"), model.get("global_samples")
    return TrainingState(
        WRITER, (joined(optimizers),), () if schedule is None else (schedule,),
        tuple(name for name in model if isinstance(name, str) and ("rng" in name or "random_state" in name)),
        {"total samples": count} if (count := as_number(samples)) is not None else {},
        step if type(step) is int else None,
        unread=tuple(f"{WRITER}'s {name}" for name in others),
    )  # fmt: skip


class _Part:
    """The file of one rank: the flat moments and masters of each group, and whose values they are."""

    def __init__(self, archive: TorchArchive) -> None:
        self.archive = archive
        tree = archive.tree
        outer = tree.get("optimizer_state_dict") if isinstance(tree, Mapping) else None
        if not isinstance(outer, Mapping):
            raise SourceError(
                f"{archive.label}: holds no optimiser of DeepSpeed in a form that is read; fetch it again"
            )
        inner = outer.get("base_optimizer_state", outer.get("optimizer_state_dict"))
        self.by_name = "base_optimizer_state" in outer
        base: Mapping[Any, Any] = inner if isinstance(inner, Mapping) else {}
        state = base.get("state")
        self.state: list[Any] = list(state.values()) if isinstance(state, Mapping) else []
        if isinstance(inner, list):  # elastic: the state of each group, without its settings
            self.state = list(inner)
        self.groups = [group for group in _list(base.get("param_groups")) if isinstance(group, Mapping)]
        masters = outer.get("single_partition_of_fp32_groups", outer.get("fp32_flat_groups"))
        self.masters = [tensor_of(archive, master) for master in _list(masters)]
        self.slices = [
            mapping for mapping in _list(outer.get("param_slice_mappings")) if isinstance(mapping, Mapping)
        ]
        self.paddings = _list(outer.get("group_paddings"))
        count = outer.get("partition_count")
        counts = [
            number_of_updates
            for number_of_updates in (_list(count) or [count])
            if type(number_of_updates) is int and 0 < number_of_updates < 100_000
        ]
        self.ranks = max(counts, default=1)

    def fields(self, group: int) -> Mapping[Any, Any]:
        """Return what the optimiser keeps of a group."""
        state_of_group = self.state[group] if group < len(self.state) else {}
        return state_of_group if isinstance(state_of_group, Mapping) else {}

    def tensor(self, group: int, names: Sequence[str]) -> StateTensor | None:
        """Return a flat moment of a group."""
        fields = self.fields(group)
        return next((stored for name in names if (stored := tensor_of(self.archive, fields.get(name)))), None)

    def updates(self, group: int) -> float | None:
        """Return how many updates a group counts: its state says it, or its settings, or both."""
        stated = number(self.archive, self.fields(group).get(UPDATES))
        if stated is None and group < len(self.groups):
            stated = number(self.archive, self.groups[group].get(UPDATES))
        return stated

    def fragments(self, group: int) -> Iterator[tuple[str, int, int]]:
        """Yield name, start and count of the values of each parameter in a group's flat part."""
        for name, record in (self.slices[group] if group < len(self.slices) else {}).items():
            fields = record.state if isinstance(record, Record) else record
            if isinstance(name, str) and isinstance(fields, Mapping):
                start, count = fields.get("start"), fields.get("numel")
                if type(start) is int and type(count) is int and start >= 0 and count >= 0:
                    yield name, start, count


def _optimizer(parts: Sequence[_Part], model: Mapping[str, Any], suffix: str) -> OptimizerState:
    """Return the optimiser of the ranks that share each parameter."""
    named = all(part.by_name and part.slices for part in parts)
    shapes = _shapes(model)
    groups = max((len(part.state) or len(part.masters) for part in parts), default=0)
    parameters: dict[str, ParameterState] = {}
    settings: list[ParameterGroup] = []
    for group in range(groups):
        named_parameters = _by_name(parts, group, shapes) if named else _flat(parts, group)
        named_parameters = {key + suffix: value for key, value in named_parameters.items()}
        parameters |= named_parameters
        stated = parts[0].groups[group] if group < len(parts[0].groups) else {}
        settings.append(group_of(tuple(named_parameters), stated))
    return OptimizerState(parameters, tuple(settings), True, flat=not named or bool(suffix))


def _by_name(parts: Sequence[_Part], group: int, shapes: Mapping[str, Shape]) -> dict[str, ParameterState]:
    """Return the parameters of a group, each put together from the ranks that hold some of it."""
    places: dict[str, list[tuple[int, int, int, int]]] = {}
    reached: dict[str, int] = {}
    for rank, part in enumerate(parts):
        for name, start, count in part.fragments(group):
            places.setdefault(name, []).append((rank, start, count, reached.get(name, 0)))
            reached[name] = reached.get(name, 0) + count
    fields = {
        "first": [part.tensor(group, FIRST) for part in parts],
        "second": [part.tensor(group, SECOND) for part in parts],
        "master": [part.masters[group] if group < len(part.masters) else None for part in parts],
    }
    updates = [part.updates(group) for part in parts]
    table: dict[str, ParameterState] = {}
    for name, where in places.items():
        ranks = [rank for rank, *_ in where]
        shape = shapes.get(name, (reached[name],))
        if math.prod(shape) != reached[name]:
            shape = (reached[name],)
        whole = {field: _whole(shape, flats, where) for field, flats in fields.items()}
        counts = [stated for rank in ranks if (stated := updates[rank]) is not None]
        table[name] = ParameterState(name, whole["first"], whole["second"], min(counts, default=None),
                                     whole["master"])  # fmt: skip
    return table


def _whole(
    shape: Shape, flats: Sequence[StateTensor | None], where: Sequence[tuple[int, int, int, int]]
) -> StateTensor | None:
    pieces = [FlatPart(flat, start, count, at) for rank, start, count, at in where
              if (flat := flats[rank]) is not None]  # fmt: skip
    return assembled(shape, pieces) if len(pieces) == len(where) else None


def _flat(parts: Sequence[_Part], group: int) -> dict[str, ParameterState]:
    """Return the flat part of each rank as a parameter of its own, without its padding at the end."""
    table: dict[str, ParameterState] = {}
    for rank, part in enumerate(parts):
        padding = part.paddings[group] if rank == len(parts) - 1 and group < len(part.paddings) else 0
        padding = padding if type(padding) is int else 0
        master = part.masters[group] if group < len(part.masters) else None
        first, second = part.tensor(group, FIRST), part.tensor(group, SECOND)
        key = f"group {group} of rank {rank}"
        table[key] = ParameterState(
            key, _cut(first, padding), _cut(second, padding), part.updates(group), master
        )
    return table


def _cut(tensor: StateTensor | None, padding: int) -> StateTensor | None:
    if tensor is None or not 0 < padding < tensor.size:
        return tensor
    count, whole = tensor.size - padding, tensor

    def read(rows: Rows | None) -> np.ndarray:
        return whole.read(rows or (0, count))

    return StateTensor((count,), tensor.dtype, read)


def _model(folder: Folder) -> Mapping[str, Any]:
    """Return what the first model file says of the training; empty where it is damaged, or not there."""
    name = next((file for file in folder.files() if MODEL.fullmatch(file)), None)
    if name is None:
        return {}
    try:
        tree = TorchArchive(folder.open(name)).tree
    except SourceError:  # the audit of the weights says so
        return {}
    return tree if isinstance(tree, Mapping) else {}


def _shapes(model: Mapping[str, Any]) -> dict[str, Shape]:
    """Return the parameters' shapes as the model file states them."""
    shapes: dict[str, Shape] = {}
    stated = model.get("param_shapes")
    for group in _list(stated) if not isinstance(stated, Mapping) else [stated]:
        if isinstance(group, Mapping):
            shapes |= {name: tuple(shape) for name, shape in group.items()
                       if isinstance(name, str) and isinstance(shape, list | tuple)
                       and all(type(side) is int and side >= 0 for side in shape)}  # fmt: skip
    return shapes


def _schedule(tree: Any) -> ScheduleState | None:
    """Return the schedule: PyTorch's, or DeepSpeed's own, which count from 0."""
    last = as_number(tree.get("last_batch_iteration")) if isinstance(tree, Mapping) else None
    return ScheduleState(last + 1) if last is not None else schedule_of(tree)


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) and len(value) <= 100_000 else []
