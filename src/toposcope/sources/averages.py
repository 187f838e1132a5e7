"""The average of checkpoints, streamed: one block of one tensor in memory at a time."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from toposcope.core.aside import beside
from toposcope.core.errors import InputError, SourceError
from toposcope.core.types import Checkpoint
from toposcope.files.formats.reader import DTYPES, WEIGHT_DTYPES, Reader, TensorInfo
from toposcope.sources.series import Series

WEIGHTS_FILE, ORIGIN_FILE = "model.safetensors", "average.json"
"""The files of an average: the weights, and from which checkpoints they were made."""

BLOCK_BYTES = 1 << 24
"""How many bytes of float64 sums are in memory at once."""

_BESIDE = (".json", ".txt", ".model", ".jinja")
_BESIDE_BYTES = 1 << 26
"""Files beside a checkpoint's weights that are copied (configuration, tokenizer), and the largest of them."""
_NOT_BESIDE = ("trainer_state.json", ORIGIN_FILE)
_INDEX = ".index.json"

_CODES: Mapping[np.dtype, str] = {
    DTYPES[name]: code
    for name, code in {
        "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64",
        "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
    }.items()
}  # fmt: skip
"""How safetensors names the types that are written."""


@dataclass(frozen=True, slots=True)
class Share:
    """A checkpoint and its share of an average; the shares of an average sum to 1."""

    checkpoint: Checkpoint
    share: float


def shares_of(newest_first: Sequence[Checkpoint], decay: float = 1.0) -> list[Share]:
    """Return the shares of checkpoints: equal, or falling by `decay` from each to the one before it.

    >>> at = [Checkpoint("a", step) for step in (30, 20)]
    >>> [(one.checkpoint.step, round(one.share, 3)) for one in shares_of(at, 0.5)]
    [(30, 0.667), (20, 0.333)]
    """
    raw = [decay**age for age in range(len(newest_first))]
    total = math.fsum(raw)
    return [Share(at, weight / total) for at, weight in zip(newest_first, raw, strict=True)]


def write_average(series: Series, shares: Sequence[Share], out: Path) -> int:
    """Write the average of checkpoints into the new folder `out`, and return the bytes of its weights.

    Sums are made in float64 and rounded once, to the stored type. Tensors of whole numbers are those of the
    first checkpoint. The folder is written beside its place and renamed, so it is whole or absent. Small
    files beside the first checkpoint's weights, such as its configuration and tokenizer, are copied.

    Raises
    ------
    InputError
        If there is something at `out`, or the checkpoints do not have the same tensors.
    SourceError
        If a checkpoint cannot be read, or a value of it is not finite.
    """
    if out.exists() or out.is_symlink():
        raise InputError("there is something already", argument="out", value=out, remedy="name a new folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack, beside(out) as aside:
        readers = [stack.enter_context(series.reading(share.checkpoint)) for share in shares]
        infos = _same_tensors(readers, shares)
        aside.mkdir()
        with open(aside / WEIGHTS_FILE, "wb") as file:
            size = _write_header(file, infos)
            for info in infos:
                for block in _averaged(readers, shares, info):
                    file.write(block.tobytes())  # bfloat16 has no buffer
            file.flush()
            os.fsync(file.fileno())
        _copy_beside(Path(series.place(shares[0].checkpoint)), aside)
        origin = [
            {"run": share.checkpoint.run, "step": share.checkpoint.step, "share": share.share}
            for share in shares
        ]
        (aside / ORIGIN_FILE).write_text(
            json.dumps({"average_of": origin}, indent=1) + "\n", encoding="utf-8"
        )
        os.rename(aside, out)
    return size


def _same_tensors(readers: Sequence[Reader], shares: Sequence[Share]) -> list[TensorInfo]:
    """Return the tensors of the first checkpoint; refuse others, and what cannot be averaged."""
    first = readers[0].infos()
    if readers[0].facts().changes:
        raise InputError(
            f"{readers[0].label}: this is an adapter: averages of its two factors are not those of their "
            "products; merge it into the weights first"
        )
    for reader, share in zip(readers, shares, strict=True):
        infos = reader.infos()
        odd = sorted({*infos} ^ {*first})
        odd += [name for name in first if name in infos and infos[name].shape != first[name].shape]
        if odd:
            raise InputError(
                f"step {share.checkpoint.step:,} and step {shares[0].checkpoint.step:,} do not have the same "
                f"tensor {odd[0]!r}; choose other checkpoints with fewer of the last, or steps"
            )
    for info in first.values():
        if info.skip or info.dtype not in _CODES:
            why = info.skip or f"its type is {info.dtype}"
            raise SourceError(f"{readers[0].label}: tensor {info.name!r} cannot be averaged: {why}")
    return list(first.values())


def _write_header(file: IO[bytes], infos: Sequence[TensorInfo]) -> int:
    """Write the header of safetensors: a length of 8 bytes, then JSON; return the bytes of the tensors."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    start = 0
    for info in infos:
        stop = start + info.nbytes
        header[info.name] = {
            "dtype": _CODES[info.dtype],
            "shape": list(info.shape),
            "data_offsets": [start, stop],
        }
        start = stop
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the tensors begin at a multiple of 8
    file.write(len(text).to_bytes(8, "little") + text)
    return start


def _averaged(readers: Sequence[Reader], shares: Sequence[Share], info: TensorInfo) -> Iterator[np.ndarray]:
    """Yield the average of one tensor, some rows at a time, in the type of the first checkpoint."""
    if info.dtype not in WEIGHT_DTYPES:
        yield readers[0].read(info.name)
        return
    for rows in _blocks(info):
        total: np.ndarray | None = None
        for reader, share in zip(readers, shares, strict=True):
            part = reader.read(info.name) if rows is None else reader.rows(info.name, *rows)
            values = np.asarray(part).astype(np.float64)
            if not np.isfinite(values).all():
                raise SourceError(
                    f"step {share.checkpoint.step:,}: tensor {info.name!r} is not finite; leave this step out"
                )
            total = share.share * values if total is None else total + share.share * values
        assert total is not None
        yield rounded(total, info.dtype)


def rounded(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return float64 values in a stored type, rounded once to the nearest.

    A value beyond the type's largest becomes infinite, as an average of finite values cannot.
    """
    cast: np.ndarray = values.astype(dtype)
    return cast


def _blocks(info: TensorInfo) -> Iterator[tuple[int, int] | None]:
    if not info.shape or not info.size:
        yield None
        return
    count = info.shape[0]
    stride = max(1, BLOCK_BYTES // (8 * (info.size // count)))
    for start in range(0, count, stride):
        yield start, min(start + stride, count)


def _copy_beside(place: Path, aside: Path) -> None:
    """Copy the small files beside the weights of a local model folder."""
    if not place.is_dir():
        return
    for file in sorted(place.iterdir()):
        wanted = file.suffix in _BESIDE and not file.name.endswith(_INDEX) and file.name not in _NOT_BESIDE
        if wanted and file.is_file() and not file.is_symlink() and file.stat().st_size <= _BESIDE_BYTES:
            shutil.copyfile(file, aside / file.name)
