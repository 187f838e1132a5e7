"""The figures on the loss surface, drawn from a study and the surfaces kept beside its store."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from matplotlib.figure import Figure

from toposcope.analysis.study import Study
from toposcope.analysis.verdicts import judged
from toposcope.figures import correlations, loss_surface, merge_trees, surface_training
from toposcope.probes.landscape.kept import KeptSurface, kept_densities, kept_surfaces
from toposcope.report import losses
from toposcope.topology.merge_tree import MergeTree, merge_tree
from toposcope.topology.surface_homology import surface_homology
from toposcope.topology.surfaces import branch_intervals

MOST = 6
"""Checkpoints that are shown of one run."""


def figures(study: Study) -> Iterator[tuple[str, Figure]]:
    """Draw every figure that the store has the numbers for, in reading order."""
    yield (
        "landscape_training",
        surface_training.draw_lines(study.features, study.runs, study.series.catalogue),
    )
    yield from losses.figures(study)
    shown = shown_surfaces(study)
    if shown:
        trees = [merge_tree(one.surface.mean) for one in shown]
        titles = [f"step {one.step:,}" for one in shown]
        clear = [_clear(tree, one.surface.losses) for tree, one in zip(trees, shown, strict=True)]
        if shown[0].surface.mean.ndim == 2:
            panels = [
                loss_surface.SurfacePanel(title, (one.surface.axes[0], one.surface.axes[1]), tree, mask)
                for title, one, tree, mask in zip(titles, shown, trees, clear, strict=True)
            ]
            yield "loss_surfaces", loss_surface.draw(panels)
        yield "landscape_profiles", merge_trees.draw_profiles(list(zip(titles, trees, strict=True)))
        ranked = max(range(len(trees)), key=lambda i: (int((trees[i].persistence > 0).sum()), i))
        yield "merge_tree", merge_trees.draw(trees[ranked], clear=clear[ranked])
        pairs = [
            (title, surface_homology(one.surface.mean)) for title, one in zip(titles, shown, strict=True)
        ]
        yield "surface_diagrams", surface_training.draw_diagrams(pairs)
    densities = _densities(study)
    if densities:
        yield "spectral_density", surface_training.draw_densities(densities)
    if study.target:
        yield (
            "landscape_correlations",
            correlations.draw(judged(study), study.runs, study.series.catalogue, target=study.target),
        )


def shown_surfaces(study: Study) -> list[KeptSurface]:
    """Return the surfaces of the largest run that kept any: the first draw, at most six checkpoints."""
    if study.kept is None:
        return []
    found = list(kept_surfaces(study.kept))
    run = next((run for run in reversed(study.ordered) if any(one.run == run for one in found)), None)
    return _spread([one for one in sorted(found, key=lambda one: one.step) if one.run == run])


def _spread(items: list) -> list:
    """Return at most six of the items, the first and the last among them."""
    if len(items) <= MOST:
        return items
    return [items[i] for i in np.unique(np.linspace(0, len(items) - 1, MOST).round().astype(int))]


def _clear(tree: MergeTree, losses: np.ndarray) -> np.ndarray:
    """Return which branches' paired intervals over sequences lie above 0."""
    clear = np.zeros(len(tree), dtype=bool)
    intervals = branch_intervals(tree, losses)
    clear[intervals.branch[intervals.clear]] = True
    return clear


def _densities(study: Study) -> list[tuple[str, np.ndarray, np.ndarray]]:
    if study.kept is None:
        return []
    found = list(kept_densities(study.kept))
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
