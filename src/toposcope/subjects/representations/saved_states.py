"""Pooled states kept on disk: one safetensors file for each checkpoint, a tensor for each layer.

A file says what was read and how, so that it can replace the forward pass: with the same model and reading in
the next sweep, or without any model as a `SavedStates`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from toposcope.core.errors import SourceError
from toposcope.core.types import Checkpoint, RunRecord
from toposcope.core.wording import option
from toposcope.files.blobs import LocalFolder
from toposcope.files.formats.registry import open_file
from toposcope.logs.metrics import empty
from toposcope.sources.discover import Entry, Source
from toposcope.sources.layout import write_aside
from toposcope.sources.series import Series

_RUNS = "runs.json"


@dataclass(frozen=True, slots=True)
class SavedFacts:
    """What the states of one file are: of which weights and texts, and how they were read."""

    content: str
    texts: str
    reading: dict[str, Any]
    tokens: int | None
    nll: float | None
    predicted: int
    notes: tuple[str, ...]

    def read_alike(self, other: SavedFacts) -> bool:
        """Return whether both were read from the same texts in the same way; layers may differ."""
        return self.texts == other.texts and _but_choice(self.reading) == _but_choice(other.reading)


def states_path(folder: Path, checkpoint: Checkpoint) -> Path:
    """Return the path of the states of a checkpoint."""
    return folder / checkpoint.run / f"step_{checkpoint.step:06d}.safetensors"


def save_states(
    folder: Path, checkpoint: Checkpoint, states: Mapping[int, np.ndarray], facts: SavedFacts
) -> None:
    """Write the states, float32 of shape (n_points, width) per layer, to a temporary file and rename it."""
    from safetensors.numpy import save_file

    path = states_path(folder, checkpoint)
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {f"layer.{layer}": np.ascontiguousarray(values) for layer, values in states.items()}
    written = {"run": checkpoint.run, "step": str(checkpoint.step), "facts": json.dumps(asdict(facts))}
    write_aside(path, lambda aside: save_file(tensors, aside, metadata=written))


def read_facts(folder: Path, checkpoint: Checkpoint) -> SavedFacts:
    """Return the facts about the saved states of a checkpoint.

    Raises
    ------
    SourceError
        If none were kept, or the file is damaged or does not say how they were read.
    """
    from safetensors import SafetensorError, safe_open

    path = states_path(folder, checkpoint)
    try:
        with safe_open(path, framework="numpy") as file:
            fields = json.loads((file.metadata() or {})["facts"])
        return SavedFacts(**{**fields, "notes": tuple(fields["notes"])})
    except FileNotFoundError as error:
        raise SourceError(
            f"{path} does not exist: measure the series with {option('save_states')} {folder}"
        ) from error
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise SourceError(f"{path} is damaged: delete it and measure the series again") from error


def check_reading(folder: Path, texts: str, reading: Mapping[str, Any]) -> None:
    """Refuse a folder whose saved states are of other texts, or were read with other settings.

    Parameters
    ----------
    folder : Path
        Where states will be kept; it need not exist. Damaged files in it are overwritten.
    texts : str
        The digest of the texts.
    reading : mapping
        The settings of the pass.

    Raises
    ------
    SourceError
        If the folder has states of another reading.
    """
    for path in sorted(folder.glob("*/step_*.safetensors")):
        try:
            facts = _checkpoint(folder, path)[1]
        except (SourceError, ValueError):
            continue
        names = sorted(
            name for name in {*facts.reading, *reading} if facts.reading.get(name) != reading.get(name)
        )
        differs = [f"{name} {facts.reading.get(name)!r} there, {reading.get(name)!r} here" for name in names]
        differs += ["other texts"] if facts.texts != texts else []
        if differs:
            raise SourceError(
                f"{folder} contains states that were read with other settings "
                f"({', '.join(differs)}); choose another folder for {option('save_states')}, or give its "
                "settings"
            )


def read_states(folder: Path, checkpoint: Checkpoint) -> dict[int, np.ndarray]:
    """Return the saved states of a checkpoint by layer; errors are those of `read_facts`."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    path = states_path(folder, checkpoint)
    try:
        tensors = load_file(path)
    except FileNotFoundError as error:
        raise SourceError(
            f"{path} does not exist: measure the series with {option('save_states')} {folder}"
        ) from error
    except SafetensorError as error:
        raise SourceError(f"{path} is damaged: delete it and measure the series again") from error
    return {int(name.removeprefix("layer.")): values for name, values in tensors.items()}


def save_runs(folder: Path, runs: tuple[RunRecord, ...]) -> None:
    """Write the records of the runs beside their states; existing records stay."""
    runs_by_name = {run.run: run for run in (*_saved_runs(folder), *runs)}
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(
        [asdict(run) | {"config": dict(run.config)} for run in runs_by_name.values()], default=str
    )
    write_aside(folder / _RUNS, lambda aside: aside.write_text(text, encoding="utf-8"))


def _saved_runs(folder: Path) -> tuple[RunRecord, ...]:
    path = folder / _RUNS
    if not path.is_file():
        return ()
    try:
        return tuple(RunRecord(**fields) for fields in json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise SourceError(f"{path} is damaged: delete it; the runs then have no known sizes") from error


class SavedStates(Series):
    """The checkpoints whose states are in a folder; their tensors are the states, one per layer.

    Raises
    ------
    SourceError
        When there are none, or they were not all read from the same texts in the same way.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        checkpoints = [_checkpoint(folder, path) for path in sorted(folder.glob("*/step_*.safetensors"))]
        if not checkpoints:
            raise SourceError(
                f"{folder} contains no saved states: write some with {option('save_states')} {folder}"
            )
        self.facts = checkpoints[0][1]
        for at, facts in checkpoints:
            if not facts.read_alike(self.facts):
                raise SourceError(
                    f"{at.uri} was read from other texts or with other settings than "
                    f"{checkpoints[0][0].uri}; "
                    "use a separate folder for each"
                )
        runs_by_name = {run.run: run for run in _saved_runs(folder)}
        entries: dict[str, list[Entry]] = {}
        for at, _ in checkpoints:
            entries.setdefault(at.run, []).append(_entry(folder, at))
        sources = [
            Source(runs_by_name.get(name, RunRecord(name)), tuple(of_run), empty)
            for name, of_run in entries.items()
        ]
        super().__init__(str(folder), sources)
        self.computed = True
        self._described = tuple(source.run for source in sorted(sources, key=lambda source: source.run.run))


def _entry(folder: Path, checkpoint: Checkpoint) -> Entry:
    path = states_path(folder, checkpoint)

    def identity() -> dict[str, str]:
        return {"states": hashlib.sha256(path.read_bytes()).hexdigest()}

    return Entry(checkpoint, lambda: open_file(LocalFolder(path.parent).open(path.name)), identity=identity)


def _checkpoint(folder: Path, path: Path) -> tuple[Checkpoint, SavedFacts]:
    step = int(path.stem.removeprefix("step_"))
    facts = read_facts(folder, Checkpoint(path.parent.name, step))
    return Checkpoint(path.parent.name, step, facts.tokens, str(path)), facts


def _but_choice(reading: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in reading.items() if key != "layers"}
