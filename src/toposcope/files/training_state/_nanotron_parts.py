"""The training's state that nanotron writes: `optimizer/` has a file for each rank, and what they hold."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Folder
from toposcope.files.formats.nanotron import METADATA, parameter_name
from toposcope.files.formats.reader import read_json
from toposcope.files.formats.torch_file import TorchArchive
from toposcope.files.training_state.flat import FlatPart, assembled, check_ranks, joined
from toposcope.files.training_state.nouns import (
    OptimizerState,
    ParameterGroup,
    ParameterState,
    StateTensor,
    TrainingState,
    as_number,
)
from toposcope.files.training_state.torch_parts import (
    is_optimizer,
    optimizer_of,
    schedule_of,
    tensor_of,
)

WRITER = "nanotron"
FOLDER, CONFIG = "optimizer", "optimizer_config.json"
_FILE = re.compile(
    r"optimizer_pp-(\d+)-of-(\d+)(?:_dp-(\d+)-of-(\d+))?_tp-(\d+)-of-(\d+)(?:_exp-(\d+)-of-(\d+))?\.pt"
)

Shape = tuple[int, ...]


def is_nanotron_state(folder: Folder) -> bool:
    """Return whether a folder is a checkpoint of nanotron with an optimiser's state."""
    return METADATA in folder.files() and FOLDER in folder.folders()


def nanotron_state(folder: Folder) -> TrainingState:
    """Return the state of a checkpoint of nanotron.

    Raises
    ------
    SourceError
        When the file of a rank is missing or damaged.
    """
    inner = folder.sub(FOLDER)
    config = read_json(inner.open(CONFIG)) if CONFIG in inner.files() else {}
    files = {tuple(int(part or 0) for part in match.group(1, 5, 7, 3)): match
             for name in inner.files() if (match := _FILE.fullmatch(name))}  # fmt: skip
    stages = {(pp, tp, exp) for pp, tp, exp, _ in files}
    for pp, tp, exp in stages:
        have = [dp for *place, dp in files if tuple(place) == (pp, tp, exp)]
        count = int(next(iter(files.values())).group(4) or 1)
        check_ranks(folder.label, have, count, "the optimiser's state")
    _check_stages(folder, files)
    whole = len({(tp, exp) for _, tp, exp in stages}) == 1
    parts = [_stage(inner, [files[key] for key in sorted(files) if key[:3] == place], config, whole)
             for place in sorted(stages)]  # fmt: skip
    metas = read_json(folder.open(METADATA))
    metas = metas.get("metas") if isinstance(metas, dict) else None
    metas = metas if isinstance(metas, dict) else {}
    step, samples = metas.get("last_train_step"), metas.get("consumed_train_samples")
    schedule = _schedule(folder)
    return TrainingState(
        WRITER, (joined(parts, flat=not whole),) if parts else (), () if schedule is None else (schedule,),
        ("random",) if "random" in folder.folders() and folder.sub("random").files() else (),
        {"total samples": read} if (read := as_number(samples)) is not None else {},
        step if type(step) is int else None,
    )  # fmt: skip


def _check_stages(folder: Folder, files: Mapping[tuple[int, ...], re.Match[str]]) -> None:
    for axis, group, what in ((0, 2, "pipeline stage"), (1, 6, "tensor-parallel part")):
        counts = {int(file.group(group)) for file in files.values()}
        check_ranks(folder.label, [key[axis] for key in files], max(counts, default=0),
                    f"the optimiser's state ({what})")  # fmt: skip


def _schedule(folder: Folder) -> Any:
    if "lr_scheduler" not in folder.folders():
        return None
    inner = folder.sub("lr_scheduler")
    name = next((file for file in inner.files() if file.endswith(".pt")), None)
    return None if name is None else schedule_of(TorchArchive(inner.open(name)).tree)


def _stage(folder: Folder, files: Sequence[re.Match[str]], config: Any, whole: bool) -> OptimizerState:
    """Return the optimiser of one pipeline stage and tensor-parallel rank, from its data-parallel ranks."""
    archives = [TorchArchive(folder.open(file.group(0))) for file in files]
    for archive in archives:
        if not is_optimizer(archive.tree):
            raise SourceError(
                f"{archive.label}: holds no optimiser of {WRITER} in a form that is read; fetch it again"
            )
    states = [optimizer_of(archive, archive.tree) for archive in archives]
    configs = config.get("configs") if isinstance(config, dict) else None
    configs = configs if isinstance(configs, dict) else {}
    suffix = "" if whole else f" of tp-{files[0].group(5)} exp-{files[0].group(7) or 0}"
    shapes, offsets = configs.get("orig_param_shapes"), configs.get("param_name_to_dp_rank_offsets")
    sharded = files[0].group(3) is not None and isinstance(offsets, dict)
    table: dict[str, ParameterState] = {}
    for key in dict.fromkeys(key for state in states for key in state.parameters):
        pairs = [
            (rank, state.parameters[key]) for rank, state in enumerate(states) if key in state.parameters
        ]
        masters = [_master(archives[rank], key) for rank, _ in pairs]
        name = parameter_name(key) + suffix
        first_state = pairs[0][1]
        if not sharded:
            table[name] = ParameterState(
                name,
                first_state.first,
                first_state.second,
                first_state.updates,
                masters[0],
                first_state.others,
            )
            continue
        assert isinstance(offsets, dict)
        spans = [_span(offsets, key, rank) for rank, _ in pairs]
        shape = _shape(shapes, key)
        table[name] = ParameterState(
            name, _whole(shape, [state.first for _, state in pairs], spans),
            _whole(shape, [state.second for _, state in pairs], spans),
            min((state.updates for _, state in pairs if state.updates is not None), default=None),
            next((master for master in masters if master is not None and master.shape == shape), None)
            or _whole(shape, masters, spans), first_state.others,
        )  # fmt: skip
    groups = tuple(_named(group, suffix) for group in states[0].groups)
    return OptimizerState(table, groups, True, sum(state.odd for state in states), flat=not whole)


def _named(group: ParameterGroup, suffix: str) -> ParameterGroup:
    keys = tuple(parameter_name(key) + suffix for key in group.parameters)
    return dataclasses.replace(group, parameters=keys)


def _master(archive: TorchArchive, key: str) -> StateTensor | None:
    """Return the weights in full precision that the accumulator of gradients keeps."""
    kept = archive.tree.get("gradient_accumulator")
    return tensor_of(archive, kept.get(key)) if isinstance(kept, Mapping) else None


def _span(offsets: Mapping[str, Any], key: str, rank: int) -> tuple[int, int]:
    """Return which values of a parameter a rank holds; an impossible span if the file does not say it."""
    ranks = offsets.get(key)
    stated = ranks.get(str(rank)) if isinstance(ranks, dict) else None
    if (
        not isinstance(stated, list)
        or len(stated) != 2
        or not all(str(number).isdecimal() for number in stated)
    ):
        return (-1, 0)
    return int(stated[0]), int(stated[1])


def _shape(shapes: Any, key: str) -> Shape:
    stated = shapes.get(key) if isinstance(shapes, dict) else None
    good = isinstance(stated, list) and all(str(number).isdecimal() for number in stated)
    return tuple(int(number) for number in stated) if good and isinstance(stated, list) else ()


def _whole(
    shape: Shape, tensors: Sequence[StateTensor | None], spans: Sequence[tuple[int, int]]
) -> StateTensor | None:
    """Return a parameter's tensor from the ranks' spans of it."""
    parts = [FlatPart(one, 0, stop - start, start) for one, (start, stop) in zip(tensors, spans, strict=True)
             if one is not None and start >= 0 and math.prod(one.shape) == stop - start]  # fmt: skip
    return assembled(shape, parts) if len(parts) == len(tensors) else None
