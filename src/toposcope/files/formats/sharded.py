"""Checkpoints in several files: an index says which tensor is in which file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Blob, Folder, check_name
from toposcope.files.formats.reader import NOT_IN_INDEX, Facts, Reader, TensorInfo, find, read_json

_SHARD = re.compile(r"(?P<stem>.+)-(?P<index>\d{5})-of-(?P<count>\d{5})(?P<suffix>\.\w+)")

_EMBEDDING = re.compile(r"emb|wte|shared", re.I)
"""Names of input embeddings, to which an output head may be tied."""

_ROWS = 1 << 22
"""Bytes at a time when two tensors are compared."""

_PART = re.compile(r"(?P<stem>(?:hf|meta)_model)_(?P<part>\d{4})_(?P<epoch>\d{1,9})(?P<suffix>\.\w+)")


class ShardedReader:
    """Several files as one checkpoint; a file is opened when its first tensor is read.

    `table` maps tensor names to shard names and `open_shard` opens a shard. `tied` says that the model's
    configuration ties its head to its embedding.
    """

    def __init__(
        self, label: str, table: Mapping[str, str], open_shard: Callable[[str], Reader], *, tied: bool = False
    ) -> None:
        self.label = label
        self._table, self._open, self._tied = dict(table), open_shard, tied
        self._shards: dict[str, Reader] = {}
        self._infos: dict[str, TensorInfo] | None = None

    def _shard(self, name: str) -> Reader:
        if name not in self._shards:
            self._shards[name] = self._open(name)
        return self._shards[name]

    def infos(self) -> Mapping[str, TensorInfo]:
        """Return every tensor's name, shape and dtype, shard by shard."""
        if self._infos is None:
            infos_by_name: dict[str, TensorInfo] = {}
            left: list[tuple[str, TensorInfo]] = []
            for shard in dict.fromkeys(self._table.values()):
                inside = self._shard(shard).infos()
                for name, where in self._table.items():
                    if where == shard:
                        if name not in inside:
                            raise SourceError(
                                f"{self.label}: its index puts {name!r} into {shard}, which does not "
                                "contain it; "
                                "fetch both again"
                            )
                        infos_by_name[name] = inside[name]
                left += [(shard, info) for name, info in inside.items() if name not in self._table]
            self._infos = infos_by_name | {
                info.name: self._left_out(shard, info, infos_by_name) for shard, info in left
            }
        return self._infos

    def _left_out(self, shard: str, info: TensorInfo, indexed: Mapping[str, TensorInfo]) -> TensorInfo:
        """Return a tensor that the index lacks; it is missed unless it is a copy of one that is there."""
        alike = [
            candidate.name
            for candidate in indexed.values()
            if candidate.shape == info.shape and candidate.dtype == info.dtype
        ]
        tied = [name for name in alike if self._tied and _EMBEDDING.search(name)]
        twin = next((name for name in (tied or alike) if tied or self._equal(shard, info, name)), None)
        if twin is not None:
            return replace(info, skip=f"it is not in the index, and tied to {twin}, which is")
        why = f"it is in {shard} but not in the index, so nothing loads it; fix the index"
        return replace(info, skip=why, fault=NOT_IN_INDEX)

    def _equal(self, shard: str, info: TensorInfo, other: str) -> bool:
        """Return whether a tensor of a shard has exactly the values of an indexed one of the same shape."""
        if not info.shape or info.skip:
            return False
        here, there = self._shard(shard), self._shard(self._table[other])
        many = max(1, _ROWS // max(1, info.nbytes // max(1, info.shape[0])))
        parts = [(start, min(start + many, info.shape[0])) for start in range(0, info.shape[0], many)]
        return all(
            here.rows(info.name, *part).tobytes() == there.rows(other, *part).tobytes() for part in parts
        )

    def read(self, name: str) -> np.ndarray:
        """Read one tensor."""
        find(self.infos(), self.label, name)
        return self._shard(self._table[name]).read(name)

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Read rows `start` to `stop` of one tensor."""
        find(self.infos(), self.label, name)
        return self._shard(self._table[name]).rows(name, start, stop)

    def facts(self) -> Facts:
        """Return no facts: an index has nothing but its tensors."""
        return Facts()


def from_index(folder: Folder, index: str, open_file: Callable[[Blob], Reader]) -> ShardedReader:
    """Open the checkpoint that an index file (`*.index.json`) describes."""
    label = f"{folder.label}/{index}"
    content = read_json(folder.open(index))
    table = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(table, dict) or not table:
        raise SourceError(f"{label}: has no weight_map; fetch it again")
    if not all(isinstance(shard, str) for shard in table.values()):
        raise SourceError(f"{label}: its weight_map does not map names to file names; fetch it again")
    have = set(folder.files())
    for shard in set(table.values()):
        check_name(label, shard)
        if "/" in shard:
            raise SourceError(
                f"{label}: {shard!r} points into another folder and is not read",
                remedy="use file names without folders",
            )
        if shard not in have:
            raise SourceError(
                f"{folder.label}/{shard}: the index names this shard, but the file is missing; fetch it again"
            )
    config = read_json(folder.open("config.json")) if "config.json" in have else {}
    tied = isinstance(config, dict) and config.get("tie_word_embeddings") is True
    return ShardedReader(folder.label, table, lambda shard: open_file(folder.open(shard)), tied=tied)


def from_shards(folder: Folder, names: list[str], open_file: Callable[[Blob], Reader]) -> ShardedReader:
    """Open shards named `*-00001-of-00003.*` that come without an index."""
    check_complete(folder, names)
    readers = {name: open_file(folder.open(name)) for name in names}
    table: dict[str, str] = {}
    for shard, reader in readers.items():
        for name in reader.infos():
            if name in table:
                raise SourceError(
                    f"{folder.label}: tensor {name!r} is in {table[name]} and in {shard}; fetch both again"
                )
            table[name] = shard
    return ShardedReader(folder.label, table, readers.__getitem__)


def check_complete(folder: Folder, names: list[str]) -> None:
    """Refuse a set of numbered shards with a gap."""
    for name in names:
        match = _SHARD.fullmatch(name)
        if match is None:
            continue
        count = int(match["count"])
        for index in range(1, min(count, 10_000) + 1):
            wanted = f"{match['stem']}-{index:05d}-of-{count:05d}{match['suffix']}"
            if wanted not in names:
                raise SourceError(
                    f"{folder.label}/{wanted}: this shard is missing ({len(names):,} of {count} are "
                    "there); fetch it"
                )


def is_shard(name: str) -> bool:
    """Return whether a file name is that of a numbered shard."""
    return _SHARD.fullmatch(name) is not None


def part_of(name: str) -> tuple[str, int] | None:
    """Return checkpoint and epoch of one of the parts that torchtune writes in one folder; None for others.

    >>> part_of("hf_model_0001_2.pt"), part_of("model_0001.pt")
    (('hf_model_2.pt', 2), None)
    """
    match = _PART.fullmatch(name)
    return (
        (f"{match['stem']}_{match['epoch']}{match['suffix']}", int(match["epoch"]))
        if match and name.isascii()
        else None
    )
