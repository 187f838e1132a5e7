"""Topology of hidden states beside clouds that have only their covariance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toposcope.core.drawing.lines import draw_group
from toposcope.core.drawing.series import DrawnSize, sizes
from toposcope.core.drawing.style import NULL, house, new_figure, say_empty, size_title, step_axis
from toposcope.page.notes import beside_band, beside_null, of_seeds
from toposcope.page.on_page import Caption, OnPage
from toposcope.store.draws import over_draws
from toposcope.study.catalogue import nulls_by_feature
from toposcope.study.rows import null_band, select
from toposcope.study.study import Study
from toposcope.subjects.representations import features as of
from toposcope.subjects.representations.figures.trajectories import TrajectoryPanel
from toposcope.subjects.representations.tables.rows import of_layer

PANELS = (
    TrajectoryPanel(of.H1_TOTAL.name, "H1 total"),
    TrajectoryPanel(of.H1_COUNT.name, "H1 bars"),
    TrajectoryPanel(of.H1_ENTROPY.name, "H1 entropy"),
)


def draw(
    features: pd.DataFrame,
    runs: pd.DataFrame,
    nulls: Mapping[str, str],
    panels: Sequence[TrajectoryPanel] = PANELS,
    *,
    probe: str = of.REPRESENTATIONS,
) -> Figure:
    """Draw each feature (a row) of each model (a column) beside its null.

    Parameters
    ----------
    features
        The store's features table; features and their nulls (a row per draw), of each run's last layer.
    runs
        Columns run, family, parameters.
    nulls
        Feature -> the name of its null: `toposcope.study.catalogue.nulls_by_feature`.

    Returns
    -------
    Figure
        Grey: the 95% prediction interval for one more Gaussian cloud of the same covariance.
    """
    shown = [panel for panel in panels if panel.feature in nulls]
    rows = of_layer(features[features["probe"] == probe], None)
    groups = [group for group in sizes(runs) if rows["run"].isin(group.runs).any()]
    with house():
        figure, axes = new_figure(
            1.9 * max(len(shown), 1) + 0.5, rows=max(len(shown), 1), columns=max(len(groups), 1),
            sharey="row", sharex=True,
        )  # fmt: skip
        if not shown or not groups:
            say_empty(axes[0, 0], "no null was measured")
            return figure
        for line, panel in zip(axes, shown, strict=True):
            for ax, group in zip(line, groups, strict=True):
                _panel(
                    ax,
                    select(rows, panel.feature, probe=probe),
                    select(rows, nulls[panel.feature], probe=probe),
                    group,
                )
            line[0].set_ylabel(panel.title)
        for ax, group in zip(axes[0], groups, strict=True):
            size_title(ax, group.label, group.colour)
        for ax in axes[-1]:
            ax.set_xlabel("step (log)")
    return figure


def _panel(ax: Axes, measured: pd.DataFrame, nulls: pd.DataFrame, group: DrawnSize) -> None:
    null = null_band(nulls, group.runs)
    ax.fill_between(null["step"], null["low"], null["high"], color=NULL, alpha=0.35, linewidth=0)
    ax.plot(null["step"], null["mean"], color=NULL, linewidth=1.0, label="Gaussian cloud")
    draw_group(ax, over_draws(measured), group, label="measured")
    step_axis(ax, measured.loc[measured["run"].isin(group.runs), "step"].unique(), label=False)


def _nulls(study: Study) -> dict[str, str]:
    return nulls_by_feature(study.series.catalogue, of.REPRESENTATIONS)


def _needed(study: Study) -> bool:
    return study.has_curves and any(panel.feature in _nulls(study) for panel in PANELS)


def _caption(study: Study) -> Caption:
    null = beside_null(study)
    return Caption(
        beside_band(study, "Gaussian clouds", "H1 beside Gaussian clouds of the same covariance"),
        "Coloured lines are the hidden states. Grey lines are the mean of Gaussian clouds that have exactly "
        "their mean and covariance, with a 95% prediction band. All spectral numbers of the two are equal.",
        f"At the last checkpoint {null}. The spectrum alone does not explain an H1 outside the band."
        if null
        else "Nothing: no band could be drawn.",
        "That values outside the band come from the structure of language. Clusters, heavy tails or repeated "
        "texts also lie outside. Also, " + of_seeds(study) + ".",
        "H1 summaries of each model against the step, with a grey band for Gaussian clouds of the same "
        "covariance.",
    )


ON_PAGE = OnPage(
    "gaussian_null",
    needs=_needed,
    draw=lambda study: draw(study.features, study.runs, _nulls(study)),
    caption=_caption,
    means=True,
)
