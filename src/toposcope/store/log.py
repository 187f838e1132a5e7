"""The metrics of a run, split by step into files of bounded length, so a new row costs the same in any run.

`metrics/RUN.parquet` begins the log, `metrics/RUN.STEP.parquet` continues from that step. Each file is
replaced as a whole and never removed, so that a reader always sees every row exactly once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from toposcope.store import parts
from toposcope.store.schema import METRICS

MOST_ROWS = 2048
"""The largest number of rows in a file; further rows begin another file."""


def files(folder: Path, run: str | None = None) -> list[Path]:
    """Return the files of a run's log by step; without a run, those of all runs, run by run."""
    name = "[!.]*" if run is None else parts.slug(run)
    paths = {*folder.glob(f"{name}.parquet"), *folder.glob(f"{name}.*.parquet")}
    return sorted(paths, key=lambda path: (_head(path), _begin(path)))


def read(folder: Path, run: str | None, first: float = -math.inf, last: float = math.inf) -> pa.Table:
    """Return the rows of a run, or of all, with steps from `first` to `last`."""
    log_files = files(folder, run)
    wanted = [
        path
        for path, after in itertools.zip_longest(log_files, log_files[1:])
        if _begin(path) <= last and (after is None or _head(after) != _head(path) or _begin(after) > first)
    ]
    table = parts.read([_part(path) for path in wanted], METRICS)
    if math.isinf(first) and math.isinf(last):
        return table
    return table.filter(pc.and_(pc.greater_equal(table["step"], first), pc.less_equal(table["step"], last)))


def write(folder: Path, run: str, rows: pa.Table, noted: dict[str, object]) -> None:
    """Write the rows of a run; they replace all its earlier rows."""
    for path, part in _by_file(folder, run, rows):
        parts.write_atomically(part, path, noted)


def put(folder: Path, run: str, rows: pa.Table, noted: dict[str, object]) -> None:
    """Write rows of a run; they replace the rows at the same steps, and all other rows stay."""
    newest = (files(folder, run) or [_path(folder, run)])[-1]
    for path, new in _by_file(folder, run, rows):
        held = parts.read([_part(path)] if path.exists() else [], METRICS)
        steps = held["step"].to_numpy()
        if path == newest and len(steps) >= MOST_ROWS:
            new, beyond = _parted(new, new["step"].to_numpy() <= steps.max())
            if len(beyond):
                begin = beyond["step"].to_numpy().min()
                parts.write_atomically(_sorted(beyond), _path(folder, run, int(begin)), noted)
        if len(new):
            earlier, _ = _parted(held, ~np.isin(steps, new["step"].to_numpy()))
            parts.write_atomically(_sorted(pa.concat_tables([earlier, new])), path, noted)


def _by_file(folder: Path, run: str, rows: pa.Table) -> Iterator[tuple[Path, pa.Table]]:
    """Yield every file of a run's log with the rows that belong in it; the first file is always yielded."""
    log_files = files(folder, run) or [_path(folder, run)]
    place = np.searchsorted([_begin(path) for path in log_files[1:]], rows["step"].to_numpy(), side="right")
    for number, path in enumerate(log_files):
        yield path, _parted(rows, place == number)[0]


def _parted(table: pa.Table, wanted: np.ndarray) -> tuple[pa.Table, pa.Table]:
    return table.filter(pa.array(wanted)), table.filter(pa.array(~wanted))


def _sorted(table: pa.Table) -> pa.Table:
    return parts.sort_stably(table, ["step"])


def _path(folder: Path, run: str, begin: int | None = None) -> Path:
    return folder / f"{parts.slug(run)}{'' if begin is None else f'.{begin:012d}'}.parquet"


def _head(path: Path) -> str:
    return f"{path.name.split('.', 1)[0]}.parquet"


def _begin(path: Path) -> float:
    fields = path.name.split(".")
    return float(fields[1]) if len(fields) == 3 else -math.inf


def _part(path: Path) -> parts.Part:
    return parts.Part(path, path.name, "metrics", pack=True)
