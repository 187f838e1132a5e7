"""Finds the training logs in a folder."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from toposcope.core import LOG_FILES, WEIGHT_FILES
from toposcope.core.errors import SourceError
from toposcope.logs.dialects.dialect import OWN_EVENTS, is_event_file
from toposcope.logs.dialects.phrases import TRAINED
from toposcope.store import MANIFEST

HISTORY = re.compile(r"(train(ing|er)?_)?(log|logs|metrics|history|losses|state)\.json", re.I)
"""Names of JSON files that are loss histories; other JSON files may be anything."""
_NONE = (
    *WEIGHT_FILES,
    ".py",
    ".md",
    ".png",
    ".svg",
    ".pdf",
    ".toml",
    ".yaml",
    ".yml",
    ".html",
    ".sh",
    OWN_EVENTS,
)
_ALONE = (".wandb", ".swanlab")
"""Beside these files, a tracker keeps nothing else that is a log."""
_OF_REPORT = ("index.html", "report.md", "tables")
"""What `report` writes."""
DEEPEST = 3
"""How deep below the given folder to search for logs."""


def may_be_log(file: Path) -> bool:
    """Return whether a file may be a log, judging by its name.

    >>> may_be_log(Path("train.log")), may_be_log(Path("ckpt.pt")), may_be_log(Path(".hidden.log"))
    (True, False, False)
    """
    return not file.name.startswith(".") and file.suffix.lower() not in _NONE


def is_history(name: str) -> bool:
    """Return whether a file of this name is a loss history: one that cannot be read is a problem.

    >>> is_history("train.log"), is_history("trainer_state.json"), is_history("config.json")
    (True, True, False)
    """
    named = Path(name).suffix.lower() in LOG_FILES or HISTORY.fullmatch(name) is not None
    return not name.startswith(".") and (named or is_event_file(name))


def refuse_outside(folder: Path, file: Path) -> None:
    """Refuse a log in a folder that is a link to a file outside it.

    Raises
    ------
    SourceError
        When it leads out of the folder, or to nothing.
    """
    if not file.is_symlink():
        return
    real = Path(os.path.realpath(file))
    if not file.exists():
        raise SourceError(f"{file}: is a link to nothing; remove it, or restore its target")
    if not real.is_relative_to(os.path.realpath(folder)):
        raise SourceError(
            f"{file}: is a link to {real}, outside the folder that was opened; name that log itself"
        )


def inside(folder: Path, depth: int) -> bool:
    """Return whether to search for logs in a folder `depth` levels below the given one."""
    return depth <= DEEPEST and not folder.is_symlink() and not _is_own(folder)


def _is_own(folder: Path) -> bool:
    """Return whether a folder is a store or a report: its tables are results, and no logs."""
    return (folder / MANIFEST).is_file() or all((folder / name).exists() for name in _OF_REPORT)


def log_files(
    folder: Path, checkpoints: Collection[str] = (), *, depth: int = 0, read: bool = False
) -> Iterator[Path]:
    """Yield the files below a folder that may be logs, except for `checkpoints`.

    What a logger wrote in a folder of its own is one log: event files of TensorBoard and a run of MLflow are
    their folder; W&B and SwanLab keep nothing beside their own file that is a log. With `read`, the event
    files below belong to a folder that was yielded. The tables of a report are no logs.
    """
    from toposcope.core.report_folder import is_report

    if is_report(folder):
        return
    try:
        listed = sorted(folder.iterdir())
    except OSError:
        return
    of_mlflow = {"meta.yaml", "metrics"} <= {entry.name for entry in listed}
    events = _has_events(folder) or any(entry.name in TRAINED and _has_events(entry) for entry in listed)
    if of_mlflow or (events and not read):
        yield folder
    if of_mlflow:
        return
    alone = depth > 0 and any(entry.suffix in _ALONE for entry in listed)
    for entry in listed:
        if (
            not may_be_log(entry)
            or str(entry) in checkpoints
            or (is_event_file(entry.name) and entry.is_file())
        ):
            continue
        if entry.is_dir():
            if inside(entry, depth + 1) and not alone:
                yield from log_files(entry, checkpoints, depth=depth + 1, read=read or events)
        elif (entry.is_file() or is_history(entry.name)) and (entry.suffix in _ALONE or not alone):
            yield entry  # a pipe or a device in the place of a log is told of by its reader


def _has_events(folder: Path) -> bool:
    """Return whether TensorBoard's event files lie in a folder."""
    try:
        return folder.is_dir() and any(map(is_event_file, os.listdir(folder)))
    except OSError:
        return False
