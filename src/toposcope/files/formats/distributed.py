"""PyTorch's distributed checkpoints: `.metadata` says which byte range of which `.distcp` file holds what.

The metadata is a pickle that is read as data. A tensor is put together from the chunks that it needs, so
nothing has to be consolidated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Blob, Folder, check_name, check_range
from toposcope.files.formats.inert import Record, Symbol, brief
from toposcope.files.formats.pickled import PickleData
from toposcope.files.formats.reader import (
    DTYPES,
    MAX_DIMS,
    Facts,
    TensorInfo,
    check_rows,
    check_shape,
    find,
)
from toposcope.files.formats.torch_file import MAX_PICKLE, StoredTensor, TorchArchive

METADATA = ".metadata"
OPTIMIZER = ("optim", "optimizer", "lr_scheduler", "dataloader", "train_state")
APP = ("app.", "state.")
"""What PyTorch's recipe for a state of model and optimizer, and Composer, put in front of both."""
STEP_KEYS = ("step", "global_step", "iteration", "train_state.step")


class Slice:
    """A part of a blob, itself a blob."""

    def __init__(self, blob: Blob, start: int, length: int) -> None:
        check_range(blob, start, start + length)
        self.label, self.stamp = blob.label, blob.stamp
        self.size = length
        self._blob, self._start = blob, start

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return bytes `start` to `stop` of the part."""
        check_range(self, start, stop)
        return self._blob.read(self._start + start, self._start + stop)


@dataclass(frozen=True, slots=True)
class _Chunk:
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    file: str
    start: int
    length: int


class DistributedReader:
    """One distributed checkpoint; with `weightless` it may hold optimiser states only.

    With `of_state` the tensors are those of the optimiser, and of what else is not weights.
    """

    def __init__(self, folder: Folder, *, weightless: bool = False, of_state: bool = False) -> None:
        self.label = f"{folder.label}/{METADATA}"
        self._folder = folder
        blob = folder.open(METADATA)
        if blob.size > MAX_PICKLE:
            raise self._bad(f"{blob.size:,} bytes of metadata")
        content = PickleData(blob.read(0, blob.size).tobytes(), self.label).load()
        try:
            self._places = self._storage(_state(content)["storage_data"])
            self._unplaced = len(self._places)
            self._infos: dict[str, TensorInfo] = {}
            self._chunks: dict[str, list[_Chunk]] = {}
            self._beside: dict[str, None] = {}
            self._values: dict[str, None] = {}
            for name, record in _state(content)["state_dict_metadata"].items():
                plain = self._text(name)
                plain = next(
                    (plain.removeprefix(prefix) for prefix in APP if plain.startswith(prefix)), plain
                )
                tensor = record.symbol.name == "TensorStorageMetadata"
                if not tensor:
                    self._values[name] = None
                if plain.startswith(OPTIMIZER):
                    self._beside[plain.partition(".")[0]] = None
                state = plain.startswith(OPTIMIZER)
                if tensor and (state or (of_state and plain in STEP_KEYS)) == of_state:
                    self._add(name, _state(record))
        except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
            if isinstance(error, SourceError):
                raise
            raise self._bad(f"{type(error).__name__} in its metadata") from error
        if not self._infos and not weightless:
            raise self._bad("it names no tensors")

    def _bad(self, why: str) -> SourceError:
        return SourceError(f"{self.label}: is not a valid distributed checkpoint: {why}; fetch it again")

    def _storage(self, table: Any) -> dict[tuple[str, str], tuple[str, int, int]]:
        places = {}
        for key, value in table.items():
            index, info = _state(key), _state(value)
            if info.get("transform_descriptors"):
                raise SourceError(
                    f"{self.label}: its chunks are compressed; save it without storage extensions"
                )
            offset = self._sides(index["offset"]) if index.get("offset") is not None else ()
            file, start, length = info["relative_path"], info["offset"], info["length"]
            if not isinstance(file, str) or not all(type(n) is int and n >= 0 for n in (start, length)):
                raise self._bad("a chunk without a location")
            places[self._text(index["fqn"]), _at(offset)] = (check_name(self.label, file), start, length)
        return places

    def _add(self, name: str, state: Mapping[str, Any]) -> None:
        properties = state["properties"]
        values = properties.state if isinstance(properties, Record) else properties
        dtype = values["dtype"] if isinstance(values, Mapping) else values[0]
        if not isinstance(dtype, Symbol) or dtype.name not in DTYPES:
            raise self._bad(f"tensor {name!r:.80} has the unknown dtype {brief(dtype)}")
        shape = check_shape(self.label, name, self._sides(state["size"]))
        info = TensorInfo(name, shape, DTYPES[dtype.name])
        chunks = []
        self._unplaced -= len(state["chunks"])
        if self._unplaced < 0:
            raise self._bad("it has more chunks than locations for them")
        for chunk in state["chunks"]:
            offsets = self._sides(_state(chunk)["offsets"])
            sizes = check_shape(self.label, name, self._sides(_state(chunk)["sizes"]))
            place = self._places.get((name, _at(offsets))) or (
                self._places.get((name, _at(()))) if not any(offsets) else None
            )
            inside = len(offsets) == len(sizes) == len(shape) and all(
                type(o) is int and o >= 0 and o + s <= n
                for o, s, n in zip(offsets, sizes, shape, strict=True)
            )
            if place is None or not inside:
                raise self._bad(f"a chunk of tensor {name!r:.80} has no file or lies outside the tensor")
            chunks.append(_Chunk(offsets, sizes, *place))
        if sum(TensorInfo("", chunk.sizes, info.dtype).size for chunk in chunks) != info.size:
            raise self._bad(f"the chunks of tensor {name!r:.80} do not cover it")
        self._infos[name], self._chunks[name] = info, chunks

    def _text(self, name: Any) -> str:
        if not isinstance(name, str):
            raise self._bad(f"a tensor named by {brief(name)}")
        return name

    def _sides(self, values: Any) -> tuple[Any, ...]:
        """Return a shape or an offset: a few numbers."""
        if not isinstance(values, list | tuple) or len(values) > MAX_DIMS:
            raise self._bad(f"a shape that is {brief(values)}")
        return tuple(values)

    def extents(self) -> dict[str, int]:
        """Return the smallest size of each file that fits the metadata, optimiser states included."""
        ends: dict[str, int] = {}
        for file, start, length in self._places.values():
            ends[file] = max(ends.get(file, 0), start + length)
        return ends

    def infos(self) -> Mapping[str, TensorInfo]:
        """Return every tensor's name, shape and dtype; optimiser states are left out."""
        return self._infos

    def values(self) -> tuple[str, ...]:
        """Return the names of the entries that are stored by themselves, such as settings and counters."""
        return tuple(self._values)

    def value(self, name: str) -> Any:
        """Return an entry that is stored by itself, as plain data; None if it has no place."""
        if (name, _at(())) not in self._places:
            return None
        file, start, length = self._places[name, _at(())]
        return TorchArchive(Slice(self._folder.open(file), start, length)).tree

    def read(self, name: str) -> np.ndarray:
        """Read one tensor from its chunks."""
        info = find(self._infos, self.label, name)
        if not info.shape:
            return self._chunk(info, self._chunks[name][0])
        return self.rows(name, 0, info.shape[0])

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Read rows `start` to `stop` of one tensor from the chunks that hold them."""
        info = find(self._infos, self.label, name)
        check_rows(info, self.label, start, stop)
        out = np.empty((stop - start, *info.shape[1:]), dtype=info.dtype)
        for chunk in self._chunks[name]:
            first, last = max(start, chunk.offsets[0]), min(stop, chunk.offsets[0] + chunk.sizes[0])
            if first >= last:
                continue
            part = self._chunk(info, chunk, (first - chunk.offsets[0], last - chunk.offsets[0]))
            rest = tuple(slice(o, o + s) for o, s in zip(chunk.offsets[1:], chunk.sizes[1:], strict=True))
            out[(slice(first - start, last - start), *rest)] = part
        return out

    def _chunk(self, info: TensorInfo, chunk: _Chunk, rows: tuple[int, int] | None = None) -> np.ndarray:
        archive = TorchArchive(Slice(self._folder.open(chunk.file), chunk.start, chunk.length))
        tensor = archive.tree
        if not isinstance(tensor, StoredTensor) or tensor.shape != chunk.sizes or tensor.dtype != info.dtype:
            raise SourceError(
                f"{archive.label}: does not contain the chunk of {info.name!r:.80} that .metadata names; "
                "fetch it again"
            )
        whole = rows is None or rows == (0, chunk.sizes[0])  # then its checksum is compared, too
        return archive.read(tensor, None if whole else rows)

    def facts(self) -> Facts:
        """Return the step if the checkpoint states one, and the names of what is not weights."""
        beside = tuple(self._beside)
        for key in STEP_KEYS:
            value = self.value(key)
            if type(value) is int:
                return Facts(step=value, beside=beside)
        return Facts(beside=beside)


def _at(offset: tuple[Any, ...]) -> str:
    """Return an offset as a text key, because tuples of numbers can be made to collide."""
    return ",".join(map(brief, offset))


def _state(record: Any) -> Mapping[str, Any]:
    state = record.state
    if isinstance(state, tuple) and len(state) == 2:
        state = state[1] or state[0]
    if not isinstance(state, Mapping):
        raise TypeError("a record without fields")
    return state
