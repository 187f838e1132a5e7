"""Intrinsic dimension of the hidden states against the step, by three estimators, each with its band."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toposcope.core.drawing.lines import runs_are_named
from toposcope.core.drawing.series import DrawnSize, sizes
from toposcope.core.drawing.style import end_labels, house, new_figure, say_empty, step_axis
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.rows import select
from toposcope.study.study import Study
from toposcope.subjects.representations import features as of
from toposcope.subjects.representations.figures.trajectories import TrajectoryPanel, drift, present, titles
from toposcope.subjects.representations.tables.rows import noted_interval, of_layer

PANELS = (
    TrajectoryPanel(of.TWONN.name, "TwoNN dimension", "dimensions"),
    TrajectoryPanel(of.MLE_DIMENSION.name, "MLE dimension", "dimensions"),
    TrajectoryPanel(of.PH_DIMENSION.name, "PH dimension", "dimensions"),
)


def draw(
    features: pd.DataFrame,
    runs: pd.DataFrame,
    panels: Sequence[TrajectoryPanel] = PANELS,
    *,
    probe: str = of.REPRESENTATIONS,
) -> Figure:
    """Draw each estimator in a panel, one line per run, of each run's last layer.

    Parameters
    ----------
    features
        The store's features table; the column `note` states the band of each estimate.
    runs
        Columns run, family, parameters.
    """
    groups = sizes(runs)
    rows = of_layer(features[features["probe"] == probe], None)
    with house():
        figure, axes = new_figure(2.7, columns=len(panels))
        for ax, panel in zip(axes[0], panels, strict=True):
            ax.set_title(panel.title)
            selected = select(rows, panel.feature, probe=probe)
            if selected.empty:
                say_empty(ax, "not measured")
                continue
            _panel(ax, selected, groups)
        axes[0, 0].set_ylabel("dimensions")
    return figure


def _panel(ax: Axes, rows: pd.DataFrame, groups: list[DrawnSize]) -> None:
    labels = []
    named = runs_are_named(rows, groups)
    for group in groups:
        for run in group.runs:
            line = rows[rows["run"] == run].sort_values("step")
            if line.empty:
                continue
            bounds = np.array([noted_interval(note) for note in line["note"]], dtype=np.float64)
            ax.fill_between(
                line["step"], bounds[:, 0], bounds[:, 1], color=group.colour, alpha=0.18, linewidth=0
            )
            ax.plot(line["step"], line["value"], color=group.colour, marker="o", markersize=2.5)
            if named or run == group.runs[0]:
                text = run if named and len(group.runs) > 1 else group.label
                labels.append((float(line["value"].iloc[-1]), text, group.colour))
    step_axis(ax, rows["step"].unique(), label=False)
    ax.set_xlabel("step (log)")
    end_labels(ax, labels)


def _caption(study: Study) -> Caption:
    return Caption(
        drift(study, PANELS, "Intrinsic dimension"),
        f"{titles(study, PANELS)} of the last hidden state's reduced cloud, each with its own band. The "
        "bands of TwoNN and PH do not cover at their nominal rate.",
        "Whether the estimators agree that the cloud becomes flatter or fuller.",
        "The absolute value. All are biased for few points in many dimensions, and the reduction "
        "bounds them.",
        "Panels of intrinsic dimension against the optimiser step, one line per model with its band.",
    )


ON_PAGE = OnPage(
    "dimension",
    needs=lambda study: study.has_curves and study.has(of.TWONN.name, probe=of.REPRESENTATIONS),
    draw=lambda study: draw(study.features, study.runs, present(study, PANELS)),
    caption=_caption,
)
