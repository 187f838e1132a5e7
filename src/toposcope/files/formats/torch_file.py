"""PyTorch files (.pt, .pth, .bin, .ckpt), zip and legacy, read without PyTorch and without unpickling.

The pickle inside is interpreted as data (`pickled`); it gives each tensor's dtype, shape, strides and
storage. A storage is read by range when its tensor is read.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Blob, stream
from toposcope.files.formats.inert import Record, Symbol, brief
from toposcope.files.formats.pickled import PickleData
from toposcope.files.formats.reader import BROKEN_ARCHIVE, DTYPES, WITHOUT_DATA, TensorInfo, check_shape

# Largest pickle in a PyTorch file, in bytes: tensors lie outside, so a larger one is not an index of weights.
MAX_PICKLE = 512 * 2**20
# Nesting depth of containers: below Python's recursion limit (1,000), which a hostile file must not reach.
MAX_DEPTH = 200
# PyTorch's magic number for files from before 1.6 (torch.serialization.MAGIC_NUMBER).
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C

STORAGES: Mapping[str, str] = {
    "BoolStorage": "bool",
    "ByteStorage": "uint8",
    "CharStorage": "int8",
    "ShortStorage": "int16",
    "IntStorage": "int32",
    "LongStorage": "int64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "UntypedStorage": "uint8",
    "QInt8Storage": "int8",
    "QUInt8Storage": "uint8",
    "QInt32Storage": "int32",
}


@dataclass(frozen=True, slots=True)
class Storage:
    """Where a storage's bytes are."""

    key: str
    dtype: str
    elements: int


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor of a PyTorch file whose values are not read yet; strides and offset count elements."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]

    def info(self, name: str) -> TensorInfo:
        """Return name, shape and dtype."""
        return TensorInfo(name, self.shape, self.dtype)

    @property
    def span(self) -> int:
        """How many elements the tensor spans, from the first to the last one used."""
        if 0 in self.shape:
            return 0
        return 1 + sum((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True))


@dataclass(frozen=True, slots=True)
class UnreadTensor:
    """A tensor of a PyTorch file that cannot be read as an array of numbers, and why.

    `fault` is the kind of finding if nothing could read it.
    """

    why: str
    shape: tuple[int, ...] = ()
    dtype: np.dtype[Any] = DTYPES["float32"]
    fault: str = ""

    def info(self, name: str) -> TensorInfo:
        """Return name, shape and dtype as far as they are known, and the reason."""
        return TensorInfo(name, self.shape, self.dtype, self.why, self.fault)


class TorchArchive:
    """One PyTorch file: `tree` is its content as plain data with `StoredTensor` leaves."""

    def __init__(self, blob: Blob) -> None:
        self.label = blob.label
        self._blob = blob
        if blob.size == 0:
            raise SourceError(f"{blob.label}: is empty (0 bytes); fetch it again")
        self._places: dict[str, tuple[int, int, int]] = {}
        self._checked: set[str] = set()
        self._made: dict[int, tuple[Record, Any]] = {}
        self.tree: Any = (
            self._zip() if blob.read(0, min(4, blob.size)).tobytes() == b"PK\x03\x04" else self._legacy()
        )

    def read(self, tensor: StoredTensor, rows: tuple[int, int] | None = None) -> np.ndarray:
        """Read a tensor, or some of its rows."""
        if rows is not None:
            tensor = StoredTensor(
                tensor.storage,
                tensor.offset + rows[0] * tensor.strides[0],
                (rows[1] - rows[0], *tensor.shape[1:]),
                tensor.strides,
                tensor.dtype,
            )
        size = tensor.dtype.itemsize
        if not tensor.span:
            return np.empty(tensor.shape, tensor.dtype)
        if tensor.storage.key not in self._places:
            raise self._bad(f"storage {tensor.storage.key!r:.80} is missing")
        start, length, crc = self._places[tensor.storage.key]
        begin = start + tensor.offset * size
        stop = begin + tensor.span * size
        if stop > start + length:
            raise self._bad(
                f"a tensor of shape {tensor.shape} reaches beyond its storage {tensor.storage.key!r}"
            )
        data = self._blob.read(begin, stop)
        self._check_crc(tensor.storage.key, data if (begin, stop) == (start, start + length) else None, crc)
        strides = tuple(stride * size for stride in tensor.strides)
        return np.lib.stride_tricks.as_strided(data.view(tensor.dtype), tensor.shape, strides)

    def _check_crc(self, key: str, data: np.ndarray | None, crc: int) -> None:
        if data is None or not crc or key in self._checked:
            return
        if zlib.crc32(data.data) != crc:
            raise self._bad(f"storage {key!r} does not match its checksum")
        self._checked.add(key)

    def _bad(self, why: str) -> SourceError:
        return SourceError(f"{self.label}: is not a valid PyTorch file: {why}; fetch it again")

    def _zip(self) -> Any:
        try:
            with zipfile.ZipFile(stream(self._blob)) as archive:
                entries = archive.infolist()
                named = {entry.filename: entry for entry in entries}
                pickles = [name for name in named if name.endswith("data.pkl")]
                if len(named) != len(entries) or len(pickles) != 1:
                    raise self._bad("its zip does not hold exactly one data.pkl")
                prefix = pickles[0].removesuffix("data.pkl")
                self._locate(entries, prefix + "data/")
                order = named.get(prefix + "byteorder")
                if order is not None and order.file_size < 16 and archive.read(order) == b"big":
                    raise self._bad("it was written on a big-endian machine")
                if (
                    named[pickles[0]].file_size > MAX_PICKLE
                    or named[pickles[0]].compress_type != zipfile.ZIP_STORED
                ):
                    raise self._bad("its data.pkl is compressed or too large")
                data = archive.read(pickles[0])
        except (*BROKEN_ARCHIVE, IndexError) as error:
            if isinstance(error, SourceError):
                raise
            raise self._bad(f"{str(error)[:80]} (truncated?)") from error
        machine = PickleData(data, self.label, persistent=self._storage)
        return self._resolve(machine.load())

    def _locate(self, entries: list[zipfile.ZipInfo], prefix: str) -> None:
        for entry in entries:
            if not entry.filename.startswith(prefix):
                continue
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
                raise self._bad(f"{entry.filename!r} is compressed")
            head = self._blob.read(
                entry.header_offset, min(entry.header_offset + 30, self._blob.size)
            ).tobytes()
            if len(head) != 30 or head[:4] != b"PK\x03\x04":
                raise self._bad(f"{entry.filename!r} is not where the zip says")
            start = (
                entry.header_offset
                + 30
                + int.from_bytes(head[26:28], "little")
                + int.from_bytes(head[28:30], "little")
            )
            if start + entry.file_size > self._blob.size:
                raise self._bad(f"{entry.filename!r} reaches beyond the end")
            self._places[entry.filename.removeprefix(prefix)] = (start, entry.file_size, entry.CRC)

    def _legacy(self) -> Any:
        if self._blob.size > 2**40 or self._blob.read(0, 1)[0] != 0x80:
            raise self._bad("it is neither a zip nor a pickle")
        # The pickles come first; the storages after them can be far larger than what is read here.
        data = self._blob.read(0, min(self._blob.size, 64 * 2**20)).tobytes()
        machine = PickleData(data, self.label, persistent=self._storage)
        if machine.load() != LEGACY_MAGIC:
            raise self._bad("it is a plain pickle, which PyTorch did not write")
        machine.load(machine.end)
        machine.load(machine.end)
        self._legacy_storages: dict[str, Storage] = {}
        tree = machine.load(machine.end)
        keys = machine.load(machine.end)
        at = machine.end
        for key in keys if isinstance(keys, list) else []:
            if not isinstance(key, str) and type(key) is not int:
                raise self._bad(f"a storage named by {brief(key)}")
            storage = self._legacy_storages.get(str(key))
            if storage is None:
                raise self._bad(f"storage {key!r:.40} is listed but not used")
            count = int.from_bytes(self._blob.read(at, at + 8).tobytes(), "little")
            length = count * DTYPES[storage.dtype].itemsize
            if count > self._blob.size or at + 8 + length > self._blob.size:
                raise self._bad(f"storage {key!r:.40} reaches beyond the end (truncated?)")
            self._places[str(key)] = (at + 8, length, 0)
            at += 8 + length
        return self._resolve(tree)

    def _storage(self, key: Any) -> Storage:
        good = isinstance(key, tuple) and len(key) >= 5 and key[0] == "storage" and isinstance(key[1], Symbol)
        if not good or type(key[4]) is not int or key[4] < 0 or key[1].name not in STORAGES:
            raise self._bad(f"a storage of an unknown kind: {brief(key)}")
        if not isinstance(key[2], str) and type(key[2]) is not int:
            raise self._bad(f"a storage named by {brief(key[2])}")
        storage = Storage(str(key[2]), STORAGES[key[1].name], key[4])
        if hasattr(self, "_legacy_storages"):
            self._legacy_storages[storage.key] = storage
        return storage

    def _resolve(self, tree: Any) -> Any:
        try:
            return _map(tree, self._leaf, {})
        except RecursionError:
            raise self._bad("it is nested too deeply") from None
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            if isinstance(error, SourceError):
                raise
            raise self._bad(f"{type(error).__name__} in a tensor's record") from None

    def _leaf(self, value: Any) -> Any:
        """Return the tensor that a record describes; each record is read once."""
        if not isinstance(value, Record):
            return value
        if id(value) not in self._made:
            self._made[id(value)] = (value, self._make(value))
        return self._made[id(value)][1]

    def _make(self, record: Record) -> Any:
        maker = _MAKERS.get(str(record.symbol)) if isinstance(record.symbol, Symbol) else None
        return record if maker is None else maker(self, record)

    def tensor(self, arguments: Any) -> StoredTensor:
        """Return the tensor that a rebuild call describes; refuse one that exceeds its storage."""
        storage, offset, shape, strides = arguments[:4]
        if not isinstance(storage, Storage):
            raise self._bad("a tensor without a storage")
        dtype = DTYPES[storage.dtype]
        if len(arguments) > 6 and isinstance(arguments[6], Symbol) and arguments[6].name in DTYPES:
            dtype = DTYPES[arguments[6].name]
        shape = check_shape(self.label, "", shape)
        good = isinstance(strides, tuple) and len(strides) == len(shape)
        if not good or not all(type(n) is int and 0 <= n < 2**48 for n in (offset, *strides)):
            raise self._bad("a tensor with impossible strides")
        tensor = StoredTensor(storage, offset, shape, strides, dtype)
        count = TensorInfo("", shape, dtype).size
        if tensor.span and count > tensor.span:
            raise self._bad("a tensor whose elements overlap")
        if (offset + tensor.span) * dtype.itemsize > storage.elements * DTYPES[storage.dtype].itemsize:
            raise self._bad(f"a tensor of shape {shape} reaches beyond its storage")
        return tensor


def _v2(archive: TorchArchive, record: Record) -> Any:
    return archive.tensor(record.arguments)


def _first(archive: TorchArchive, record: Record) -> Any:
    return archive._leaf(record.arguments[0])


def _from_type(archive: TorchArchive, record: Record) -> Any:
    function, _, arguments = record.arguments[:3]
    return archive._make(Record(function, arguments))


def _meta(archive: TorchArchive, record: Record) -> UnreadTensor:
    dtype, shape = record.arguments[:2]
    dtype_known = DTYPES.get(dtype.name if isinstance(dtype, Symbol) else "", DTYPES["float32"])
    why = "it is on the meta device and has no data; save it after its weights are loaded"
    return UnreadTensor(why, check_shape(archive.label, "", shape), dtype_known, WITHOUT_DATA)


def _sparse(archive: TorchArchive, record: Record) -> UnreadTensor:
    return UnreadTensor("it is sparse; save it as a dense tensor")


def _quantised(archive: TorchArchive, record: Record) -> UnreadTensor:
    return UnreadTensor("it is quantised by PyTorch; save it dequantised")


_MAKERS: Mapping[str, Callable[[TorchArchive, Record], Any]] = {
    "torch._utils._rebuild_tensor": _v2,
    "torch._utils._rebuild_tensor_v2": _v2,
    "torch._utils._rebuild_tensor_v3": _v2,
    "torch._utils._rebuild_parameter": _first,
    "torch._utils._rebuild_parameter_with_state": _first,
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "torch._utils._rebuild_meta_tensor_no_storage": _meta,
    "torch._utils._rebuild_sparse_tensor": _sparse,
    "torch._utils._rebuild_qtensor": _quantised,
}


def _map(tree: Any, leaf: Callable[[Any], Any], seen: dict[int, Any], depth: int = 0) -> Any:
    """Return `tree` with `leaf` applied to its leaves; shared parts are visited once."""
    if depth > MAX_DEPTH:
        raise RecursionError
    if not isinstance(tree, dict | list | tuple):
        return leaf(tree)
    if id(tree) in seen:
        return seen[id(tree)]
    if isinstance(tree, dict):
        out: Any = {}
        seen[id(tree)] = out
        out.update((key, _map(value, leaf, seen, depth + 1)) for key, value in tree.items())
        return out
    out = [_map(value, leaf, seen, depth + 1) for value in tree]
    seen[id(tree)] = out if isinstance(tree, list) else tuple(out)
    return seen[id(tree)]


# Limits for a tensor's name and the entries of a tree: no checkpoint comes near them, a hostile file would.
MAX_NAME = 1000
MAX_ENTRIES = 200_000
_PASSED_OVER = 16
"""How many tensors and containers a checkpoint's tree may have. Shared ones count each time they are reached,
and this many other entries count as one."""
_TENSORS = (StoredTensor, UnreadTensor)
_PARTS = (*_TENSORS, dict, list, tuple)


def tensors_of(tree: Any, label: str) -> dict[str, StoredTensor | UnreadTensor]:
    """Return the tensors of a nested mapping by their dotted names; anything else is passed over.

    Raises
    ------
    SourceError
        When the tree is too deep or too large, or a name is too long, not text, or shared by two tensors.
    """
    tensors: dict[str, StoredTensor | UnreadTensor] = {}
    pending: list[tuple[str, Any, int]] = [("", tree, 0)]
    seen = 0
    while pending:
        name, value, depth = pending.pop()
        if len(name) > MAX_NAME:
            raise SourceError(
                f"{label}: the name of a tensor has more than {MAX_NAME} letters "
                f"({name[:40]!r}...); fetch the file again"
            )
        if isinstance(value, _TENSORS):
            if name in tensors:
                raise SourceError(f"{label}: two of its tensors are named {name!r:.80}; rename one")
            tensors[name] = value
            continue
        pairs = _children(value)
        parts = [(key, part) for key, part in pairs if isinstance(part, _PARTS)]
        seen += len(parts) + len(pairs) // _PASSED_OVER
        if depth > MAX_DEPTH or seen > MAX_ENTRIES:
            raise SourceError(
                f"{label}: is nested deeper than {MAX_DEPTH} or has more than {MAX_ENTRIES:,} "
                "entries; fetch the file again"
            )
        pending += [(_joined(name, key, label), part, depth + 1) for key, part in reversed(parts)]
    return tensors


def _joined(name: str, key: Any, label: str) -> str:
    """Return the name of a part; refuse keys that are not text, which could be arbitrarily long in print."""
    if not isinstance(key, str) and type(key) is not int:
        raise SourceError(f"{label}: a part of it is named by {brief(key)}; use text as its name")
    return f"{name}.{key}" if name else str(key)


def holds_tensors(tree: Any) -> bool:
    """Return whether there is a tensor anywhere in a tree; shared parts are visited once."""
    pending, seen = [tree], {id(tree)}
    while pending:
        value = pending.pop()
        if isinstance(value, _TENSORS):
            return True
        for _, part in _children(value):
            if isinstance(part, _PARTS) and id(part) not in seen:
                seen.add(id(part))
                pending.append(part)
    return False


def _children(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list | tuple) else []
