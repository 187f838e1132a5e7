"""The errors of forecasts of the final loss, by method and by the share of the run seen."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from toposcope.core.drawing.style import INK, MUTED, NULL, house, new_figure, say_empty
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.findings.end import forecasts_of
from toposcope.study.study import Study

FLOOR = 1e-4
"""Smaller errors are drawn at this value: the axis is logarithmic."""


def draw(forecasts: pd.DataFrame, called: Mapping[str, str] | None = None) -> Figure:
    """Draw the absolute error of every run's forecast, one panel per cut, one line per method.

    Parameters
    ----------
    forecasts
        One row per run, cut and method: columns run, cut (share of the run that was seen), method,
        error (predicted minus actual final loss, or its absolute value). A method whose
        name contains "control" is the control: grey, with a line through all others.
    called
        What the methods are called beside the axis, if it is not their names.

    Returns
    -------
    Figure
        Dots are runs, diamonds the mean absolute error over runs.
    """
    usable = (
        forecasts[np.isfinite(forecasts["error"].to_numpy(dtype=np.float64))] if len(forecasts) else forecasts
    )
    cuts = sorted(usable["cut"].unique()) if len(usable) else []
    drawn = set(usable["method"]) if len(usable) else set()
    methods = [method for method in dict.fromkeys(forecasts["method"]) if method in drawn]
    with house():
        figure, axes = new_figure(
            0.34 * max(len(methods), 3) + 1.0, columns=max(len(cuts), 1), sharey=True, sharex=True
        )
        if not cuts:
            say_empty(axes[0, 0], "no forecast could be made from these runs")
        else:
            size = usable["error"].abs().clip(lower=FLOOR)
            axes[0, 0].set_xscale("log")
            axes[0, 0].set_xlim(0.6 * size.min(), 1.7 * size.max())
        for ax, cut in zip(axes[0], cuts, strict=False):
            panel(ax, usable[usable["cut"] == cut], methods)
            if len(cuts) > 1:
                ax.set_title(f"first {100 * cut:.0f}% seen")
        if cuts:
            axes[0, 0].set_yticks(range(len(methods)), [(called or {}).get(name, name) for name in methods])
            axes[0, 0].invert_yaxis()
    return figure


def last_cut(forecasts: pd.DataFrame) -> pd.DataFrame:
    """Return the forecasts that saw the most of their run; the others are in the table."""
    scored_cuts = forecasts.loc[np.isfinite(forecasts["error"].to_numpy(float)), "cut"]
    return forecasts[forecasts["cut"] == scored_cuts.max()]


def panel(ax: Axes, forecasts: pd.DataFrame, methods: list[str]) -> None:
    """Draw the errors at one cut on `ax`."""
    for row, method in enumerate(methods):
        errors = forecasts.loc[forecasts["method"] == method, "error"].abs().to_numpy(dtype=np.float64)
        if not len(errors):
            continue
        control = "control" in method
        colour = NULL if control else INK
        mean = float(errors.mean())
        if control:
            ax.axvline(max(mean, FLOOR), color=NULL, linewidth=1.0, linestyle=(0, (3, 2)), zorder=1)
        ax.scatter(
            np.maximum(errors, FLOOR), np.full(len(errors), row), s=13, color=colour, alpha=0.55, linewidths=0
        )
        ax.scatter(
            [max(mean, FLOOR)],
            [row],
            s=44,
            marker="D",
            facecolor=colour,
            edgecolor=INK,
            linewidths=0.7,
            zorder=3,
        )
        ax.annotate(
            f"{mean:.3f}", (max(mean, FLOOR), row), xytext=(0, 6), textcoords="offset points",
            ha="center", fontsize=7, color=MUTED if control else INK,
            bbox={"facecolor": "white", "alpha": 0.85, "linewidth": 0, "pad": 0.6},
        )  # fmt: skip
    ax.xaxis.set_major_locator(LogLocator(10.0, numticks=6))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.grid(axis="y", visible=False)
    ax.set_ylim(-0.6, len(methods) - 0.5)
    ax.set_xlabel("absolute error (log)")


def caption(study: Study) -> Caption:
    """Return the words under the errors of forecasts."""
    score = forecasts_of(study)
    can = "Nothing: no forecast could be made."
    limit = ""
    if score is not None:
        seen = " / ".join(f"{100 * cut:.0f}%" for cut in score.cuts)
        best = [
            min((m for m in score.mae if np.isfinite(score.mae[m][i])), key=lambda m, i=i: score.mae[m][i])  # type: ignore[misc]
            for i in range(len(score.cuts))
        ]
        can = (
            f"The methods with the smallest mean error on these {score.runs:,} runs at {seen} are: "
            + " / ".join(study.published.called.get(name, name) for name in best)
            + ". "
        )
        can += (
            "Topology lowers the error of sibling transfer beyond chance in places. The text says where."
            if score.clear
            else "Topology does not lower the error of sibling transfer beyond chance in any case."
        )
        least = 2.0 ** (1 - score.runs)
        limit = f" With {score.runs:,} runs, a paired rank test cannot give a p below {least:.3g}."
    return Caption(
        _title(study),
        "Absolute error of every run (dots) and its mean (diamonds), by method. Each run is forecast from "
        "the others. Forecasts after other parts of a run are in the table. The published rules are those of "
        f"{study.published.source or 'a paper'}. The dashed line is its combined rule with the last loss in "
        "place of the topology.",
        can,
        "How well any of these methods does elsewhere. Which of many methods is best here is partly chance. "
        f"The authors of the published rules chose their constants on runs of this kind.{limit}",
        "Dot plot of forecast errors by method, with the control without topology as a dashed line.",
    )


def _title(study: Study) -> str:
    """Return how well the end is forecast, and whether topology improves it."""
    end = study.findings.get("end")
    if end is None or not end.numbers.get("auto"):
        return "Error of forecasts of the final loss"
    error, cut, n = end.numbers["auto"][-1], end.numbers["cuts"][-1], end.numbers["runs"]
    topology = "topology improves this" if end.strength == "better" else "topology does not improve this"
    beside = f"; {topology}" if end.numbers["compared"] else ""
    return (
        f"After {cut:.0%} of a run, the forecast of its end is off by {error:.3f} on average ({n:,} "
        f"runs){beside}"
    )


ON_PAGE = OnPage(
    "forecast",
    questions={"end": 1},
    needs=lambda study: bool(np.isfinite(study.forecasts["error"].to_numpy(float)).any()),
    draw=lambda study: draw(last_cut(study.forecasts), study.published.called),
    caption=caption,
    folded=True,
)
