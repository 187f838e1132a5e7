"""Orbax's checkpoints (JAX): `_METADATA` lists every array by its key path; tensorstore reads the arrays.

Tensorstore is an extra (`toposcope[orbax]`). Key paths come from a file: a part that could lead out of the
checkpoint's folder is refused.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Folder
from toposcope.files.formats.reader import (
    WEIGHT_DTYPES,
    Facts,
    TensorInfo,
    check_rows,
    check_shape,
    find,
    read_json,
)

METADATA, CHECKPOINT, OCDBT = "_METADATA", "_CHECKPOINT_METADATA", "manifest.ocdbt"
VERSION, COMMITTED = "orbax.checkpoint", "commit_success.txt"
STATE = ("opt_state", "optimizer", "opt", "optimizer_state")
"""How the part of a tree with the optimiser's state is named by flax, MaxText and others."""
PARAMS = "params"
_MOST_KEYS, _LONGEST = 200_000, 400
"""The most arrays of a checkpoint and the longest key path: no model comes near, a hostile file would."""
_NOT_READ = frozenset({"Dict", "List", "Tuple", "NamedTuple", "None"})
"""Empty parts of a tree: they have no array."""


@dataclass(frozen=True)
class StoredArray:
    """One array: its key path, its name in the store, its shape if it is stated, and its item's folder."""

    keys: tuple[str, ...]
    path: str
    stated: tuple[int, ...] | None
    place: str
    ocdbt: bool
    zarr3: bool

    @functools.cached_property
    def opened(self) -> Any:
        """The open array, whose values are read when it is sliced."""
        return _opened(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.stated if self.stated is not None else tuple(self.opened.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its values."""
        return np.dtype(self.opened.dtype.numpy_dtype)


def is_installed() -> bool:
    """Return whether what reads the arrays is installed."""
    return importlib.util.find_spec("tensorstore") is not None


def has_orbax(files: frozenset[str], folders: frozenset[str]) -> bool:
    """Return whether a listing is that of a checkpoint of Orbax; MaxText's has its arrays in `items/`."""
    return bool({CHECKPOINT, METADATA, VERSION} & files) or (COMMITTED in files and "items" in folders)


def is_orbax(files: frozenset[str], folders: frozenset[str]) -> bool:
    """Return whether a listing is that of a checkpoint of Orbax which can be read here."""
    return has_orbax(files, folders) and is_installed()


def arrays_of(folder: Folder) -> tuple[StoredArray, ...]:
    """Return the arrays of a checkpoint's items.

    Raises
    ------
    SourceError
        When saving was not finished, the list is damaged, or a key path leads out of the folder.
    """
    if CHECKPOINT in folder.files():
        stated = read_json(folder.open(CHECKPOINT))
        if not isinstance(stated, dict) or not stated.get("commit_timestamp_nsecs"):
            raise SourceError(
                f"{folder.label}: its saving was not finished (it has no time of commit); remove it"
            )
    places = [folder, *(folder.sub(name) for name in folder.folders())]
    items = [place for place in places if METADATA in place.files()]
    if not items:
        raise SourceError(f"{folder.label}: has no item with a {METADATA}; fetch it again")
    return tuple(array for item in items for array in _listed(item))


def _listed(item: Folder) -> Iterator[StoredArray]:
    content = read_json(item.open(METADATA))
    tree = content.get("tree_metadata") if isinstance(content, dict) else None
    if not isinstance(tree, dict) or len(tree) > _MOST_KEYS:
        raise SourceError(f"{item.label}: its {METADATA} lists no arrays; fetch it again")
    ocdbt = bool(content.get("use_ocdbt", OCDBT in item.files()))
    for entry in tree.values():
        value = entry.get("value_metadata") if isinstance(entry, dict) else None
        if (
            not isinstance(value, dict)
            or value.get("skip_deserialize")
            or str(value.get("value_type")) in _NOT_READ
        ):
            continue
        keys = _keys(item.label, entry.get("key_metadata"))
        name = ".".join(keys)
        part = item.label.rstrip("/").rsplit("/", 1)[-1]
        if part in (*STATE, PARAMS) and keys[0] != part:  # an item for each part of the tree
            keys = (part, *keys)
        stated = value.get("write_shape")  # arrays of numpy state none
        shape = None if stated is None else check_shape(item.label, name, stated)
        yield StoredArray(keys, name, shape, item.label, ocdbt, bool(content.get("use_zarr3")))


def _keys(label: str, stated: Any) -> tuple[str, ...]:
    """Return a key path; refuse one that could name a place outside of the item's folder."""
    keys = [part.get("key") if isinstance(part, dict) else None for part in stated] if isinstance(
        stated, list) else []  # fmt: skip
    good = bool(keys) and all(isinstance(key, str) and key for key in keys)
    texts = tuple(str(key) for key in keys)
    bad = any("/" in text or "\\" in text or "\0" in text or text in (".", "..") for text in texts)
    if not good or bad or sum(map(len, texts)) > _LONGEST:
        raise SourceError(
            f"{label}: a key path of its {METADATA} is not one of names: {texts!r:.80}; fetch it again"
        )
    return texts


def _opened(stored: StoredArray) -> Any:
    """Open an array.

    Raises
    ------
    SourceError
        When tensorstore cannot open it.
    """
    import tensorstore

    base = Path(stored.place).resolve()
    if stored.ocdbt:
        store = {"driver": "ocdbt", "base": f"{base.as_uri()}/", "path": f"{stored.path}/"}
    else:
        store = {"driver": "file", "path": f"{base / stored.path}/"}
    spec = {"driver": "zarr3" if stored.zarr3 else "zarr", "kvstore": store}
    try:
        opened = tensorstore.open(spec, open=True, read=True).result()
    except (ValueError, OSError, RuntimeError, TypeError, KeyError, NotImplementedError) as error:
        raise SourceError(f"{stored.place}: {stored.path!r:.80} cannot be read: {_brief(error)}") from None
    check_shape(stored.place, stored.path, tuple(opened.shape))
    if stored.stated is not None and tuple(opened.shape) != stored.stated:
        raise SourceError(
            f"{stored.place}: {stored.path!r:.80} has the shape {tuple(opened.shape)}, but {METADATA} says "
            f"{stored.stated}; fetch it again"
        )
    return opened


def values(stored: StoredArray, rows: tuple[int, int] | None = None) -> np.ndarray:
    """Return an array's values, or those of some of its rows."""
    opened = stored.opened
    try:
        part = opened if rows is None or not stored.shape else opened[rows[0] : rows[1]]
        return np.asarray(part.read().result())
    except (ValueError, OSError, RuntimeError, TypeError) as error:
        raise SourceError(f"{stored.place}: {stored.path!r:.80} cannot be read: {_brief(error)}") from None


def _brief(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:120]


def parameter_of(keys: tuple[str, ...]) -> str:
    """Return the name of a parameter by its key path, without the names of the tree around it.

    >>> parameter_of(("params", "params", "layers_0", "kernel")), parameter_of(("w",))
    ('layers_0.kernel', 'w')
    """
    while len(keys) > 1 and keys[0] == PARAMS:
        keys = keys[1:]
    return ".".join(keys)


class OrbaxReader:
    """The parameters of one checkpoint of Orbax."""

    def __init__(self, folder: Folder) -> None:
        self.label = folder.label
        arrays = arrays_of(folder)
        state = [array for array in arrays if array.keys[0] in STATE]
        chosen = [array for array in arrays if array.keys[0] == PARAMS]
        if not chosen:
            chosen = [array for array in arrays if array not in state and array.shape]
        self._arrays = {parameter_of(array.keys): array for array in chosen}
        self._infos = {name: self._info(name, array) for name, array in self._arrays.items()}
        if not self._infos:
            raise SourceError(f"{self.label}: contains no tensors of a model; open another checkpoint")
        self._step = next((array for array in arrays if array.keys == ("step",) and not array.shape), None)
        self._beside = tuple(dict.fromkeys(array.keys[0] for array in state))

    def _info(self, name: str, stored: StoredArray) -> TensorInfo:
        dtype = stored.dtype
        is_known = dtype in WEIGHT_DTYPES or dtype.kind in "iub"
        return TensorInfo(name, stored.shape, dtype, "" if is_known else f"its type {dtype} is not read")

    def infos(self) -> Mapping[str, TensorInfo]:
        """Return every parameter's name, shape and dtype."""
        return self._infos

    def read(self, name: str) -> np.ndarray:
        """Read one parameter."""
        find(self._infos, self.label, name)
        return values(self._arrays[name])

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Read rows `start` to `stop` of one parameter."""
        check_rows(find(self._infos, self.label, name), self.label, start, stop)
        return values(self._arrays[name], (start, stop))

    def facts(self) -> Facts:
        """Return the step, if the tree has one, and the names of what is not weights."""
        step = None if self._step is None else int(values(self._step))
        return Facts(step=step, beside=self._beside)
