"""Topological and spectral features: the correlation of each with a target, raw and beyond the trend."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from toposcope.core.drawing.series import DrawnSize, sizes
from toposcope.core.drawing.style import INK, MUTED, NULL, house, new_figure, say_empty
from toposcope.core.forms import NONE, lag_cell
from toposcope.page.figures.correlations import judged
from toposcope.page.notes import passing
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.catalogue import is_baseline, labels_in, leading
from toposcope.study.study import Study

_MARKS = "osD^vP"


def draw(
    trends: pd.DataFrame,
    runs: pd.DataFrame,
    catalogue: pd.DataFrame,
    *,
    target: str,
    chance: float = np.nan,
    most: int = 16,
) -> Figure:
    """Draw every feature's correlation with `target`: raw on the left, of innovations on the right.

    Parameters
    ----------
    trends
        The trend table: columns run, target, column, spearman, block_low, block_high, r,
        r_low, r_high, verdict.
    runs
        Columns run, family, parameters.
    catalogue
        What the columns are: `SeriesTable.catalogue`.
    chance
        The |rho| that 5% of pairs of independent random walks of this length exceed; grey up to there.

    Returns
    -------
    Figure
        Left: |rho| with its moving-block interval. Right: correlation of innovations with its interval;
        filled where the verdict is "adds". Topology above the line, spectrum and size below.
    """
    mine = trends[trends["target"] == target]
    columns_tested = mine.loc[
        mine[["spearman", "r"]].notna().any(axis=1), "column"
    ]  # an empty row says nothing
    columns = leading(columns_tested, catalogue, most=most)
    groups = [group for group in sizes(runs) if mine["run"].isin(group.runs).any()]
    names = labels_in(catalogue)
    with house():
        figure, axes = new_figure(0.3 * max(len(columns), 4) + 1.3, columns=2, sharey=True)
        raw, rest = axes[0]
        if not columns or not groups:
            say_empty(raw, f"no correlation with {names.get(target, target)} could be computed")
            say_empty(rest, "")
            return figure
        _raw(raw, mine, columns, groups, chance)
        _rest(rest, mine, columns, groups)
        raw.set_yticks(range(len(columns)), [names.get(column, column) for column in columns])
        raw.set_ylim(len(columns) - 0.4, -0.6)
        topology = sum(not is_baseline(column, catalogue) for column in columns)
        for ax in (raw, rest):
            ax.grid(visible=False, axis="y")
            ax.tick_params(axis="y", length=0)
            if 0 < topology < len(columns):
                ax.axhline(topology - 0.5, color=INK, linewidth=0.8)
        _key(figure, groups, grey=bool(np.isfinite(chance)))
    return figure


def _raw(ax: Axes, trends: pd.DataFrame, columns: list[str], groups: list[DrawnSize], chance: float) -> None:
    ax.set_title("|ρ| over checkpoints")
    if np.isfinite(chance):
        ax.axvspan(0.0, chance, color=NULL, alpha=0.25, linewidth=0)
    for place, mark, group, line in _lines(trends, columns, groups):
        low, high = _absolute(line["block_low"], line["block_high"])
        ax.hlines(place, low, high, color=group.colour, linewidth=1.0, alpha=0.6)
        ax.plot(abs(line["spearman"]), place, mark, color=group.colour, markersize=4.5)
    ax.set_xlim(0.0, 1.03)
    ax.set_xlabel("absolute rank correlation")


def _rest(ax: Axes, trends: pd.DataFrame, columns: list[str], groups: list[DrawnSize]) -> None:
    ax.set_title("Beyond both trends: r of innovations")
    ax.axvline(0.0, color=MUTED, linewidth=0.8)
    for place, mark, group, line in _lines(trends, columns, groups):
        ax.hlines(place, line["r_low"], line["r_high"], color=group.colour, linewidth=1.0)
        face = group.colour if line["verdict"] == "adds" else "white"
        ax.plot(line["r"], place, mark, color=group.colour, markersize=4.5, markerfacecolor=face)
        if lag_cell(line) not in ("0", NONE):
            at = (line["r"], place)
            ax.annotate(lag_cell(line), at, (0, 3), textcoords="offset points", fontsize=6, ha="center")
    ax.set_xlim(-1.03, 1.03)
    ax.set_xlabel("correlation (filled: passes the test; 1 before: the feature moves first)")


def _lines(trends: pd.DataFrame, columns: list[str], groups: list[DrawnSize]):  # type: ignore[no-untyped-def]
    """Yield (height, mark, size, row of the trend table) for every feature and run."""
    step = 0.62 / max(len(groups), 1)
    for j, group in enumerate(groups):
        of_size = trends[trends["run"].isin(group.runs)]
        for line in of_size.to_dict("records"):
            if line["column"] in columns:
                place = columns.index(line["column"]) + step * (j - (len(groups) - 1) / 2)
                yield place, _MARKS[j % len(_MARKS)], group, line


def _absolute(low: float, high: float) -> tuple[float, float]:
    """Return the interval of |rho| from that of rho."""
    if low <= 0.0 <= high:
        return 0.0, max(-low, high)
    return min(abs(low), abs(high)), max(abs(low), abs(high))


def _key(figure: Figure, groups: list[DrawnSize], *, grey: bool) -> None:
    handles: list[Line2D] = [
        Line2D([], [], color=group.colour, marker=_MARKS[j % len(_MARKS)], label=group.label, markersize=4.5)
        for j, group in enumerate(groups)
    ]
    if grey:
        label = "95% of pairs of random walks"
        handles.append(Line2D([], [], color=NULL, alpha=0.4, linewidth=7, label=label))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 4), labelcolor=INK)


def _drawn(study: Study) -> Figure:
    return draw(
        judged(study), study.runs, study.series.catalogue, target=study.target, chance=study.chance, most=24
    )


def _caption(study: Study) -> Caption:
    verdicts = study.findings["beyond"].numbers
    grey = (
        f" Grey: where two independent random walks of this length lie in 95% of cases ({study.chance:.2f})."
        if np.isfinite(study.chance)
        else ""
    )
    passed = passing(verdicts["found"], verdicts["tested"], "primary topological features")
    baselines = passing(verdicts["baselines_found"], verdicts["baselines_tested"], "spectra and sizes")
    return Caption(
        f"Beyond the trend: {passed}; {baselines}",
        f"Left: |ρ| with the {study.labels.label(study.target)} over the checkpoints of each model, with the "
        f"interval of a moving-block bootstrap.{grey} Right: the correlation of innovations (what a "
        "series' own past does not explain) with its interval; filled where it passes the test. Topology is "
        "above the line.",
        f"What passes the test over all models, corrected for the number of tests: {passed}; {baselines}.",
        "That one kind predicts better because its marks on the left lie further out. Both kinds drift. An "
        "unfilled mark does not exclude a relation.",
        "Two dot plots of features: absolute rank correlation with the target, and correlation of "
        "innovations with intervals.",
    )


ON_PAGE = OnPage(
    "topological_against_spectral",
    questions={"rivals": 1, "beyond": 1},
    needs=lambda study: study.has_curves and bool(study.target),
    draw=_drawn,
    caption=_caption,
)
