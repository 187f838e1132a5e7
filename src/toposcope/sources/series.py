"""A series of checkpoints: runs, steps, matrices, metrics and content hashes, whatever the format."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from toposcope.core.answered import Tables, answered, counted
from toposcope.core.errors import SourceError, did_you_mean
from toposcope.core.forms import listed
from toposcope.core.observations import NOT_LOOKED_AT, AuditFinding
from toposcope.core.types import Checkpoint, Matrix, RunRecord
from toposcope.files.formats.reader import Reader
from toposcope.logs import history
from toposcope.sources._described import described
from toposcope.sources.content import (
    Signature,
    check_finite,
    check_names,
    signature,
    tensor_hash,
)
from toposcope.sources.discover import Entry, Source, Unread, base_name
from toposcope.sources.matrices import is_vector, is_weight, stream_matrices, stream_vectors, why_skipped
from toposcope.sources.memory import Tensors, derived_entry
from toposcope.sources.unseen import UnseenWeights

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from toposcope.logs.pairing import LogOfRun


class Series:
    """Checkpoints of one or several runs, sorted by run and step; nothing is loaded until it is read.

    Use `open_series` to make one.

    >>> import numpy as np
    >>> from toposcope import open_series
    >>> series = open_series({step: {"fc.weight": np.eye(3)} for step in (0, 10)})
    >>> len(series), [checkpoint.step for checkpoint in series]
    (2, [0, 10])
    >>> next(series.matrices(next(iter(series)))).name
    'fc.weight'
    """

    def __init__(
        self,
        uri: str,
        sources: Sequence[Source],
        *,
        split: str = "table",
        losses: pd.DataFrame | None = None,
        unread: Sequence[Unread] = (),
        beside: UnseenWeights | None = None,
    ) -> None:
        self.uri = uri
        self.unread = tuple(unread)
        """Files and folders among the checkpoints that were not checked, and why."""
        self.beside = beside or UnseenWeights()
        """Weights beside the checkpoints: an audit looks at its copies alone, and names the foreign ones."""
        self._split = split
        self._losses = losses
        self._sources = {
            source.run.run: source for source in sorted(sources, key=lambda source: source.run.run)
        }
        self._entries: dict[Checkpoint, Entry] = {}
        self.duplicates: tuple[Checkpoint, ...] = ()
        """Checkpoints whose step another checkpoint of the run already has; iteration leaves them out."""
        self._fill()
        self._signatures: dict[str, Signature | None] = {}
        self._hashes: dict[Checkpoint, dict[str, str]] = {}
        self._described: tuple[RunRecord, ...] | None = None
        self.computed = False
        """Whether the tensors are computed from a checkpoint on reading, instead of being its own."""
        self._latest: tuple[Checkpoint, Reader] | None = None

    def _fill(self) -> None:
        seen: set[tuple[str, int]] = set()
        duplicates = []
        for name, source in self._sources.items():
            for entry in sorted(
                source.entries, key=lambda entry: (entry.checkpoint.step, entry.checkpoint.uri)
            ):
                key = (name, entry.checkpoint.step)
                if key in seen:
                    duplicates.append(entry.checkpoint)
                else:
                    self._entries[entry.checkpoint] = entry
                    seen.add(key)
        self.duplicates = tuple(duplicates)

    def __iter__(self) -> Iterator[Checkpoint]:
        """Iterate over the checkpoints, by run and step."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Return the number of checkpoints."""
        return len(self._entries)

    def __repr__(self) -> str:
        """Return how much the series holds, what is wrong with its files, and where it is."""
        duplicates = len(self.duplicates)
        wrong = f"; {duplicates} more are duplicates of a step: .findings has them" if duplicates else ""
        wrong += f"; {len(self.unread):,} not checked: .findings has them" if self.unread else ""
        return f"{counted(len(self), len(self._sources))}{wrong}\nseries {self.uri}; .tables lists them"

    def _repr_html_(self) -> str:
        return answered(repr(self), self.tables["checkpoints"])

    @property
    def tables(self) -> Tables:
        """The checkpoints and the runs as tables, with the fields of `Checkpoint` and of `Run`."""
        return Tables(
            checkpoints=lambda: pd.DataFrame(list(self), columns=_names(Checkpoint)),
            runs=lambda: pd.DataFrame(list(self.runs), columns=_names(RunRecord)),
        )

    @property
    def findings(self) -> tuple[AuditFinding, ...]:
        """The checkpoints left out because another one has their step, and what cannot be read."""
        twice = (
            AuditFinding(
                duplicate.run,
                duplicate.step,
                "",
                f"{duplicate.uri} has this step as well",
                fault="duplicate-step",
            )
            for duplicate in self.duplicates
        )
        odd = (
            AuditFinding(base_name(weights_file.place), None, "", weights_file.why, fault=NOT_LOOKED_AT)
            for weights_file in self.unread
        )
        return (*twice, *odd)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw each run's checkpoints and the steps that it has twice; return the axes."""
        from toposcope.core.drawing.checkpoints import draw_checkpoints

        return draw_checkpoints(self.steps, self.findings, ax)

    @property
    def steps(self) -> dict[str, list[int]]:
        """The steps of every run's checkpoints."""
        steps_by_run: dict[str, list[int]] = {run: [] for run in self._sources}
        for checkpoint in self:
            steps_by_run[checkpoint.run].append(checkpoint.step)
        return steps_by_run

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        """The runs, by name; family and number of parameters come from the first readable checkpoint."""
        if self._described is None:
            self._described = tuple(described(source) for source in self._sources.values())
        return self._described

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the runs."""
        return tuple(self._sources)

    def config(self, run: str) -> Mapping[str, object]:
        """Return the configuration of a run's model; empty if no file states it."""
        return next((run_record.config for run_record in self.runs if run_record.run == run), {})

    def identity(self, checkpoint: Checkpoint) -> dict[str, str] | None:
        """Return the hashes (name -> hash) of a checkpoint's files as its host states them."""
        identity_of = self._entries[checkpoint].identity
        return dict(identity_of()) if identity_of is not None else None

    def raw_steps(self, run: str) -> list[int]:
        """Return the steps of a run's own loss history in their original order."""
        return self._source(run).raw_steps()

    def of_run(self, run: str) -> list[Checkpoint]:
        """Return the checkpoints of one run, by step."""
        self._source(run)
        return [checkpoint for checkpoint in self._entries if checkpoint.run == run]

    def _source(self, run: str) -> Source:
        if run not in self._sources:
            raise SourceError(
                f"{self.uri}: has no run {run!r}; it has {', '.join(list(self._sources)[:8])}"
                + did_you_mean(run, self._sources)
            )
        return self._sources[run]

    @contextmanager
    def reading(self, checkpoint: Checkpoint) -> Iterator[Reader]:
        """Open a checkpoint's tensors; fetched files are removed at the end."""
        entry = self._entries.get(checkpoint)
        if entry is None:
            raise SourceError(
                f"{self.uri}: run {checkpoint.run!r} has no step {checkpoint.step:,}",
                remedy="choose one of its steps",
            )
        try:
            yield self._reader(checkpoint, entry)
        except SourceError:
            self._latest = None
            raise
        finally:
            entry.release()

    def module(self, checkpoint: Checkpoint) -> object | None:
        """Return the module that holds a checkpoint in memory; None for files and arrays."""
        return self._entries[checkpoint].module if checkpoint in self._entries else None

    def place(self, checkpoint: Checkpoint) -> str:
        """Return where a checkpoint's files are now: its address, unless they are kept elsewhere."""
        return self._entries[checkpoint].place or checkpoint.uri

    def origin(self, checkpoint: Checkpoint) -> tuple[Series, Checkpoint]:
        """Return the series that reads a checkpoint, and its name there: here, this one and itself."""
        return self, checkpoint

    def derived(self, tensors: Tensors, key: Callable[[Checkpoint], str], *, what: str) -> Series:
        """Return the same checkpoints with other tensors, which `tensors` computes on reading.

        `key` returns the bytes for their content hash, so that hashing does not compute the tensors.
        """
        sources = [
            dataclasses.replace(
                source,
                run=run,
                entries=tuple(
                    derived_entry(entry, tensors, key, what)
                    for entry in self._entries.values()
                    if entry.checkpoint.run == run.run
                ),
                metrics=partial(self.metrics, run.run),
                companions=partial(self.companions, run.run),
                replaced=partial(self.replaced, run.run),
                config=source.config or run.config,
            )
            for source, run in zip(self._sources.values(), self.runs, strict=True)
        ]
        derived_series = Series(f"{self.uri} ({what})", sources)
        derived_series._described, derived_series.computed = self.runs, True
        return derived_series

    @contextmanager
    def holding(self, checkpoint: Checkpoint) -> Iterator[None]:
        """Keep the fetched files of a checkpoint until the block ends, so that they are fetched only once."""
        entry = self._entries[checkpoint]
        entry.hold()
        try:
            yield
        finally:
            entry.release()

    def _reader(self, checkpoint: Checkpoint, entry: Entry) -> Reader:
        """Open a checkpoint; the latest reader is kept, because measuring follows hashing."""
        if self._latest is not None and self._latest[0] == checkpoint and entry.identity is None:
            return self._latest[1]
        reader = entry.open()
        check_names(reader)
        self._latest = (checkpoint, reader)
        return reader

    def matrices(self, checkpoint: Checkpoint) -> Iterator[Matrix]:
        """Yield the 2-D weights of a checkpoint, one in memory at a time.

        Embeddings and head are included, with their roles; norms and other 1-D parameters are not. Values are
        float32, or the stored 16-bit type.

        Raises
        ------
        SourceError
            When the checkpoint cannot be read, holds a NaN or infinite weight or a matrix that float32 cannot
            hold, or has other tensors than its neighbours.
        """
        for matrix in self.stored_matrices(checkpoint):
            if matrix.fault:
                at = f"run {checkpoint.run!r} step {checkpoint.step:,}"
                raise SourceError(f"{at}: tensor {matrix.name!r} {matrix.fault}")
            check_finite(checkpoint, matrix.name, matrix.values)
            yield matrix

    def stored_matrices(
        self, checkpoint: Checkpoint, only: Collection[str] | None = None
    ) -> Iterator[Matrix]:
        """Yield the same as `matrices`, without checking values; `only` names the tensors to read."""
        with self.reading(checkpoint) as reader:
            self._check_neighbours(checkpoint, reader)
            config = self._source(checkpoint.run).config or reader.facts().config
            yield from stream_matrices(reader, checkpoint, split=self._split, config=config, only=only)

    def vectors(self, checkpoint: Checkpoint) -> Iterator[Matrix]:
        """Yield the parameters of fewer than two dimensions, each as one row, finite or not."""
        with self.reading(checkpoint) as reader:
            self._check_neighbours(checkpoint, reader)
            yield from stream_vectors(reader, checkpoint)

    def weight_names(self, checkpoint: Checkpoint) -> tuple[str, ...]:
        """Return the names of all parameters that a checkpoint's headers list."""
        with self.reading(checkpoint) as reader:
            infos = reader.infos().values()
            return tuple(info.name for info in infos if is_vector(info) or is_weight(info))

    def tensors(self, checkpoint: Checkpoint) -> Iterator[tuple[str, np.ndarray]]:
        """Yield every readable tensor of a checkpoint with its name, in the file's order."""
        with self.reading(checkpoint) as reader:
            self._check_neighbours(checkpoint, reader)
            for name, info in reader.infos().items():
                if not info.skip:
                    yield name, reader.read(name)

    def skipped(self, checkpoint: Checkpoint) -> dict[str, str]:
        """Return the tensors that `matrices` leaves out, and why: unreadable ones, buffers, other shapes.

        Norms, biases and other tensors of fewer than two dimensions are parameters but not matrices, and are
        not listed.
        """
        with self.reading(checkpoint) as reader:
            reasons = {name: why_skipped(info) for name, info in reader.infos().items()}
        return {name: why for name, why in reasons.items() if why}

    def left_out(self) -> str:
        """Return in a sentence what is not measured in the first readable checkpoint; empty if nothing.

        Checkpoints that would have to be fetched are not opened.
        """
        for checkpoint in self:
            if self._entries[checkpoint].identity is not None:
                continue
            try:
                reasons = self.skipped(checkpoint)
            except (SourceError, OSError):
                continue
            by_reason: dict[str, list[str]] = {}
            for name, why in reasons.items():
                by_reason.setdefault(why, []).append(name)
            return "; ".join(f"{listed(names, most=1)}: {why}" for why, names in by_reason.items())
        return ""

    def metrics(self, run: str) -> pd.DataFrame:
        """Return the loss history of a run, with the columns of the store's metrics table."""
        logged_rows = self._source(run).metrics()
        if self._losses is None:
            return logged_rows
        return history.join(logged_rows, self._losses, run)

    def companions(self, run: str) -> pd.DataFrame | None:
        """Return what a run logs beside its loss and may judge it, such as a reward; None without any."""
        return self._source(run).companions()

    def replaced(self, run: str) -> pd.DataFrame | None:
        """Return the rows of a run's log that a restart replaced; None without any."""
        return self._source(run).replaced()

    def logs(self) -> dict[str, str]:
        """Return, in one line each, the logs of runs that have no losses of their own."""
        lines_by_run = {name: source.log() for name, source in self._sources.items()}
        return {name: line for name, line in lines_by_run.items() if line}

    def log_questions(self) -> dict[str, LogOfRun]:
        """Return, by run, the logs beside its checkpoints that disagree, so that none of them is read."""
        if self._losses is not None:
            return {}
        choices = {name: source.choice() for name, source in self._sources.items()}
        return {name: choice for name, choice in choices.items() if choice.candidates}

    def content_hash(self, checkpoint: Checkpoint) -> str:
        """Return the SHA-256 of names, shapes, dtypes and values: the same weights have the same hash.

        On the hub it is a hash of the files' own hashes, so nothing is fetched.
        """
        digest = hashlib.sha256()
        identity_hashes = self.identity(checkpoint)
        for name, value in sorted((identity_hashes or self.tensor_hashes(checkpoint)).items()):
            digest.update(f"{name}\0{value}\n".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def tensor_hashes(self, checkpoint: Checkpoint) -> dict[str, str]:
        """Return the SHA-256 of every tensor's dtype, shape and values."""
        if checkpoint not in self._hashes:
            with self.reading(checkpoint) as reader:
                self._hashes[checkpoint] = {
                    name: tensor_hash(reader, info) for name, info in reader.infos().items()
                }
        return dict(self._hashes[checkpoint])

    def _check_neighbours(self, checkpoint: Checkpoint, reader: Reader) -> None:
        if self.computed:
            return
        actual = signature(reader.infos())
        if self._entries[checkpoint].identity is not None:
            self._signatures.setdefault(
                checkpoint.run, actual
            )  # the first one; others would have to be fetched
        expected = self._signature_of_run(checkpoint.run)
        if expected is None or actual == expected:
            return
        name, _ = min(actual ^ expected)
        here, there = dict(actual).get(name), dict(expected).get(name)
        what = f"has shape {here}; its neighbours have {there}"
        if here is None or there is None:
            what = "is missing" if here is None else "is in none of its neighbours"
        raise SourceError(
            f"{reader.label}: tensor {name!r} {what}; is step {checkpoint.step:,} from another run? "
            "Remove it or open it alone"
        )

    def _signature_of_run(self, run: str) -> Signature | None:
        """Return the names and shapes that most of the first, middle and last checkpoints have."""
        if run not in self._signatures:
            checkpoints = self.of_run(run)
            picked = {0, len(checkpoints) // 2, len(checkpoints) - 1}
            signatures: list[Signature] = []
            for index in sorted(picked) if len(checkpoints) > 1 else []:
                try:
                    with self.reading(checkpoints[index]) as reader:
                        signatures.append(signature(reader.infos()))
                except SourceError:
                    continue
            self._signatures[run] = Counter(signatures).most_common(1)[0][0] if signatures else None
        return self._signatures[run]


def _names(noun: type[Checkpoint | RunRecord]) -> list[str]:
    return [field.name for field in dataclasses.fields(noun)]
