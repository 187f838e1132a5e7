"""What a sweep will read, how long it will take and how much memory, said before it starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toposcope.probes.base import Probe
from toposcope.probes.snapshot import CACHE_BYTES, SeriesLike
from toposcope.sweep.plan import Shard
from toposcope.types import Checkpoint

_PROCESS_BYTES = 300 * 2**20
_WORK_PER_TENSOR = 3
_SMALL = 1 << 20
_LONG = 300.0
_MOST_TOGETHER = 16


@dataclass(frozen=True, slots=True)
class Expectation:
    """Sizes and costs of a sweep, from the shapes in each run's first checkpoint.

    `seconds` is for every unit, without what the store already has; it rests on rates measured on one
    2-core machine and is good to a factor of three. Probes that do not say what they cost are listed in
    `unknown`. `small` says that no matrix is worth a second thread in BLAS, and `together` how many
    checkpoints fit into memory at once.
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

    def sentence(self) -> str:
        """Return the expectation in words."""
        more = f" (and {', '.join(self.unknown)}, whose cost is not known)" if self.unknown else ""
        slowest, most = max(self.by_probe.items(), key=lambda item: item[1], default=("", 0.0))
        if self.seconds > _LONG and most > self.seconds / 2 and len(self.by_probe) > 1:
            more += f", {duration(most)} of it for {slowest} (--features leaves it out)"
        return (
            f"{self.checkpoints} checkpoints of {self.runs} run{'s' * (self.runs != 1)}, "
            f"{size(self.bytes)} of weights, {self.units} units of work; expecting about "
            f"{duration(self.seconds)}{more} and {size(self.memory_bytes)} of memory"
        )


def expect(
    series: SeriesLike,
    runs: Mapping[str, Sequence[Checkpoint]],
    probes: Sequence[Probe],
    *,
    shard: Shard | None = None,
    jobs: int = 1,
) -> Expectation:
    """Return what a sweep will cost; only headers are read.

    A run whose first checkpoint cannot be read counts as empty here; the sweep itself will say so.
    """
    share = 1 / (shard.count if shard else 1)
    total = 0.0
    seconds: dict[str, float] = {}
    unknown: set[str] = set()
    largest = most = 0
    for checkpoints in runs.values():
        shapes = _shapes(series, checkpoints[0])
        sizes = [rows * columns * width for rows, columns, width in shapes]
        total += sum(sizes) * len(checkpoints)
        most, largest = max([most, sum(sizes)]), max([largest, *sizes])
        plain = [(rows, columns) for rows, columns, _ in shapes]
        for probe in probes:
            each = probe.expected_seconds(plain)
            if each is None:
                unknown.add(probe.name)
            else:
                cost = each * len(checkpoints) * share / jobs
                seconds[probe.name] = seconds.get(probe.name, 0.0) + cost
    count = sum(len(checkpoints) for checkpoints in runs.values())
    memory = _PROCESS_BYTES + _WORK_PER_TENSOR * largest + min(most, CACHE_BYTES)
    return Expectation(
        runs=len(runs),
        checkpoints=round(count * share),
        units=round(count * share) * len(probes),
        bytes=round(total * share),
        largest_tensor_bytes=largest,
        seconds=sum(seconds.values()),
        by_probe=seconds,
        memory_bytes=memory * jobs,
        unknown=tuple(sorted(unknown)),
        small=largest < 4 * _SMALL,
        together=max(1, min(_MOST_TOGETHER, CACHE_BYTES // max(most, 1))),
    )


def _shapes(series: SeriesLike, checkpoint: Checkpoint) -> list[tuple[int, int, int]]:
    """Return rows, columns and bytes per number of a checkpoint's matrices, from headers if it can."""
    try:
        if hasattr(series, "reading"):
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


def size(count: float) -> str:
    """Return a number of bytes in words.

    >>> size(2_500_000), size(3.2e10)
    ('2.5 MB', '32.0 GB')
    """
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def duration(seconds: float) -> str:
    """Return a time in words.

    >>> duration(4), duration(600), duration(9000)
    ('4 s', '10 min', '2.5 h')
    """
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
