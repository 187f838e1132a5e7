"""Small multiples: one panel for each feature, one line for each model, on a log step axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toposcope.core.drawing.lines import draw_sizes
from toposcope.core.drawing.series import DrawnSize, sizes
from toposcope.core.drawing.style import house, new_panels, say_empty
from toposcope.core.lines import select
from toposcope.study.representations import of_layer
from toposcope.subjects.representations import features as of


@dataclass(frozen=True, slots=True)
class TrajectoryPanel:
    """A feature, how its panel is called, and whether its axis is logarithmic."""

    feature: str
    title: str
    unit: str = ""
    log: bool = False


TOPOLOGY = (
    TrajectoryPanel(of.H1_COUNT.name, "H1 bars", "count"),
    TrajectoryPanel(of.H1_TOTAL.name, "H1 total persistence", "distance"),
    TrajectoryPanel(of.H1_ENTROPY.name, "H1 persistent entropy", "nats"),
    TrajectoryPanel(of.H1_MAX.name, "H1 longest bar", "distance"),
    TrajectoryPanel(of.H0_TOTAL.name, "H0 total persistence", "distance"),
    TrajectoryPanel(of.H1_SCALED.name, "H1 total, distances / median", "ratio"),
)
SPECTRUM = (
    TrajectoryPanel(of.RANK.name, "Effective rank (eigenvalues)", "dimensions"),
    TrajectoryPanel(of.PARTICIPATION.name, "Participation ratio", "dimensions"),
    TrajectoryPanel(of.DECAY.name, "Eigenspectrum decay", "exponent"),
    TrajectoryPanel(of.TOP.name, "Top covariance eigenvalue", "distance squared", log=True),
)
CHANGE = (
    TrajectoryPanel(of.H1_MOVED.name, "H1: W1 to the previous checkpoint", "distance"),
    TrajectoryPanel(of.H0_MOVED.name, "H0: W1 to the previous checkpoint", "distance"),
    TrajectoryPanel(of.H1_RATE.name, "H1: the same per unit of log step", "distance / ln step"),
    TrajectoryPanel(of.H0_RATE.name, "H0: the same per unit of log step", "distance / ln step"),
)
QUALITY = (TrajectoryPanel(of.PERPLEXITY.name, "Perplexity", "per token", log=True),)
DIMENSION = (
    TrajectoryPanel(of.TWONN.name, "TwoNN dimension", "dimensions"),
    TrajectoryPanel(of.MLE_DIMENSION.name, "MLE dimension", "dimensions"),
    TrajectoryPanel(of.PH_DIMENSION.name, "PH dimension", "dimensions"),
)
SUMMARY = (*QUALITY, TOPOLOGY[1], SPECTRUM[0], CHANGE[0])
"""The embedding report's four-panel summary."""


def draw(
    features: pd.DataFrame,
    runs: pd.DataFrame,
    panels: Sequence[TrajectoryPanel],
    *,
    probe: str = of.REPRESENTATIONS,
    layer: int | None = None,
    bends: Mapping[str, pd.DataFrame] | None = None,
) -> Figure:
    """Draw each panel's feature against the step, one line per size.

    Parameters
    ----------
    features
        The store's features table.
    runs
        Columns run, family, parameters.
    panels
        What to draw, in reading order.
    layer
        The hidden state that is shown; None takes each run's last. Values of the whole model have none.
    bends
        The changepoints of each feature, as `toposcope.core.drawing.marks.bends_of` returns them.

    Returns
    -------
    Figure
        Lines are means over subsamples (draws), bands their 95% interval; with seeds, over the seeds.
    """
    groups = sizes(runs)
    rows = of_layer(features[features["probe"] == probe], layer)
    with house():
        figure, axes = new_panels(len(panels), each=2.5, more=0.4)
        for ax, panel in zip(axes, panels, strict=False):
            _panel(ax, rows, groups, panel, probe=probe, bends=(bends or {}).get(panel.feature))
    return figure


def _panel(
    ax: Axes,
    rows: pd.DataFrame,
    groups: list[DrawnSize],
    panel: TrajectoryPanel,
    *,
    probe: str,
    bends: pd.DataFrame | None,
) -> None:
    found = select(rows, panel.feature, probe=probe)
    ax.set_title(panel.title)
    if found.empty:
        say_empty(ax, f"{panel.feature} was not measured")
        return
    log = panel.log and bool((found["value"] > 0).all())
    draw_sizes(ax, found, groups, unit=panel.unit, marker="o", log=log, bends=bends)
