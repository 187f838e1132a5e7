"""CROCKER: Betti numbers as colour over scale and training step, one panel for each run and dimension."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from toposcope.core.drawing.series import sizes
from toposcope.core.drawing.style import house, new_figure, say_empty
from toposcope.core.errors import InputError
from toposcope.core.forms import span
from toposcope.core.groups import short
from toposcope.core.types import Diagram
from toposcope.page.notes import of_seeds
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.study import Study
from toposcope.subjects.representations.features import REPRESENTATIONS
from toposcope.topology.vectors import common_grid, crocker

_MAP = "magma_r"
RESOLUTION = 120
"""Scales of the grid."""


def draw(
    diagrams: pd.DataFrame,
    runs: pd.DataFrame,
    *,
    dim: int = 1,
    probe: str = REPRESENTATIONS,
    layer: int | None = None,
) -> Figure:
    """Draw the number of bars alive at each scale (up) and checkpoint (across).

    Parameters
    ----------
    diagrams
        The store's diagrams table: columns run, step, probe, layer, draw, dim, birth, death.
    runs
        Columns run, family, parameters.
    dim
        Which homology.
    layer
        Which hidden state; None takes each run's last.

    Returns
    -------
    Figure
        Betti numbers on one grid of scales for all runs, means over the draws. Checkpoints are evenly
        spaced, and named.
    """
    rows = of_last_layer(diagrams[(diagrams["probe"] == probe) & (diagrams["dim"] == dim)], layer)
    names = [run for size in sizes(runs) for run in size.runs if (rows["run"] == run).any()]
    with house():
        figure, axes = new_figure(3.2, columns=max(len(names), 1), sharey=True)
        if not names:
            say_empty(axes[0, 0], "no diagrams were kept")
            return figure
        shapes = [_diagram(line) for line in rows.to_dict("records")]
        try:
            grid = common_grid(shapes, RESOLUTION)
        except InputError:
            say_empty(axes[0, 0], f"no diagram has a bar in H{dim}")
            return figure
        tables = {run: matrix(rows, run, grid) for run in names}
        scale = Normalize(0.0, max(float(table.to_numpy().max()) for table in tables.values()))
        for ax, run in zip(axes[0], names, strict=True):
            _panel(ax, tables[run], run, scale)
        axes[0, 0].set_ylabel("scale (distance)")
        bar = figure.colorbar(ScalarMappable(scale, _MAP), ax=axes, pad=0.012, fraction=0.025, aspect=25)
        bar.set_label(f"bars of H{dim} alive")
        bar.outline.set_visible(False)
    return figure


def of_last_layer(rows: pd.DataFrame, layer: int | None = None) -> pd.DataFrame:
    """Return the rows of one hidden state; None takes each run's last."""
    wanted = rows.groupby("run")["layer"].transform("max") if layer is None else layer
    return rows[rows["layer"] == wanted]


def matrix(rows: pd.DataFrame, run: str, grid: np.ndarray) -> pd.DataFrame:
    """Return one run's Betti numbers, scales down and steps across, averaged over draws."""
    mine = rows[rows["run"] == run].sort_values("step")
    curves = crocker([_diagram(line) for line in mine.to_dict("records")], grid)
    # curves of kept diagrams: these are no rows with a value and a status, and every one of them counts
    return pd.DataFrame(curves, index=mine["step"]).groupby(level=0).mean().T.set_axis(grid, axis=0)


def _diagram(line: dict) -> Diagram:
    return Diagram(int(line["dim"]), np.asarray(line["birth"], float), np.asarray(line["death"], float))


def _panel(ax: Axes, table: pd.DataFrame, run: str, scale: Normalize) -> None:
    ax.set_title(run)
    steps = [int(str(step)) for step in table.columns]
    grid = table.index.to_numpy()
    ax.imshow(
        table.to_numpy(), cmap=_MAP, norm=scale, aspect="auto", origin="lower", interpolation="nearest",
        extent=(-0.5, len(steps) - 0.5, float(grid[0]), float(grid[-1])),
    )  # fmt: skip
    places = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), 6)).round().astype(int))
    ax.set_xticks(places, [short(steps[i]) for i in places])
    ax.yaxis.set_major_locator(MaxNLocator(6))
    ax.set_xlabel("checkpoint (step)")
    ax.grid(visible=False)


def _title(study: Study) -> str:
    """Return a title with the number of loops in the models' clouds at the last and first checkpoint."""
    rows = of_last_layer(study.diagrams)
    rows = rows[(rows["probe"] == REPRESENTATIONS) & (rows["dim"] == 1)]
    # bars of kept diagrams, as in `matrix`
    counts = rows.assign(n=rows["birth"].map(len)).groupby(["run", "step"])["n"].mean().reset_index()
    by_run = counts.sort_values("step", kind="stable").groupby("run")["n"].agg(["first", "last"])
    if by_run.empty:
        return "CROCKER map of H1"
    first, last = (span(by_run[end], "{:.0f}") for end in ("first", "last"))
    return f"The last hidden state has {last} loops (H1) at the end, {first} at the first checkpoint"


def _caption(study: Study) -> Caption:
    return Caption(
        _title(study),
        "The number of loops at each scale (up) and checkpoint (across), one panel per model, with one "
        "grid of scales for all.",
        "At which scale the loops exist, and how their scale and number change together. A band that moves "
        "up and widens is a cloud that grows.",
        "That a bright band is structure. A Gaussian cloud has one, too. Also, " + of_seeds(study) + ".",
        "Heat maps of the first Betti number over scale and checkpoint, one per model.",
    )


ON_PAGE = OnPage(
    "crocker",
    needs=lambda study: study.has_curves and len(study.diagrams) > 0,
    draw=lambda study: draw(study.diagrams, study.runs),
    caption=_caption,
)
