"""Tables of numbers: CSV and parquet files, and the exports of W&B, MLflow, TensorBoard and Lightning."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from toposcope.core.errors import SourceError
from toposcope.core.wording import renaming
from toposcope.files.blobs import Blob
from toposcope.logs.dialects.dialect import FileDialect
from toposcope.logs.dialects.phrases import HELD_OUT, TRAINED
from toposcope.logs.dialects.table_head import looks_like_table
from toposcope.logs.lines import text_of, whole_text
from toposcope.logs.meanings import meaning, plain
from toposcope.logs.records import number
from toposcope.logs.run import Run, is_nan_column, nan_column

LARGEST = 1 << 30
"""Largest table, in bytes, that is read: it is kept in memory."""
_RANGE = ("__MIN", "__MAX")
"""Suffixes of W&B's columns with the range of values behind a plotted point."""
_BETWEEN = " - "
"""The separator between run and quantity in the column names of W&B's exports."""
COUNTER = "_step"
"""W&B's own counter of records, which is the trainer's step only if the trainer sets it."""
_LOSSES = ("loss", "heldout_loss")
_KINDS = ("mode", "split", "phase", "stage", "subset", "set", "type", "event", "kind", "tag")
"""Columns that say of each row whether it is of training."""
_METRIC, _RUN = (
    ("key", "metric", "metric_name", "metricname"),
    ("run", "run_id", "run_uuid", "run_name", "run_hash"),
)
"""Columns of a long table (a row for each number): of MLflow, of Comet, of aim; those below as well."""
_VALUE, _STEP, _VARIANT = ("value", "metricvalue"), ("step", "iter"), ("variant", "metric_context_subset")


def parquet(blob: Blob) -> pd.DataFrame:
    """Read one parquet file.

    Raises
    ------
    SourceError
        When it is not a parquet file, or too large.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if blob.size > LARGEST:
        raise SourceError(f"{blob.label}: {blob.size:,} bytes is too large for a table; keep fewer columns")
    try:
        return pq.read_table(io.BytesIO(blob.read(0, blob.size).tobytes())).to_pandas()
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
        why = " ".join(str(error).split())[:80]
        raise SourceError(f"{blob.label}: is not a valid parquet file ({why}); fetch it again") from error


def csv(blob: Blob, notes: list[str]) -> pd.DataFrame:
    """Read a file of columns between commas, tabs, semicolons or blanks; `notes` takes what was left out.

    Raises
    ------
    SourceError
        When it is not a table.
    """
    from toposcope.logs.dialects.table_text import table_of_text

    try:
        return table_of_text(whole_text(blob, LARGEST, notes), notes)
    except (ValueError, OverflowError, RecursionError) as error:
        why = " ".join(str(error).split())[:120]
        raise SourceError(f"{blob.label}: is not a table ({why}); correct it") from error


def csv_runs(blob: Blob) -> Sequence[Run]:
    """Return the runs of a table as text."""
    notes: list[str] = []
    runs = runs_of_table(csv(blob, notes), _stem(blob))
    return [replace(run, notes=(*run.notes, *notes)) for run in runs]


def runs_of_table(table: pd.DataFrame, name: str = "") -> Sequence[Run]:
    """Return the runs of a table according to its export format; `name` is the file's.

    >>> wide = pd.DataFrame({"Step": [0, 1], "a - loss": [3.0, 2.0], "a - loss__MIN": [3.0, 2.0],
    ...     "b - loss": [3.0, np.nan]})
    >>> [(run.name, run.table["loss"].tolist()) for run in runs_of_table(wide)]
    [('a', [3.0, 2.0]), ('b', [3.0])]
    """
    table = table.rename(columns=str)
    table = table[[column for column in _names(table) if not column.startswith("Unnamed: ")]]
    for ways in (_of_wandb, _of_swanlab, _of_long):
        if runs := ways(table):
            return runs
    table = _without_range(table)
    names = {plain(column): column for column in table if not is_nan_column(column)}
    if set(names) == {"wall_time", "step", "value"}:  # TensorBoard's export of one curve
        tag = name.partition("-tag-")[2] or "loss"
        loss_name = tag if meaning(tag) in ("loss", "heldout_loss") else "loss"
        value = str(names["value"])
        return [Run("", table.rename(columns={value: loss_name, nan_column(value): nan_column(loss_name)}))]
    return [Run("", _held_out_apart(table, {name: str(column) for name, column in names.items()}))]


def _held_out_apart(table: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """Return a table with a loss column of its own for rows that a column such as `mode` calls held-out.

    >>> rows = pd.DataFrame({"step": [1, 1], "loss": [2.0, 2.5], "mode": ["train", "val"]})
    >>> _held_out_apart(rows, {name: name for name in rows}).drop(columns="mode").to_dict("list")
    {'step': [1, 1], 'loss': [2.0, nan], 'val_loss': [nan, 2.5]}
    """
    loss = names.get("loss")
    if loss is None or "val_loss" in names:
        return table
    logged = table[loss].notna().to_numpy()
    for name in _KINDS:
        if name in names and _may_be_text(table[names[name]]):
            kinds_of_row = [_word_of(text) for text in table[names[name]]]
            held = np.array([word in HELD_OUT for word in kinds_of_row])
            trained = np.array([word in TRAINED or not word for word in kinds_of_row])
            if held[logged].any() and (held | trained)[logged].all():
                break
    else:
        return table
    columns = {loss: "val_loss", nan_column(loss): nan_column("val_loss")}
    apart = {new: table[old].where(held) for old, new in columns.items() if old in table}
    return table.assign(**{old: table[old].mask(held) for old in columns if old in table}, **apart)


def _word_of(text: object) -> str:
    """Return the word of a cell that says whether it is of training, such as "eval" of `eval_step`.

    >>> _word_of("Eval_step"), _word_of("train"), _word_of(None), _word_of("epoch_end")
    ('eval', 'train', '', 'epoch')
    """
    words = re.split(r"[^a-z]+", text.strip().lower()) if isinstance(text, str) else [""]
    return next((word for word in words if word in HELD_OUT or word in TRAINED), words[0])


def _names(table: pd.DataFrame) -> list[str]:
    return [str(column) for column in table]


def _without_range(table: pd.DataFrame) -> pd.DataFrame:
    """Leave out W&B's columns with the ranges of other columns."""
    ranges = [c for c in _names(table) if c.endswith(_RANGE) and c[: -len(_RANGE[0])] in table]
    return table.drop(columns=ranges)


def _of_wandb(table: pd.DataFrame) -> list[Run]:
    """Return the runs of a chart export, with a column for each run and number; empty for other tables."""
    table = _without_range(table)
    parted = {column: column.rpartition(_BETWEEN) for column in _names(table) if _BETWEEN in column}
    rest = [column for column in _names(table) if column not in parted]
    if not parted or len(rest) != 1 or not all(run and key for run, _, key in parted.values()):
        return []
    x = rest[0]
    columns_by_run: dict[str, dict[str, pd.Series]] = {}
    for column, (run, _, key) in parted.items():
        columns_by_run.setdefault(run, {})[key] = table[column]
    axis = COUNTER if plain(x) == "step" else x
    runs = []
    for run, columns in columns_by_run.items():
        series = {axis: table[x]} | {k: v for k, v in columns.items() if k not in (axis, x)}
        run_table = pd.DataFrame(series)
        runs.append(
            Run(run, run_table[run_table.drop(columns=axis).notna().any(axis=1)].reset_index(drop=True))
        )
    return runs


def _of_swanlab(table: pd.DataFrame) -> list[Run]:
    """Return the runs of SwanLab's export; empty for other tables.

    It has two columns for each run and number, `RUN-NUMBER_step` with the value and `RUN-NUMBER_timestamp`.
    """
    series = [c.removesuffix("_timestamp") for c in _names(table) if c.endswith("_timestamp")]
    wanted = {"step", *(f"{name}{end}" for name in series for end in ("_step", "_timestamp"))}
    if not series or set(_names(table)) != wanted or not all("-" in name for name in series):
        return []
    whole = {f"{run}{_BETWEEN}{key}": table[f"{run}-{key}_step"] for run, _, key in map(_run_and_key, series)}
    return [
        replace(run, table=run.table.rename(columns={COUNTER: "step"}))
        for run in _of_wandb(pd.DataFrame({"step": table["step"], **whole}))
    ]


def _run_and_key(series: str) -> tuple[str, str, str]:
    return series.rpartition("-")


def _of_long(table: pd.DataFrame) -> list[Run]:
    """Return the runs of a long table, with a row for each run, step and number; empty for other tables."""
    names = {plain(column): column for column in table}
    key, run, value, step, variant = (
        next((names[name] for name in synonyms if name in names), None)
        for synonyms in (_METRIC, _RUN, _VALUE, _STEP, _VARIANT)
    )
    if key is None or value is None or step is None:
        return []
    metric = table[key].astype(str)
    if variant is not None:
        from toposcope.logs.dialects.tracker_exports import named

        variants = table[variant].fillna("").astype(str)
        metric = pd.Series([*map(named, metric, variants)], table.index, dtype=object)
    runs = []
    rows = pd.DataFrame({
        "run": "" if run is None else table[run].astype(str), "step": table[step],
        "key": metric, "value": pd.to_numeric(table[value], errors="coerce"),
    })  # fmt: skip
    for name, rows_of_run in rows.groupby("run", sort=False):
        wide = rows_of_run.pivot_table(
            index="step", columns="key", values="value", aggfunc="last", sort=False
        )
        runs.append(Run(str(name), wide.reset_index().rename_axis(columns=None)))
    return runs


def numeric(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with numeric columns converted to numbers, whatever their format.

    >>> numeric(pd.DataFrame({"step": ["1,000", "2,000"], "note": ["a", "2"]})).to_dict("list")
    {'step': [1000.0, 2000.0], 'note': ['a', '2']}
    """
    if not any(_may_be_text(table[column]) for column in table):
        return table
    columns = {}
    for column in table:
        given = table[column]
        if _may_be_text(given):
            read = np.array([number(value) for value in given], float)
            lost = (
                np.isnan(read)
                & given.notna().to_numpy()
                & ~given.astype(str).str.lower().eq("nan").to_numpy()
            )
            columns[column] = given if lost.any() else pd.Series(read, given.index)
        else:
            columns[column] = given
    return pd.DataFrame(columns, index=table.index)


def losses_as_numbers(
    table: pd.DataFrame, taken: Mapping[str, str], label: str
) -> tuple[pd.DataFrame, list[str]]:
    """Return a table with numeric losses, and a note for each loss column that contains text.

    Raises
    ------
    SourceError
        When a loss is text, and no other loss is numeric.
    """
    texts = [name for name in _LOSSES if name in table and _may_be_text(table[name])]
    notes = []
    for name in texts:
        given, written_name = table[name], taken.get(name, name)
        read = pd.Series([number(value) for value in given], given.index, dtype=float)
        wrong = given[read.isna() & given.notna() & ~given.astype(str).str.strip().str.lower().eq("nan")]
        if not len(wrong):
            table = table.assign(**{name: read})
            continue
        first = str(wrong.iloc[0])
        if read.isna().all() and not any(loss in table and loss not in texts for loss in _LOSSES):
            raise SourceError(
                f"{label}: column {written_name!r} has {first[:40]!r}, which is not a number",
                remedy=f"correct it, or name the column of the loss with {renaming('OLD', 'loss')}",
            )
        notes.append(
            f"{len(wrong):,} values of {written_name!r} that are not numbers, such as {first[:40]!r}, "
            f"count as missing"
        )
        table = table.assign(**{name: read})
    return table, notes


def _may_be_text(column: pd.Series) -> bool:
    """Return whether a column holds text; pandas has two types for it."""
    return column.dtype == object or isinstance(column.dtype, pd.StringDtype)


def _stem(blob: Blob) -> str:
    return blob.label.rsplit("/", 1)[-1].removesuffix(".gz").rsplit(".", 1)[0]


def _is_csv(name: str, head: bytes) -> bool:
    text = text_of(head).lstrip("\ufeff\0\r\n")
    first = next((line for line in text.splitlines() if not line.startswith(("#", "%"))), "")
    named = name.removesuffix(".gz").endswith((".csv", ".tsv")) and any(mark in first for mark in ",\t;")
    return named or looks_like_table(text)


PARQUET = FileDialect(
    "parquet",
    lambda name, head: name.endswith(".parquet") or head.startswith(b"PAR1"),
    lambda blob: runs_of_table(parquet(blob), _stem(blob)),
)
CSV = FileDialect("table", _is_csv, csv_runs, (".csv", ".tsv"))
