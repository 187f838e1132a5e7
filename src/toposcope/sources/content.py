"""Facts about a checkpoint's tensors: names and shapes, number of parameters, hashes, finiteness."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.core.types import Checkpoint, Role, RunRecord
from toposcope.files.formats.reader import WEIGHT_DTYPES, Reader, TensorInfo
from toposcope.sources.matrices import family_for
from toposcope.sources.names import BUFFERS, place

Signature = frozenset[tuple[str, tuple[int, ...]]]

NOT_FINITE = "holds NaN or infinite weights"
"""The note on a tensor that is not finite."""
SPOILT = "failed"
"""The feature in the only row of such a tensor."""

# Entries checked at a time, so that a check for NaN needs no second copy of a large tensor.
_BLOCK = 1 << 18


def signature(infos: Mapping[str, TensorInfo]) -> Signature:
    """Return the names and shapes of a checkpoint."""
    return frozenset((info.name, info.shape) for info in infos.values())


def count_parameters(reader: Reader) -> int:
    """Return the number of distinct parameters, without buffers; a head tied to the embedding counts once."""
    infos = _parameters(reader)
    return sum(info.size for info in infos.values()) - sum(infos[head].size for head in tied_heads(reader))


def tied_heads(reader: Reader) -> list[str]:
    """Return the output heads that hold the values of an embedding: some writers leave them out."""
    infos = _parameters(reader)
    family = family_for(infos)
    roles = {name: place(family, name).role for name in infos}
    embeddings = [infos[name] for name, role in roles.items() if role == Role.EMBEDDING]
    return [
        name
        for name, role in roles.items()
        if role == Role.HEAD and any(_same(reader, infos[name], embedding) for embedding in embeddings)
    ]


def _parameters(reader: Reader) -> dict[str, TensorInfo]:
    return {
        name: info
        for name, info in reader.infos().items()
        if info.dtype in WEIGHT_DTYPES and not BUFFERS.search(name)
    }


def _same(reader: Reader, a: TensorInfo, b: TensorInfo) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype or not a.shape:
        return False
    chunk = max(1, (1 << 22) // max(1, a.nbytes // max(a.shape[0], 1)))
    for start in range(0, a.shape[0], chunk):
        stop = min(start + chunk, a.shape[0])
        if reader.rows(a.name, start, stop).tobytes() != reader.rows(b.name, start, stop).tobytes():
            return False
    return True


def tensor_hash(reader: Reader, info: TensorInfo) -> str:
    """Return the SHA-256 of one tensor's dtype, shape and values."""
    digest = hashlib.sha256(f"{info.dtype}{info.shape}{info.skip}".encode())
    if not info.skip:
        digest.update(np.ascontiguousarray(reader.read(info.name)).view(np.uint8).reshape(-1).data)
    return digest.hexdigest()


def check_names(reader: Reader) -> None:
    """Refuse tensor names that cannot be written to tables, pages or terminals.

    Raises
    ------
    SourceError
        When a name holds half of a surrogate pair.
    """
    for name in reader.infos():
        if not is_text(name):
            raise SourceError(
                f"{reader.label}: the tensor name '{as_text(name):.80}' is not valid text (half of a "
                "surrogate "
                "pair); rename the tensor"
            )


def is_text(name: str) -> bool:
    """Say whether a name can be written as UTF-8.

    >>> is_text("weight"), is_text(chr(0xD800))
    (True, False)
    """
    return name.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in name)


def as_text(name: str) -> str:
    r"""Return a name that UTF-8 can encode: invalid parts are escaped.

    >>> as_text("weight" + chr(0xD800))
    'weight\\ud800'
    """
    return name.encode("utf-8", "backslashreplace").decode()


def described_in_text(run: RunRecord) -> RunRecord:
    """Return a run whose texts can be written to a table.

    Raises
    ------
    SourceError
        When its name (of its folder or file, or from its run.json) is not valid text.
    """
    if not is_text(run.run):
        raise SourceError(
            f"the run name '{as_text(run.run):.80}' is not valid text; rename its folder or file"
        )
    return replace(
        run,
        family=as_text(run.family),
        schedule=as_text(run.schedule),
        corpus=as_text(run.corpus),
        uri=as_text(run.uri),
    )


def check_finite(checkpoint: Checkpoint, name: str, values: np.ndarray) -> None:
    """Refuse weights that are not finite.

    Raises
    ------
    SourceError
        Naming run, step and tensor.
    """
    if not all_finite(values):
        raise SourceError(
            f"run {checkpoint.run!r} step {checkpoint.step:,}: tensor {name!r} {NOT_FINITE}; "
            "the run diverged or the file is damaged: leave this step out"
        )


def all_finite(values: np.ndarray) -> bool:
    """Say whether every value is finite, without a copy of the whole array.

    >>> all_finite(np.array([1.0, np.nan]))
    False
    """
    flat = values.reshape(-1) if values.flags.c_contiguous else values.ravel(order="K")
    if flat.dtype.itemsize == 2 and flat.dtype.kind in "fV":
        # the exponent's bits are all ones exactly for NaN and infinity
        mask = np.uint16(0x7F80) if flat.dtype.name == "bfloat16" else np.uint16(0x7C00)
        bits = flat.view(np.uint16)
        return not any(
            bool(((bits[at : at + _BLOCK] & mask) == mask).any()) for at in range(0, len(bits), _BLOCK)
        )
    if len(flat) <= _BLOCK:
        return bool(np.isfinite(flat).all())
    return all(bool(np.isfinite(flat[at : at + _BLOCK]).all()) for at in range(0, len(flat), _BLOCK))
