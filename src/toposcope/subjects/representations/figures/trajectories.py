"""Small multiples: one panel for each feature, one line for each model, on a log step axis.

Several figures are made of them, each in a module of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toposcope.core.drawing.lines import draw_sizes
from toposcope.core.drawing.series import DrawnSize, sizes
from toposcope.core.drawing.style import house, new_panels, say_empty
from toposcope.core.forms import listed
from toposcope.page.notes import changepoints, marked, moved_features
from toposcope.store.draws import over_draws
from toposcope.study.rows import select
from toposcope.study.study import Study
from toposcope.subjects.representations import features as of
from toposcope.subjects.representations.tables.rows import of_layer


@dataclass(frozen=True, slots=True)
class TrajectoryPanel:
    """A feature, the title of its panel, and whether its axis is logarithmic."""

    feature: str
    title: str
    unit: str = ""
    log: bool = False


def draw(
    features: pd.DataFrame,
    runs: pd.DataFrame,
    panels: Sequence[TrajectoryPanel],
    *,
    probe: str = of.REPRESENTATIONS,
    layer: int | None = None,
    bends: Mapping[str, pd.DataFrame] | None = None,
) -> Figure:
    """Draw each panel's feature against the step, one line per size.

    Parameters
    ----------
    features
        The store's features table.
    runs
        Columns run, family, parameters.
    panels
        What to draw, in reading order.
    layer
        The hidden state that is shown; None takes each run's last. Values of the whole model have none.
    bends
        The changepoints of each feature, as `toposcope.core.drawing.marks.bends_of` returns them.

    Returns
    -------
    Figure
        Lines are means over subsamples (draws), bands their 95% interval; with seeds, over the seeds.
    """
    groups = sizes(runs)
    rows = of_layer(features[features["probe"] == probe], layer)
    with house():
        figure, axes = new_panels(len(panels), each=2.5, more=0.4)
        for ax, panel in zip(axes, panels, strict=False):
            _panel(ax, rows, groups, panel, probe=probe, bends=(bends or {}).get(panel.feature))
        if len(panels) == 1:  # the page's heading says it
            axes[0].set_title("")
            axes[0].set_ylabel(f"{panels[0].title} ({panels[0].unit})")
    return figure


def _panel(
    ax: Axes,
    rows: pd.DataFrame,
    groups: list[DrawnSize],
    panel: TrajectoryPanel,
    *,
    probe: str,
    bends: pd.DataFrame | None,
) -> None:
    selected = select(rows, panel.feature, probe=probe)
    ax.set_title(panel.title)
    if selected.empty:
        say_empty(ax, f"{panel.feature} was not measured")
        return
    log = panel.log and bool((selected["value"] > 0).all())
    draw_sizes(ax, over_draws(selected), groups, unit=panel.unit, marker="o", log=log, bends=bends)


def present(study: Study, panels: Sequence[TrajectoryPanel]) -> tuple[TrajectoryPanel, ...]:
    """Return the panels for which a study has values."""
    return tuple(panel for panel in panels if study.has(panel.feature, probe=of.REPRESENTATIONS))


def moves(study: Study, panels: Sequence[TrajectoryPanel]) -> bool:
    """Return whether any of the panels has a curve to show."""
    return study.has_curves and len(present(study, panels)) > 0


def draw_study(study: Study, panels: Sequence[TrajectoryPanel]) -> Figure:
    """Draw the panels that have data, with their changepoints."""
    shown = present(study, panels)
    bends = changepoints(study, of.REPRESENTATIONS, [panel.feature for panel in shown])
    return draw(study.features, study.runs, shown, bends=bends)


def titles(study: Study, panels: Sequence[TrajectoryPanel]) -> str:
    """Return the titles of the panels that are drawn."""
    titles_present = [panel.title for panel in present(study, panels)]
    return listed(titles_present) if titles_present else "nothing"


def bent(study: Study, panels: Sequence[TrajectoryPanel]) -> str:
    """Return the caption's sentence on the changepoints in these panels."""
    return marked(study, of.REPRESENTATIONS, [panel.feature for panel in present(study, panels)])


def drift(study: Study, panels: Sequence[TrajectoryPanel], otherwise: str) -> str:
    """Return a title that says how the first two panels moved; `otherwise` if no run has two values."""
    shown = [panel.feature for panel in present(study, panels)]
    return moved_features(study, of.REPRESENTATIONS, shown, otherwise)


def sampled(study: Study) -> str:
    """Return a sentence on the bands, or on why there are none."""
    rows = study.features[
        (study.features["probe"] == of.REPRESENTATIONS) & (study.features["feature"] == of.H1_TOTAL.name)
    ]
    draws = rows["draw"].nunique() if rows["draw"].notna().any() else 0
    if draws > 1:
        return f"Bands are 95% intervals of the mean over {draws} subsamples of the texts."
    return (
        "All texts are in every cloud, so there is no subsampling noise to show. How much another set of "
        "texts would change the lines is not shown."
    )
