"""The state in Megatron-LM's torch_dist: by name (fully_reshardable), or by count (dp_reshardable)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Folder
from toposcope.files.formats.distributed import DistributedReader
from toposcope.files.formats.reader import WEIGHT_DTYPES
from toposcope.files.formats.torch_file import TorchArchive
from toposcope.files.training_state.megatron_parts import WRITER, samples_of, schedule_of
from toposcope.files.training_state.nouns import (
    OptimizerState,
    ParameterState,
    Rows,
    StateTensor,
    TrainingState,
)
from toposcope.files.training_state.torch_parts import UPDATES, group_of, number

COMMON = "common.pt"
"""The file that the first rank writes: the step, the arguments, and settings of the optimiser."""
NAMED = re.compile(r"optimizer\.state\.(exp_avg_sq|exp_avg|fp32_param|momentum_buffer)\.(.+)")
BUCKET = re.compile(r"optimizer\.distributed\.(.+)\.(exp_avg_sq|exp_avg|param|fp32_param)")
_DEEPEST = 5
"""How deep the settings of a chain of optimisers lie."""


def is_torch_dist(names: Mapping[str, str]) -> bool:
    """Return whether the entries of a distributed checkpoint are those of Megatron-LM."""
    return any(name.startswith("optimizer.distributed.") or NAMED.fullmatch(name) for name in names)


def torch_dist_state(folder: Folder, reader: DistributedReader, names: Mapping[str, str]) -> TrainingState:
    """Return the state of a torch_dist checkpoint by its entries; names map plain names to stored ones."""
    common = _common(folder)
    settings = list(_settings(common))
    archive = TorchArchive(folder.open(COMMON)) if settings else None
    counts = [number(archive, setting.get(UPDATES)) for setting in settings] if archive is not None else []
    updates = next((count for count in counts if count is not None), None)
    table: dict[str, dict[str, StateTensor | None]] = {}
    flat = False
    for name, stored in names.items():
        named, bucket = NAMED.fullmatch(name), BUCKET.fullmatch(name)
        if named is not None:
            table.setdefault(named[2], {})[named[1]] = tensor_in(reader, stored)
        elif bucket is not None:
            flat = True
            table.setdefault(f"buffer {bucket[1]}", {})[bucket[2]] = tensor_in(reader, stored)
    parameters = {key: ParameterState(
        key, fields.get("exp_avg", fields.get("momentum_buffer")), fields.get("exp_avg_sq"), updates,
        fields.get("fp32_param", fields.get("param")),
    ) for key, fields in table.items()}  # fmt: skip
    odd = sum(parameter.shape is None for parameter in parameters.values())
    groups = (group_of(tuple(parameters), settings[0]),) if settings else ()
    iteration = common.get("iteration")
    return TrainingState(
        WRITER, (OptimizerState(parameters, groups, True, odd, flat=flat),) if parameters else (),
        tuple(schedule_of(common)), tuple(name for name in names if "rng" in name.lower()),
        samples_of(common.get("args")), iteration if type(iteration) is int else None,
        unread=() if parameters else (f"{WRITER}'s torch_dist",),
    )  # fmt: skip


def _common(folder: Folder) -> Mapping[Any, Any]:
    """Return what the first rank wrote; empty where it is damaged or not there."""
    if COMMON not in folder.files():
        return {}
    try:
        tree = TorchArchive(folder.open(COMMON)).tree
    except SourceError:
        return {}
    return tree if isinstance(tree, Mapping) else {}


def _settings(common: Mapping[Any, Any]) -> Iterator[Mapping[Any, Any]]:
    """Yield the settings of each group of parameters."""
    pending = [(common.get("optimizer"), 0)]
    while pending:
        part, depth = pending.pop(0)
        if not isinstance(part, Mapping) or depth > _DEEPEST:
            continue
        groups = part.get("param_groups")
        if isinstance(groups, list | tuple):
            yield from (group for group in groups[:256] if isinstance(group, Mapping))
        else:
            pending += [(item, depth + 1) for item in list(part.values())[:256]]


def tensor_in(reader: DistributedReader, name: str) -> StateTensor | None:
    """Return a tensor of a distributed checkpoint; None if there is none of numbers."""
    info = reader.infos().get(name)
    if info is None or info.dtype not in WEIGHT_DTYPES:
        return None

    def read(rows: Rows | None) -> np.ndarray:
        return reader.read(name) if rows is None else reader.rows(name, *rows)

    return StateTensor(info.shape, info.dtype, read)
