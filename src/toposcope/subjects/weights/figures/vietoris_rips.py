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
from toposcope.page.notes import alarmed, changepoints, marked, of_draws, of_seeds
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.study import Study
from toposcope.subjects.weights.features import H0_SCALED, H0_TOTAL, H1_SCALED, H1_TOTAL, RIPS
from toposcope.subjects.weights.figures.neural_persistence import is_measured

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


def _drawn(study: Study) -> Figure:
    bends = changepoints(study, RIPS, [feature.name for feature in FEATURES])
    return draw(study.whole, study.runs, scope=study.cloud, bends=bends, alarms=study.alarms)


def _caption(study: Study) -> Caption:
    cloud = (
        "the rows of all matrices in one cloud"
        if study.cloud == Scope.POOLED
        else "the sum over the clouds of all matrices"
    )
    return Caption(
        "H0 and H1 of the weight cloud",
        f"Total persistence of connected components (H0) and loops (H1) of {cloud}; below, the same with "
        f"distances divided by their median. Lines are means; {of_draws(study, 'cloud')}."
        + marked(study, RIPS, [one.name for one in FEATURES])
        + alarmed(study),
        "How spread out the rows of the weight matrices are, and, from the lower panels, how much of "
        "that remains when the overall scale of the weights is removed.",
        "Any growth that is absent from the lower panels is growth of the weights, not of their shape. "
        + (
            "Sizes have clouds of different numbers of points and dimensions, so levels are not comparable "
            "between them. "
            if study.has_sizes
            else ""
        )
        + "And "
        + of_seeds(study)
        + ".",
        "H0 and H1 total persistence against the step on a log axis, one line per model size, raw above "
        "and scale-free below.",
    )


ON_PAGE = OnPage(
    "vietoris_rips",
    questions={"when": 1},
    needs=lambda study: study.has_curves and is_measured(study, H0_TOTAL),
    draw=_drawn,
    caption=_caption,
    means=True,
)
