"""What is found on a surface, written beside the store and read back."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest

from toposcope.core.types import Checkpoint
from toposcope.subjects.landscape import saved_surfaces
from toposcope.subjects.landscape.figures.shown_surfaces import shown_surfaces
from toposcope.subjects.landscape.geometry.surface import Surface
from toposcope.subjects.landscape.saved_files import place
from toposcope.subjects.landscape.saved_surfaces import read_surface, save_surface
from toposcope.topology.sampled_surface import surface_topology


@pytest.mark.parametrize("shape", [(9,), (7, 9), (5, 5, 5)])
@pytest.mark.parametrize("graph", ["lattice", "kuhn", "knn"])
def test_what_was_found_is_read_back_as_it_was(tmp_path, graph: str, shape: tuple[int, ...]) -> None:
    losses = np.random.default_rng(0).normal(size=(*shape, 8))
    losses[(0,) * len(shape)] = np.nan  # a masked place
    axes = tuple(np.arange(float(length)) for length in shape)
    surface = Surface(axes, losses, np.ones(8, int), "random", "a unit", "a digest")
    found = surface_topology(surface.mean, graph=graph, losses=losses)
    path = tmp_path / "full-0.npz"
    save_surface(path, surface, found)
    held, read = read_surface(path)
    np.testing.assert_array_equal(held.losses, losses)
    assert (read.graph, read.tree.shape) == (graph, shape)
    for one, other in (
        (found.tree, read.tree),
        (found.branches.tree, read.branches.tree),
        (found.branches.intervals, read.branches.intervals),
    ):
        for field in fields(one):
            np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))
    assert len(read.homology) == (1 if graph == "knn" else len(shape))
    for one, other in zip(found.homology, read.homology, strict=True):
        np.testing.assert_array_equal(one.pairs, other.pairs)
        assert (one.dim, one.n_vertices) == (other.dim, other.n_vertices)
    np.testing.assert_array_equal(found.branches.confirmed, read.branches.confirmed)


@pytest.fixture
def study(tmp_path) -> SimpleNamespace:
    """Twenty surfaces of a small run and twenty of a large one; one of the large run's files is damaged."""
    values = np.array([3.0, 0.0, 2.0, 1.0, 4.0])
    surface = Surface((np.arange(5.0),), np.stack([values] * 2, axis=-1), np.ones(2, int), "random", "", "")
    for run in ("small", "large"):
        for step in range(20):
            at = place(tmp_path, Checkpoint(run, step, uri=""), "full", 0)
            at.parent.mkdir(parents=True)
            save_surface(at, surface, surface_topology(surface.mean))
    place(tmp_path, Checkpoint("large", 19, uri=""), "full", 0).write_bytes(b"no surface")
    made = SimpleNamespace(kept=tmp_path, ordered=["small", "large"], provenance={})
    made.once = lambda make: make(made)
    return made


def test_the_page_reads_only_the_surfaces_that_it_shows(study, monkeypatch) -> None:
    opened = []
    read = saved_surfaces.read_arrays
    monkeypatch.setattr(saved_surfaces, "read_arrays", lambda path: opened.append(path) or read(path))
    shown = shown_surfaces(study)
    assert [(one.run, one.step) for one in shown.surfaces] == [
        ("large", step) for step in (0, 4, 7, 11, 14, 18)
    ]
    assert len(opened) <= 12  # six, and six others in place of the damaged file
    assert shown.single == "0 of the 6 surfaces shown have a single minimum; no branches confirmed"


def test_the_graph_decides_what_is_found() -> None:
    losses = np.random.default_rng(1).normal(size=(15, 15, 8))
    values = losses.mean(axis=-1)
    found = {
        graph: surface_topology(values, graph=graph, losses=losses) for graph in ("lattice", "kuhn", "knn")
    }
    minima = {graph: int((one.tree.persistence > 0).sum()) for graph, one in found.items()}
    # by hand: a minimum has no lower neighbour
    padded = np.pad(values, 1, constant_values=np.inf)
    steps = {"lattice": [(0, 1), (1, 0)], "kuhn": [(0, 1), (1, 0), (1, 1)]}
    for graph, forward in steps.items():
        around = [padded[1 + s * a : 16 + s * a, 1 + s * b : 16 + s * b] for a, b in forward for s in (1, -1)]
        assert minima[graph] == int((values < np.min(around, axis=0)).sum())
        assert len(found[graph].homology[0]) == minima[graph]
    assert minima["lattice"] > minima["kuhn"] > minima["knn"]
    assert len({one.branches.found for one in found.values()}) == 3
