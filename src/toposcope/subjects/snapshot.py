"""A checkpoint for probes: its matrices as a stream, its earlier checkpoints, and a cache for shared work."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from toposcope.core.errors import InputError, SourceError, of_full_disk
from toposcope.core.types import Checkpoint, Matrix, Role
from toposcope.sources.content import NOT_FINITE, all_finite

if TYPE_CHECKING:
    from toposcope.files.formats.reader import Reader
    from toposcope.models import LanguageModel, ModelLoader
    from toposcope.sources import Series

K = TypeVar("K")
T = TypeVar("T")


CACHE_BYTES = 64 * 2**20
"""A checkpoint with at most this many bytes of matrices is read once for all probes; a larger one streams."""


BATCH_BYTES = 16 * 2**20
"""Small matrices are measured together, up to this many bytes."""


@dataclass(frozen=True, slots=True)
class NonFiniteMatrix:
    """A matrix with NaN, infinity or values beyond float32, and the sentence that says so."""

    name: str
    role: Role
    layer: int | None
    head: int | None
    note: str


class SeriesLike(Protocol):
    """The part of a series that probes and the sweep need."""

    def matrices(self, checkpoint: Checkpoint) -> Iterator[Matrix]:
        """Stream the 2-D weights."""

    def content_hash(self, checkpoint: Checkpoint) -> str:
        """Return the hash of the checkpoint's content."""

    def origin(self, checkpoint: Checkpoint) -> tuple[Series, Checkpoint]:
        """Return the series that holds a checkpoint, and its name there."""


@runtime_checkable
class Stored(Protocol):
    """A series that streams its weights without refusing a checkpoint for a matrix that is not finite.

    The rest of its checkpoint can then be measured.
    """

    def stored_matrices(self, checkpoint: Checkpoint) -> Iterator[Matrix]:
        """Stream the 2-D weights as they are stored."""


@runtime_checkable
class Whole(Protocol):
    """A series that also has parameters of fewer than two dimensions, and lists the names of all."""

    def vectors(self, checkpoint: Checkpoint) -> Iterator[Matrix]:
        """Stream the parameters of fewer than two dimensions, each as one row."""

    def weight_names(self, checkpoint: Checkpoint) -> tuple[str, ...]:
        """Return the names of all parameters."""


@runtime_checkable
class Filed(Protocol):
    """A series of files: shapes come from headers, and it names what it left out."""

    def reading(self, checkpoint: Checkpoint) -> AbstractContextManager[Reader]:
        """Open the files of a checkpoint."""

    def left_out(self) -> str:
        """Return in words which parts of the files were left out; empty if none were."""


@runtime_checkable
class FetchedSeries(Protocol):
    """A series whose checkpoints may have to be fetched; a checkpoint that is held is fetched only once."""

    def holding(self, checkpoint: Checkpoint) -> AbstractContextManager[None]:
        """Keep the fetched files of a checkpoint until the context exits."""


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
    """Return the result of `compute` for another checkpoint; None if that one cannot be read or measured."""
    try:
        return compute()
    except (InputError, OSError) as error:
        if of_full_disk(error):
            raise
        return None


class RunReader:
    """The checkpoints of one run, opened one after the other.

    Snapshots that are no longer in use drop their matrices, but keep what they remember for the run.
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
        self.non_finite: tuple[NonFiniteMatrix, ...] = ()
        """The matrices that are not finite, among those read so far."""
        self.left_out: tuple[NonFiniteMatrix, ...] = ()
        """The matrices that `matrices` has left out since this list was last emptied."""
        self._matrices: tuple[Matrix, ...] | None = None
        self._memory: dict[Hashable, Any] = {}
        self._cache: dict[Hashable, Any] = {}

    @property
    def previous(self) -> Snapshot | None:
        """Return the checkpoint before this one, None at the first."""
        return self._reader[self.index - 1] if self.index else None

    @property
    def without_previous(self) -> str:
        """Return the note for results that are missing because the previous checkpoint is unreadable."""
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
        """Stream the finite 2-D weights; if they are small together, they are read from disk only once.

        Raises
        ------
        SourceError
            When the checkpoint cannot be read, or no weight matrix of it is finite.
        """
        if self._matrices is not None:
            self.left_out = self.non_finite
            yield from self._matrices
            return
        cached: list[Matrix] | None = []
        non_finite: list[NonFiniteMatrix] = []
        size = 0
        for matrix in self._stored():
            size += matrix.values.nbytes
            if size > CACHE_BYTES:
                cached = None
            if matrix.fault or not all_finite(matrix.values):
                non_finite.append(_non_finite(self.checkpoint, matrix))
                continue
            if cached is not None:
                cached.append(matrix)
            yield matrix
            del matrix  # or the next one would be read while this one is still held
        self.non_finite = self.left_out = tuple(non_finite)
        if cached is not None:
            if non_finite and not cached:
                raise SourceError(non_finite[0].note)
            self._matrices = tuple(cached)

    def vectors(self) -> tuple[Matrix, ...]:
        """Return the parameters of fewer than two dimensions, each as one row; empty if unknown."""
        series = self._reader.series
        if not isinstance(series, Whole):
            return ()
        return self.remember(("vectors",), lambda: tuple(series.vectors(self.checkpoint)))

    def weight_names(self) -> frozenset[str]:
        """Return the names of all parameters, matrices and others; empty if unknown."""
        series = self._reader.series
        return frozenset(series.weight_names(self.checkpoint)) if isinstance(series, Whole) else frozenset()

    def model(self, loader: ModelLoader | None = None) -> AbstractContextManager[LanguageModel]:
        """Open the checkpoint's language model; to be entered with `with`."""
        from toposcope.models.loading import ModelLoader

        return (loader or ModelLoader()).model(*self.origin())

    def origin(self) -> tuple[Series, Checkpoint]:
        """Return the series whose files hold this checkpoint, and its name there."""
        return self._reader.series.origin(self.checkpoint)

    @property
    def config(self) -> Mapping[str, Any]:
        """Return the configuration of the run's model; empty if the series has none."""
        config_of = getattr(self._reader.series, "config", None)
        return config_of(self.checkpoint.run) if callable(config_of) else {}

    def _stored(self) -> Iterator[Matrix]:
        series = self._reader.series
        stream = series.stored_matrices if isinstance(series, Stored) else series.matrices
        return stream(self.checkpoint)

    def remembers(self, key: Hashable) -> bool:
        """Return whether `remember` has been called with `key` already."""
        return key in self._memory

    def remember(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the result of `compute`, cached while this checkpoint is in use."""
        if key not in self._memory:
            self._memory[key] = compute()
        return self._memory[key]

    def remember_for_run(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the result of `compute`, cached as long as the run: it must be small."""
        if key not in self._cache:
            self._cache[key] = compute()
        return self._cache[key]

    def forget(self) -> None:
        """Drop the matrices and the cached results."""
        self._matrices = None
        self._memory.clear()


def _non_finite(at: Checkpoint, matrix: Matrix) -> NonFiniteMatrix:
    fault = matrix.fault or (f"{NOT_FINITE}; the run diverged or the file is damaged: leave this step out")
    note = f"run {at.run!r} step {at.step:,}: tensor {matrix.name!r} {fault}"
    return NonFiniteMatrix(matrix.name, matrix.role, matrix.layer, matrix.head, note)
