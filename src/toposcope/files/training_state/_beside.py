"""The training's state in files beside a file of weights: `optim_000100.pt`, and `toposcope train`'s own."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.files.blobs import LocalBlob, LocalFolder
from toposcope.files.formats.safetensors_file import SafetensorsFile
from toposcope.files.formats.torch_file import TorchArchive
from toposcope.files.training_state.flat import flattened, joined
from toposcope.files.training_state.nouns import (
    FlatBuffer,
    OptimizerState,
    ParameterState,
    Rows,
    ScheduleState,
    StateTensor,
    TrainingState,
)
from toposcope.files.training_state.torch_parts import group_of, is_optimizer, optimizer_of

OWN = "toposcope"
CHECKPOINTS = "checkpoints"
STATE, RESUME = "state", "resume.safetensors"
_OWN_FIELDS = ("first_moment", "second_moment", "values")
_OPTIMIZER = re.compile(
    r"opt(?:im(?:izer)?)?(?:[-_.]?states?)?[-_.]?(?:step|iter|epoch)?[-_.=]?(\d+)?(?:[-_.]rank[-_.]?(\d+))?"
    r"\.(?:pt|pth|bin)", re.I,
)  # fmt: skip
_NUMBER = re.compile(r"\d+")
_HASHED = 1 << 24


def optimizers_beside(folder: LocalFolder, name: str) -> tuple[OptimizerState, ...]:
    """Return the optimisers in the files beside a file of weights that have its number, or none as it.

    Those of several ranks are parts of one.
    """
    numbers = _NUMBER.findall(name.rsplit(".", 1)[0])
    number = int(numbers[-1]) if numbers and len(numbers[-1]) < 16 else None
    optimizers: list[OptimizerState] = []
    ranks: dict[int, list[OptimizerState]] = {}
    for other in folder.files():
        parts = _OPTIMIZER.fullmatch(other)
        if parts is None or other == name or (int(parts[1]) if parts[1] else None) != number:
            continue
        archive = TorchArchive(folder.open(other))
        inside = list(optimizers_in(archive, archive.tree))
        if parts[2] is None:
            optimizers += inside
        else:
            ranks.setdefault(int(parts[2]), []).extend(inside)
    if set(ranks) == {0}:
        return tuple(ranks[0])
    several = [flattened(state, f"rank {rank}" + (f", optimiser {place}" if place else ""))
               for rank, states in sorted(ranks.items()) for place, state in enumerate(states)]  # fmt: skip
    return (*optimizers, joined(several)) if several else tuple(optimizers)


def optimizers_in(archive: TorchArchive, tree: Any) -> Iterator[OptimizerState]:
    """Yield the optimiser that a tree is, or those in its list or table."""
    if is_optimizer(tree):
        yield optimizer_of(archive, tree)
        return
    parts = tree.values() if isinstance(tree, Mapping) else tree if isinstance(tree, list | tuple) else ()
    for part in list(parts)[:64]:
        if is_optimizer(part):
            yield optimizer_of(archive, part)


def own_state(blob: LocalBlob, folder: LocalFolder) -> TrainingState | None:
    """Return the state that `toposcope train` keeps of its latest checkpoint; None if the run has none.

    The rate is that of the last update. Random numbers and data follow from the recipe and the step. The
    state of another step than the checkpoint's has that step and no optimiser.

    Raises
    ------
    SourceError
        When it is damaged.
    """
    if STATE not in folder.folders() or RESUME not in folder.sub(STATE).files():
        return None
    file = SafetensorsFile(folder.sub(STATE).open(RESUME))
    infos = file.infos()
    if any(name not in infos or len(infos[name].shape) != 1 for name in _OWN_FIELDS):
        raise SourceError(f"{file.label}: is not a valid state of {OWN}; train again")
    step = _whole(file.metadata.get("step"))
    if step is None or step != _whole(SafetensorsFile(blob).metadata.get("step")):
        return TrainingState(OWN, step=step)
    if _hash(file) != file.metadata.get("sha256"):
        raise SourceError(f"{file.label}: is not a valid state of {OWN}: its content changed after it was "
                          "written; train again")  # fmt: skip
    first, second, values = (_tensor(file, name) for name in _OWN_FIELDS)
    state = ParameterState("all parameters", first, second, float(step), values)
    group = group_of((state.key,), _settings(file.metadata.get("optimizer")))
    buffers = (FlatBuffer(state, order=_order(file.metadata.get("parameters"))),)
    optimizer = OptimizerState({state.key: state}, (group,), True, flat=True, buffers=buffers)
    return TrainingState(OWN, (optimizer,), (ScheduleState(float(step)),), ("recipe",),
                         {"total batches": float(step)}, step)  # fmt: skip


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 16 else None


def _order(text: str | None) -> tuple[str, ...]:
    """Return the parameters' names in the order of the flat values; empty where the state does not say it."""
    try:
        names = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return ()
    return tuple(names) if isinstance(names, list) and all(isinstance(name, str) for name in names) else ()


def _settings(text: str | None) -> Mapping[str, Any]:
    """Return the optimiser's settings by PyTorch's names; none where the state does not say them."""
    try:
        settings = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return settings if isinstance(settings, dict) else {}


def _tensor(file: SafetensorsFile, name: str) -> StateTensor:
    info = file.infos()[name]

    def read(rows: Rows | None) -> np.ndarray:
        return file.read(name) if rows is None else file.rows(name, *rows)

    return StateTensor(info.shape, info.dtype, read)


def _hash(file: SafetensorsFile) -> str:
    """Return the hash that the trainer writes into a state, of its tensors by name."""
    digest = hashlib.sha256()
    for name in sorted(file.infos()):
        count = file.infos()[name].size
        digest.update(name.encode() + b"\0")
        for start in range(0, count, _HASHED):
            digest.update(np.ascontiguousarray(file.rows(name, start, min(start + _HASHED, count))).tobytes())
    return digest.hexdigest()
