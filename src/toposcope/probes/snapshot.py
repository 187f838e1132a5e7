"""A checkpoint as probes see it: its matrices as a stream, its past, and a memory to share work in."""

from __future__ import annotations

import errno
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from toposcope.errors import InputError
from toposcope.types import Checkpoint, Matrix

if TYPE_CHECKING:
    from toposcope.models import LanguageModel, ModelLoader

K = TypeVar("K")
T = TypeVar("T")

_FULL = (errno.ENOSPC, errno.EDQUOT)

CACHE_BYTES = 64 * 2**20
"""A checkpoint whose matrices fit into this many bytes is read once for all probes, a larger one streams."""


BATCH_BYTES = 16 * 2**20
"""Small matrices are measured together, up to this many bytes."""


class SeriesLike(Protocol):
    """The part of a series that probes and the sweep need."""

    def matrices(self, checkpoint: Checkpoint) -> Iterator[Matrix]:
        """Stream the 2-D weights."""

    def content_hash(self, checkpoint: Checkpoint) -> str:
        """Return the hash of the checkpoint's content."""

    def model(
        self, checkpoint: Checkpoint, loader: ModelLoader | None = None
    ) -> AbstractContextManager[LanguageModel]:
        """Open the checkpoint's language model."""


def batches(
    matrices: Iterable[tuple[K, Matrix]], limit: int = BATCH_BYTES
) -> Iterator[list[tuple[K, Matrix]]]:
    """Yield consecutive matrices that stay under `limit` bytes together; a larger one comes alone."""
    batch: list[tuple[K, Matrix]] = []
    size = 0
    for key, matrix in matrices:
        if batch and size + matrix.values.nbytes > limit:
            yield batch
            batch, size = [], 0
        batch.append((key, matrix))
        size += matrix.values.nbytes
        del matrix  # or it would be held while the next one is read
    if batch:
        yield batch


def unless_unreadable(compute: Callable[[], T]) -> T | None:
    """Return what `compute` gives of another checkpoint, None when that one cannot be read or measured."""
    try:
        return compute()
    except (InputError, OSError) as error:
        if isinstance(error, OSError) and error.errno in _FULL:
            raise
        return None


class RunReader:
    """The checkpoints of one run, opened one after the other.

    Snapshots left behind drop their matrices; what they remember for the run stays.
    """

    def __init__(self, series: SeriesLike, checkpoints: Sequence[Checkpoint]) -> None:
        self.series = series
        self._snapshots = [Snapshot(self, checkpoint, index) for index, checkpoint in enumerate(checkpoints)]
        self._hashes: dict[int, str] = {}

    def __getitem__(self, index: int) -> Snapshot:
        """Return the snapshot at `index`."""
        return self._snapshots[index]

    def __len__(self) -> int:
        """Return the number of checkpoints of the run."""
        return len(self._snapshots)

    def content_hash(self, index: int) -> str:
        """Return the hash of a checkpoint's content, computed once."""
        if index not in self._hashes:
            self._hashes[index] = self.series.content_hash(self[index].checkpoint)
        return self._hashes[index]

    def leave_behind(self, before: int) -> None:
        """Drop the weights of every checkpoint earlier than `before`."""
        for snapshot in self._snapshots[:before]:
            snapshot.forget()


class Snapshot:
    """One checkpoint of a run."""

    def __init__(self, reader: RunReader, checkpoint: Checkpoint, index: int) -> None:
        self.checkpoint = checkpoint
        self.index = index
        self._reader = reader
        self._matrices: tuple[Matrix, ...] | None = None
        self._memory: dict[Hashable, Any] = {}
        self._kept: dict[Hashable, Any] = {}

    @property
    def previous(self) -> Snapshot | None:
        """Return the checkpoint before this one, None at the first."""
        return self._reader[self.index - 1] if self.index else None

    @property
    def without_previous(self) -> str:
        """Return the note of what is missing because the previous checkpoint is unreadable."""
        return f"previous checkpoint {self._reader[self.index - 1].checkpoint.step} could not be read"

    @property
    def prefix(self) -> list[Snapshot]:
        """Return the checkpoints of the run up to this one, oldest first."""
        return [self._reader[index] for index in range(self.index + 1)]

    @property
    def content_hash(self) -> str:
        """Return the hash of the checkpoint's content."""
        return self._reader.content_hash(self.index)

    def load(self) -> None:
        """Read the matrices now, if they are small enough to be kept."""
        if self._matrices is None:
            for _ in self.matrices():
                pass

    def matrices(self) -> Iterator[Matrix]:
        """Stream the 2-D weights; read from disk once when they are small together."""
        if self._matrices is not None:
            yield from self._matrices
            return
        cached: list[Matrix] | None = []
        size = 0
        for matrix in self._reader.series.matrices(self.checkpoint):
            size += matrix.values.nbytes
            if size > CACHE_BYTES:
                cached = None
            if cached is not None:
                cached.append(matrix)
            yield matrix
            del matrix  # or the next one would be read while this one is still held
        if cached is not None:
            self._matrices = tuple(cached)

    def model(self, loader: ModelLoader | None = None) -> AbstractContextManager[LanguageModel]:
        """Open the checkpoint's language model; to be entered with `with`."""
        return self._reader.series.model(self.checkpoint, loader)

    def remembers(self, key: Hashable) -> bool:
        """Return whether `remember` has been called with `key` already."""
        return key in self._memory

    def remember(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return what `compute` gives, computed once while this checkpoint is at hand."""
        if key not in self._memory:
            self._memory[key] = compute()
        return self._memory[key]

    def remember_for_run(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return what `compute` gives, computed once and kept as long as the run: keep it small."""
        if key not in self._kept:
            self._kept[key] = compute()
        return self._kept[key]

    def forget(self) -> None:
        """Drop the matrices and what was remembered with them."""
        self._matrices = None
        self._memory.clear()
