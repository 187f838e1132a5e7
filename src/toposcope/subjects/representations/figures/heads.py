"""Attention graphs: H0 of every head's graph against the step, one panel for each run."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from toposcope.core.drawing.series import layer_colours, runs_of
from toposcope.core.drawing.style import INK, house, new_figure, say_empty, step_axis
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.rows import select
from toposcope.study.study import Study
from toposcope.subjects.representations.features import ATTENTION_H0, REPRESENTATIONS


def draw(features: pd.DataFrame, runs: pd.DataFrame, *, probe: str = REPRESENTATIONS) -> Figure:
    """Draw each head's mean bar length of H0 (thin) and the mean of each layer's heads (thick).

    Parameters
    ----------
    features
        The store's features table; "attention_h0" with layer and head.
    runs
        Columns run, family, parameters.
    """
    rows = select(features, ATTENTION_H0.name, probe=probe)
    names, colours = runs_of(rows, runs), layer_colours(rows)
    with house():
        figure, axes = new_figure(2.9, columns=max(len(names), 1), sharey=True)
        if not names:
            say_empty(axes[0, 0], "attention graphs were not measured")
            return figure
        for ax, run in zip(axes[0], names, strict=True):
            _panel(ax, rows[rows["run"] == run], run, colours)
        axes[0, 0].set_ylabel("H0 bar length (0: tied, 1: spread thin)")
        handles = [
            Line2D([], [], color=colours[layer], label=f"layer {layer:.0f}") for layer in list(colours)[:8]
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=max(len(handles), 1), labelcolor=INK)
    return figure


def _panel(ax: Axes, rows: pd.DataFrame, run: str, colours: dict[object, str]) -> None:
    ax.set_title(run)
    for (layer, _), line in rows.sort_values("step").groupby(["layer", "head"]):
        ax.plot(line["step"], line["value"], color=colours[layer], linewidth=0.6, alpha=0.45)
    for layer, line in rows.groupby("layer"):
        mean = line.groupby("step")["value"].mean()  # over heads: nothing is drawn
        ax.plot(mean.index, mean, color=colours[layer], linewidth=2.0)
    step_axis(ax, rows["step"].unique(), label=False)
    ax.set_xlabel("step (log)")


def _title(study: Study) -> str:
    """Return a title with the number of heads that ended sharper than they began."""
    rows = select(study.features, ATTENTION_H0.name, probe=REPRESENTATIONS).sort_values("step", kind="stable")
    ends = rows.groupby(["run", "layer", "head"])["value"].agg(["first", "last"])
    sharper = int((ends["last"] < ends["first"]).sum())
    return f"{sharper} of {len(ends):,} attention heads ended sharper than they began"


def _caption(study: Study) -> Caption:
    return Caption(
        _title(study),
        "Mean bar length of H0 of each head's attention graph (thin) and its mean over a layer's heads "
        "(thick). It is 0 if every token is tied to another with weight 1, and near 1 if attention is spread "
        "thin.",
        "When and in which layers heads become sharp, and how far the heads of a layer differ.",
        "What the heads attend to. A sharp head may serve no purpose.",
        "H0 bar length of attention graphs against the step, coloured by layer, one panel per model.",
    )


ON_PAGE = OnPage(
    "attention",
    needs=lambda study: study.has_curves and study.has(ATTENTION_H0.name, probe=REPRESENTATIONS),
    draw=lambda study: draw(study.features, study.runs),
    caption=_caption,
)
