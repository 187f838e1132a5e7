"""One checkpoint, hidden state by hidden state: topology beside clouds that have only their covariance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toposcope.core.drawing.series import DrawnSize, sizes
from toposcope.core.drawing.style import NULL, house, new_figure
from toposcope.core.types import Scope
from toposcope.page.notes import beside_band, beside_null
from toposcope.page.on_page import Caption, OnPage
from toposcope.store.draws import over_draws
from toposcope.study.catalogue import nulls_by_feature
from toposcope.study.rows import null_band, select
from toposcope.study.study import Study
from toposcope.subjects.representations import features as of
from toposcope.subjects.representations.figures.cloud_null import PANELS
from toposcope.subjects.representations.figures.trajectories import TrajectoryPanel

MOST = 40
"""The largest number of hidden states drawn; of more, this many are drawn, spread evenly."""


def measured(features: pd.DataFrame, *, probe: str = of.REPRESENTATIONS) -> list[TrajectoryPanel]:
    """Return the panels that some rows have values for."""
    return [panel for panel in PANELS if len(select(features, panel.feature, probe=probe, scope=Scope.LAYER))]


def draw(
    features: pd.DataFrame,
    runs: pd.DataFrame,
    nulls: Mapping[str, str],
    *,
    probe: str = of.REPRESENTATIONS,
) -> Figure:
    """Draw each feature (a panel) of every hidden state at the last checkpoint of each size's first run.

    Parameters
    ----------
    features
        The store's features table; features and their nulls (a row per draw), of every layer.
    runs
        Columns run, family, parameters.
    nulls
        Feature -> the name of its null: `toposcope.study.catalogue.nulls_by_feature`.

    Returns
    -------
    Figure
        Coloured dots: the mean over the subsamples. Grey: the 95% prediction interval for one more Gaussian
        cloud.
    """
    panels = measured(features, probe=probe)
    rows = features[features["probe"] == probe]
    places = _places(rows, sizes(runs))
    with house():
        height = 1.0 + 0.17 * max(len(places), 4)
        figure, axes = new_figure(height, columns=max(len(panels), 1), sharey=True)
        for ax, panel in zip(axes[0], panels, strict=False):
            null = nulls.get(panel.feature, "")
            _panel(ax, rows, places, (panel.feature, null))
            ax.set_title(panel.title)
        several = len({group.label for group, _, _ in places}) > 1
        names = [f"{group.label}, {layer}" if several else f"{layer}" for group, _, layer in places]
        axes[0, 0].set_yticks(np.arange(len(places))[::-1], names, fontsize=7)
        axes[0, 0].set_ylabel("hidden state")
    return figure


def _places(rows: pd.DataFrame, groups: Sequence[DrawnSize]) -> list[tuple[DrawnSize, int, int]]:
    """Return the size, its last step and the layer of every hidden state that is drawn, from the top down."""
    hidden = rows[rows["scope"] == Scope.LAYER]
    places = []
    for group in groups:
        mine = hidden[hidden["run"] == group.runs[0]]
        last = mine[mine["step"] == mine["step"].max()]
        places += [(group, int(last["step"].iloc[0]), int(layer)) for layer in sorted(last["layer"].unique())]
    selected = np.unique(np.linspace(0, max(len(places) - 1, 0), MOST).round().astype(int))
    return [places[i] for i in selected] if len(places) > MOST else places


def _panel(
    ax: Axes, rows: pd.DataFrame, places: list[tuple[DrawnSize, int, int]], names: tuple[str, str]
) -> None:
    """Draw a feature of every place and, if `names` has a second name, the band of its null."""
    for y, (group, step, layer) in zip(range(len(places))[::-1], places, strict=True):
        mine = rows[(rows["run"] == group.runs[0]) & (rows["step"] == step) & (rows["layer"] == layer)]
        value, null = (mine[mine["feature"] == name] for name in names)
        band = null_band(null, group.runs[:1])
        if len(band):
            ax.hlines(y, band["low"], band["high"], color=NULL, linewidth=4, alpha=0.6)
        for mean in over_draws(value)["value"]:
            ax.plot(mean, y, "o", color=group.colour, markersize=4)


def _drawn(study: Study) -> Figure:
    nulls = nulls_by_feature(study.series.catalogue, of.REPRESENTATIONS)
    return draw(study.features, study.runs, nulls)


def _caption(study: Study) -> Caption:
    null = beside_null(study)
    return Caption(
        beside_band(study, "its Gaussian clouds", "H1 of every hidden state at this checkpoint", "lies"),
        "Dots: the cloud of texts in each hidden state (0 is the embedding). Grey: the range in which one "
        "more Gaussian cloud of the same mean and covariance would fall with 95% probability. Both have the "
        "same spectrum.",
        f"In the last hidden state {null}. The spectrum alone does not explain an H1 outside the band."
        if null
        else "How H1 differs from layer to layer.",
        "Anything about training, because there is one checkpoint and no curve. Hidden states have different "
        "scales before the final norm.",
        "A dot for each hidden state, beside a grey bar for its Gaussian clouds.",
    )


ON_PAGE = OnPage(
    "cloud_snapshot",
    questions={"changed": 5, "layers": 2},
    needs=lambda study: not study.has_curves and len(measured(study.features)) > 0,
    draw=_drawn,
    caption=_caption,
)
