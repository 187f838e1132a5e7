"""Features against a target such as the perplexity: each point a checkpoint, each line a model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from toposcope.core.drawing.series import DrawnSize, sizes
from toposcope.core.drawing.style import INK, house, log_axis, new_figure, say_empty
from toposcope.core.forms import extent, number, span
from toposcope.core.lines import curve
from toposcope.page.on_page import Caption, OnPage
from toposcope.store.draws import over_draws
from toposcope.study.findings.rivals import strengths
from toposcope.study.rows import select
from toposcope.study.study import Study
from toposcope.subjects.representations import features as of
from toposcope.subjects.representations.figures.trajectories import TrajectoryPanel, present
from toposcope.subjects.representations.tables.rows import QUALITY, of_layer, perplexities

PANELS = (
    TrajectoryPanel(of.H1_ENTROPY.name, "H1 entropy", "nats"),
    TrajectoryPanel(of.H1_COUNT.name, "H1 bars", "count"),
    TrajectoryPanel(of.H1_MAX.name, "H1 longest bar", "distance"),
    TrajectoryPanel(of.H1_TOTAL.name, "H1 total persistence", "distance"),
    TrajectoryPanel(of.RANK.name, "Effective rank", "dimensions"),
    TrajectoryPanel(of.TOP.name, "Top covariance eigenvalue", "distance squared", log=True),
)


def draw(
    features: pd.DataFrame,
    targets: pd.DataFrame,
    runs: pd.DataFrame,
    panels: Sequence[TrajectoryPanel] = PANELS,
    *,
    unit: str = of.PERPLEXITY.label,
    log: bool = True,
    notes: Mapping[str, str] | None = None,
    probe: str = of.REPRESENTATIONS,
) -> Figure:
    """Draw each panel's feature (horizontal) and the target (vertical), one line per model over checkpoints.

    Parameters
    ----------
    features
        The store's features table; of each run's last layer.
    targets
        Columns run, step, value: the target at the checkpoints.
    runs
        Columns run, family, parameters.
    unit, log
        The target's label, and whether its axis is logarithmic.
    notes
        Feature -> the text under its panel, such as its mean correlation.

    Returns
    -------
    Figure
        Points are means over the draws, horizontal bars their 95% interval. The large point is the last one.
    """
    groups = sizes(runs)
    rows = of_layer(features[features["probe"] == probe], None)
    lines = math.ceil(len(panels) / 3)
    with house():
        figure, axes = new_figure(2.45 * lines + 0.4, rows=lines, columns=min(3, len(panels)), sharey=True)
        for place, ax in enumerate(axes.ravel()):
            if place < len(panels) and len(targets):
                selected = select(rows, panels[place].feature, probe=probe)
                _panel(ax, selected, targets, groups, panels[place], (notes or {}).get(panels[place].feature))
            else:
                say_empty(ax, f"no {unit}" if place == 0 else "")
        if len(targets):
            if log:
                log_axis(axes[0, 0].yaxis)
            for ax in axes[:, 0]:
                ax.set_ylabel(unit)
            handles = [
                Line2D([], [], color=g.colour, marker="o", markersize=3.5, label=g.label) for g in groups
            ]
            figure.legend(
                handles=handles, loc="outside lower center", ncols=min(len(handles), 6), labelcolor=INK
            )
    return figure


def _panel(
    ax: Axes,
    rows: pd.DataFrame,
    targets: pd.DataFrame,
    groups: list[DrawnSize],
    panel: TrajectoryPanel,
    note: str | None,
) -> None:
    ax.set_title(panel.title)
    if rows.empty:
        say_empty(ax, f"{panel.feature} was not measured")
        return
    values = over_draws(rows)
    for run, colour in ((run, group.colour) for group in groups for run in group.runs):
        line = curve(values, (run,)).merge(targets[targets["run"] == run], on="step")
        if line.empty:
            continue
        ax.plot(line["mean"], line["value"], color=colour, marker="o", markersize=2.6, linewidth=0.7)
        ax.hlines(line["value"], line["low"], line["high"], color=colour, linewidth=0.7, alpha=0.5)
        ax.plot(line["mean"].iloc[-1], line["value"].iloc[-1], "o", color=colour, markersize=5.5)
    ax.set_xlabel(f"{panel.unit}\n{note}" if note else panel.unit)
    if panel.log and (rows["value"] > 0).all():
        log_axis(ax.xaxis)
    else:
        ax.xaxis.set_major_locator(MaxNLocator(4))


def _drawn(study: Study) -> Figure:
    quality = study.target == QUALITY
    targets = perplexities(study.features) if quality else _target_values(study)
    unit = of.PERPLEXITY.label if quality else study.labels.label(study.target)
    panels = present(study, PANELS)
    return draw(study.features, targets, study.runs, panels, unit=unit, log=quality, notes=_rho_notes(study))


def _target_values(study: Study) -> pd.DataFrame:
    target_series = study.series.values[["run", "step", study.target]].dropna()
    return target_series.rename(columns={study.target: "value"})


def _rho_notes(study: Study) -> dict[str, str]:
    """Return, by feature, its mean |rho| with the target over the models."""
    notes = {}
    for line in strengths(study).to_dict("records"):
        notes[str(line["column"]).rpartition("/")[2]] = f"mean |ρ| {number(line['raw'], '{:.2f}')}"
    return notes


def _title(study: Study) -> str:
    """Return a title with the raw rank correlations of the drawn features with the target."""
    label = study.labels.label(study.target).removeprefix("log ")
    drawn = {panel.feature for panel in present(study, PANELS)}
    correlations = extent(
        line["raw"]
        for line in strengths(study).to_dict("records")
        if str(line["column"]).rpartition("/")[2] in drawn
    )
    if not correlations:
        return f"Features against the {label}"
    drift = f"; unrelated random walks reach {study.chance:.2f}" if np.isfinite(study.chance) else ""
    return f"Mean |ρ| of features and {label}: {span(correlations, '{:.2f}')}{drift}"


def _caption(study: Study) -> Caption:
    can = "That the quantities move in step order, and where one moves while the other stands still."
    if "rivals" in study.findings:
        can += " " + study.findings.said(study.findings["rivals"]).ground
    return Caption(
        _title(study),
        "Each point is a checkpoint. Each line is a model through time. The large point is the last one. "
        "Below each panel: mean of |ρ| over the models.",
        can,
        "A relation between them. Any two curves that drift look like this.",
        "Panels of features against the target, one connected line of checkpoints per model.",
    )


ON_PAGE = OnPage(
    "topology_against_target",
    needs=lambda study: study.has_curves and bool(study.target) and len(present(study, PANELS)) > 0,
    draw=_drawn,
    caption=_caption,
)
