"""Loss against H0 total persistence, coloured by step: the picture behind the correlation."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, SymLogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from toposcope.core.drawing.series import DrawnSize, loss_at_checkpoints, sizes
from toposcope.core.drawing.style import GRADED, MUTED, house, new_figure, say_empty, size_title
from toposcope.core.forms import extent, span
from toposcope.core.groups import short
from toposcope.core.lines import curve
from toposcope.core.types import Scope
from toposcope.page.on_page import Caption, OnPage
from toposcope.store.draws import over_draws
from toposcope.study.rows import select
from toposcope.study.study import Study
from toposcope.subjects.weights.features import H0_TOTAL, RIPS
from toposcope.subjects.weights.figures.neural_persistence import MOST, is_measured, thin
from toposcope.subjects.weights.figures.vietoris_rips import leading_cloud


def draw(
    features: pd.DataFrame,
    metrics: pd.DataFrame,
    runs: pd.DataFrame,
    *,
    scope: str = Scope.POOLED,
    notes: pd.DataFrame | None = None,
) -> Figure:
    """Draw each checkpoint's loss against its H0 total persistence, one panel per size, coloured by step.

    Parameters
    ----------
    features
        The store's features table. Used: probe "rips", role "model", feature "h0_total".
    metrics
        Columns run, step, loss, heldout_loss.
    runs
        Columns run, family, parameters.
    scope
        `Scope.POOLED` (the rows of all matrices in one cloud) or `Scope.MODEL` (the sum over matrices).
    notes
        Optional, columns run and text: the text in a run's panel, such as its correlations.

    Returns
    -------
    Figure
        Points are means over the draws; horizontal bars are their 95% interval.
    """
    values = over_draws(select(features, H0_TOTAL.name, probe=RIPS, scope=scope))
    losses, kind = loss_at_checkpoints(metrics, values)
    groups = thin(sizes(runs), MOST)
    n_rows = max(int(np.ceil(len(groups) / 5)), 1)
    columns = max(int(np.ceil(len(groups) / n_rows)), 1)
    norm = step_norm(losses["step"])
    with house():
        figure, axes = new_figure(2.6 * n_rows + 0.2, rows=n_rows, columns=columns, sharey=True)
        for ax, group in zip(axes.flat, groups, strict=False):
            panel(ax, values, losses, group, norm, notes)
        for ax in axes.flat[len(groups) :]:
            ax.set_axis_off()
        axes[0, 0].set_ylabel(kind)
        bar = figure.colorbar(ScalarMappable(norm, GRADED), ax=axes, pad=0.015, fraction=0.03, aspect=28)
        ticks = _bar_ticks(losses["step"])
        bar.set_ticks(ticks, labels=[short(tick) for tick in ticks])
        bar.ax.minorticks_off()
        bar.set_label("step (log)")
        bar.outline.set_visible(False)
    return figure


def panel(
    ax: Axes,
    values: pd.DataFrame,
    losses: pd.DataFrame,
    group: DrawnSize,
    norm: Normalize,
    notes: pd.DataFrame | None = None,
) -> None:
    """Draw the checkpoints of one size on `ax`; `values` are means over draws, `losses` run, step, loss."""
    size_title(ax, group.label, group.colour)
    drawn = 0
    for run in group.runs:
        line = curve(values, (run,)).merge(losses[losses["run"] == run], on="step")
        if line.empty:
            continue
        drawn += len(line)
        ax.plot(line["mean"], line["loss"], color=MUTED, linewidth=0.4, zorder=1)
        ax.hlines(line["loss"], line["low"], line["high"], color=MUTED, linewidth=0.5, alpha=0.6, zorder=1)
        ax.scatter(
            line["mean"],
            line["loss"],
            c=line["step"],
            norm=norm,
            cmap=GRADED,
            s=11,
            zorder=2,
            linewidths=0,
        )
    if not drawn:
        say_empty(ax, "H0 or loss\nnot measured")
        return
    ax.set_xlabel("H0 total")
    ax.xaxis.set_major_locator(MaxNLocator(4))
    if notes is not None:
        text = "\n".join(notes.loc[notes["run"].isin(group.runs), "text"])
        ax.text(0.97, 0.97, text, transform=ax.transAxes, ha="right", va="top", fontsize=7, color=MUTED)


def step_norm(steps: pd.Series) -> Normalize:
    """Return the colour scale of the step: logarithmic above the first positive step, linear below."""
    positive = steps[steps > 0]
    if positive.empty:
        return Normalize(0, 1)
    return SymLogNorm(float(positive.min()), linscale=0.3, vmin=float(steps.min()), vmax=float(steps.max()))


def _bar_ticks(steps: pd.Series) -> list[float]:
    positive = steps[steps > 0]
    if positive.empty:
        return [0.0]
    first, last = float(positive.min()), float(positive.max())
    decades = [10.0**k for k in range(int(np.ceil(np.log10(first))), int(np.floor(np.log10(last))) + 1)]
    ticks = [0.0] if (steps == 0).any() else []
    return ticks + [tick for tick in dict.fromkeys([first, *decades]) if tick < last / 2] + [last]


def _drawn(study: Study) -> Figure:
    notes = rho_notes(study.leading, study.runs, target=study.target, column=study.column(RIPS, H0_TOTAL))
    return draw(study.whole, study.metrics, study.runs, scope=leading_cloud(study.whole), notes=notes)


def rho_notes(trends: pd.DataFrame, runs: pd.DataFrame, *, target: str, column: str) -> pd.DataFrame:
    """Return, for each size, its rank correlation, raw and of departures from trends, as text.

    Values are means over the seeds of a size.

    Columns run (the first of the size) and text.
    """
    rows = trends[(trends["target"] == target) & (trends["column"] == column)]
    notes = []
    for group in sizes(runs):
        mine = rows.loc[rows["run"].isin(group.runs), ["spearman", "departure_rho"]].astype(float)
        raw, partial = mine.mean(skipna=False) if len(mine) else (np.nan, np.nan)
        if np.isfinite(raw):
            given = f"\ndepartures {_number(partial)}" if np.isfinite(partial) else ""
            seeds = f"\nmeans of {len(mine):,} seeds" if len(mine) > 1 else ""
            notes.append((group.runs[0], f"ρ {_number(raw)}{given}{seeds}"))
    return pd.DataFrame(notes, columns=["run", "text"])


def _number(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _title(study: Study) -> str:
    """Return a title with the rank correlation of loss and H0 over the runs, raw and without trends."""
    column = study.column(RIPS, H0_TOTAL)
    rows = study.leading[(study.leading["target"] == study.target) & (study.leading["column"] == column)]
    raw, rest = (extent(rows[name].astype(float)) for name in ("spearman", "departure_rho"))
    if not raw:
        return "The loss against H0, checkpoint by checkpoint"
    without = f", {span(rest, '{:+.2f}')} without the trends" if rest else ""
    return f"Loss and H0 over the checkpoints: ρ = {span(raw, '{:+.2f}')}{without}"


def _caption(study: Study) -> Caption:
    return Caption(
        _title(study),
        "Each point is a checkpoint, its colour the step. The points follow one another in time, which "
        "is why they form a curve.",
        "That both quantities move in step order, and where one moves while the other stands still.",
        "A relation between them. Any two curves that drift look like this. The numbers in the "
        "panels give Spearman's rho of the values and of their departures from smooth trends, where they "
        "could be computed.",
        "Loss against H0 total persistence, one panel per model size, points coloured by the optimiser step.",
    )


ON_PAGE = OnPage(
    "loss_against_h0",
    needs=lambda study: study.has_curves and len(study.metrics) > 0 and is_measured(study, H0_TOTAL),
    draw=_drawn,
    caption=_caption,
    folded=True,
)
