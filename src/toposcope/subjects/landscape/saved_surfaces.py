"""The sampled surfaces that are kept beside the store for the figures, with their topology."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from toposcope.core.types import Diagram
from toposcope.subjects.landscape.geometry.surface import Surface
from toposcope.subjects.landscape.saved_files import SavedPlace, read_arrays, saved_places, write_arrays
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


def save_surface(path: Path, surface: Surface, topology: SurfaceTopology | None = None) -> None:
    """Write a surface and its topology to a temporary file and rename it into place."""
    axes = {f"axis_{number}": axis for number, axis in enumerate(surface.axes)}
    words = {"kind": surface.kind, "unit": surface.unit, "digest": surface.digest}
    arrays = {} if topology is None else _arrays(topology)
    write_arrays(path, {"losses": surface.losses, "counts": surface.counts, **axes, **words, **arrays})


def read_surface(path: Path, *, digest: str | None = None) -> tuple[Surface, SurfaceTopology | None] | None:
    """Return a kept surface and its topology.

    None if there is no surface, it is damaged, or it has another digest.
    """
    held = read_arrays(path)
    if held is None or "losses" not in held or (digest is not None and str(held["digest"]) != digest):
        return None
    axes = tuple(held[f"axis_{number}"] for number in range(held["losses"].ndim - 1))
    words = [str(held[name]) for name in ("kind", "unit", "digest")]
    return Surface(axes, held["losses"], held["counts"], *words), _topology(held)


def _arrays(topology: SurfaceTopology) -> dict[str, object]:
    arrays: dict[str, object] = {"graph": topology.graph, "dimensions": len(topology.homology)}
    arrays |= {f"{_TREE}{name}": getattr(topology.tree, name) for name in _OF_TREE}
    for diagram in topology.homology:
        arrays[f"h{diagram.dim}"] = diagram.pairs
        arrays[f"h{diagram.dim}_vertices"] = diagram.n_vertices
    if topology.branches is not None:
        arrays |= {f"{_TESTED}{name}": getattr(topology.branches.tree, name) for name in _OF_TREE}
        names = (*_OF_INTERVALS, "level")
        arrays |= {f"{_INTERVALS}{name}": getattr(topology.branches.intervals, name) for name in names}
    return arrays


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


def saved_surface(at: SavedPlace) -> SavedSurface | None:
    """Return a stored surface; None if its file is damaged."""
    held = read_surface(at.path)
    return None if held is None else SavedSurface(at.run, at.step, at.name, at.draw, *held)


def saved_surfaces(folder: Path, *, name: str = "full", draw: int = 0) -> Iterator[SavedSurface]:
    """Yield one surface of every checkpoint that has it, by run and step."""
    yield from filter(None, map(saved_surface, saved_places(folder, name=name, draw=draw)))
