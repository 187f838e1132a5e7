"""The files of a checkpoint that another program writes: stamps, kinds, trackers, and incomplete files."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from pathlib import Path

from toposcope.files.blobs import Folder, open_location
from toposcope.files.formats.distributed import METADATA, DistributedReader
from toposcope.files.formats.registry import NOT_WEIGHTS, is_weights_file
from toposcope.sources.cache import file_at

TRACKERS = ("latest_checkpointed_iteration.txt", "latest", "latest.txt")
"""Files beside checkpoints that name the last one saved, of Megatron-LM, DeepSpeed or GPT-NeoX, nanotron."""

_TRACKER_BYTES = 200  # of a file that contains nothing but the latest step
_LAST_NUMBER = re.compile(r"([0-9]{1,40})\D*$")
_NUMBERS = re.compile(r"\d+")
_DEPTH = 16
"""Folders are searched down to this depth: nanotron has one for every part of a name."""

_UNFINISHED = re.compile(r"(^|[-._])(tmp|temp|partial|incomplete|writing)([-._]|$)", re.I)

Stamp = tuple[str, int, int, int]
"""Name, size, modification time in nanoseconds and inode of one file."""


def is_unfinished(name: str) -> bool:
    """Return whether the name of a checkpoint says that it is being written and will be renamed.

    >>> is_unfinished("tmp-checkpoint-10"), is_unfinished("step_10.pt.tmp"), is_unfinished("step-10")
    (True, True, False)
    """
    return _UNFINISHED.search(name) is not None


def weights_alone(files: tuple[Stamp, ...]) -> tuple[Stamp, ...]:
    """Return the files that a checkpoint is read from: those with weights, and its JSON files.

    A log or a folder of samples beside the weights changes all the time, and is not part of the checkpoint.

    >>> [name for name, *_ in weights_alone((("ckpt.pt", 1, 0, 0), ("train.log", 1, 0, 0)))]
    ['ckpt.pt']
    """
    top = tuple(file for file in files if "/" not in file[0])
    if not any(is_weights_file(name) for name, *_ in top):
        return tuple(file for file in files if not Path(file[0]).name.startswith(NOT_WEIGHTS))
    return tuple(file for file in top if is_weights_file(file[0]) or file[0].endswith(".json"))


def changed_at(path: Path, files: tuple[Stamp, ...]) -> float:
    """Return when a file of a checkpoint last appeared or changed on this machine, in seconds.

    A copy cannot reset this time.
    """
    places = [path / name if path.is_dir() else path for name, *_ in files] or [path]
    return max((at for place in places if (at := _ctime(place)) is not None), default=0.0)


def _ctime(path: Path) -> float | None:
    try:
        return path.stat().st_ctime
    except OSError:
        return None


def short_of(path: Path, files: tuple[Stamp, ...]) -> str | None:
    """Return an incomplete file of a distributed checkpoint, if any; None for other formats."""
    sizes = {name: size for name, size, _, _ in files}
    for inner in (Path(name).parent for name in sizes if Path(name).name == METADATA):
        location = open_location(str(path / inner))
        if not isinstance(location, Folder):
            continue
        for name, least in DistributedReader(location, weightless=True).extents().items():
            size = sizes.get((inner / name).as_posix(), 0)
            if size < least:
                return f"{name} has {size:,} of {least:,} bytes"
    return None


def stamps(path: Path) -> tuple[Stamp, ...]:
    """Return the stamps of a file, or of all files under a folder, by name; vanished files are left out."""
    if not path.is_dir():
        return tuple(_stamp(path, path.name))
    stamps_found: list[Stamp] = []
    for folder, folders, files in os.walk(path):
        depth = len(Path(folder).relative_to(path).parts)
        folders[:] = sorted(folders) if depth < _DEPTH else []
        for name in sorted(files):
            full = Path(folder) / name
            stamps_found += _stamp(full, full.relative_to(path).as_posix())
    return tuple(stamps_found)


def _stamp(path: Path, name: str) -> list[Stamp]:
    try:
        status = path.stat()
    except OSError:
        return []
    if not stat.S_ISREG(status.st_mode):
        return []  # a FIFO or a device is not part of a checkpoint, and reading it would block
    if (blob := file_at(path)) != path:
        return _stamp(blob, name)
    return [(name, status.st_size, status.st_mtime_ns, status.st_ino)]


def kinds_of(files: tuple[Stamp, ...]) -> Counter[str]:
    """Count the file names, in lower case, with every number replaced by `#`: step and rank do not matter.

    >>> kinds_of((("rng_state_0.pth", 1, 0, 0), ("model.safetensors", 1, 0, 0), ("rng_state_1.pth", 1, 0, 0)))
    Counter({'rng_state_#.pth': 2, 'model.safetensors': 1})
    """
    return Counter(_NUMBERS.sub("#", name.lower()) for name, _, _, _ in files)


def tracker_step(folder: Path) -> int | None:
    """Return the step that a tracker file in `folder` names; None without a file or a step in it.

    A FIFO or a device of that name is never opened, because reading it would block.
    """
    for name in TRACKERS:
        text = _beginning(folder / name)
        number = _LAST_NUMBER.search(text.strip())
        if number is not None:
            return int(number.group(1))
    return None


def _beginning(path: Path) -> str:
    """Return the first bytes of a regular file as text; empty for anything else."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return ""
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return ""
            return os.read(handle, _TRACKER_BYTES).decode("utf-8")
        finally:
            os.close(handle)
    except (OSError, UnicodeDecodeError):
        return ""
