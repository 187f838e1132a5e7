"""The spectral densities that are kept beside the store for the figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from toposcope.subjects.landscape.geometry.trace import Density
from toposcope.subjects.landscape.saved_files import read_arrays, saved_places, write_arrays


def save_density(path: Path, density: Density) -> None:
    """Write a spectral density."""
    write_arrays(path, {"nodes": density.nodes, "weights": density.weights})


def read_density(path: Path) -> Density | None:
    """Return a stored spectral density; None if there is none or it is damaged."""
    held = read_arrays(path)
    return None if held is None or "nodes" not in held else Density(held["nodes"], held["weights"])


def saved_densities(folder: Path, *, draw: int = 0) -> Iterator[tuple[str, int, Density]]:
    """Yield run, step and density of every checkpoint that has one."""
    for at in saved_places(folder, name="density", draw=draw):
        density = read_density(at.path)
        if density is not None:
            yield at.run, at.step, density
