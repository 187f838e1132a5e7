"""Finds the training logs in a folder, and assigns several logs to the runs of checkpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from toposcope.core.types import WEIGHT_FILES
from toposcope.store.manifest import MANIFEST

LOGS = (".log", ".csv", ".tsv", ".jsonl", ".wandb")
"""Files with these endings in a folder of logs must be logs; others are only reported if they are not."""
_NONE = (*WEIGHT_FILES, ".py", ".md", ".png", ".svg", ".pdf", ".toml", ".yaml", ".yml", ".html", ".sh")
DEEPEST = 3
"""How deep below the given folder to search for logs."""


def may_be_log(file: Path) -> bool:
    """Return whether a file may be a log, judging by its name.

    >>> may_be_log(Path("train.log")), may_be_log(Path("ckpt.pt")), may_be_log(Path(".hidden.log"))
    (True, False, False)
    """
    return not file.name.startswith(".") and file.suffix.lower() not in _NONE


def inside(folder: Path, depth: int) -> bool:
    """Return whether to search for logs in a folder `depth` levels below the given one."""
    return depth <= DEEPEST and not folder.is_symlink() and not (folder / MANIFEST).is_file()


def log_files(folder: Path, checkpoints: Collection[str] = (), *, depth: int = 0) -> Iterator[Path]:
    """Yield the files below a folder that may be logs, except for `checkpoints`."""
    try:
        listed = sorted(folder.iterdir())
    except OSError:
        return
    for one in listed:
        if not may_be_log(one) or str(one) in checkpoints:
            continue
        if one.is_dir():
            if inside(one, depth + 1):
                yield from log_files(one, checkpoints, depth=depth + 1)
        elif one.is_file():
            yield one


def logs_of_runs(runs: Mapping[str, Path], logs: Mapping[str, Path]) -> dict[str, str]:
    """Return the log of each run: the only one beside its checkpoints, or the only one with its name.

    `runs` are the folders of the checkpoints and `logs` the logs of single runs, both as paths below the
    given folder. A single run gets the only log. A log that would fit two runs belongs to neither.

    >>> logs_of_runs({"a": Path("a"), "b": Path("b")}, {"x": Path("a/train.log"), "y": Path("logs/b.log")})
    {'a': 'x', 'b': 'y'}
    >>> logs_of_runs({"a": Path()}, {"x": Path("train.log")})
    {'a': 'x'}
    """
    if len(runs) == 1:
        return dict.fromkeys(runs, next(iter(logs))) if len(logs) == 1 else {}
    near = {
        run: [name for name, log in logs.items() if _lies_with(log, folder) or log.stem == run]
        for run, folder in runs.items()
    }
    claimed = Counter(name for found in near.values() for name in found)
    return {run: found[0] for run, found in near.items() if len(found) == 1 and claimed[found[0]] == 1}


def _lies_with(log: Path, folder: Path) -> bool:
    """Return whether a log lies in a checkpoint folder, below it, or above it below the common folder.

    >>> _lies_with(Path("a/train.log"), Path("a/checkpoints")), _lies_with(Path("train.log"), Path("a"))
    (True, False)
    """
    around = log.parent
    return around != Path() and (around.is_relative_to(folder) or folder.is_relative_to(around))
