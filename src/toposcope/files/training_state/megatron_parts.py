"""The training's state that Megatron-LM writes: a file for each rank, and its torch_dist checkpoints.

The distributed optimiser's file (`distrib_optim.pt`) has buffers of moments without names: parameters lie in
them in the reverse of the model's order, each from a multiple of 64 on (see `flat_buffers`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Folder
from toposcope.files.formats.inert import Record
from toposcope.files.formats.torch_file import TorchArchive
from toposcope.files.training_state.flat import check_ranks, flattened, joined
from toposcope.files.training_state.nouns import (
    FlatBuffer,
    OptimizerState,
    ParameterState,
    Rows,
    ScheduleState,
    StateTensor,
    TrainingState,
    as_number,
)
from toposcope.files.training_state.torch_parts import (
    UPDATES,
    group_of,
    is_optimizer,
    number,
    optimizer_of,
    tensor_of,
)

WRITER = "Megatron-LM"
OPTIMIZER, MODEL = "distrib_optim.pt", "model_optim_rng.pt"
RANK = re.compile(r"mp_rank_(\d+)(?:_(\d+))?(?:_(\d+))?")
MASTERS = ("fp32_from_fp16_params", "fp32_from_float16_groups", "fp32_from_fp16")
_ALIGNED = 64
"""Each parameter begins at a multiple of so many values (Megatron-LM's `param_and_grad_buffer`)."""


def is_megatron(folder: Folder) -> bool:
    """Return whether a folder has Megatron-LM's files of ranks."""
    return any(RANK.fullmatch(name) and MODEL in folder.sub(name).files() for name in folder.folders())


def megatron_state(folder: Folder) -> TrainingState:
    """Return the state of a checkpoint with a folder for each rank.

    Raises
    ------
    SourceError
        When the file of a rank is missing or damaged.
    """
    ranks = sorted(name for name in folder.folders() if RANK.fullmatch(name))
    tree = TorchArchive(folder.sub(ranks[0]).open(MODEL)).tree
    main: Mapping[Any, Any] = tree if isinstance(tree, Mapping) else {}
    optimizers = [optimizer for rank in ranks for optimizer in _of_rank(folder.sub(rank), len(ranks) > 1)]
    have = [number_ for number_, rank in enumerate(ranks) if OPTIMIZER in folder.sub(rank).files()]
    if have:
        check_ranks(folder.label, have, len(ranks), f"the optimiser's state ({OPTIMIZER})")
    return TrainingState(
        WRITER, (joined(optimizers),) if optimizers else (), tuple(schedule_of(main)),
        ("rng_state",) if main.get("rng_state") else (), samples_of(main.get("args")),
        iteration if type(iteration := main.get("iteration")) is int else None,
    )  # fmt: skip


def _of_rank(folder: Folder, many: bool) -> Iterator[OptimizerState]:
    """Yield the optimiser of one rank, from either file."""
    archive = TorchArchive(folder.open(MODEL))
    tree = archive.tree.get("optimizer") if isinstance(archive.tree, Mapping) else None
    inner = tree.get("optimizer", tree) if isinstance(tree, Mapping) else None
    groups = _groups(inner)
    if OPTIMIZER in folder.files():
        updates = next((num for group in groups if (num := number(archive, group.get(UPDATES))) is not None),
                       None)  # fmt: skip
        buffers = TorchArchive(folder.open(OPTIMIZER))
        yield _buffers(buffers, updates, groups, folder.label.rsplit("/", 1)[-1] if many else "")
    elif isinstance(tree, Mapping) and isinstance(inner, Mapping) and is_optimizer(inner) and inner["state"]:
        state = _with_masters(optimizer_of(archive, inner), archive, tree)
        yield flattened(state, folder.label.rsplit("/", 1)[-1]) if many else state


def _groups(tree: Any) -> list[Mapping[Any, Any]]:
    stated = tree.get("param_groups") if isinstance(tree, Mapping) else None
    return (
        [group for group in stated if isinstance(group, Mapping)] if isinstance(stated, list | tuple) else []
    )


def _with_masters(state: OptimizerState, archive: TorchArchive, tree: Mapping[Any, Any]) -> OptimizerState:
    """Add the weights in full precision, a list for each group."""
    stated = next((tree[name] for name in MASTERS if name in tree), None)
    lists = [master if isinstance(master, list | tuple) else [master] for master in stated or ()]
    keys = [group.parameters for group in state.groups]
    parameters = dict(state.parameters)
    for places, masters in zip(keys, lists, strict=False):
        for key, stored in zip(places, masters, strict=False):
            parameter, master = parameters.get(key), tensor_of(archive, stored)
            if parameter is not None and master is not None:
                parameters[key] = dataclasses.replace(parameter, master=master)
    return dataclasses.replace(state, parameters=parameters)


def _buffers(
    archive: TorchArchive, updates: float | None, groups: Sequence[Mapping[Any, Any]], rank: str
) -> OptimizerState:
    """Return the buffers of the distributed optimiser, each as a parameter of its own."""
    buffers: dict[str, FlatBuffer] = {}
    tree = archive.tree
    for place, fields in _dtypes(tree):
        count = fields.get("numel_unpadded")
        moments = [_whole(archive, fields.get(name), count) for name in ("exp_avg", "exp_avg_sq", "param")]
        if moments[0] is None and moments[1] is None:
            raise SourceError(
                f"{archive.label}: holds no optimiser of {WRITER} in a form that is read; fetch it again"
            )
        key = f"buffer {place}" + (f" of {rank}" if rank else "")
        state = ParameterState(key, moments[0], moments[1], updates, moments[2])
        buffers[key] = FlatBuffer(state, reverse=True, aligned=_ALIGNED)
    if not buffers:
        raise SourceError(
            f"{archive.label}: holds no optimiser of {WRITER} in a form that is read; fetch it again"
        )
    settings = group_of(tuple(buffers), groups[0] if groups else {})
    states = {key: buffer.state for key, buffer in buffers.items()}
    return OptimizerState(
        states, (settings,), True, flat=True, buffers=() if rank else tuple(buffers.values())
    )


def _dtypes(tree: Any) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """Yield each buffer's place and fields: `[buffer][dtype]`, or the buckets in it, which are not merged."""
    pending = [(str(key), one) for key, one in tree.items() if type(key) is int] if isinstance(
        tree, Mapping) else []  # fmt: skip
    while pending:
        place, part = pending.pop(0)
        if not isinstance(part, Mapping | list | tuple):
            continue
        if isinstance(part, Mapping) and "exp_avg" in part:
            yield place, part
            continue
        inner = list(part.values()) if isinstance(part, Mapping) else list(part)
        pending += [
            (place if len(inner) == 1 else f"{place}.{at}", one) for at, one in enumerate(inner[:4096])
        ]


def _whole(archive: TorchArchive, stored: Any, count: Any) -> StateTensor | None:
    """Return a buffer without the padding at its end."""
    tensor = tensor_of(archive, stored)
    if tensor is None or len(tensor.shape) != 1 or type(count) is not int or not 0 < count < tensor.size:
        return tensor
    whole = tensor

    def read(rows: Rows | None) -> np.ndarray:
        return whole.read(rows or (0, count))

    return StateTensor((count,), tensor.dtype, read)


def schedule_of(main: Mapping[Any, Any]) -> Iterator[ScheduleState]:
    """Yield the schedule of the rate, which counts samples."""
    for name in ("opt_param_scheduler", "lr_scheduler"):
        tree = main.get(name)
        stated = tree.get("num_steps", tree.get("num_iters")) if isinstance(tree, Mapping) else None
        count = as_number(stated)
        if count is not None:
            yield ScheduleState(count)
            return


def samples_of(args: Any) -> dict[str, float | None]:
    """Return how many samples were read, from the arguments that the file states."""
    fields = args.state if isinstance(args, Record) else args
    count = as_number(fields.get("consumed_train_samples")) if isinstance(fields, Mapping) else None
    return {"total samples": count} if count is not None else {}
