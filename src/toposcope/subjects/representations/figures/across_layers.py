"""From one layer to the next: the share of H1 that is carried over, beside CKA of the same layers."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from toposcope.core.drawing.series import sizes
from toposcope.core.drawing.style import INK, MUTED, graded, house, new_figure, say_empty
from toposcope.core.forms import span
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.study import Study
from toposcope.subjects.representations.features import REPRESENTATIONS
from toposcope.subjects.representations.tables.rows import pairs


def draw(features: pd.DataFrame, runs: pd.DataFrame, *, probe: str = REPRESENTATIONS) -> Figure:
    """Draw carried H1 against CKA for every pair of consecutive layers, one panel per run.

    Parameters
    ----------
    features
        The store's features table; "cka" and "carried_h1" belong to the earlier layer of a pair.
    runs
        Columns run, family, parameters.

    Returns
    -------
    Figure
        A line goes through a pair's checkpoints; its colour shows which pair. Hollow: first checkpoint.
        Filled: last.
    """
    table = pairs(features, probe=probe)
    names = [run for size in sizes(runs) for run in size.runs if (table["run"] == run).any()]
    layers = sorted(table["layer"].unique())
    colours = dict(zip(layers, graded(max(len(layers), 2)), strict=False))
    with house():
        figure, axes = new_figure(3.2, columns=max(len(names), 1), sharex=True, sharey=True)
        if not names:
            say_empty(axes[0, 0], "fewer than two layers were measured")
            return figure
        for ax, run in zip(axes[0], names, strict=True):
            _panel(ax, table[table["run"] == run], run, colours)
        axes[0, 0].set_ylabel("share of H1 carried to the next layer")
        _key(figure, layers, colours)
    return figure


def _panel(ax: Axes, table: pd.DataFrame, run: str, colours: dict[object, str]) -> None:
    ax.set_title(run)
    for layer, line in table.sort_values("step").groupby("layer"):
        colour = colours[layer]
        ax.plot(line["cka"], line["carried"], color=colour, marker=".", markersize=3.5, linewidth=0.7)
        first, last = line.iloc[0], line.iloc[-1]
        ax.plot(first["cka"], first["carried"], "o", color=colour, markersize=5, markerfacecolor="white")
        ax.plot(last["cka"], last["carried"], "o", color=colour, markersize=5.5)
    ax.set_xlabel("CKA with the next layer")


def _key(figure: Figure, layers: list[float], colours: dict[object, str]) -> None:
    shown = np.unique(np.linspace(0, len(layers) - 1, min(len(layers), 4)).round().astype(int))
    handles = [Line2D([], [], color=colours[layers[i]], label=f"layer {layers[i]:.0f} → next") for i in shown]
    for face, text in (("white", "first checkpoint"), (MUTED, "last")):
        mark = Line2D([], [], color=MUTED, marker="o", linestyle="none", markersize=5, label=text)
        mark.set_markerfacecolor(face)
        handles.append(mark)
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 6), labelcolor=INK)


def _title(study: Study) -> str:
    """Return a title with the share of H1 carried to the next layer at the end, and the layers' CKA."""
    if "layers" not in study.findings:
        return "From layer to layer: carried H1 beside CKA"
    figures = study.findings["layers"].numbers
    carried, cka = span(figures["carried_last"], "{:.0%}"), span(figures["cka_last"], "{:.2f}")
    return f"At the end a layer carries {carried} of H1 to the next; their CKA is {cka}"


def _caption(study: Study) -> Caption:
    can = "Whether the two agree on which layers change the representation most."
    if "layers" in study.findings:
        can += " " + study.findings.said(study.findings["layers"]).ground
    return Caption(
        _title(study),
        "The horizontal axis is the linear CKA (debiased) of two consecutive layers. The vertical axis is "
        "the share of H1's total persistence that an optimal matching carries from one to the next. A line "
        "goes through the checkpoints of a pair.",
        can,
        "That carried bars are the same loops. The matching compares births and deaths, not texts.",
        "Scatter plots of carried H1 against CKA, one panel per model, one line per pair of layers.",
    )


ON_PAGE = OnPage(
    "across_layers",
    questions={"layers": 1},
    needs=lambda study: study.has_curves and len(pairs(study.features)) > 0,
    draw=lambda study: draw(study.features, study.runs),
    caption=_caption,
)
