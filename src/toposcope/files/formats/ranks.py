"""Checkpoints with a file for each rank of training: copies of the whole, or parts of every tensor."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Blob, Folder
from toposcope.files.formats.foreign import ForeignFormatError
from toposcope.files.formats.reader import Reader
from toposcope.files.formats.sharded import from_shards

_RANK = re.compile(
    r"(?P<front>.*?)[_.-]?(?<![a-z])(?P<word>rank|shard|mp|tp)[_.-]?(?P<rank>\d{1,5})(?P<rest>(?:[^\d].*)?)",
    re.I,
)
_NUMBERED = re.compile(r"(?P<front>consolidated|weights|model)\.(?P<rank>\d{2})(?P<rest>\.\w+)")
"""The files of one checkpoint that Meta's Llama (a part of every tensor) and MLX (some tensors) number."""
_VERL = re.compile(r"model_world_size_\d+_rank_\d+\.pt")
_SAMPLE = 4
"""Tensors whose values are compared to see whether ranks hold copies; parts differ in the first."""

WHOLE = (
    "save the whole state from rank 0: torch.distributed.checkpoint.state_dict.get_model_state_dict(model, "
    "options=StateDictOptions(full_state_dict=True)), or a distributed checkpoint, which is read"
)
MERGED = (
    "merge them with transformers 4: python -m transformers.models.llama.convert_llama_weights_to_hf "
    "--input_dir FOLDER --output_dir OUT"
)


def rank_of(name: str) -> tuple[str, int] | None:
    """Return the rest of a file's name and the rank that it states; None if it states none.

    >>> rank_of("ckpt_000100_rank1.pt"), rank_of("ep0-ba100-rank0.pt"), rank_of("frank1.pt")
    (('ckpt_000100.pt', 1), ('ep0-ba100.pt', 0), None)
    >>> rank_of("ckpt_rank3_step100.pt"), rank_of("consolidated.01.pth")
    (('ckpt_step100.pt', 3), ('consolidated.pth', 1))
    """
    match = _NUMBERED.fullmatch(name) or _RANK.fullmatch(name)
    return (match["front"] + match["rest"], int(match["rank"])) if match else None


def open_rank_files(label: str, readers: Sequence[Reader], remedy: str = WHOLE) -> Reader:
    """Return the first of the files that the ranks of one checkpoint wrote, if all hold the same.

    Raises
    ------
    ForeignFormatError
        When each has its own part of the tensors, or its own tensors.
    """
    first, *others = readers
    if all(_same(first, other) for other in others):
        return first
    parted = all(_names(first) == _names(other) for other in others)
    share = "half" if len(readers) == 2 else f"one of {len(readers):,} parts"
    what = f"each has {share} of every tensor" if parted else "each has some of the tensors"
    raise ForeignFormatError(f"{label}: is one of {len(readers):,} ranks of one checkpoint, {what}; {remedy}")


def _names(reader: Reader) -> set[str]:
    return set(reader.infos())


def _same(first: Reader, other: Reader) -> bool:
    """Return whether two files hold the same tensors, by names, shapes and the values of a few."""
    here, there = first.infos(), other.infos()
    if {name: info.shape for name, info in here.items()} != {
        name: info.shape for name, info in there.items()
    }:
        return False
    readable = [name for name, info in here.items() if not info.skip and info.shape and info.size]
    for name in readable[:_SAMPLE]:
        if first.rows(name, 0, 1).tobytes() != other.rows(name, 0, 1).tobytes():
            return False
    return True


def is_verl(files: frozenset[str], folders: frozenset[str]) -> bool:
    """Return whether a listing is that of verl's FSDP checkpoints of one model."""
    return any(_VERL.fullmatch(name) for name in files)


def open_verl(folder: Folder) -> Reader:
    """Refuse a checkpoint of verl, with the command that merges its ranks.

    Raises
    ------
    ForeignFormatError
        Always: the files hold parts of tensors whose placement only verl's merger reads.
    """
    raise ForeignFormatError(
        f"{folder.label}: holds a part of every tensor for each rank (verl, FSDP); run python -m "
        "verl.model_merger merge --backend fsdp --local_dir FOLDER --target_dir OUT"
    )


def open_ranks_of(folder: Folder, names: Sequence[str], open_one: Callable[[Blob], Reader]) -> Reader:
    """Open the files of one checkpoint, one for each rank, by rank."""
    ordered = sorted(names, key=lambda name: (rank_of(name) or ("", 0))[1])
    readers = [open_one(folder.open(name)) for name in ordered]
    numbered = all(map(_NUMBERED.fullmatch, ordered))
    if numbered and not set.intersection(*map(_names, readers)):
        _check_numbers(folder, ordered)
        opened = dict(zip(ordered, readers, strict=True))
        return from_shards(folder, ordered, lambda blob: opened[blob.label.rsplit("/", 1)[-1]])
    return open_rank_files(readers[0].label, readers, MERGED if numbered else WHOLE)


def _check_numbers(folder: Folder, names: Sequence[str]) -> None:
    """Refuse numbered files of which one is missing; how many there were is not known."""
    for number, name in enumerate(names):
        if (rank_of(name) or ("", 0))[1] != number:
            raise SourceError(f"{folder.label}: the file before {name} is missing; fetch it")
