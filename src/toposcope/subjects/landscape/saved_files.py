"""Files beside the store for the figures: one for each checkpoint, name and draw."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from toposcope.core.errors import StoreError
from toposcope.core.types import Checkpoint
from toposcope.sources.layout import write_aside
from toposcope.store import inside


def place(folder: Path, at: Checkpoint, name: str, draw: int) -> Path:
    """Return the path of a checkpoint's surface or density."""
    return folder / at.run / f"step_{at.step:06d}" / f"{name}-{draw}.npz"


@dataclass(frozen=True, slots=True)
class SavedPlace:
    """The file of a checkpoint's surface or density, which is not read yet."""

    run: str
    step: int
    name: str
    draw: int
    path: Path


def saved_places(folder: Path, *, name: str = "full", draw: int = 0) -> Iterator[SavedPlace]:
    """Yield the file of every checkpoint that has this surface or density, by run and step."""
    for path in sorted(folder.glob(f"**/step_*/{name}-{draw}.npz")):
        run = path.parent.parent.relative_to(folder).as_posix()
        yield SavedPlace(run, int(path.parent.name.removeprefix("step_")), name, draw, path)


def write_arrays(path: Path, arrays: Mapping[str, object]) -> None:
    """Write arrays to a temporary file and rename it into place."""

    def write(aside: Path) -> None:
        with open(aside, "wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

    write_aside(path, write)


def read_arrays(path: Path) -> dict[str, np.ndarray] | None:
    """Return the arrays of a file; None if there is none or it is damaged."""
    try:
        with open(inside.opened(path), "rb") as file, np.load(file, allow_pickle=False) as held:
            return dict(held)
    except (OSError, StoreError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
        return None
