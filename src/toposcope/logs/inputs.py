"""Logs that are no file: standard input, a stream, columns or records in memory, a store, a run folder."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
import pandas as pd

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Folder
from toposcope.logs.described import recorded_runs
from toposcope.logs.dialects.json_text import flat, text_values
from toposcope.logs.meanings import ALIASES, chosen, meaning, plain
from toposcope.logs.records import collected
from toposcope.logs.run import Run
from toposcope.store import MANIFEST

if TYPE_CHECKING:
    from toposcope.store import Store

STDIN = "-"
"""The path that stands for standard input."""
STANDARD_INPUT = "standard input"
TELLS_NAN = "tells_nan"
"""The attribute of a data frame that tells an absent number from one that was written as NaN."""
_STEPS = ("step", "epoch")

Columns: TypeAlias = Mapping[str, Sequence[Any]]
Records: TypeAlias = Sequence[Mapping[str, Any]]
Given: TypeAlias = str | Path | pd.DataFrame | IO[Any] | Columns | Records
"""What a log may be given as."""

_held: tuple[object, bytes] | None = None


class MemoryBlob:
    """Bytes in memory, read as a file is."""

    def __init__(self, content: bytes, label: str) -> None:
        self._content = content
        self.label = label
        self.size = len(content)
        self.stamp = str(self.size)

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return bytes `start` to `stop` as a fresh uint8 array."""
        return np.frombuffer(self._content[start:stop], np.uint8).copy()


def is_stream(source: object) -> TypeGuard[IO[Any]]:
    """Return whether a source is a stream of text or bytes."""
    return hasattr(source, "read") and not isinstance(source, str | Path)


def is_stdin(source: object) -> TypeGuard[str | Path]:
    """Return whether a source is the path that stands for standard input."""
    return isinstance(source, str | Path) and str(source) == STDIN


def is_in_memory(source: object) -> TypeGuard[pd.DataFrame | Columns | Records]:
    """Return whether a source holds its numbers itself: a data frame, columns by name, or records.

    >>> is_in_memory({"loss": [2.0, 1.9]}), is_in_memory([{"step": 1, "loss": 2.0}]), is_in_memory("a.csv")
    (True, True, False)
    >>> is_in_memory({"lm_head.weight": np.ones((2, 2))}), is_in_memory({"lm_head.bias": np.ones(2)})
    (False, False)
    """
    if isinstance(source, Mapping):
        listed = any(isinstance(values, list | tuple) for values in source.values())
        named = listed or any(meaning(name) in ALIASES or plain(name) == "epoch" for name in source)
        return named and all(_is_column(values) for values in source.values())
    if isinstance(source, list | tuple):
        rows = bool(source) and all(isinstance(row, Mapping) for row in source)
        return rows and not any(_is_column(value) for value in source[0].values())  # else tables
    return isinstance(source, pd.DataFrame)


def _is_column(values: object) -> bool:
    """Return whether a value is a list of numbers or texts, or an array with one axis: weights have more."""
    if isinstance(values, list | tuple | range):
        return not any(isinstance(value, Mapping | list | tuple) for value in values)
    return getattr(values, "ndim", 0) == 1


def tables_among(given: object) -> object:
    """Return sources with columns and records in memory as data frames; anything else is unchanged.

    >>> [type(one).__name__ for one in tables_among(["a.csv", {"loss": [2.0, 1.5]}])]
    ['str', 'DataFrame']
    """
    if is_in_memory(given):
        return frame_of(given)
    if isinstance(given, list | tuple):
        return [frame_of(table) if is_in_memory(table) else table for table in given]
    return given


def frame_of(source: pd.DataFrame | Columns | Records, label: str = "the table") -> pd.DataFrame:
    """Return columns by name (as Keras' `History.history`), or records, as a data frame.

    Columns without a step or an epoch are counted from 1. A number that a record lacks, or None, is absent.

    >>> frame_of({"loss": [2.0, 1.5], "val_loss": [2.5, None]}).to_dict("list")
    {'step': [1.0, 2.0], 'loss': [2.0, 1.5], 'val_loss': [2.5, nan]}

    Raises
    ------
    SourceError
        When columns have several lengths.
    """
    if isinstance(source, pd.DataFrame):
        return source
    if isinstance(source, Mapping):
        rows = rows_of_columns({str(name): _listed(values) for name, values in source.items()}, label)
    else:
        rows = [{str(name): value for name, value in row.items()} for row in source]
    table = collected((flat(row) for row in rows), label)
    texts = pd.DataFrame([text_values(row) for row in rows], index=table.index)
    table = pd.concat([table, texts[[name for name in texts if name not in table]]], axis=1)
    table.attrs[TELLS_NAN] = True
    return table


def _listed(values: Any) -> list[Any]:
    """Return a column as a list: an array, a tensor, a series, or one number for all rows."""
    if isinstance(values, str) or np.ndim(values) == 0:
        return [values]
    return list(values.tolist() if hasattr(values, "tolist") else values)


def rows_of_columns(columns: Mapping[str, list[Any]], label: str) -> list[dict[str, Any]]:
    """Return columns by name as records; one value stands for all rows, and absent steps are counted."""
    most = max(map(len, columns.values()), default=0)
    whole = {name: values * most if len(values) == 1 else values for name, values in columns.items()}
    if odd := [name for name, values in whole.items() if len(values) != most]:
        raise SourceError(
            f"{label}: column {odd[0]!r} has {len(whole[odd[0]]):,} values, the longest has {most:,}",
            remedy="give columns of one length; None where there is no number",
        )
    meanings = chosen(list(whole))
    steps = {} if "step" in meanings else {"step": list(range(1, most + 1))}
    full = {**steps, **whole}
    return [dict(zip(full, row, strict=True)) for row in zip(*full.values(), strict=True)]


def blob_of_stream(source: str | Path | IO[Any]) -> MemoryBlob:
    """Return a stream, or standard input, as a file; standard input is read once."""
    global _held
    if is_stream(source):
        content = source.read()
        name = getattr(source, "name", "")
        label = name if isinstance(name, str) and name and not name.startswith("<") else STANDARD_INPUT
        return MemoryBlob(content.encode() if isinstance(content, str) else bytes(content), label)
    if _held is None or _held[0] is not sys.stdin:
        stream = getattr(sys.stdin, "buffer", sys.stdin)
        content = stream.read() if stream is not None else b""
        _held = (sys.stdin, content.encode() if isinstance(content, str) else content)
    return MemoryBlob(_held[1], STANDARD_INPUT)


def runs_of_store(path: str | Path) -> list[Run] | None:
    """Return the runs of a store with their metrics and records; None if the folder is no store.

    Those without a row come last.
    """
    if not (Path(path) / MANIFEST).is_file():
        return None
    from toposcope.store import Store

    store = Store.open(path)
    records = {str(row["run"]): row for row in store.runs().to_dict("records")}
    metrics = store.metrics().groupby("run", sort=False)
    runs = recorded_runs(((run, with_companions(store, str(run), rows)) for run, rows in metrics), records)
    return [replace(run, replaced=store.replaced(run.name)) for run in runs]


def with_companions(store: Store, run: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the metrics of a run in a store with the columns that its log has beside the loss."""
    return joined(rows, store.companions(run))


def joined(rows: pd.DataFrame, beside: pd.DataFrame | None) -> pd.DataFrame:
    """Return the metrics of a run with the columns beside its loss, by step; the metrics' own come first."""
    if beside is None:
        return rows
    further = beside[["step", *(name for name in beside if name not in rows)]]
    return rows.merge(further, on="step", how="left")


def runs_of_run_folder(folder: Folder) -> list[Run] | None:
    """Return the run of a folder that `toposcope train` wrote; None if it has no parts of metrics."""
    if "metrics" not in folder.folders():
        return None
    from toposcope.logs.run_folder import parquet_parts
    from toposcope.store.parts import is_part

    inner = folder.sub("metrics")
    if not any(is_part(name) for name in inner.files()):
        return None
    name = folder.label.rstrip("/").rsplit("/", 1)[-1]
    return [Run(name, parquet_parts(inner, name).drop(columns="run"))]


def bytes_of(text: str) -> bytes:
    """Return a text as UTF-8; half letters of damaged JSON are replaced."""
    return io.BytesIO(text.encode("utf-8", "replace")).getvalue()
