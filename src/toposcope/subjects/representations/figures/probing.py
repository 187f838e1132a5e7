"""Accuracy of a linear probe at every hidden state, beside the share of the commonest label."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from toposcope.core.drawing.series import layer_colours, runs_of
from toposcope.core.drawing.style import INK, NULL, house, new_figure, say_empty, step_axis
from toposcope.core.forms import extent, span
from toposcope.page.on_page import Caption, OnPage
from toposcope.store.draws import over_draws
from toposcope.study.rows import select
from toposcope.study.study import Study
from toposcope.subjects.representations.features import ACCURACY, ACCURACY_SPREAD, MAJORITY, REPRESENTATIONS
from toposcope.subjects.representations.tables.rows import of_layer


def draw(features: pd.DataFrame, runs: pd.DataFrame, *, probe: str = REPRESENTATIONS) -> Figure:
    """Draw the accuracy of each layer's linear probe against the step, one panel for each run.

    Parameters
    ----------
    features
        The store's features table; "probe_accuracy" and "probe_accuracy_sd" (over folds) with their layer,
        and "majority_accuracy".
    runs
        Columns run, family, parameters.

    Returns
    -------
    Figure
        Bands are one standard deviation over the folds; they are not intervals, because the folds share their
        training texts. Grey, dashed: the share of the commonest label.
    """
    rows = select(features, ACCURACY.name, probe=probe)
    spread = select(features, ACCURACY_SPREAD.name, probe=probe)
    majority = select(features, MAJORITY.name, probe=probe)
    names, colours = runs_of(rows, runs), layer_colours(rows)
    with house():
        figure, axes = new_figure(2.9, columns=max(len(names), 1), sharey=True)
        if not names:
            say_empty(axes[0, 0], "no linear probe was measured")
            return figure
        for ax, run in zip(axes[0], names, strict=True):
            _panel(ax, rows[rows["run"] == run], spread[spread["run"] == run], run, colours)
            # one number: the share of the commonest label is the same in every row
            ax.axhline(majority["value"].mean(), color=NULL, linestyle="--", linewidth=1.2)
        axes[0, 0].set_ylabel("accuracy")
        handles = [
            Line2D([], [], color=colours[layer], label=f"layer {layer:.0f}") for layer in list(colours)[:7]
        ]
        handles.append(Line2D([], [], color=NULL, linestyle="--", label="commonest label"))
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), labelcolor=INK)
    return figure


def _panel(ax: Axes, rows: pd.DataFrame, spread: pd.DataFrame, run: str, colours: dict[object, str]) -> None:
    ax.set_title(run)
    for layer, line in rows.sort_values("step").groupby("layer"):
        colour = colours[layer]
        of_layer = spread[spread["layer"] == layer].set_index("step")["value"].reindex(line["step"])
        half = of_layer.fillna(0.0).to_numpy()
        ax.fill_between(
            line["step"], line["value"] - half, line["value"] + half, color=colour, alpha=0.15, linewidth=0
        )
        ax.plot(line["step"], line["value"], color=colour, marker="o", markersize=2.5)
    step_axis(ax, rows["step"].unique(), label=False)
    ax.set_xlabel("step (log)")


def _title(study: Study) -> str:
    """Return a title with the final accuracy of the last hidden state's probe."""
    rows = of_layer(select(study.features, ACCURACY.name, probe=REPRESENTATIONS), None)
    last = rows[rows["step"] == rows.groupby("run")["step"].transform("max")]
    ends = span(extent(over_draws(last, ["run"])["value"]), "{:.0%}")
    # one number: the share of the commonest label is the same in every row
    commonest = select(study.features, MAJORITY.name, probe=REPRESENTATIONS)["value"].mean()
    beside = f" (the commonest label: {commonest:.0%})" if np.isfinite(commonest) else ""
    return f"A linear probe of the last hidden state ends at an accuracy of {ends}{beside}"


def _caption(study: Study) -> Caption:
    return Caption(
        _title(study),
        "Five-fold accuracy of a logistic regression on each layer's states. Bands are one sd over the "
        "folds. The dashed line is the share of the commonest label.",
        "From which checkpoint and in which layer the labels can be read off linearly.",
        "Small differences between layers. The folds share their training texts, so the bands are not "
        "intervals.",
        "Probe accuracy against the optimiser step, coloured by layer, with the majority share as a dashed "
        "line.",
    )


ON_PAGE = OnPage(
    "linear_probe",
    needs=lambda study: study.has_curves and study.has(ACCURACY.name, probe=REPRESENTATIONS),
    draw=lambda study: draw(study.features, study.runs),
    caption=_caption,
)
