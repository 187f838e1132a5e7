"""Sampled surfaces and spectral densities beside the store, so that figures draw them without measuring."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from toposcope.landscape.surface import Surface
from toposcope.landscape.trace import Density
from toposcope.sources.layout import write_aside
from toposcope.types import Checkpoint

FOLDER = "landscapes"
"""The folder of a store that holds them."""


@dataclass(frozen=True)
class KeptSurface:
    """A surface with the checkpoint, the range ("full" or "quarter") and the draw that it belongs to."""

    run: str
    step: int
    name: str
    draw: int
    surface: Surface


def place(folder: Path, at: Checkpoint, name: str, draw: int) -> Path:
    """Return where a surface or a density of a checkpoint lies."""
    return folder / at.run / f"step_{at.step:06d}" / f"{name}-{draw}.npz"


def keep_surface(path: Path, surface: Surface) -> None:
    """Write a surface aside and rename it into place."""
    axes = {f"axis_{number}": axis for number, axis in enumerate(surface.axes)}
    words = {"kind": surface.kind, "unit": surface.unit, "digest": surface.digest}
    _write(path, {"losses": surface.losses, "counts": surface.counts, **axes, **words})


def read_surface(path: Path, *, digest: str | None = None) -> Surface | None:
    """Return a kept surface; None where there is none, it is damaged, or it has another digest."""
    held = _read(path)
    if held is None or "losses" not in held or (digest is not None and str(held["digest"]) != digest):
        return None
    axes = tuple(held[f"axis_{number}"] for number in range(held["losses"].ndim - 1))
    words = [str(held[name]) for name in ("kind", "unit", "digest")]
    return Surface(axes, held["losses"], held["counts"], *words)


def keep_density(path: Path, density: Density) -> None:
    """Write a spectral density."""
    _write(path, {"nodes": density.nodes, "weights": density.weights})


def read_density(path: Path) -> Density | None:
    """Return a kept spectral density; None where there is none or it is damaged."""
    held = _read(path)
    return None if held is None or "nodes" not in held else Density(held["nodes"], held["weights"])


def kept_surfaces(folder: Path, *, name: str = "full", draw: int = 0) -> Iterator[KeptSurface]:
    """Yield one surface of every checkpoint that has it, by run and step."""
    for run, step, path in _places(folder, name, draw):
        surface = read_surface(path)
        if surface is not None:
            yield KeptSurface(run, step, name, draw, surface)


def kept_densities(folder: Path, *, draw: int = 0) -> Iterator[tuple[str, int, Density]]:
    """Yield run, step and density of every checkpoint that has one."""
    for run, step, path in _places(folder, "density", draw):
        density = read_density(path)
        if density is not None:
            yield run, step, density


def _places(folder: Path, name: str, draw: int) -> Iterator[tuple[str, int, Path]]:
    for path in sorted(folder.glob(f"**/step_*/{name}-{draw}.npz")):
        run = path.parent.parent.relative_to(folder).as_posix()
        yield run, int(path.parent.name.removeprefix("step_")), path


def _write(path: Path, arrays: Mapping[str, object]) -> None:
    def write(aside: Path) -> None:
        with open(aside, "wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

    write_aside(path, write)


def _read(path: Path) -> dict[str, np.ndarray] | None:
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as held:
            return dict(held)
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
        return None
