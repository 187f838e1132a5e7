"""Files beside the store for the figures: sampled surfaces, their topology, and spectral densities."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from toposcope.core.types import Checkpoint, Diagram
from toposcope.sources.layout import write_aside
from toposcope.subjects.landscape.geometry.surface import Surface
from toposcope.subjects.landscape.geometry.trace import Density
from toposcope.topology.merge_tree import MergeTree
from toposcope.topology.sampled_surface import ConfirmedBranches, SurfaceTopology
from toposcope.topology.surfaces import BranchIntervals

_TREE, _TESTED, _INTERVALS = "tree_", "tested_tree_", "tested_"
_OF_TREE = tuple(field.name for field in fields(MergeTree))
_OF_INTERVALS = tuple(field.name for field in fields(BranchIntervals) if field.name != "level")


@dataclass(frozen=True)
class SavedSurface:
    """A surface with its checkpoint, its range ("full" or "quarter") and its draw.

    `topology` was computed when it was measured; None in a store of a version that kept only the losses.
    """

    run: str
    step: int
    name: str
    draw: int
    surface: Surface
    topology: SurfaceTopology | None = None


def place(folder: Path, at: Checkpoint, name: str, draw: int) -> Path:
    """Return the path of a checkpoint's surface or density."""
    return folder / at.run / f"step_{at.step:06d}" / f"{name}-{draw}.npz"


def save_surface(path: Path, surface: Surface, topology: SurfaceTopology | None = None) -> None:
    """Write a surface and its topology to a temporary file and rename it into place."""
    axes = {f"axis_{number}": axis for number, axis in enumerate(surface.axes)}
    words = {"kind": surface.kind, "unit": surface.unit, "digest": surface.digest}
    found = {} if topology is None else _arrays(topology)
    _write(path, {"losses": surface.losses, "counts": surface.counts, **axes, **words, **found})


def read_surface(path: Path, *, digest: str | None = None) -> tuple[Surface, SurfaceTopology | None] | None:
    """Return a kept surface and its topology.

    None if there is no surface, it is damaged, or it has another digest.
    """
    held = _read(path)
    if held is None or "losses" not in held or (digest is not None and str(held["digest"]) != digest):
        return None
    axes = tuple(held[f"axis_{number}"] for number in range(held["losses"].ndim - 1))
    words = [str(held[name]) for name in ("kind", "unit", "digest")]
    return Surface(axes, held["losses"], held["counts"], *words), _topology(held)


def _arrays(topology: SurfaceTopology) -> dict[str, object]:
    made: dict[str, object] = {"graph": topology.graph, "dimensions": len(topology.homology)}
    made |= {f"{_TREE}{name}": getattr(topology.tree, name) for name in _OF_TREE}
    for diagram in topology.homology:
        made[f"h{diagram.dim}"] = diagram.pairs
        made[f"h{diagram.dim}_vertices"] = diagram.n_vertices
    if topology.branches is not None:
        made |= {f"{_TESTED}{name}": getattr(topology.branches.tree, name) for name in _OF_TREE}
        names = (*_OF_INTERVALS, "level")
        made |= {f"{_INTERVALS}{name}": getattr(topology.branches.intervals, name) for name in names}
    return made


def _topology(held: Mapping[str, np.ndarray]) -> SurfaceTopology | None:
    """Return the topology of a stored surface; None if a part is missing."""
    try:
        homology = tuple(_diagram(held, dim) for dim in range(int(held["dimensions"])))
        tested = None
        if f"{_INTERVALS}level" in held:
            parts = {name: held[f"{_INTERVALS}{name}"] for name in _OF_INTERVALS}
            intervals = BranchIntervals(**parts, level=float(held[f"{_INTERVALS}level"]))
            tested = ConfirmedBranches(_tree(held, _TESTED), intervals)
        return SurfaceTopology(str(held["graph"]), _tree(held, _TREE), homology, tested)
    except KeyError:
        return None


def _tree(held: Mapping[str, np.ndarray], prefix: str) -> MergeTree:
    parts = {name: held[f"{prefix}{name}"] for name in _OF_TREE}
    return MergeTree(**{**parts, "shape": tuple(int(length) for length in parts["shape"])})  # type: ignore[arg-type]


def _diagram(held: Mapping[str, np.ndarray], dim: int) -> Diagram:
    birth, death = held[f"h{dim}"].T
    return Diagram(dim, birth, death, "sublevel", int(held[f"h{dim}_vertices"]))


def save_density(path: Path, density: Density) -> None:
    """Write a spectral density."""
    _write(path, {"nodes": density.nodes, "weights": density.weights})


def read_density(path: Path) -> Density | None:
    """Return a stored spectral density; None if there is none or it is damaged."""
    held = _read(path)
    return None if held is None or "nodes" not in held else Density(held["nodes"], held["weights"])


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


def saved_surface(at: SavedPlace) -> SavedSurface | None:
    """Return a stored surface; None if its file is damaged."""
    held = read_surface(at.path)
    return None if held is None else SavedSurface(at.run, at.step, at.name, at.draw, *held)


def saved_surfaces(folder: Path, *, name: str = "full", draw: int = 0) -> Iterator[SavedSurface]:
    """Yield one surface of every checkpoint that has it, by run and step."""
    yield from filter(None, map(saved_surface, saved_places(folder, name=name, draw=draw)))


def saved_densities(folder: Path, *, draw: int = 0) -> Iterator[tuple[str, int, Density]]:
    """Yield run, step and density of every checkpoint that has one."""
    for at in saved_places(folder, name="density", draw=draw):
        density = read_density(at.path)
        if density is not None:
            yield at.run, at.step, density


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
