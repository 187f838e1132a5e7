"""Folders that loggers write: TensorBoard's events, MLflow's metrics, offline runs of W&B and SwanLab."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import pandas as pd

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Blob, Folder
from toposcope.files.configuration import stated_plan
from toposcope.files.events import event_rows
from toposcope.logs.dialects import swanlab, wandb
from toposcope.logs.dialects.dialect import is_event_file
from toposcope.logs.dialects.phrases import HELD_OUT, TRAINED
from toposcope.logs.lines import lines
from toposcope.logs.meanings import chosen
from toposcope.logs.records import PLANNED, collected, number
from toposcope.logs.run import Run, is_nan_column, nan_column

DEEPEST = 5
"""How many folders deep to search for logs."""


def within(folder: Folder, depth: int = 0) -> Iterator[tuple[str, Folder]]:
    """Yield a folder and those in it with their relative names; hidden ones are left out."""
    yield "", folder
    if depth == DEEPEST:
        return
    for name in folder.folders():
        if name.startswith("."):
            continue
        try:
            inner = folder.sub(name)
        except SourceError:
            continue  # a link to elsewhere
        for below, inner_folder in within(inner, depth + 1):
            yield f"{name}/{below}".rstrip("/"), inner_folder


def _events_in(folder: Folder) -> list[str]:
    return [name for name in folder.files() if is_event_file(name)]


def tensorboard(folder: Folder) -> Sequence[Run]:
    """Return a run for each folder with event files; the values of several files at a step are merged.

    A folder `train` and folders such as `validation` or `eval` beside it, or a folder such as `eval` inside
    one with events of its own, are one run: Keras and TensorFlow's estimators write it so.
    """
    tables: dict[str, pd.DataFrame] = {}
    for name, inner_folder in within(folder):
        rows = [row for file in _events_in(inner_folder) for row in event_rows(inner_folder.open(file))]
        if rows:
            tables[name] = collected(rows, inner_folder.label)
    parents = {name: name.rpartition("/")[0] for name in tables}
    inner = {name: name.rpartition("/")[2].lower() for name in tables}
    trained = {parents[name]: name for name in tables if inner[name] in TRAINED}
    runs = {name: name if inner[name] not in TRAINED else parents[name] for name in tables}
    parts: dict[str, list[pd.DataFrame]] = {}
    notes: dict[str, str] = {}
    for name, table in tables.items():
        whole = trained.get(parents[name]) or (parents[name] if parents[name] in tables else None)
        if inner[name] in HELD_OUT and whole is not None and whole != name:
            parts.setdefault(whole, []).append(_as_held_out(table))
            notes[whole] = f"the losses in the folder {inner[name]!r} are held-out losses of this run"
        else:
            parts.setdefault(name, []).insert(0, table)
    return [
        Run(runs[name], _by_step(rows), notes=(notes[name],) if name in notes else ())
        for name, rows in parts.items()
    ]


def _by_step(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Return training scalars with the held-out ones of the same steps beside them; later values count."""
    whole = pd.concat(tables, ignore_index=True)
    return whole if len(tables) == 1 else whole.groupby("step", sort=True).last().reset_index()


def _as_held_out(table: pd.DataFrame) -> pd.DataFrame:
    """Return the scalars of a held-out folder: its loss is `val_loss`, the others have `val/` before them."""
    roles = chosen([str(tag) for tag in table if not is_nan_column(tag)])
    loss = roles.get("loss", roles.get("heldout_loss"))
    named = {str(tag): f"val/{tag}" for tag in table if tag != "step"}
    if loss is not None:
        named |= {str(loss): "val_loss", nan_column(str(loss)): nan_column("val_loss")}
    return table.rename(columns=named)


def _mlflow_runs(folder: Folder) -> list[tuple[str, Folder]]:
    return [
        (name, inner_folder)
        for name, inner_folder in within(folder)
        if "metrics" in inner_folder.folders() and "meta.yaml" in inner_folder.files()
    ]


def mlflow(folder: Folder) -> Sequence[Run]:
    """Return the runs of a file store: `metrics/NAME` has lines of timestamp, value and step."""
    runs = []
    for below, inner_folder in _mlflow_runs(folder):
        metrics = inner_folder.sub("metrics")
        rows: dict[float, dict[str, float]] = {}
        for inner, place in within(metrics):
            for file in place.files():
                tag = f"{inner}/{file}".lstrip("/")
                for line in lines(place.open(file)):
                    fields = line.split()
                    if len(fields) == 3:
                        step = number(fields[2])
                        rows.setdefault(step, {"step": step})[tag] = number(fields[1])
        pairs = (line.partition(":") for line in lines(inner_folder.open("meta.yaml")))
        named = next((value.strip().strip("'\"") for key, _, value in pairs if key == "run_name"), "")
        table = collected(rows.values(), inner_folder.label)
        runs.append(Run(named or below.rsplit("/", 1)[-1], table, _mlflow_plan(inner_folder)))
    return runs


def _mlflow_plan(run: Folder) -> int | None:
    """Return the planned steps among a run's parameters: `params/NAME` holds the value of each."""
    if "params" not in run.folders():
        return None
    params = run.sub("params")
    return stated_plan({name: next(lines(params.open(name)), "") for name in params.files()}).get(PLANNED)


def _ending(folder: Folder, suffix: str) -> list[Blob]:
    """Return the files in a folder and in those inside it whose names end so."""
    return [
        inner_folder.open(file)
        for _, inner_folder in within(folder)
        for file in inner_folder.files()
        if file.endswith(suffix)
    ]


def wandb_folder(folder: Folder) -> Sequence[Run]:
    """Return the runs of every file once: beside its run folders, W&B links the latest one again."""
    files = {os.path.realpath(blob.label): blob for blob in _ending(folder, ".wandb")}
    return [run for blob in files.values() for run in wandb.runs(blob)]


def swanlab_folder(folder: Folder) -> Sequence[Run]:
    """Return the runs of every file of SwanLab."""
    return [run for blob in _ending(folder, ".swanlab") for run in swanlab.runs(blob)]


def event_file(blob: Blob) -> Sequence[Run]:
    """Return the run of one event file."""
    return [Run("", collected(event_rows(blob), blob.label))]


def is_tensorboard(folder: Folder) -> bool:
    """Return whether event files lie in a folder or in those inside it."""
    return any(_events_in(inner_folder) for _, inner_folder in within(folder))


def is_mlflow(folder: Folder) -> bool:
    """Return whether runs of MLflow's file store lie in a folder."""
    return bool(_mlflow_runs(folder))


def is_wandb(folder: Folder) -> bool:
    """Return whether offline runs of W&B lie in a folder."""
    return bool(_ending(folder, ".wandb"))


def is_swanlab(folder: Folder) -> bool:
    """Return whether runs of SwanLab lie in a folder."""
    return bool(_ending(folder, ".swanlab"))
