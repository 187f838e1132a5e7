"""Safetensors files: a strict check of the header, then tensors by range.

The format is eight bytes (the header's length, little endian), a JSON header `{name: {dtype, shape,
data_offsets}}` and the data; see https://github.com/huggingface/safetensors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Blob
from toposcope.files.formats.reader import (
    DTYPES,
    MAX_DIMS,
    Facts,
    TensorInfo,
    check_rows,
    check_shape,
    find,
)

MAX_HEADER = 100 * 10**6
"""The format's own limit on the header, in bytes."""

CODES: Mapping[str, str] = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
}


class SafetensorsFile:
    """One safetensors file.

    Raises
    ------
    SourceError
        When the header does not meet the format exactly: a length within the file, known dtypes, and offsets
        that cover the data without gap or overlap and agree with shape and dtype.
    """

    def __init__(self, blob: Blob) -> None:
        self.label = blob.label
        self._blob = blob
        contents = _contents(blob)
        self.metadata, self._start = contents.metadata, contents.start
        self._infos, self._offsets = contents.infos, contents.offsets

    def infos(self) -> Mapping[str, TensorInfo]:
        """Return every tensor's name, shape and dtype, in the file's order."""
        return self._infos

    def read(self, name: str) -> np.ndarray:
        """Read one tensor."""
        info = find(self._infos, self.label, name)
        begin, end = self._offsets[name]
        data = self._blob.read(self._start + begin, self._start + end)
        return data.view(info.dtype).reshape(info.shape)

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Read rows `start` to `stop` of one tensor."""
        info = find(self._infos, self.label, name)
        check_rows(info, self.label, start, stop)
        stride = info.nbytes // info.shape[0] if info.shape[0] else 0
        begin = self._start + self._offsets[name][0]
        data = self._blob.read(begin + start * stride, begin + stop * stride)
        return data.view(info.dtype).reshape(stop - start, *info.shape[1:])

    def facts(self) -> Facts:
        """Return step, tokens and held-out loss if the file's metadata has them."""
        return Facts(
            step=_number(self.metadata, "step", int),
            tokens=_number(self.metadata, "tokens", int),
            heldout_loss=_number(self.metadata, "heldout_loss", float),
        )


@dataclass(frozen=True, slots=True)
class _Contents:
    """What a header says: `start` is the first byte of the data, `offsets` are those of each tensor."""

    metadata: Mapping[str, str]
    start: int
    infos: Mapping[str, TensorInfo]
    offsets: Mapping[str, tuple[int, int]]


_KEPT: dict[tuple[str, str], _Contents] = {}
"""The contents of the files read last, by path and stamp: an audit opens each checkpoint four times."""
_MOST_KEPT = 3
"""So many checkpoints are open at once in an audit; 100,000 tensors take 60 MB each."""


def _contents(blob: Blob) -> _Contents:
    """Return what the header of a file says; of a local file that did not change, only once."""
    stamp = getattr(blob, "stamp", "")
    key = (blob.label, stamp)
    contents = _KEPT.pop(key, None)
    if contents is None:
        header, start = _header(blob)
        metadata = header.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
            raise _bad(blob, "its __metadata__ is not a map of strings")
        contents = _Contents(metadata, start, *_tensors(blob, header, start))
    if stamp:
        _KEPT[key] = contents
        while len(_KEPT) > _MOST_KEPT:
            _KEPT.pop(next(iter(_KEPT)), None)
    return contents


def _number(metadata: Mapping[str, str], key: str, kind: type) -> Any:
    try:
        value = kind(metadata[key])
    except (KeyError, ValueError):
        return None
    return value if kind is float or abs(value) < 2**62 else None  # a store's numbers have 64 bits


def _bad(blob: Blob, why: str) -> SourceError:
    return SourceError(f"{blob.label}: is not a valid safetensors file: {why}; fetch it again")


def _header(blob: Blob) -> tuple[dict[str, Any], int]:
    if blob.size < 8:
        raise _bad(blob, f"it has {blob.size:,} bytes, too few for a header")
    length = int.from_bytes(blob.read(0, 8).tobytes(), "little")
    if length > min(MAX_HEADER, blob.size - 8):
        raise _bad(blob, f"its header claims {length:,} bytes of a file of {blob.size:,}")
    text = blob.read(8, 8 + length).tobytes()
    if not text.startswith(b"{"):
        raise _bad(blob, "its header does not begin with '{'")
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as error:
        raise _bad(blob, f"its header is not valid JSON ({str(error)[:80]})") from error
    return header, 8 + length


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a name occurs twice")
    return table


def _tensors(
    blob: Blob, header: dict[str, Any], start: int
) -> tuple[dict[str, TensorInfo], dict[str, tuple[int, int]]]:
    infos, offsets = {}, {}
    for name, entry in header.items():
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise _bad(blob, f"tensor {name!r:.80} lacks dtype, shape or data_offsets")
        infos[name], offsets[name] = _tensor(blob, name, entry)
    end = 0
    for name, (begin, stop) in sorted(offsets.items(), key=lambda item: item[1]):
        if begin != end:
            raise _bad(blob, f"tensor {name!r:.80} begins at {begin}, not where its neighbour ends ({end})")
        end = stop
    if start + end != blob.size:
        raise _bad(blob, f"its tensors need {start + end:,} bytes and the file has {blob.size:,}")
    return infos, offsets


def _tensor(blob: Blob, name: str, entry: dict[str, Any]) -> tuple[TensorInfo, tuple[int, int]]:
    code = entry["dtype"]
    if not isinstance(code, str) or code not in CODES:
        raise _bad(blob, f"tensor {name!r:.80} has the unknown dtype {code!r:.40}")
    shape = entry["shape"]
    if not isinstance(shape, list) or len(shape) > MAX_DIMS:
        raise _bad(blob, f"tensor {name!r:.80} has no proper shape")
    info = TensorInfo(name, check_shape(blob.label, name, shape), DTYPES[CODES[code]])
    pair = entry["data_offsets"]
    if not isinstance(pair, list) or len(pair) != 2 or not all(type(at) is int and at >= 0 for at in pair):
        raise _bad(blob, f"tensor {name!r:.80} has no proper offsets")
    if pair[1] - pair[0] != info.nbytes:
        raise _bad(
            blob,
            f"tensor {name!r:.80} spans {pair[1] - pair[0]:,} bytes but its shape and dtype need "
            f"{info.nbytes:,}",
        )
    return info, (pair[0], pair[1])
