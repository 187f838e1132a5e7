"""The files of a run: checkpoints, gradients, metrics, resume state. No torch."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import SafetensorError, safe_open

from toposcope.core.errors import InputError, SourceError
from toposcope.core.types import RunRecord
from toposcope.core.wording import option
from toposcope.recipes import TrainingRecipe
from toposcope.sources.layout import (
    RunFolder,
    is_run_folder,
    read_run_file,
    write_bytes,
    write_run,
    write_text,
)
from toposcope.store.schema import METRICS
from toposcope.training.schedule import describe
from toposcope.training.tokens import TokenData

# How long the workers of a killed command may take to end before the folder counts as in use.
_PATIENCE_SECONDS = 3.0
_DTYPES = {"float32": "F32", "int32": "I32"}

Metric = dict[str, float | int | str | None]
"""One row of the metrics table."""


class BusyError(InputError):
    """Another process is training this run."""


@contextlib.contextmanager
def claimed(folder: RunFolder, run: str) -> Iterator[None]:
    """Lock a run for this process; the system releases the lock however the process ends.

    Raises
    ------
    BusyError
        If another process has the lock: two processes would corrupt each other's files.
    """
    folder.path.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder.path, os.O_RDONLY)
    try:
        if not _lock(handle):
            raise BusyError(
                f"{run}: another process is training it in {folder.path}; wait until it ends, "
                f"or choose another {option('out')}"
            )
        yield
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    """Return whether the folder could be locked; waits a moment for the workers of a killed command."""
    limit = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > limit:
                return False
            time.sleep(0.05)
        except OSError:
            return True  # a file system without locks: the user must avoid two writers
        else:
            return True


def identity(recipe: TrainingRecipe, *, corpus_sha256: str) -> dict[str, object]:
    """Return the settings that determine the numbers of a run, without names and descriptions."""
    content = asdict(recipe)
    for key in ("name", "description", "corpus"):
        content.pop(key)
    return {**_plain(content), "corpus_sha256": corpus_sha256}  # type: ignore[dict-item]


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no infinity
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def check_same(folder: RunFolder, wanted: dict[str, object]) -> None:
    """Refuse a folder that was trained with another recipe, or that contains something else.

    Raises
    ------
    InputError
        Naming the folder, the first values that differ and what to do.
    """
    if not is_run_folder(folder.path):
        if folder.path.exists() and any(not entry.name.startswith(".") for entry in folder.path.iterdir()):
            raise InputError(f"{folder.path} exists and is not a run folder; choose another {option('out')}")
        return
    stored = read_run_file(folder).get("identity")
    stored = cast(dict[str, object], stored) if isinstance(stored, dict) else {}
    differing = [key for key in wanted if stored.get(key) != wanted[key]]
    if differing:
        shown = ", ".join(
            f"{key} {_brief(stored.get(key))} there, {_brief(wanted[key])} here" for key in differing[:3]
        )
        raise InputError(
            f"{folder.path} was trained with another recipe ({shown})",
            remedy=f"choose another {option('out')} or delete it",
        )


def _brief(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else text[:12] + "..."


def start_folder(
    folder: RunFolder,
    recipe: TrainingRecipe,
    data: TokenData,
    *,
    run: str,
    parameters: int,
    versions: dict[str, str],
    machine: dict[str, str],
) -> RunRecord:
    """Write the record and the recipe of the run, its versions and the machine it begins on."""
    record = RunRecord(
        run=run,
        family=recipe.name,
        parameters=parameters,
        seed=recipe.seeds[0],
        schedule=describe(recipe),
        corpus=data.corpus,
        config=cast(dict[str, object], _plain(asdict(recipe))),
    )
    extra = {
        "recipe": recipe.name,
        "recipe_hash": recipe.hash(),
        "identity": identity(recipe, corpus_sha256=data.sha256),
        "versions": versions,
        "machine": machine,
    }
    write_run(folder, record, extra=extra)
    write_text(folder.recipe_file, recipe.to_toml())
    if data.tokenizer:
        write_text(folder.tokenizer_file, data.tokenizer)
    return record


def write_tensors(path: Path, tensors: dict[str, np.ndarray], metadata: dict[str, str] | None = None) -> None:
    """Write float32 or int32 arrays as safetensors, to a temporary file that is then renamed.

    The safetensors library orders the metadata at random; here, the same content gives the same bytes.
    """
    header: dict[str, object] = {"__metadata__": dict(sorted((metadata or {}).items()))}
    offset = 0
    for name, tensor in tensors.items():
        span = [offset, offset + tensor.nbytes]
        header[name] = {
            "dtype": _DTYPES[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": span,
        }
        offset = span[1]
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    write_bytes(
        path, len(text).to_bytes(8, "little") + text + b"".join(t.tobytes() for t in tensors.values())
    )


def write_metrics(folder: RunFolder, rows: Sequence[Metric], *, start: int, stop: int) -> None:
    """Write the metrics of the steps `start` <= step < `stop` as one parquet part."""
    table = pa.Table.from_pylist(list(rows), schema=METRICS)
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    write_bytes(folder.metrics_part(start, stop), buffer.getvalue())


def read_state(folder: RunFolder, *, size: int) -> tuple[int, dict[str, np.ndarray]] | None:
    """Return the step and the arrays from which to resume; None if the run has no checkpoint yet.

    Raises
    ------
    SourceError
        When the file is damaged.
    """
    path = folder.state_file
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="np") as file:
            step = int(file.metadata()["step"])
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            digest = file.metadata()["sha256"]
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise SourceError(f"{path} is damaged ({error}); delete {folder.path} and train again") from None
    if digest != state_hash(state) or any(array.shape != (size,) for array in state.values()):
        raise SourceError(
            f"{path} is damaged (its content has changed since it was written); delete {folder.path} and "
            "train again"
        )
    return step, state


def write_state(
    folder: RunFolder,
    step: int,
    state: dict[str, np.ndarray],
    names: Sequence[str] = (),
    settings: Mapping[str, object] | None = None,
) -> None:
    """Write what is needed to resume from `step`, and what tells others what the values are.

    `names` are the parameters' in the order of the values; `settings` are the optimiser's by PyTorch's names.
    """
    metadata = {
        "step": str(step), "sha256": state_hash(state), "parameters": json.dumps(list(names)),
        "optimizer": json.dumps(dict(settings or {})),
    }  # fmt: skip
    write_tensors(folder.state_file, state, metadata)


def state_hash(state: dict[str, np.ndarray]) -> str:
    """Return the hash of the arrays, by name."""
    digest = hashlib.sha256()
    for name in sorted(state):
        digest.update(name.encode() + b"\0" + np.ascontiguousarray(state[name]).tobytes())
    return digest.hexdigest()


def is_finished(folder: RunFolder, steps: int) -> bool:
    """Return whether the run has its last checkpoint and its last row of metrics."""
    return folder.checkpoint(steps).is_file() and folder.metrics_part(steps, steps + 1).is_file()


def last_row(folder: RunFolder, steps: int) -> Metric:
    """Return the metrics of the last step of a finished run."""
    return pq.read_table(folder.metrics_part(steps, steps + 1)).to_pylist()[-1]
