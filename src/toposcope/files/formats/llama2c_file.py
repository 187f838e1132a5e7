"""llama2.c binaries: a header of integers, then the weights in a fixed order.

There are three forms: without a magic number (float32, called version 0), and with the magic "ak42" version 1
(float32) and version 2 (int8 in groups with a float32 scale each).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Blob
from toposcope.files.formats.reader import DTYPES, Facts, TensorInfo, check_rows, find

MAGIC = b"24ka"
_F32, _I8 = DTYPES["float32"], DTYPES["int8"]


@dataclass(frozen=True, slots=True)
class _Sizes:
    dim: int
    hidden: int
    layers: int
    heads: int
    groups: int
    vocabulary: int
    context: int
    shared: bool

    @property
    def keys(self) -> int:
        return self.dim // self.heads * self.groups


def _sizes(numbers: tuple[int, ...], shared: bool) -> _Sizes | None:
    good = all(0 < number < 2**24 for number in numbers)
    dim, hidden, layers, heads, groups, vocabulary, context = numbers
    sizes = _Sizes(dim, hidden, layers, heads, groups, vocabulary, context, shared) if good else None
    if sizes is None or sizes.dim % sizes.heads or sizes.heads % sizes.groups or sizes.layers > 4096:
        return None
    return sizes


_Part = tuple[str, tuple[int, ...]]


def _per_layer(sizes: _Sizes, name: str, *shape: int) -> Iterator[_Part]:
    for layer in range(sizes.layers):
        yield f"layers.{layer}.{name}.weight", shape


def _matrices(s: _Sizes) -> dict[str, tuple[int, ...]]:
    return {
        "attention.wq": (s.dim, s.dim),
        "attention.wk": (s.keys, s.dim),
        "attention.wv": (s.keys, s.dim),
        "attention.wo": (s.dim, s.dim),
        "feed_forward.w1": (s.hidden, s.dim),
        "feed_forward.w2": (s.dim, s.hidden),
        "feed_forward.w3": (s.hidden, s.dim),
    }


def _order_0(s: _Sizes) -> Iterator[_Part]:
    yield "tok_embeddings.weight", (s.vocabulary, s.dim)
    yield from _per_layer(s, "attention_norm", s.dim)
    for name, shape in _matrices(s).items():
        if name == "feed_forward.w1":
            yield from _per_layer(s, "ffn_norm", s.dim)
        yield from _per_layer(s, name, *shape)
    yield "norm.weight", (s.dim,)
    half = s.dim // s.heads // 2
    yield "freqs_cos", (s.context, half)
    yield "freqs_sin", (s.context, half)
    if not s.shared:
        yield "output.weight", (s.vocabulary, s.dim)


def _order_1(s: _Sizes) -> Iterator[_Part]:
    yield from _per_layer(s, "attention_norm", s.dim)
    yield from _per_layer(s, "ffn_norm", s.dim)
    yield "norm.weight", (s.dim,)
    yield "tok_embeddings.weight", (s.vocabulary, s.dim)
    for name, shape in _matrices(s).items():
        yield from _per_layer(s, name, *shape)
    if not s.shared:
        yield "output.weight", (s.vocabulary, s.dim)


class Llama2cFile:
    """One llama2.c binary."""

    def __init__(self, blob: Blob) -> None:
        self.label = blob.label
        self._blob = blob
        self._group = 0
        header = blob.read(0, min(blob.size, 256)).tobytes()
        if len(header) < 28:
            raise self._bad(f"it has {len(header):,} bytes")
        version, at, sizes = self._header(header)
        if sizes is None:
            raise self._bad("its header's sizes are impossible")
        self._sizes = sizes
        self._places: dict[str, int] = {}
        infos = {}
        for name, shape in _order_0(sizes) if version == 0 else _order_1(sizes):
            info = TensorInfo(name, shape, _F32)
            infos[name], self._places[name] = info, at
            packed = version == 2 and len(shape) == 2
            if packed and info.size % self._group:
                raise self._bad(f"its groups of {self._group} do not divide {name!r}")
            at += info.size + info.size // self._group * 4 if packed else info.nbytes
        if at != blob.size:
            raise self._bad(f"its header needs {at:,} bytes and it has {blob.size}")
        self._infos: Mapping[str, TensorInfo] = infos

    def _bad(self, why: str) -> SourceError:
        return SourceError(
            f"{self.label}: is neither a PyTorch file nor a valid llama2.c binary: {why}; fetch it again"
        )

    def _header(self, header: bytes) -> tuple[int, int, _Sizes | None]:
        if header[:4] != MAGIC:
            *numbers, vocabulary, context = struct.unpack("<7i", header[:28])
            return 0, 28, _sizes((*numbers, abs(vocabulary), context), vocabulary > 0)
        if len(header) < 256:
            raise self._bad("its header is cut off")
        version, *numbers = struct.unpack("<8i", header[4:36])
        shared = header[36] == 1
        if version not in (1, 2):
            raise self._bad(f"version {version} is unknown")
        if version == 2:
            self._group = struct.unpack("<i", header[37:41])[0]
            if self._group <= 0:
                raise self._bad(f"groups of {self._group:,} values")
        return version, 256, _sizes(tuple(numbers), shared)

    def infos(self) -> Mapping[str, TensorInfo]:
        """Return every tensor's name, shape and dtype, in the file's order."""
        return self._infos

    def read(self, name: str) -> np.ndarray:
        """Read one tensor; int8 is dequantised."""
        info = find(self._infos, self.label, name)
        start = self._places[name]
        if not self._group or len(info.shape) != 2:
            return self._blob.read(start, start + info.nbytes).view(_F32).reshape(info.shape)
        count = info.size // self._group
        packed = self._blob.read(start, start + info.size).view(_I8).reshape(count, self._group)
        scales = self._blob.read(start + info.size, start + info.size + 4 * count).view(_F32)
        return (packed * scales[:, None]).astype(np.float32).reshape(info.shape)

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Read rows `start` to `stop` of one tensor."""
        info = find(self._infos, self.label, name)
        check_rows(info, self.label, start, stop)
        if self._group and len(info.shape) == 2:
            return self.read(name)[start:stop]
        stride = info.nbytes // info.shape[0]
        begin = self._places[name]
        data = self._blob.read(begin + start * stride, begin + stop * stride)
        return data.view(_F32).reshape(stop - start, *info.shape[1:])

    def facts(self) -> Facts:
        """Return the model's configuration."""
        s = self._sizes
        config: dict[str, Any] = {
            "dim": s.dim,
            "hidden_dim": s.hidden,
            "n_layers": s.layers,
            "n_heads": s.heads,
            "n_kv_heads": s.groups,
            "vocab_size": s.vocabulary,
            "max_seq_len": s.context,
        }
        return Facts(config=config)
