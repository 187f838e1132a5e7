"""Measures the next checkpoint of a growing run into its store, with the worker of the sweep."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toposcope.core.types import Checkpoint, Matrix, RunRecord, Scope
from toposcope.files.blobs import Folder, open_location
from toposcope.files.formats.reader import Reader
from toposcope.sources.discover import Entry, Source, open_folder
from toposcope.sources.entries import open_plain
from toposcope.sources.series import Series
from toposcope.store import Store
from toposcope.store.units import digest
from toposcope.subjects.base import Measured, Probe, Reads
from toposcope.subjects.snapshot import SeriesLike, Snapshot
from toposcope.sweep.plan import Task
from toposcope.sweep.worker import Job, Outcome, Worker

_OF_ONE = (Scope.MATRIX, Scope.HEAD)


@dataclass(frozen=True, slots=True)
class Turn:
    """Which tensors are measured at one step (None: all of them), and where the next turn starts."""

    names: tuple[str, ...] | None
    start: str = ""


def take_turn(sizes: Sequence[tuple[str, int]], budget: int | None, start: str = "") -> Turn:
    """Choose tensors of at most `budget` bytes in all, at least one, beginning with the one named `start`.

    >>> sizes = [("a", 60), ("b", 60), ("c", 30)]
    >>> take_turn(sizes, 100), take_turn(sizes, 100, "b")
    (Turn(names=('a',), start='b'), Turn(names=('b', 'c'), start='a'))
    >>> take_turn(sizes, 150).names is None
    True
    """
    if budget is None or sum(size for _, size in sizes) <= budget:
        return Turn(None)
    names = [name for name, _ in sizes]
    first = names.index(start) if start in names else 0
    chosen: list[str] = []
    used = 0
    for name, size in [*sizes[first:], *sizes[:first]]:
        if chosen and used + size > budget:
            return Turn(tuple(chosen), name)
        chosen.append(name)
        used += size
    return Turn(tuple(chosen), names[first])


class GrowingSeries:
    """The available checkpoints of growing runs, with the series interface that the sweep needs."""

    def __init__(self, *, split: str = "table") -> None:
        self.only: Collection[str] | None = None
        """The tensors to read, all by default."""
        self._split = split
        self._series: dict[Checkpoint, tuple[Series, Checkpoint]] = {}

    def add(self, at: Checkpoint, source: Source, entry: Entry) -> None:
        """Add a checkpoint of `source` under its name in the store."""
        alone = dataclasses.replace(source, entries=(entry,))
        self._series[at] = Series(f"run {at.run}", [alone], split=self._split), entry.checkpoint

    def drop(self, at: Checkpoint) -> None:
        """Remove a checkpoint."""
        self._series.pop(at, None)

    def __contains__(self, at: object) -> bool:
        """Return whether a checkpoint is available."""
        return at in self._series

    def stored_matrices(self, checkpoint: Checkpoint) -> Iterator[Matrix]:
        """Stream the 2-D weights of the tensors in `only`, under the store's name of the run."""
        series, its_checkpoint = self._series[checkpoint]
        for matrix in series.stored_matrices(its_checkpoint, self.only):
            yield dataclasses.replace(matrix, checkpoint=checkpoint)

    def matrices(self, checkpoint: Checkpoint) -> Iterator[Matrix]:
        """Stream the same tensors as `stored_matrices`."""
        return self.stored_matrices(checkpoint)

    def vectors(self, checkpoint: Checkpoint) -> Iterator[Matrix]:
        """Stream the parameters of fewer than two dimensions: they are small, so every step reads them."""
        series, its_checkpoint = self._series[checkpoint]
        for vector in series.vectors(its_checkpoint):
            yield dataclasses.replace(vector, checkpoint=checkpoint)

    def weight_names(self, checkpoint: Checkpoint) -> tuple[str, ...]:
        """Return the names of all parameters, including those that this step does not read."""
        series, its_checkpoint = self._series[checkpoint]
        return series.weight_names(its_checkpoint)

    def unread(self, checkpoint: Checkpoint) -> list[str]:
        """Return the tensors that are not weights to measure, each with the reason."""
        series, its_checkpoint = self._series[checkpoint]
        return [f"{name} ({why})" for name, why in series.skipped(its_checkpoint).items()]

    def sizes(self, checkpoint: Checkpoint) -> list[tuple[str, int]]:
        """Return name and bytes of every tensor that holds weights."""
        series, its_checkpoint = self._series[checkpoint]
        with series.reading(its_checkpoint) as reader:
            return [(info.name, info.nbytes) for info in reader.infos().values() if len(info.shape) > 1]

    def whole_hash(self, checkpoint: Checkpoint) -> str:
        """Return the hash of all tensors."""
        series, its_checkpoint = self._series[checkpoint]
        return series.content_hash(its_checkpoint)

    def content_hash(self, checkpoint: Checkpoint) -> str:
        """Return the hash of the tensors that are read; a part never has the hash of the whole."""
        whole = self.whole_hash(checkpoint)
        return whole if self.only is None else digest([whole, "only", *sorted(self.only)])

    def origin(self, checkpoint: Checkpoint) -> tuple[Series, Checkpoint]:
        """Return the series that holds a checkpoint, and its name there."""
        return self._series[checkpoint]

    def describe(self, checkpoint: Checkpoint) -> RunRecord:
        """Return the record of a checkpoint's run."""
        return self._series[checkpoint][0].runs[0]

    def config(self, run: str) -> Mapping[str, object]:
        """Return the configuration of a run's model."""
        return next((self.describe(at).config for at in self._series if at.run == run), {})

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        """What is known of the available runs."""
        return tuple(dataclasses.replace(self.describe(at), run=at.run) for at in self._series)


def opened(path: Path) -> Callable[[], Reader]:
    """Return a function that opens the checkpoint at a path, wherever its files are linked."""

    def read() -> Reader:
        location = open_location(str(path))
        return open_folder(location) if isinstance(location, Folder) else open_plain(location)

    return read


class Measurer:
    """Measures checkpoints one at a time; it keeps its store open, so each checkpoint costs the same."""

    def __init__(self, store: Store, probes: Sequence[Probe], *, keep_diagrams: bool = False) -> None:
        self.store, self._keep_diagrams = store, keep_diagrams
        self._probes = tuple(probe for probe in probes if probe.reads != Reads.PREFIX)
        for probe in self._probes:
            store.write_catalogue(probe.name, probe.features)

    def measure(
        self, series: SeriesLike, at: Checkpoint, before: Checkpoint | None, *, first: bool, partly: bool
    ) -> Outcome:
        """Measure every probe at `at` that the store lacks; the outcome lists what failed.

        `before` is the previous checkpoint, if available. Without it, probes that need it are left out,
        unless `at` is the `first` of its run. With `partly`, only rows about single matrices and heads
        are kept.
        """
        probes = [p for p in self._probes if first or before is not None or p.reads == Reads.ONE]
        if partly:
            probes = [OfMatrices(probe) for probe in probes]
        checkpoints = (at,) if before is None else (before, at)
        job = Job(series, {at.run: checkpoints}, tuple(probes), self.store.path, self._keep_diagrams)
        names = tuple(probe.name for probe in probes)
        return Worker(job, self.store).do(Task(at.run, (len(checkpoints) - 1,), names))


class OfMatrices(Probe):
    """A probe without its rows about the whole model, for steps at which only some tensors are measured."""

    def __init__(self, inner: Probe) -> None:
        self.inner = inner
        self.name, self.features = inner.name, inner.features
        self.options = getattr(inner, "options", None)
        self.version, self.reads = inner.version, inner.reads  # type: ignore[misc]

    def measure(self, snapshot: Snapshot) -> Measured:
        """Return the rows about single matrices and heads."""
        measured = self.inner.measure(snapshot)
        return Measured([row for row in measured.rows if row.scope in _OF_ONE], [], measured.alone)
