"""The figures on the loss surface, drawn from a study and the surfaces kept beside its store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.figure import Figure

from toposcope.page import losses
from toposcope.page.figures import correlations
from toposcope.study.study import Study
from toposcope.study.verdicts import judged
from toposcope.subjects.landscape.figures import loss_surface, merge_trees, surface_training
from toposcope.subjects.landscape.options import GRAPHS
from toposcope.subjects.landscape.saved_surfaces import SavedSurface, saved_densities, saved_surfaces
from toposcope.subjects.landscape.summaries import topology_of
from toposcope.topology.merge_tree import MergeTree
from toposcope.topology.sampled_surface import SurfaceTopology

MOST = 6
"""Checkpoints that are shown of one run."""


@dataclass(frozen=True)
class ShownSurfaces:
    """The surfaces of one run that the page shows, each with what was found on it, and the graph it is on.

    `made_here` says that the store kept the losses alone, as earlier versions did, so that what is found on
    them was computed for the page, on the graph that the store's settings name.
    """

    surfaces: tuple[SavedSurface, ...] = ()
    graph: str = ""
    made_here: bool = False

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.surfaces)

    def __iter__(self) -> Iterator[tuple[SavedSurface, SurfaceTopology]]:
        """Iterate over the surfaces and what was found on each."""
        for one in self.surfaces:
            assert one.topology is not None
            yield one, one.topology

    @property
    def flat(self) -> bool:
        """Whether they have two directions."""
        return bool(self.surfaces) and self.surfaces[0].surface.mean.ndim == 2


def figures(study: Study, shown: ShownSurfaces) -> Iterator[tuple[str, Figure]]:
    """Draw every figure that the store has the numbers for, in reading order."""
    yield (
        "landscape_training",
        surface_training.draw_lines(study.features, study.runs, study.series.catalogue),
    )
    yield from losses.figures(study)
    if len(shown):
        yield from _of_surfaces(shown)
    densities = _densities(study)
    if densities:
        yield "spectral_density", surface_training.draw_densities(densities)
    if study.target:
        yield (
            "landscape_correlations",
            correlations.draw(judged(study), study.runs, study.series.catalogue, target=study.target),
        )


def _of_surfaces(shown: ShownSurfaces) -> Iterator[tuple[str, Figure]]:
    titled = [(f"step {one.step:,}", one.surface.axes, found) for one, found in shown]
    if shown.flat:
        panels = [
            loss_surface.SurfacePanel(title, (axes[0], axes[1]), found.tree, _tested(found))
            for title, axes, found in titled
        ]
        yield "loss_surfaces", loss_surface.draw(panels)
    yield "landscape_profiles", merge_trees.draw_profiles([(title, f.tree) for title, _, f in titled])
    most = max(
        enumerate(found for _, found in shown),
        key=lambda one: (int((one[1].tree.persistence > 0).sum()), one[0]),
    )[1]
    yield "merge_tree", merge_trees.draw(most.tree, tested=_tested(most))
    yield "surface_diagrams", surface_training.draw_diagrams([(title, f.homology) for title, _, f in titled])


def _tested(found: SurfaceTopology) -> tuple[MergeTree, np.ndarray] | None:
    return None if found.branches is None else (found.branches.tree, found.branches.confirmed)


def shown_surfaces(study: Study) -> ShownSurfaces:
    """Return the surfaces of the largest run that kept any: the first draw, at most six checkpoints."""
    if study.kept is None:
        return ShownSurfaces()
    found = [one for one in saved_surfaces(study.kept) if one.topology or one.surface.finite.sum() > 1]
    run = next((run for run in reversed(study.ordered) if any(one.run == run for one in found)), None)
    mine = _spread([one for one in sorted(found, key=lambda one: one.step) if one.run == run])
    if not mine:
        return ShownSurfaces()
    graph = _graph(study)
    made_here = any(one.topology is None for one in mine)
    whole = (replace(one, topology=one.topology or topology_of(one.surface, graph)) for one in mine)
    return ShownSurfaces(tuple(whole), mine[0].topology.graph if mine[0].topology else graph, made_here)


def _graph(study: Study) -> str:
    """Return the graph that the store's settings name."""
    recipe = study.provenance.get("recipe")
    return str(recipe.get("graph", GRAPHS[0])) if isinstance(recipe, Mapping) else GRAPHS[0]


def _spread(items: list) -> list:
    """Return at most six of the items, the first and the last among them."""
    if len(items) <= MOST:
        return items
    return [items[i] for i in np.unique(np.linspace(0, len(items) - 1, MOST).round().astype(int))]


def _densities(study: Study) -> list[tuple[str, np.ndarray, np.ndarray]]:
    if study.kept is None:
        return []
    found = list(saved_densities(study.kept))
    run = next((run for run in reversed(study.ordered) if any(one[0] == run for one in found)), None)
    mine = _spread(
        sorted(((step, density) for r, step, density in found if r == run), key=lambda one: one[0])
    )
    if not mine:
        return []
    low = min(float(density.nodes.min()) for _, density in mine)
    high = max(float(density.nodes.max()) for _, density in mine)
    width = 0.01 * max(high - low, 1e-12)
    grid = np.linspace(low - 4 * width, high + 4 * width, 500)
    return [(f"step {step:,}", grid, density.on(grid, width)) for step, density in mine]
