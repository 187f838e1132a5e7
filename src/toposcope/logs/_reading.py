"""Read a log in any dialect: runs with a step, a loss and their other columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd

from toposcope.core.errors import EmptyLogError, NoLogError, SourceError, did_you_mean
from toposcope.core.wording import renaming
from toposcope.files.blobs import Blob, Folder, open_location
from toposcope.logs import dialects
from toposcope.logs._splitting import LARGEST_STEP, cut
from toposcope.logs.dialects.json_text import is_notebook
from toposcope.logs.dialects.registry import FILES, FOLDERS, TEXTS
from toposcope.logs.dialects.tables import CSV, PARQUET, losses_as_numbers, numeric, runs_of_table
from toposcope.logs.inputs import (
    STANDARD_INPUT,
    TELLS_NAN,
    Given,
    MemoryBlob,
    blob_of_stream,
    bytes_of,
    frame_of,
    is_in_memory,
    is_stdin,
    is_stream,
    runs_of_run_folder,
    runs_of_store,
)
from toposcope.logs.lines import head_of, is_text
from toposcope.logs.log import Log
from toposcope.logs.meanings import ALIASES, chosen, twins, units
from toposcope.logs.records import MOST_COLUMNS
from toposcope.logs.run import Run, is_nan_column, nan_column, wanted_rows, without_sent
from toposcope.logs.steps import filled, steady_step, with_counted_rows, with_rising_steps
from toposcope.logs.texts import read_text
from toposcope.store import MANIFEST

RUN_FOLDER, STORE, NOTEBOOK, IN_MEMORY = "run folder", "store", "notebook", "table in memory"
_UNTOLD = (CSV.name, IN_MEMORY, PARQUET.name, STORE, RUN_FOLDER)
"""Dialects that do not tell an absent number from one that was written as NaN."""


def read_log(path: Given, *, rename: Mapping[str, str] | None = None, pattern: str | None = None) -> Log:
    r"""Read a training log in any known format: text, a table, or a logger's file or folder.

    Known are the texts of Megatron-LM, transformers, nanoGPT, llm.c, modded-nanogpt, torchtitan, verl and
    OLMo, and any lines with a step and a loss; CSV, parquet, JSON and JSONL; `trainer_state.json`; exports of
    W&B, MLflow and TensorBoard; offline `.wandb` files, trackio databases, and folders of TensorBoard or
    MLflow. The content decides, not the ending of the name. Text around the numbers is skipped.

    Parameters
    ----------
    path
        A file, a folder, a store, or an fsspec address; "-" is standard input. Text may be of any size;
        tables are kept in memory. A stream of text, a data frame, columns by name ({"loss": [...]}, such as
        Keras' `History.history`) and a list of records are read by the same rules.
    rename
        New names of columns: {"nll": "loss"}. These take precedence over the usual names.
    pattern
        A regular expression for the lines of a text that is not recognised, with the groups step (or epoch)
        and loss, and possibly heldout_loss, learning_rate and grad_norm:
        "it (?P<step>\\d+) L=(?P<loss>\\S+)".

    Returns
    -------
    Log
        Each of its `runs` has a table. Columns with a known name become `step`, `loss`, `heldout_loss`,
        `learning_rate` and so on; others keep their names. Several runs in one file are separated where the
        step returns to the beginning.

    Raises
    ------
    SourceError
        When no dialect fits, no column is recognised as the step or as a loss, or the file is damaged.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "train.log"
    >>> _ = file.write_text("lr = 1\nstep:1/9 train_loss:6.9\nstep:2/9 train_loss:6.1\nstep:2/9 val_loss:6.2")
    >>> log = read_log(file)
    >>> log.table.to_dict("list"), log.runs[0].planned_steps
    ({'step': [1, 2], 'loss': [6.9, 6.1], 'heldout_loss': [nan, 6.2]}, 9)
    >>> print(log.said)
    recognised as modded-nanogpt: step from 'step', loss from 'train_loss', heldout_loss from 'val_loss'
    """
    if is_stream(path):
        blob = blob_of_stream(path)
        dialect, raw = _read_file(blob, pattern)
        return log_of_runs(raw, blob.label, dialect, rename or {})
    dialect, raw = raw_log(path, pattern)
    return log_of_runs(raw, label_of(path), dialect, rename or {})


def label_of(source: Given) -> str:
    """Return what a source is called in messages."""
    if is_stdin(source):
        return STANDARD_INPUT
    return str(source) if isinstance(source, str | Path) else "the table"


def is_log(path: str | Path) -> bool:
    """Return whether a local path is a file, or a folder that a logger wrote; nothing is read."""
    if is_stdin(path):
        return True
    given = Path(path)
    if not given.is_dir() or (given / MANIFEST).is_file():
        return given.is_file()
    place = open_location(str(path))
    return isinstance(place, Folder) and any(dialect.matches(place) for dialect in FOLDERS)


def raw_log(path: Given, pattern: str | None = None) -> tuple[str, Sequence[Run]]:
    """Return the dialect of a log and its runs with their original columns.

    The lines of a text are read by `pattern`, if one is given: see `read_log`.

    Raises
    ------
    SourceError
        When no dialect fits, or the file is damaged.
    """
    if is_in_memory(path):
        return _raw_table(frame_of(path), "the table")
    if is_stream(path) or is_stdin(path):
        return _read_file(blob_of_stream(path), pattern)
    if not isinstance(path, str | Path):
        raise SourceError(
            f"{type(path).__name__} is no log",
            remedy="give a path, a data frame, or columns such as step and loss",
        )
    if runs := [run for run in runs_of_store(path) or () if len(run.table)]:
        return STORE, [replace(run, table=run.table.drop(columns="run")) for run in runs]
    place = open_location(str(path))
    dialect, read = _read_folder(place) if isinstance(place, Folder) else _read_file(place, pattern)
    logged = without_sent(read)
    if read and not logged:
        raise NoLogError(f"{path}: holds only what toposcope has sent there", remedy="give the trainer's log")
    return dialect, logged


def unchecked_log(
    source: Given,
    *,
    rename: Mapping[str, str] | None = None,
    keep: Collection[str] = (),
    pattern: str | None = None,
) -> Log:
    """Read a log of which step or loss may be missing; the caller says what it needs.

    Columns in `keep` keep their names.

    Raises
    ------
    SourceError
        When no dialect fits, the file is damaged, or a column to be renamed is absent.
    """
    dialect, raw = raw_log(source, pattern)
    return log_of_runs(raw, label_of(source), dialect, rename or {}, keep=keep, strict=False)


def _raw_table(table: pd.DataFrame, label: str) -> tuple[str, Sequence[Run]]:
    tells = bool(table.attrs.get(TELLS_NAN))
    table = with_index(table)
    columns = table.columns
    if twice := list(columns[columns.duplicated()]):
        raise SourceError(f"{label}: two columns are called {twice[0]!r}", remedy="drop or rename one")
    runs = [replace(run, name=run.name or "run") for run in runs_of_table(table)]
    return CSV.name if tells else IN_MEMORY, runs


def log_of_table(
    table: pd.DataFrame,
    label: str = "the table",
    *,
    rename: Mapping[str, str] | None = None,
    keep: Collection[str] = (),
    strict: bool = False,
) -> Log:
    """Read a table in memory as `log_of_runs` reads that of a file; a run without a name is called "run".

    >>> log_of_table(pd.DataFrame({"iter": [1, 2], "my_loss": [6.9, 6.1]}))
    recognised as table: step from 'iter', loss from 'my_loss'
    run: 2 steps, loss 6.1 at step 2

    Raises
    ------
    SourceError
        As for a file, and when two columns have one name.
    """
    dialect, runs = _raw_table(table, label)
    return log_of_runs(runs, label, dialect, rename or {}, keep=keep, strict=strict)


def with_index(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table as its CSV has it: every column named by a text, and a named index as a column.

    >>> list(with_index(pd.DataFrame({"step": [1], "loss": [2.0]}).set_index("step")))
    ['step', 'loss']
    """
    columns = pd.Index([str(column) for column in table])
    names = [str(name) for name in table.index.names if name is not None]
    flat = table.set_axis(columns, axis=1)  # also of columns with several levels
    if len(names) < table.index.nlevels or len({*names} - {*columns}) < table.index.nlevels:
        return flat.reset_index(drop=True)
    return flat.reset_index().rename(columns=str)


def log_of_runs(
    raw: Sequence[Run],
    label: str,
    dialect: str,
    rename: Mapping[str, str],
    *,
    keep: Collection[str] = (),
    strict: bool = True,
) -> Log:
    """Name the columns of raw runs, split them where a run ends, and return what was done.

    Columns in `keep` keep their names. If the reader is not `strict`, a table without a step or a loss is
    returned unchanged, and the caller reports what is missing.

    Raises
    ------
    SourceError
        When there is no row, a column to be renamed is absent, or a strict reader finds no step or no loss.
    """
    untold = dialect in _UNTOLD
    dialect = CSV.name if dialect == IN_MEMORY else dialect
    tables = [run.table for run in raw if len(run.table)]
    if not tables:
        raise EmptyLogError(
            f"{label}: recognised as {dialect}, but the table has no rows; check that it is a log"
        )
    columns = [str(column) for table in tables for column in table if not is_nan_column(column)]
    columns = list(dict.fromkeys(columns))
    if len(columns) > MOST_COLUMNS:
        raise SourceError(
            f"{label}: has {len(columns):,} columns, and at most {MOST_COLUMNS:,} are read",
            remedy="keep the step, the losses and the columns that judge the run",
        )
    roles = {meaning: column for run in raw for meaning, column in run.roles.items()}
    taken = _taken(columns, rename, label, keep, roles)
    sums: list[str] = []
    if "loss" not in taken and "heldout_loss" not in taken:
        from toposcope.logs._totals import with_unnamed

        taken, sums = with_unnamed(tables, taken, rename)
    raw, taken = with_counted_rows(raw, taken)
    if "step" in taken and taken["step"] not in rename:
        taken["step"] = steady_step(tables, taken["step"], columns)
    if strict and not ("step" in taken and {"loss", "heldout_loss"} & taken.keys()):
        from toposcope.logs.unread import no_columns

        raise no_columns(taken, columns, label)
    text = dialect in {dialect_text.name for dialect_text in TEXTS}
    runs: list[Run] = []
    notes = [
        *sums,
        *units(taken),
        *_choices(columns, taken, rename),
        *(note for run in raw for note in run.notes),
    ]
    lost = 0
    for run in raw:
        if len(run.table):
            run_table = filled(run.table, taken["step"], columns) if "step" in taken else run.table
            run_table, gone = _named(run_table, taken)
            run_table, remarks = losses_as_numbers(run_table, taken, label)
            if untold:
                from toposcope.logs._untold_nan import with_written_nan

                run_table = with_written_nan(run_table)
            run_table, counted = with_rising_steps(run_table, taken)
            notes += [*remarks, *counted]
            lost += gone
            runs += cut(run_table, run, run.name or _stem(label), taken, notes, text=text, keep=keep)
    if lost:
        notes.append(f"{lost:,} rows without a step left out")
    if not runs:
        raise NoLogError(
            f"{label}: no row has both a step and a number; check that {taken['step']!r} is the step"
        )
    return Log(label, dialect, tuple(_unique(runs)), taken, tuple(dict.fromkeys(notes)))


def _taken(
    columns: list[str],
    rename: Mapping[str, str],
    label: str,
    keep: Collection[str] = (),
    roles: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Return meaning -> column, by `rename` first, then by what the dialect says, then by the names."""
    for old in rename:
        if old not in columns:
            has = f"it has {', '.join(columns)[:120]}{did_you_mean(old, columns)}"
            raise SourceError(f"{label}: {renaming(old, '...')}: no such column; {has}")
    given = {new: old for old, new in rename.items()}
    free = [
        column
        for column in columns
        if column not in rename and not (column in keep and column not in ALIASES)
    ]
    taken = {role: str(column) for role, column in chosen(free).items()}
    stated_roles = {role: column for role, column in roles.items() if column in free}
    return {**_without(taken, stated_roles.values()), **_without(stated_roles, given.values()), **given}


def _without(taken: Mapping[str, str], columns: Collection[str]) -> dict[str, str]:
    """Return meanings without those of columns that mean something else."""
    return {role: column for role, column in taken.items() if column not in columns}


def _choices(columns: Sequence[str], taken: Mapping[str, str], rename: Mapping[str, str]) -> list[str]:
    """Return a note for each column that was chosen among several with the same meaning."""
    return [
        (
            f"{taken[role]!r} is taken as {role}, not {' or '.join(map(repr, others))} "
            f"(to choose the other: {renaming(others[0], role)})"
        )
        for role, others in twins(columns, taken).items()
        if taken[role] not in rename
    ]


def _named(table: pd.DataFrame, taken: Mapping[str, str]) -> tuple[pd.DataFrame, int]:
    """Return the rows that have a step under canonical names, and how many have none."""
    new = {old: role for role, old in taken.items()}
    new |= {nan_column(old): nan_column(role) for old, role in new.items()}
    clash = [c for c in map(str, table) if c in taken and new.get(c) != c]
    clash += [nan_column(c) for c in clash if nan_column(c) in table]
    numbers = numeric(table.rename(columns=str).drop(columns=clash).rename(columns=new))
    if "step" not in taken:
        return numbers, 0
    if "step" not in numbers:
        return numbers.iloc[:0], len(numbers)
    step = pd.to_numeric(numbers["step"], errors="coerce").to_numpy(float, na_value=np.nan)
    good = np.isfinite(step) & (step >= 0) & (step < LARGEST_STEP)
    numbers = wanted_rows(numbers, good).reset_index(drop=True)
    step = step if good.all() else step[good]
    numbers["step"] = step.astype(np.int64) if (step == np.floor(step)).all() else step
    return numbers, int((~good).sum())


def _unique(runs: list[Run]) -> list[Run]:
    """Append numbers to the names of runs that share a name."""
    seen: dict[str, int] = {}
    named_runs = []
    for run in runs:
        seen[run.name] = seen.get(run.name, 0) + 1
        name = run.name if seen[run.name] == 1 else f"{run.name}-{seen[run.name]}"
        named_runs.append(replace(run, name=name))
    return named_runs


def _stem(label: str) -> str:
    """Return the name of a log's run: its file's, or its folder's if the file name is generic."""
    if label == "source" or ("/" not in label.rstrip("/") and "." not in label):
        return label.rstrip("/") or "run"
    path = label.rstrip("/").rsplit("/", 1)[-1].removesuffix(".gz")
    return (path.rsplit(".", 1)[0] if "." in path else path) or "run"


def _read_folder(folder: Folder) -> tuple[str, Sequence[Run]]:
    for dialect in FOLDERS:
        if dialect.matches(folder):
            return dialect.name, dialect.read(folder)
    if runs := runs_of_run_folder(folder):
        return RUN_FOLDER, runs
    formats = ", ".join(form.name for form in FOLDERS)
    raise SourceError(
        f"{folder.label}: is a folder without a log in a known format ({formats}); give the path of the log "
        "in it"
    )


def _read_file(blob: Blob, pattern: str | None) -> tuple[str, Sequence[Run]]:
    name, head = blob.label.rsplit("/", 1)[-1].lower(), head_of(blob)
    if blob.size == 0:
        raise EmptyLogError(f"{blob.label}: is empty; give a training log")
    if is_notebook(name, head):
        return _read_notebook(blob, pattern)
    failed: SourceError | None = None
    for kind in FILES:
        if kind.matches(name, head) and (pattern is None or kind.is_named(name)):
            try:
                return kind.name, kind.read(blob)
            except SourceError as error:
                if kind.is_named(name):
                    raise
                failed = failed or error
    if (read := read_text(blob, TEXTS, pattern) if is_text(head) else None) is not None:
        return read
    if pattern is None and is_text(head):
        from toposcope.logs._measured_texts import read_measured

        if (read := read_measured(blob, read_text, TEXTS)) is not None:
            return read
        from toposcope.logs.line_forms import read_forms

        if (read := read_forms(blob)) is not None:
            return read
    from toposcope.logs.unread import unknown

    raise failed or unknown(blob, pattern, text=is_text(head))


def _read_notebook(blob: Blob, pattern: str | None) -> tuple[str, Sequence[Run]]:
    """Return the runs of the tables in a notebook's outputs, or else of the log that its cells printed."""
    runs, printed = dialects.notebook.outputs(blob)
    if runs := [run for run in runs if len(run.table)]:
        return NOTEBOOK, runs
    if (read := read_text(MemoryBlob(bytes_of(printed), blob.label), TEXTS, pattern)) is not None:
        return read
    raise SourceError(
        f"{blob.label}: no output of the notebook has a table of losses with rows, or printed losses; "
        "run it, save it with its outputs, or give the log that it wrote"
    )
