"""The size, time and memory of a sweep, estimated before it starts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from toposcope.core.answered import counted
from toposcope.core.forms import size
from toposcope.core.processes import cores
from toposcope.core.progress import duration
from toposcope.core.threads import thread_count
from toposcope.core.types import Checkpoint
from toposcope.core.wording import option
from toposcope.subjects.base import Probe
from toposcope.subjects.roster import measurable
from toposcope.subjects.snapshot import CACHE_BYTES, Filed, SeriesLike
from toposcope.sweep.plan import Shard

PROCESS_BYTES = 300 * 2**20
"""Memory of a process without weights: Python, numpy, numba and torch."""
# Copies of the largest tensor that a process may need; with 300 MB it is the bound of docs/formats.md.
_WORK_PER_TENSOR = 3
# Seconds per byte of hashing a checkpoint once, and of reading it once for each probe.
_HASHING = 2e-9
_READING = 1e-9
_PER_THREAD = 0.8
"""Memory that each further thread adds if matrices are large enough for several threads."""
_HOUR = 3600.0
_DAY = 24 * _HOUR
# Float32 entries (4 bytes each) below which a matrix is not shared out among threads.
_SMALL = 1 << 20
_RATES_GOOD_TO = 3.0
"""The rates of probes were measured on one 2-core machine; other machines were within this factor."""
_COMPILING = 20.0
"""The longest time, in seconds, to load and compile kernels that never ran before, on that machine."""
# Seconds from which a message names the probe that takes more than half of them.
_LONG = 300.0
# Expected seconds from which more processes are started: each takes about two to start, and a sweep of ten
# seconds took longer in two processes than in one (12.8 s and 11.2 s, 2 cores, 2026-11-23).
_WORTH_PROCESSES = 30.0
# Checkpoints that one process takes together, if their matrices fit into the cache.
_MOST_TOGETHER = 16


@dataclass(frozen=True, slots=True)
class Expectation:
    """Sizes and costs of a sweep, from the shapes in each run's first checkpoint.

    `seconds` is for every measurement that the store does not have yet; it is based on rates from one 2-core
    machine and is right to within a factor of three. Probes without a stated cost are listed in `unknown`.
    `small` says that no matrix is worth a second thread in BLAS, and `together` how many checkpoints fit into
    memory at once.
    """

    runs: int
    checkpoints: int
    units: int
    bytes: int
    largest_tensor_bytes: int
    seconds: float
    by_probe: Mapping[str, float]
    memory_bytes: int
    unknown: tuple[str, ...]
    small: bool
    together: int
    each: Mapping[tuple[str, str], float]
    """Seconds per checkpoint by run and probe: the weight of a measurement in the progress bar."""
    jobs: int = 1
    """The assumed number of processes."""
    left_out: str = ""
    """Which tensors are not measured, and why."""
    chosen: bool = True
    """Whether its probes are chosen by name, not all made from the request of one subject."""

    def sentence(self) -> str:
        """Return the expectation in words."""
        left_out = f"\nnot measured as weights: {self.left_out}" if self.left_out else ""
        more = f" (and {', '.join(self.unknown)}, whose cost is not known)" if self.unknown else ""
        slowest, most = max(self.by_probe.items(), key=lambda item: item[1], default=("", 0.0))
        if self.seconds > _LONG and most > self.seconds / 2 and len(self.by_probe) > 1:
            more += f", {duration(most)} of it for {slowest}"
            more += f" (leave it out with {option('features')})" if self.chosen else ""
        return (
            f"{counted(self.checkpoints, self.runs)}, {size(self.bytes)} of weights, "
            f"{self.units} measurement{'s' * (self.units != 1)}; expecting "
            f"{self.span}{more} and {size(self.memory_bytes)} of memory{left_out}"
        )

    @property
    def seconds_between(self) -> tuple[float, float]:
        """The least and the most seconds: rates are uncertain, and kernels may have to compile."""
        return self.seconds / _RATES_GOOD_TO, _COMPILING + self.seconds * _RATES_GOOD_TO

    @property
    def span(self) -> str:
        """The shortest and the longest expected time, in words."""
        least, most = self.seconds_between
        return f"{duration(least)} to {duration(most)}"


def expect(
    series: SeriesLike,
    runs: Mapping[str, Sequence[Checkpoint]],
    probes: Sequence[Probe],
    *,
    shard: Shard | None = None,
    jobs: int | None = 1,
) -> Expectation:
    """Return what a sweep will cost; only headers are read.

    Without a given number of processes, it assumes as many as are worthwhile: one per core, if no matrix is
    large enough for several threads, the work is long enough, and half of the memory is sufficient. A run
    whose first checkpoint cannot be read counts as empty here; the sweep itself reports it.
    """
    if jobs is None:
        single = expect(series, runs, probes, shard=shard, jobs=1)
        jobs = _paying(single)
        if jobs == 1:
            return single
    share = 1 / (shard.count if shard else 1)
    work = _SweepCost(probes, jobs, share)
    for run, checkpoints in runs.items():
        work.add(run, len(checkpoints), _shapes(series, checkpoints[0]))
    count = round(sum(len(checkpoints) for checkpoints in runs.values()) * share)
    return Expectation(
        runs=len(runs),
        checkpoints=count,
        units=count * len(probes),
        bytes=round(work.stored * share),
        largest_tensor_bytes=work.largest,
        seconds=sum(work.seconds.values()) + work.reading,
        by_probe=work.seconds,
        memory_bytes=work.process_bytes * jobs,
        unknown=tuple(sorted(work.unknown)),
        small=work.small,
        together=max(1, min(_MOST_TOGETHER, CACHE_BYTES // max(work.checkpoint, 1))),
        each=work.each,
        jobs=jobs,
        left_out=series.left_out() if isinstance(series, Filed) else "",
        chosen=any(feature.about not in measurable() for probe in probes for feature in probe.features),
    )


@dataclass
class _SweepCost:
    """What the runs of a sweep cost, added up: bytes, and seconds of `jobs` processes."""

    probes: Sequence[Probe]
    jobs: int
    share: float
    """The share of the checkpoints that this process or shard measures."""
    stored: int = 0
    checkpoint: int = 0
    """Bytes of the largest checkpoint."""
    largest: int = 0
    """Bytes of the largest tensor."""
    scratch: int = 0
    """Bytes that the most demanding probe needs beside its tensor."""
    reading: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)
    each: dict[tuple[str, str], float] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)

    def add(self, run: str, checkpoints: int, shapes: Sequence[tuple[int, int, int]]) -> None:
        """Add a run whose checkpoints have matrices of these rows, columns and bytes per number."""
        sizes = [rows * columns * width for rows, columns, width in shapes]
        self.stored += sum(sizes) * checkpoints
        self.checkpoint, self.largest = max(self.checkpoint, sum(sizes)), max([self.largest, *sizes])
        reading = (_HASHING + _READING * len(self.probes)) * sum(sizes)
        self.reading += reading * checkpoints * self.share / self.jobs
        plain = [(rows, columns) for rows, columns, _ in shapes]
        for probe in self.probes:
            self._add_probe(run, checkpoints, probe, plain, reading / len(self.probes))

    def _add_probe(
        self, run: str, checkpoints: int, probe: Probe, shapes: Sequence[tuple[int, int]], reading: float
    ) -> None:
        self.scratch = max(self.scratch, probe.expected_bytes(shapes))
        alone = probe.expected_seconds(shapes)
        if alone is None:
            self.unknown.add(probe.name)
            return
        # matrices that are large enough use several threads in each process
        speed = self.jobs if self.small else max(self.jobs, 1 + _PER_THREAD * (thread_count() - 1))
        cost = alone * self.jobs / speed
        self.each[run, probe.name] = cost + reading
        cost *= checkpoints * self.share / self.jobs
        self.seconds[probe.name] = self.seconds.get(probe.name, 0.0) + cost

    @property
    def small(self) -> bool:
        """Whether no matrix so far is large enough for several threads."""
        return self.largest < 4 * _SMALL

    @property
    def process_bytes(self) -> int:
        """The memory of one process."""
        cached = min(self.checkpoint, CACHE_BYTES)
        return PROCESS_BYTES + _WORK_PER_TENSOR * self.largest + self.scratch + cached


def _paying(single: Expectation) -> int:
    """Return how many processes are worthwhile, given the time in one; the results do not change."""
    if not single.small or single.seconds < _WORTH_PROCESSES:
        return 1
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(cores(), memory // 2 // single.memory_bytes))


def _shapes(series: SeriesLike, checkpoint: Checkpoint) -> list[tuple[int, int, int]]:
    """Return rows, columns and bytes per number of a checkpoint's matrices, from headers if possible."""
    try:
        if isinstance(series, Filed):
            with series.reading(checkpoint) as reader:
                infos = list(reader.infos().values())
            flat = [
                (info.shape[:-1], info.shape[-1], info.dtype.itemsize)
                for info in infos
                if len(info.shape) > 1
            ]
            return [(_product(rows), columns, width) for rows, columns, width in flat]
        return [(*matrix.values.shape, matrix.values.itemsize) for matrix in series.matrices(checkpoint)]
    except (ValueError, OSError):
        return []


def _product(values: Sequence[int]) -> int:
    result = 1
    for value in values:
        result *= value
    return result


def is_long(seconds: float) -> bool:
    """Return whether a sweep takes more than an hour, so that a cheaper alternative is shown."""
    return seconds > _HOUR


def must_ask(seconds: float) -> bool:
    """Return whether a sweep takes more than a day, so that it needs the user's consent."""
    return seconds > _DAY
