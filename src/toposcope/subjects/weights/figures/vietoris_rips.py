"""How H0 and H1 of the weight cloud evolve during training."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toposcope.core.drawing.lines import draw_sizes
from toposcope.core.drawing.marks import Marks, mark_symptoms
from toposcope.core.drawing.series import DrawnSize, sizes
from toposcope.core.drawing.style import house, new_figure, say_empty
from toposcope.core.lines import select
from toposcope.core.types import Feature, Scope
from toposcope.subjects.weights.features import H0_SCALED, H0_TOTAL, H1_SCALED, H1_TOTAL, RIPS

FEATURES = (H0_TOTAL, H1_TOTAL, H0_SCALED, H1_SCALED)
_TITLES = (
    "H0: components, raw distances", "H1: loops, raw distances", "H0, distances / median",
    "H1, distances / median",
)  # fmt: skip


def draw(
    features: pd.DataFrame,
    runs: pd.DataFrame,
    *,
    scope: str = Scope.POOLED,
    bends: Mapping[str, pd.DataFrame] | None = None,
    alarms: Marks | None = None,
) -> Figure:
    """Draw H0 and H1 total persistence against the step, one line per size, raw above scale-free.

    Parameters
    ----------
    features
        The store's features table. Used: probe "rips", role "model", features "h0_total", "h1_total",
        "h0_total_scaled" and "h1_total_scaled" (distances divided by their median).
    runs
        Columns run, family, parameters.
    scope
        `Scope.POOLED` (the rows of all matrices in one cloud) or `Scope.MODEL` (the sum over matrices).
    bends
        The changepoints of each feature, as `toposcope.core.drawing.marks.bends_of` returns them.
    alarms
        For each run what a watch raised alarms for, and at which steps: a line for each, without its name.

    Returns
    -------
    Figure
        Lines are means over the subsamples (draws) of the cloud, bands their 95% interval; where there
        are seeds, mean and interval over the seeds.
    """
    groups = sizes(runs)
    scaled = not select(features, H0_SCALED.name, probe=RIPS, scope=scope).empty
    with house():
        figure, axes = new_figure(5.6 if scaled else 3.3, rows=2 if scaled else 1, columns=2)
        for ax, feature, title in zip(axes.flat, FEATURES, _TITLES, strict=False):
            panel(
                ax, features, groups, feature, scope=scope, title=title, bends=(bends or {}).get(feature.name)
            )
            mark_symptoms(ax, alarms or {}, named=False)
    return figure


def panel(
    ax: Axes,
    features: pd.DataFrame,
    groups: list[DrawnSize],
    feature: Feature,
    *,
    scope: str,
    title: str,
    bends: pd.DataFrame | None = None,
) -> None:
    """Draw one feature of every size on `ax`."""
    rows = select(features, feature.name, probe=RIPS, scope=scope)
    ax.set_title(title)
    if rows.empty:
        say_empty(ax, f"{feature.name} was not measured")
        return
    draw_sizes(ax, rows, groups, unit="total persistence", bends=bends)
