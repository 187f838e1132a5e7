"""Read a log in any dialect: runs with a step, a loss and their other columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from toposcope.core.errors import EmptyLogError, SourceError, did_you_mean
from toposcope.core.wording import renaming, rendered
from toposcope.files.blobs import Blob, Folder, open_location
from toposcope.logs.dialects.dialect import TextDialect
from toposcope.logs.dialects.registry import FILES, FOLDERS, TEXTS
from toposcope.logs.dialects.tables import CSV, losses_as_numbers, numeric, runs_of_table
from toposcope.logs.lines import head_of, is_text, lines
from toposcope.logs.log import Log
from toposcope.logs.meanings import ALIASES, chosen, twins
from toposcope.logs.records import PARAMETERS, PLANNED, collected, parts, replaced
from toposcope.logs.run import Run
from toposcope.logs.sizes import Size, with_size
from toposcope.store.manifest import MANIFEST

SURE = 50
"""A text counts as a dialect after this many lines of it."""
LARGEST_STEP = 2.0**53
"""From here on, float64 cannot represent every integer step."""
LEAST_ROWS = 3
"""The fewest rows per run of a table on average; with fewer, the rows count as unordered."""
OUT_OF_ORDER = 0.1
"""The largest share of rows where the step falls within a run; with more, the rows count as unordered."""


def read_log(path: str | Path, *, rename: Mapping[str, str] | None = None) -> Log:
    r"""Read a training log in any known format: text, a table, or a logger's file or folder.

    Known are the texts of Megatron-LM, transformers, nanoGPT, llm.c, modded-nanogpt, torchtitan, verl and
    OLMo, and any lines with a step and a loss; CSV, parquet, JSON and JSONL; `trainer_state.json`; exports of
    W&B, MLflow and TensorBoard; offline `.wandb` files, trackio databases, and folders of TensorBoard or
    MLflow. Text around the numbers is skipped.

    Parameters
    ----------
    path
        A file, a folder, or an fsspec address. Text may be of any size; tables are kept in memory.
    rename
        New names of columns: {"nll": "loss"}. These take precedence over the usual names.

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
    dialect, raw = raw_log(path)
    return log_of_runs(raw, str(path), dialect, rename or {})


def is_log(path: str | Path) -> bool:
    """Return whether a local path is a file, or a folder that a logger wrote; nothing is read."""
    given = Path(path)
    if not given.is_dir() or (given / MANIFEST).is_file():
        return given.is_file()
    place = open_location(str(path))
    return isinstance(place, Folder) and any(dialect.matches(place) for dialect in FOLDERS)


def raw_log(path: str | Path) -> tuple[str, Sequence[Run]]:
    """Return the dialect of a log and its runs with their original columns.

    Raises
    ------
    SourceError
        When no dialect fits, or the file is damaged.
    """
    place = open_location(str(path))
    return _read_folder(place) if isinstance(place, Folder) else _read_file(place)


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
    table = with_index(table)
    columns = table.columns
    if twice := list(columns[columns.duplicated()]):
        raise SourceError(f"{label}: two columns are called {twice[0]!r}", remedy="drop or rename one")
    runs = [replace(run, name=run.name or "run") for run in runs_of_table(table)]
    return log_of_runs(runs, label, CSV.name, rename or {}, keep=keep, strict=strict)


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
    tables = [run.table for run in raw if len(run.table)]
    if not tables:
        raise EmptyLogError(
            f"{label}: recognised as {dialect}, but the table has no rows; check that it is a log"
        )
    columns = list(dict.fromkeys(str(column) for table in tables for column in table))
    taken = _taken(columns, rename, label, keep)
    if strict:
        _refuse_unknown(taken, columns, label)
    stem = _stem(label)
    texts = {one.name for one in TEXTS}
    runs: list[Run] = []
    notes = [*_choices(columns, taken, rename), *(note for run in raw for note in run.notes)]
    lost = 0
    for run in raw:
        if len(run.table):
            own, gone = _named(run.table, taken)
            own, unread = losses_as_numbers(own, taken, label)
            notes += unread
            lost += gone
            runs += _cut(own, run, run.name or stem, taken, notes, text=dialect in texts)
    if lost:
        notes.append(f"{lost:,} rows without a step left out")
    if not runs:
        raise SourceError(
            f"{label}: no row has both a step and a number; check that {taken['step']!r} is the step"
        )
    return Log(label, dialect, tuple(_unique(runs)), taken, tuple(dict.fromkeys(notes)))


def _taken(
    columns: list[str], rename: Mapping[str, str], label: str, keep: Collection[str] = ()
) -> dict[str, str]:
    """Return meaning -> column, by `rename` first, then by the names."""
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
    taken = {known: str(column) for known, column in chosen(free).items()}
    return {**taken, **given}


def _choices(columns: Sequence[str], taken: Mapping[str, str], rename: Mapping[str, str]) -> list[str]:
    """Return a note for each column that was chosen among several with the same meaning."""
    return [
        rendered(
            f"{taken[known]!r} is taken as {known}, not {' or '.join(map(repr, others))} "
            f"(to choose the other: {renaming(others[0], known)})"
        )
        for known, others in twins(columns, taken).items()
        if taken[known] not in rename
    ]


def _refuse_unknown(taken: Mapping[str, str], columns: Sequence[str], label: str) -> None:
    """Raise SourceError if no column is the step, or none is a loss."""
    for wanted in (("step",), ("loss", "heldout_loss")):
        if not any(name in taken for name in wanted):
            raise SourceError(
                f"{label}: has no column for {' or '.join(wanted)} among {', '.join(sorted(columns))[:120]}",
                remedy=f"name the column with {renaming('THEIRS', wanted[0])}",
            )


def _named(table: pd.DataFrame, taken: Mapping[str, str]) -> tuple[pd.DataFrame, int]:
    """Return the rows that have a step under canonical names, and how many have none."""
    new = {old: known for known, old in taken.items()}
    clash = [str(c) for c in table if str(c) in taken and new.get(str(c)) != str(c)]
    own = numeric(table.rename(columns=str).drop(columns=clash).rename(columns=new))
    if "step" not in taken:
        return own, 0
    if "step" not in own:
        return own.iloc[:0], len(own)
    step = pd.to_numeric(own["step"], errors="coerce").to_numpy(float, na_value=np.nan)
    good = np.isfinite(step) & (step >= 0) & (step < LARGEST_STEP)
    own = own[good].reset_index(drop=True)
    step = step[good]
    own["step"] = step.astype(np.int64) if (step == np.floor(step)).all() else step
    return own, int((~good).sum())


def _cut(
    table: pd.DataFrame, run: Run, name: str, taken: Mapping[str, str], notes: list[str], *, text: bool
) -> list[Run]:
    """Return the runs of a table, split where the step falls back; the records of a step become one row."""
    if not len(table):
        return []
    alone = "run" not in table and "step" in table
    which = parts(table["step"].to_numpy(float)) if alone else np.zeros(len(table), int)
    count = int(which.max()) + 1
    if not text and _in_no_order(table, count):
        which, count = np.zeros(len(table), int), 1
    if count > 1:
        notes.append(f"{name}: split into {count:,} runs where the step falls back")
    made: list[Run] = []
    distinct: list[pd.DataFrame] = []
    for part in range(count):
        own = table[which == part].reset_index(drop=True)
        planned = run.planned_steps if "run" in own else _stated(own, PLANNED) or run.planned_steps
        parameters = _stated(own, PARAMETERS) or 0
        if alone:
            own = _together(_without_replaced(own, name, notes) if text else own, taken, text=text)
        if any(own.equals(earlier) for earlier in distinct):
            notes.append(f"{name}: run {part + 1} repeats an earlier one and is left out")
            continue
        distinct.append(own)
        own = own.loc[:, own.notna().any() | own.columns.isin(["step", "loss"])]
        front = [c for c in ("run", *taken) if c in own]
        own = own[[*dict.fromkeys(front), *(c for c in own if c not in front)]]
        made.append(Run(name if count == 1 else f"{name}-{part + 1}", own, planned, parameters))
    return [replace(made[0], name=name)] if len(made) == 1 else made


def _stated(table: pd.DataFrame, name: str) -> int | None:
    """Remove a column from a table and return its last value as an integer; None if there is none."""
    if name not in table:
        return None
    stated = table.pop(name).dropna()
    return int(stated.iloc[-1]) if len(stated) and 0 < stated.iloc[-1] < LARGEST_STEP else None


def _in_no_order(table: pd.DataFrame, count: int) -> bool:
    """Return whether the rows of a table are unordered, given that its steps split it into `count` runs."""
    falls = int((np.diff(table["step"].to_numpy(float)) < 0).sum()) if count > 1 else 0
    inside = falls - (count - 1)
    return count > max(1, len(table) // LEAST_ROWS) or inside > OUT_OF_ORDER * len(table)


def _without_replaced(table: pd.DataFrame, name: str, notes: list[str]) -> pd.DataFrame:
    """Leave out the rows that a restart from an earlier checkpoint has replaced."""
    step = table["step"].to_numpy(float)
    trained = table["loss"].notna().to_numpy() if "loss" in table else np.ones(len(table), bool)
    falls = np.flatnonzero(np.diff(step[trained]) < 0)
    if not len(falls) or len(falls) > OUT_OF_ORDER * len(table):  # unordered or repeated rows
        return table
    gone = replaced(step, trained)
    notes.append(
        f"{name}: {int(gone.sum()):,} rows left out, because restarts trained these steps again "
        f"(restarts: {len(falls):,})"
    )
    return table[~gone].reset_index(drop=True)


def _together(table: pd.DataFrame, taken: Mapping[str, str], *, text: bool) -> pd.DataFrame:
    """Merge the records of a step, such as training and evaluation; in text logs the last value counts.

    Rows of a table that contradict each other in a known column stay separate.
    """
    if table["step"].is_unique:
        return table
    grouped = table.groupby("step", sort=False)
    known = [name for name in taken if name in table and name != "step"]
    if not text and (grouped[known].nunique() > 1).to_numpy().any():
        return table
    if not text and not (table[known].isna().any(axis=1)).any():
        return table  # identical rows: the caller reports them
    return grouped.last().reset_index()[list(table.columns)]


def _unique(runs: list[Run]) -> list[Run]:
    """Append numbers to the names of runs that share a name."""
    seen: dict[str, int] = {}
    made = []
    for run in runs:
        seen[run.name] = seen.get(run.name, 0) + 1
        name = run.name if seen[run.name] == 1 else f"{run.name}-{seen[run.name]}"
        made.append(replace(run, name=name))
    return made


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
    known = ", ".join(one.name for one in FOLDERS)
    raise SourceError(
        f"{folder.label}: is a folder without a log in a known format ({known}); give the path of the log "
        "in it"
    )


def _read_file(blob: Blob) -> tuple[str, Sequence[Run]]:
    name, head = blob.label.rsplit("/", 1)[-1].lower(), head_of(blob)
    if blob.size == 0:
        raise EmptyLogError(f"{blob.label}: is empty; give a training log")
    for kind in FILES:
        if kind.matches(name, head):
            return kind.name, kind.read(blob)
    text = _dialect_of(blob) if is_text(head) else None
    if text is None:
        known = ", ".join(dict.fromkeys([*(one.name for one in TEXTS), *(one.name for one in FILES)]))
        raise SourceError(
            f"{blob.label}: neither a store nor a log in a known format; no line names a step and a loss "
            f"(known are {known})"
        )
    size = Size()
    records = with_size(text.records(size.read(lines(blob))), size)
    return text.name, [Run("", collected(records, blob.label))]


def _dialect_of(blob: Blob) -> TextDialect | None:
    """Return the dialect of most lines of a text; None if no line fits any."""
    counts = dict.fromkeys(range(len(TEXTS)), 0)
    for line in lines(blob):
        for place, dialect in enumerate(TEXTS):
            if dialect.speaks(line):
                counts[place] += 1
                if counts[place] >= SURE:
                    return dialect
                break
    best = max(counts, key=lambda place: counts[place])
    return TEXTS[best] if counts[best] else None
