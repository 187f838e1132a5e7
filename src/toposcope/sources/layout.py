"""The layout of a run folder: where training writes and where measuring reads.

| path | what it holds |
| --- | --- |
| `run.json` | the fields of `toposcope.core.types.Run` and the versions that trained it |
| `recipe.toml` | the resolved recipe of this one run |
| `tokenizer.json` | the trained tokenizer (runs on subwords only) |
| `heldout.safetensors` | the fixed held-out batches: `tokens`, (batches, batch size, context + 1) |
| `checkpoints/step_000100.safetensors` | every parameter by name; step, tokens, held-out loss as metadata |
| `gradients/step_000100.safetensors` | gradients on the first held-out batch, by name (on request) |
| `metrics/steps_000000_000100.parquet` | one row per step, 0 up to but without 100 |
| `state/resume.safetensors` | weights and optimiser moments of the latest checkpoint |

Every file is written under a temporary name and renamed, so a reader never sees half a file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from toposcope.core.errors import SourceError
from toposcope.core.types import RunRecord

_CHECKPOINT = re.compile(r"step_(\d+)\.safetensors")
_METRICS = re.compile(r"steps_(\d+)_(\d+)\.parquet")
_ASIDE = ".aside-"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The paths inside one run folder; building them touches no file.

    >>> RunFolder(Path("tiny")).checkpoint(100).as_posix()
    'tiny/checkpoints/step_000100.safetensors'
    """

    path: Path

    @property
    def run_file(self) -> Path:
        """The record of the run as JSON; a folder with this file is a run folder."""
        return self.path / "run.json"

    @property
    def recipe_file(self) -> Path:
        """The resolved recipe of this run."""
        return self.path / "recipe.toml"

    @property
    def tokenizer_file(self) -> Path:
        """The trained tokenizer; absent if characters are the tokens."""
        return self.path / "tokenizer.json"

    @property
    def heldout_file(self) -> Path:
        """The fixed held-out batches."""
        return self.path / "heldout.safetensors"

    @property
    def state_file(self) -> Path:
        """The state to resume from the latest checkpoint."""
        return self.path / "state" / "resume.safetensors"

    def checkpoint(self, step: int) -> Path:
        """Return the path of the weights at `step`."""
        return self.path / "checkpoints" / f"step_{step:06d}.safetensors"

    def gradients(self, step: int) -> Path:
        """Return the path of the gradients at `step`."""
        return self.path / "gradients" / f"step_{step:06d}.safetensors"

    def metrics_part(self, start: int, stop: int) -> Path:
        """Return the path of the metrics for `start` <= step < `stop`."""
        return self.path / "metrics" / f"steps_{start:06d}_{stop:06d}.parquet"

    def checkpoint_steps(self) -> list[int]:
        """Return the steps that have weights on disk, ascending."""
        return _steps(self.path / "checkpoints")

    def metrics_parts(self) -> list[tuple[int, int, Path]]:
        """Return (start, stop, path) of every metrics part, ascending."""
        matches = [(_METRICS.fullmatch(path.name), path) for path in _files(self.path / "metrics")]
        return sorted((int(match[1]), int(match[2]), path) for match, path in matches if match)


def is_run_folder(path: Path) -> bool:
    """Return whether `path` is a run folder in this layout."""
    return RunFolder(path).run_file.is_file()


def read_run_file(folder: RunFolder) -> dict[str, object]:
    """Return the content of `run.json`.

    Raises
    ------
    SourceError
        When the file is missing or is not the JSON object of a run.
    """
    try:
        content = json.loads(folder.run_file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SourceError(
            f"{folder.path} is not a run folder: it has no run.json", remedy="give the folder of a run"
        ) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise SourceError(
            f"{folder.run_file} is not readable as JSON ({error}); train the run again"
        ) from None
    if not isinstance(content, dict) or not isinstance(content.get("run"), str):
        raise SourceError(f"{folder.run_file} does not describe a run: 'run' is missing; train it again")
    return content


def read_run(folder: RunFolder) -> RunRecord:
    """Return the run that a folder holds; fields that this version does not know are left out."""
    content = read_run_file(folder)
    names = {field.name for field in fields(RunRecord)}
    return RunRecord(**{name: value for name, value in content.items() if name in names})  # type: ignore[arg-type]


def write_run(folder: RunFolder, run: RunRecord, *, extra: Mapping[str, object]) -> None:
    """Write `run.json`: the fields of `run`, then `extra` (versions, hashes)."""
    content = {**asdict(run), "config": dict(run.config), **extra}
    write_text(folder.run_file, json.dumps(content, indent=2, sort_keys=True) + "\n")


def write_aside(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path`, flush it to disk and rename it into place.

    Even if interrupted, `path` holds either its old content or all of the new.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{_ASIDE}{os.getpid()}-{path.name}")
    try:
        write(aside)
        with open(aside, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException as error:
        aside.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            error.filename = str(path)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file under a temporary name and rename it."""
    write_aside(path, lambda aside: aside.write_text(text, encoding="utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a binary file under a temporary name and rename it."""
    write_aside(path, lambda aside: aside.write_bytes(content))


def remove_leftovers(folder: RunFolder) -> None:
    """Remove temporary files that an interrupted write left in a run folder."""
    for path in folder.path.rglob(f"{_ASIDE}*"):
        path.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _steps(folder: Path) -> list[int]:
    matches = [_CHECKPOINT.fullmatch(path.name) for path in _files(folder)]
    return sorted(int(match[1]) for match in matches if match)
