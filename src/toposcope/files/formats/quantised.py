"""Returns quantised weights as float32 if their scales are stored with them; names and skips others.

| scheme | stored | weight |
| --- | --- | --- |
| float8 | `weight`, `weight_scale` per tensor or row | weight * scale |
| float8 blocks | `weight`, `weight_scale_inv` per block | weight * scale of the block |
| int8 rows | `weight` int8, `weight_scale` per row | weight * scale |
| bitsandbytes int8 | `weight` int8, `SCB` per row | weight * SCB / 127 |
| bitsandbytes 4 bit | `weight`, its `absmax`, `quant_map`, `quant_state` | map[nibble] * absmax |
| GPTQ | `qweight`, `qzeros`, `scales`, `g_idx` | (q - zero - 1) * scale |
| AWQ | `qweight`, `qzeros`, `scales`, columns interleaved | (q - zero) * scale |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.files.formats.reader import (
    DTYPES,
    FLOAT8_DTYPES,
    Facts,
    Reader,
    TensorInfo,
    check_rows,
    check_shape,
    find,
    parse_json,
)

_F32 = DTYPES["float32"]
AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Which nibble of a packed integer holds which of the eight columns."""

Infos = Mapping[str, TensorInfo]


@dataclass(frozen=True, slots=True)
class Scheme:
    """How one quantised weight is stored: the name of its tensor, its parts, and how to read them.

    `plan` returns the shape of the weight, or None if the parts do not belong to this scheme.
    """

    name: str
    weight: str
    parts: tuple[str, ...]
    plan: Callable[[Mapping[str, TensorInfo]], tuple[int, ...] | None]
    read: Callable[[Mapping[str, np.ndarray], tuple[int, ...], Mapping[str, Any]], np.ndarray]


def _scaled_shape(parts: Mapping[str, TensorInfo]) -> tuple[int, ...] | None:
    weight, scale = parts["weight"], next(info for end, info in parts.items() if end != "weight")
    good = len(weight.shape) == 2 and (weight.dtype in FLOAT8_DTYPES or weight.dtype == np.int8)
    return weight.shape if good and scale.size in (1, weight.shape[0]) else None


def _scaled(parts: Mapping[str, np.ndarray], shape: tuple[int, ...], config: Mapping[str, Any]) -> np.ndarray:
    scale = next(values for end, values in parts.items() if end != "weight").astype(np.float32).reshape(-1, 1)
    return parts["weight"].astype(np.float32) * (scale / 127 if "SCB" in parts else scale)


def _block_shape(parts: Mapping[str, TensorInfo]) -> tuple[int, ...] | None:
    weight, scale = parts["weight"], parts["weight_scale_inv"]
    good = len(weight.shape) == len(scale.shape) == 2 and weight.dtype in FLOAT8_DTYPES and scale.size
    return weight.shape if good else None


def _blocks(parts: Mapping[str, np.ndarray], shape: tuple[int, ...], config: Mapping[str, Any]) -> np.ndarray:
    scale = parts["weight_scale_inv"].astype(np.float32)
    size = config.get("weight_block_size")
    is_stated = isinstance(size, list) and len(size) == 2 and all(type(n) is int and n > 0 for n in size)
    height, width = size if is_stated and isinstance(size, list) else (128, 128)
    rows, columns = np.arange(shape[0]) // height, np.arange(shape[1]) // width
    if rows[-1] >= scale.shape[0] or columns[-1] >= scale.shape[1]:
        raise SourceError(
            f"scales of shape {scale.shape} do not cover a weight of shape {shape} in blocks of "
            f"{height} x {width}",
            remedy="fetch the file again",
        )
    return parts["weight"].astype(np.float32) * scale[rows][:, columns]


def _packed_bits(parts: Mapping[str, TensorInfo]) -> int:
    zeros, scales = parts["qzeros"], parts["scales"]
    good = len(zeros.shape) == len(scales.shape) == 2 and zeros.dtype == parts["qweight"].dtype == np.int32
    if not good or not scales.shape[1] or (32 * zeros.shape[1]) % scales.shape[1]:
        return 0
    bits = 32 * zeros.shape[1] // scales.shape[1]
    return bits if bits in (2, 4, 8) and zeros.shape[0] == scales.shape[0] > 0 else 0


def _gptq_shape(parts: Mapping[str, TensorInfo]) -> tuple[int, ...] | None:
    bits, packed = _packed_bits(parts), parts["qweight"].shape
    if not bits or len(packed) != 2 or packed[1] != parts["scales"].shape[1]:
        return None
    n_in = packed[0] * 32 // bits
    return (packed[1], n_in) if n_in and parts["g_idx"].shape == (n_in,) else None


def _unpack(packed: np.ndarray, bits: int, axis: int) -> np.ndarray:
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    words = packed.view(np.uint32)
    mask = np.uint32(2**bits - 1)
    if axis == 0:
        return (
            ((words[:, None, :] >> shifts[None, :, None]) & mask).reshape(-1, words.shape[1]).astype(np.int32)
        )
    return ((words[:, :, None] >> shifts[None, None, :]) & mask).reshape(words.shape[0], -1).astype(np.int32)


def _gptq(parts: Mapping[str, np.ndarray], shape: tuple[int, ...], config: Mapping[str, Any]) -> np.ndarray:
    scales = parts["scales"].astype(np.float32)
    bits = 32 * parts["qzeros"].shape[1] // scales.shape[1]
    offset = 0 if config.get("checkpoint_format") == "gptq_v2" else 1
    zeros = (_unpack(parts["qzeros"], bits, 1) + offset).astype(np.float32)
    group = parts["g_idx"].astype(np.int64)
    if group.min() < 0 or group.max() >= scales.shape[0]:
        raise SourceError(
            f"g_idx names group {group.max()} of {scales.shape[0]}", remedy="fetch the file again"
        )
    weight = (_unpack(parts["qweight"], bits, 0).astype(np.float32) - zeros[group]) * scales[group]
    return np.ascontiguousarray(weight.T)


def _awq_shape(parts: Mapping[str, TensorInfo]) -> tuple[int, ...] | None:
    packed, scales = parts["qweight"].shape, parts["scales"].shape
    if _packed_bits(parts) != 4 or len(packed) != 2 or packed[1] * 8 != scales[1] or packed[0] % scales[0]:
        return None
    return scales[1], packed[0]


def _awq(parts: Mapping[str, np.ndarray], shape: tuple[int, ...], config: Mapping[str, Any]) -> np.ndarray:
    def columns(packed: np.ndarray) -> np.ndarray:
        nibbles = _unpack(packed, 4, 1).reshape(packed.shape[0], -1, 8)
        return nibbles[:, :, AWQ_ORDER].reshape(packed.shape[0], -1).astype(np.float32)

    scales = parts["scales"].astype(np.float32)
    repeat = shape[1] // scales.shape[0]
    weight = columns(parts["qweight"]) - np.repeat(columns(parts["qzeros"]), repeat, axis=0)
    return np.ascontiguousarray((weight * np.repeat(scales, repeat, axis=0)).T)


SCHEMES: tuple[Scheme, ...] = (
    Scheme("float8 or int8", "weight", ("weight", "weight_scale"), _scaled_shape, _scaled),
    Scheme("float8 blocks", "weight", ("weight", "weight_scale_inv"), _block_shape, _blocks),
    Scheme("bitsandbytes int8", "weight", ("weight", "SCB"), _scaled_shape, _scaled),
    Scheme("GPTQ", "weight", ("qweight", "qzeros", "scales", "g_idx"), _gptq_shape, _gptq),
    Scheme("AWQ", "weight", ("qweight", "qzeros", "scales"), _awq_shape, _awq),
)


class QuantisedReader:
    """A reader that returns quantised weights as float32 under the names of the plain model."""

    def __init__(self, inner: Reader, config: Mapping[str, Any]) -> None:
        self.label = inner.label
        self._inner = inner
        self._config = config
        self._plans: dict[str, tuple[Scheme, dict[str, str]]] = {}
        stored = inner.infos()
        used: set[str] = set()
        self._infos: dict[str, TensorInfo] = {}
        for name in stored:
            stem, _, end = name.rpartition(".")
            for scheme in SCHEMES if end in ("weight", "qweight") else ():
                parts = {part: f"{stem}.{part}" if stem else part for part in scheme.parts}
                if (
                    end == scheme.parts[0]
                    and name not in used
                    and all(part in stored for part in parts.values())
                ):
                    shape = scheme.plan({part: stored[full] for part, full in parts.items()})
                    if shape is not None:
                        whole = f"{stem}.{scheme.weight}" if stem else scheme.weight
                        self._plans[whole] = scheme, parts
                        self._infos[whole] = TensorInfo(whole, check_shape(self.label, whole, shape), _F32)
                        used |= set(parts.values())
            if name not in used and name not in self._infos:
                self._infos[name] = _nibbles(self, name, stored) or _left(stored[name])
        for name in used - set(self._plans):
            self._infos.pop(name, None)

    def infos(self) -> Mapping[str, TensorInfo]:
        """Return every tensor as it is read; `skip` says why one cannot be."""
        return self._infos

    def read(self, name: str) -> np.ndarray:
        """Read one tensor, dequantised."""
        info = find(self._infos, self.label, name)
        if name in self._map_parts:
            return self._from_map(info)
        if name not in self._plans:
            return self._inner.read(name)
        scheme, parts = self._plans[name]
        values = {part: self._inner.read(full) for part, full in parts.items()}
        try:
            with np.errstate(all="ignore"):  # hostile scales; the check of matrices reports NaN
                return scheme.read(values, info.shape, self._config)
        except (SourceError, ValueError, IndexError) as error:
            raise SourceError(
                f"{self.label}: {scheme.name} weight {name!r:.80} cannot be dequantised: {error}"
            ) from error

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Read rows `start` to `stop` of one tensor."""
        check_rows(find(self._infos, self.label, name), self.label, start, stop)
        if name in self._plans or name in self._map_parts:
            return self.read(name)[start:stop]
        return self._inner.rows(name, start, stop)

    def facts(self) -> Facts:
        """Return the format's facts."""
        return self._inner.facts()

    @property
    def _map_parts(self) -> dict[str, Any]:
        return self.__dict__.setdefault("_maps", {})

    def _from_map(self, info: TensorInfo) -> np.ndarray:
        size = self._map_parts[info.name]
        packed = self._inner.read(info.name).reshape(-1)
        nibbles = np.stack([packed >> 4, packed & 15], axis=1).reshape(-1)[: info.size]
        table = self._inner.read(f"{info.name}.quant_map").astype(np.float32)
        absmax = self._inner.read(f"{info.name}.absmax").astype(np.float32)
        return (table[nibbles] * np.repeat(absmax, size)[: info.size]).reshape(info.shape)


def _nibbles(reader: QuantisedReader, name: str, stored: Infos) -> TensorInfo | None:
    """Return the weight in bitsandbytes' 4-bit form; if nested, with a reason to skip it."""
    parts = {end: stored.get(f"{name}.{end}") for end in ("absmax", "quant_map")}
    state = next((other for other in stored if other.startswith(f"{name}.quant_state.")), None)
    if stored[name].dtype != np.uint8 or None in parts.values() or state is None:
        return None
    if f"{name}.nested_absmax" in stored:
        return TensorInfo(name, stored[name].shape, stored[name].dtype, "its scales are themselves quantised")
    text = reader._inner.read(state).tobytes().decode("utf-8", "replace")
    content = parse_json(text, f"{reader.label}: {state}")
    content = content if isinstance(content, dict) else {}
    shape = check_shape(reader.label, name, content.get("shape"))
    info, size = TensorInfo(name, shape, _F32), content.get("blocksize")
    table, absmax = parts["quant_map"], parts["absmax"]
    size = size if type(size) is int else 0
    fits = 0 < size <= 2**20 and stored[name].size == (info.size + 1) // 2
    if (
        not fits
        or table is None
        or table.size != 16
        or absmax is None
        or absmax.size != -(-info.size // size)
    ):
        return TensorInfo(
            name, stored[name].shape, stored[name].dtype, "its four-bit parts do not fit together"
        )
    reader._map_parts[name] = size
    return info


def _left(info: TensorInfo) -> TensorInfo:
    if info.skip or len(info.shape) < 2:
        return info
    packed = info.name.endswith((".qweight", ".weight_packed", "_blocks")) or info.name.endswith(".weight")
    if info.dtype in FLOAT8_DTYPES and packed:
        return TensorInfo(info.name, info.shape, info.dtype, "8-bit floats without a scale beside them")
    if info.dtype.kind in "iu" and packed:
        return TensorInfo(
            info.name, info.shape, info.dtype, "packed integers of an unknown scheme or without scales"
        )
    return info


def dequantised(reader: Reader, config: Mapping[str, Any]) -> Reader:
    """Return `reader`, wrapped if any of its weights is quantised."""
    infos = reader.infos().values()
    if not any(
        len(info.shape) > 1 and (info.dtype in FLOAT8_DTYPES or info.dtype.kind in "iu") for info in infos
    ):
        return reader
    quantisation = config.get("quantization_config")
    return QuantisedReader(reader, quantisation if isinstance(quantisation, Mapping) else config)
