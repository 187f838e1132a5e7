"""The density of the Hessian's eigenvalues over training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from toposcope.core.drawing.style import graded, house, new_figure, say_empty
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.study import Study
from toposcope.subjects.landscape.figures.shown_surfaces import of_largest_run
from toposcope.subjects.landscape.geometry.trace import Density
from toposcope.subjects.landscape.saved_densities import read_density
from toposcope.subjects.landscape.saved_files import SavedPlace, saved_places


def draw(densities: Sequence[tuple[str, np.ndarray, np.ndarray]]) -> Figure:
    """Draw spectral densities over training, first steps dark.

    Parameters
    ----------
    densities
        Title, grid (n,) and each random vector's density (vectors, n).
    """
    with house():
        figure, axes = new_figure(3.4)
        ax = axes[0, 0]
        if not densities:
            say_empty(ax, "no spectral density was kept")
            return figure
        for (title, grid, rows), colour in zip(densities, graded(len(densities)), strict=True):
            mean = rows.mean(axis=0)
            spread = rows.std(axis=0, ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else np.zeros(len(grid))
            floor = 1e-8 * float(mean.max())
            ax.fill_between(
                grid, np.maximum(mean - 2 * spread, floor), np.maximum(mean + 2 * spread, floor),
                color=colour, alpha=0.2, linewidth=0,
            )  # fmt: skip
            ax.plot(grid, np.maximum(mean, floor), color=colour, label=title)
        highest = max(float(rows.mean(axis=0).max()) for _, _, rows in densities)
        ax.set_yscale("log")
        ax.set_ylim(1e-6 * highest, 2 * highest)
        ax.set_xlabel("Hessian eigenvalue (loss / weight²)")
        ax.set_ylabel("density")
        ax.legend(fontsize=7)
    return figure


def _read(study: Study) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Return title, grid and densities of some checkpoints of the largest run with stored densities."""
    if study.kept is None:
        return []
    mine = of_largest_run(study, saved_places(study.kept, name="density"), _at_step)
    if not mine:
        return []
    low = min(float(density.nodes.min()) for _, density in mine)
    high = max(float(density.nodes.max()) for _, density in mine)
    width = 0.01 * max(high - low, 1e-12)
    grid = np.linspace(low - 4 * width, high + 4 * width, 500)
    return [(f"step {step:,}", grid, density.on(grid, width)) for step, density in mine]


def _at_step(at: SavedPlace) -> tuple[int, Density] | None:
    density = read_density(at.path)
    return None if density is None else (at.step, density)


CAPTION = Caption(
    "Density of the Hessian's eigenvalues over training",
    "The density on the first batch, estimated by stochastic Lanczos quadrature and smoothed by 1% of the "
    "range. Bands are twice the standard error over random vectors.",
    "How much of the spectrum lies near 0, how much below it, and how much in outliers.",
    "Where exactly the eigenvalues between the nodes of the quadrature lie. The highest and the lowest are "
    "measured separately.",
    "Density on a log axis against the eigenvalue, a line for each checkpoint.",
)

ON_PAGE = OnPage(
    "spectral_density",
    needs=lambda study: len(study.once(_read)) > 0,
    draw=lambda study: draw(study.once(_read)),
    caption=lambda study: CAPTION,
)
