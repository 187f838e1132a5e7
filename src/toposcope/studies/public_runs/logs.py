"""Reading many public runs: a table of curves with a table of runs, or a folder of logs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from toposcope.core.errors import InputError
from toposcope.logs import read_log

_SEED = re.compile(r"seed[_-]?\d+", re.IGNORECASE)
LEAST = 3
"""Runs with fewer losses are not read."""


@dataclass(frozen=True, slots=True)
class PublicRun:
    """A run: its log (step, loss), the folder that it is in, and its recipe: its path without the seed."""

    name: str
    group: str
    recipe: str
    seed: str
    log: pd.DataFrame


def recipe_of(path: str) -> tuple[str, str]:
    """Return a path without its seed, and the seed; "" where it names none.

    >>> recipe_of("a/train_seed42.log")
    ('a/train_.log', 'seed42')
    """
    match = _SEED.search(path)
    return (_SEED.sub("", path), match[0]) if match else (path, "")


def read_runs(folder: Path) -> list[PublicRun]:
    """Return the runs of a folder with at least three finite losses.

    The folder holds `curves.csv` (run, step, train_loss or loss) and `runs.csv` (run, path), gzipped or not;
    or logs in any supported format, in folders of their own.

    Raises
    ------
    InputError
        When no file there is a log with a loss.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder", remedy="give a folder of logs")
    runs_read = list(_of_tables(folder) if _table(folder, "curves") else _of_logs(folder))
    if not runs_read:
        raise InputError(f"{folder} holds no log with a loss", remedy="give a folder of logs")
    return runs_read


def _table(folder: Path, name: str) -> Path | None:
    return next((path for end in ("csv.gz", "csv") if (path := folder / f"{name}.{end}").is_file()), None)


def _of_tables(folder: Path) -> Iterator[PublicRun]:
    curves, run_file = _table(folder, "curves"), _table(folder, "runs")
    assert curves is not None
    try:
        logged = pd.read_csv(curves).rename(columns={"train_loss": "loss"})
        named = pd.read_csv(run_file)[["run", "path"]].astype(str) if run_file else pd.DataFrame()
        paths = dict(zip(named["run"], named["path"], strict=True)) if len(named) else {}
        groups = list(logged[["run", "step", "loss"]].groupby("run", sort=True))
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{curves} is not a table of run, step and loss ({error})") from error
    for run, table in groups:
        yield from _run(str(run), paths.get(str(run), str(run)), table)


def _of_logs(folder: Path) -> Iterator[PublicRun]:
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.name.startswith("."):
            continue
        try:
            metrics = read_log(path).metrics
        except InputError:
            continue  # not a log
        where = str(path.relative_to(folder))
        runs = list(metrics.groupby("run", sort=False)) if "run" in metrics else [("", metrics)]
        for run, table in runs:
            yield from _run(where if len(runs) == 1 else f"{where}: {run}", where, table)


def _run(name: str, path: str, table: pd.DataFrame) -> Iterator[PublicRun]:
    """Yield the run if it has enough losses."""
    if "loss" not in table:
        return
    finite = table.loc[np.isfinite(table[["step", "loss"]].to_numpy(float)).all(axis=1), ["step", "loss"]]
    log = finite.astype(float).sort_values("step", kind="stable").reset_index(drop=True)
    if len(log) >= LEAST:
        recipe, seed = recipe_of(path)
        yield PublicRun(name, str(Path(path).parent), recipe, seed, log)
