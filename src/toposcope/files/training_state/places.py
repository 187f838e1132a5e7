"""Where each writer keeps a training's state: in the checkpoint's file, its folder, or folders inside it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Folder, LocalBlob, LocalFolder
from toposcope.files.formats.distributed import METADATA
from toposcope.files.formats.orbax import has_orbax
from toposcope.files.formats.registry import OLMO_CORE
from toposcope.files.formats.torch_file import TorchArchive
from toposcope.files.formats.torch_reader import STEPS
from toposcope.files.trainer_state import trainer_state
from toposcope.files.training_state._beside import CHECKPOINTS, optimizers_beside, optimizers_in, own_state
from toposcope.files.training_state._deepspeed_parts import deepspeed_folder, deepspeed_state
from toposcope.files.training_state._distributed_parts import distributed_state
from toposcope.files.training_state._nanotron_parts import is_nanotron_state, nanotron_state
from toposcope.files.training_state._orbax_parts import orbax_state
from toposcope.files.training_state.megatron_parts import is_megatron, megatron_state
from toposcope.files.training_state.nouns import OptimizerState, ScheduleState, TrainingState, as_number
from toposcope.files.training_state.torch_parts import schedule_of

OPTIMIZERS = ("optimizer", "optimizer_state_dict", "optimizer_states", "optimizer_state", "optimizers",
              "optim", "opt_state")  # fmt: skip
"""Under which keys a file of a training keeps its optimiser, or a list or a table of them."""
SCHEDULES = ("lr_schedulers", "lr_scheduler", "scheduler", "scheduler_state_dict",
             "lr_scheduler_state_dict", "schedulers")  # fmt: skip

_OPTIMIZER_FILE = re.compile(r"(optimizer|optim)(_\d+)?\.(pt|bin|pth)")
_SCHEDULE_FILE = re.compile(r"(scheduler|lr_scheduler)(_\d+)?\.(pt|bin|pth)")
_RNG_FILE = re.compile(r"(rng_state|random_states)(_\d+)?\.(pth|pkl|pt)")
_DATA_FILE = re.compile(r"(sampler|dl_state_dict|dataloader|train_dataloader)\w*\.(bin|pt|pth)")
_TORCH_ENDS = (".pt", ".pth", ".ckpt", ".bin", ".th", ".tar")
_FSDP = re.compile(r"optimizer(_\d+)?")
"""The folder with the optimiser's shards that accelerate and transformers write under FSDP."""

_UNREAD = (
    ("DeepSpeed", re.compile(r".*optim_states\.pt")),
    ("Megatron-LM", re.compile(r"distrib_optim\.pt")),
    ("nanotron", re.compile(r"optimizer_config\.json|optimizer_pp-.*\.pt")),
)
"""Writers whose state is recognised by the names of its files; those in another place are not read."""

_READ_ELSEWHERE = re.compile(r"opt(im|imizer)?[\w.-]*\.(pt|pth|bin|safetensors|npz)|opt\d{6}\.pt", re.I)


def training_state(uri: str) -> TrainingState | None:
    """Return what a local checkpoint keeps beside its weights; None where there is no local file.

    Raises
    ------
    SourceError
        When a file of it cannot be read.
    """
    place = Path(uri)
    if place.is_dir():
        return _of_folder(LocalFolder(place))
    return _of_one_file(place) if place.is_file() else None


def _of_one_file(place: Path) -> TrainingState:
    """Return the state inside a file of weights, or in the files beside it."""
    blob = LocalBlob(place)
    if place.parent.name == CHECKPOINTS:
        stated = own_state(blob, LocalFolder(place.parent.parent))
        if stated is not None:
            return stated
    state = _of_file(blob)
    if not state.is_empty:
        return state
    beside = optimizers_beside(LocalFolder(place.parent), place.name)
    return dataclasses.replace(state, optimizers=beside) if beside else state


def _of_folder(folder: LocalFolder) -> TrainingState:
    files, folders = folder.files(), folder.folders()
    if has_orbax(frozenset(files), frozenset(folders)):
        return orbax_state(folder)
    if METADATA in files:
        return distributed_state(folder)
    if OLMO_CORE in folders:
        return distributed_state(folder.sub(OLMO_CORE))
    if is_nanotron_state(folder):
        return nanotron_state(folder)
    if is_megatron(folder):
        return megatron_state(folder)
    parts = deepspeed_folder(folder)
    zero = None if parts is None else deepspeed_state(parts)
    unread = zero.unread if zero is not None else tuple(dict.fromkeys(_foreign(folder)))
    shards = next((name for name in folders if _FSDP.fullmatch(name)
                   and METADATA in folder.sub(name).files()), None)  # fmt: skip
    optimizers, odd = _optimizers(folder, files)
    if shards is not None:
        optimizers = distributed_state(folder.sub(shards)).optimizers
    if zero is not None:
        optimizers = zero.optimizers
    if not optimizers and not unread and not odd:
        main = _training_file(folder)
        if main is not None:
            return main
    state = _trainers(folder)
    step, epoch = state.get("global_step"), state.get("epoch")
    data: dict[str, float | None] = dict.fromkeys(name for name in files if _DATA_FILE.fullmatch(name))
    epoch = as_number(epoch)
    if epoch is not None:
        data["epoch"] = epoch
    around = TrainingState(
        "transformers" if state else "accelerate",
        optimizers,
        tuple(_schedules(folder, files)),
        tuple(name for name in files if _RNG_FILE.fullmatch(name)),
        data,
        step if type(step) is int else None,
        epoch,
        (*unread, *odd),
    )
    return around if zero is None else _with_inner(around, zero)


def _with_inner(around: TrainingState, inner: TrainingState) -> TrainingState:
    """Return what a Trainer keeps around DeepSpeed's files, with what is only in those."""
    return dataclasses.replace(
        around, writer=inner.writer, schedules=around.schedules or inner.schedules,
        rng=around.rng or inner.rng, data={**inner.data, **around.data},
        step=inner.step if around.step is None else around.step,
    )  # fmt: skip


def _trainers(folder: LocalFolder) -> Mapping[str, Any]:
    """Return the state of transformers' trainer; empty where it is damaged, which the audit says."""
    try:
        return trainer_state(folder)
    except SourceError:
        return {}


def _foreign(folder: LocalFolder) -> Iterator[str]:
    """Yield the states of other writers in a folder and in the folders inside it."""
    places: list[Folder] = [folder, *(folder.sub(name) for name in folder.folders()[:64])]
    for place in places:
        for name in place.files():
            for writer, pattern in _UNREAD:
                if pattern.fullmatch(name):
                    yield f"{writer}'s {name}"


def _optimizers(folder: LocalFolder, files: list[str]) -> tuple[tuple[OptimizerState, ...], list[str]]:
    """Return the optimisers of a folder's files, and the names of those that are in another form."""
    states: list[OptimizerState] = []
    odd: list[str] = []
    for name in files:
        if not _OPTIMIZER_FILE.fullmatch(name):
            if _READ_ELSEWHERE.fullmatch(name) and not any(p.fullmatch(name) for _, p in _UNREAD):
                odd.append(name)
            continue
        archive = TorchArchive(folder.open(name))
        inside = list(optimizers_in(archive, archive.tree))
        states += inside
        odd += [] if inside else [name]
    return tuple(states), odd


def _schedules(folder: LocalFolder, files: list[str]) -> Iterator[ScheduleState]:
    for name in files:
        if _SCHEDULE_FILE.fullmatch(name):
            schedule = schedule_of(TorchArchive(folder.open(name)).tree)
            if schedule is not None:
                yield schedule


def _training_file(folder: LocalFolder) -> TrainingState | None:
    """Return the state in the one PyTorch file of a folder that has an optimiser in it; None without one."""
    names = [name for name in folder.files() if name.endswith((".pt", ".ckpt", ".pth"))]
    names = [name for name in names if not _RNG_FILE.fullmatch(name) and not _SCHEDULE_FILE.fullmatch(name)]
    if len(names) != 1:
        return None
    state = _of_file(folder.open(names[0]))
    return None if state.is_empty else state


def _of_file(blob: LocalBlob) -> TrainingState:
    """Return the state inside a file of a training: PyTorch's recipes, nanoGPT's, Lightning's, Composer's."""
    torch = blob.label.lower().endswith(_TORCH_ENDS)
    if not torch or blob.size == 0 or bytes(blob.read(0, 1)) not in (b"P", b"\x80"):
        return TrainingState("a file of weights")
    archive = TorchArchive(blob)
    tree = archive.tree
    if not isinstance(tree, Mapping):
        return TrainingState("a file of weights")
    inner = tree.get("state")
    parts = inner if isinstance(inner, Mapping) and "optimizers" in inner else tree  # Composer's
    present = [name for name in OPTIMIZERS if name in parts]
    optimizers = [optimizer for name in present for optimizer in optimizers_in(archive, parts[name])]
    unread = () if optimizers else tuple(name for name in present if parts[name])
    schedules = [
        schedule_of(schedule) for name in SCHEDULES if name in parts for schedule in _each(parts[name])
    ]
    epoch = as_number(tree.get("epoch"))
    lightning = "pytorch-lightning_version" in tree
    step = next((tree[name] for name in STEPS if type(tree.get(name)) is int), None)
    return TrainingState(
        "Lightning" if lightning else "nanoGPT" if "iter_num" in tree else "PyTorch",
        tuple(optimizers),
        tuple(schedule for schedule in schedules if schedule is not None),
        tuple(name for name in tree if isinstance(name, str) and ("rng" in name or "random" in name)),
        _read_batches(tree),
        step,
        epoch,
        unread,
    )


def _each(part: Any) -> list[Any]:
    if isinstance(part, Mapping) and schedule_of(part) is None:
        return list(part.values())[:64]
    return list(part)[:64] if isinstance(part, list | tuple) else [part]


def _read_batches(tree: Mapping[Any, Any]) -> dict[str, float | None]:
    """Return how many batches Lightning's loop has read since the start."""
    part: Any = tree.get("loops")
    for key in ("fit_loop", "epoch_loop.batch_progress", "total", "ready"):
        part = part.get(key) if isinstance(part, Mapping) else None
    count = as_number(part)
    return {"total batches": count} if count is not None else {}
