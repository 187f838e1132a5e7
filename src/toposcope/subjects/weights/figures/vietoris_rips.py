"""H0 and H1 of the weight cloud during training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toposcope.core.drawing.lines import draw_sizes
from toposcope.core.drawing.marks import Marks, mark_symptoms
from toposcope.core.drawing.series import DrawnSize, sizes
from toposcope.core.drawing.style import house, new_panels, say_empty
from toposcope.core.types import Feature, Scope
from toposcope.page.notes import alarmed, changepoints, marked, moved, of_draws
from toposcope.page.on_page import Caption, OnPage
from toposcope.store.draws import over_draws
from toposcope.study.rows import select
from toposcope.study.study import Study
from toposcope.subjects.weights.features import GRADIENT, H0_SCALED, H0_TOTAL, H1_SCALED, H1_TOTAL, RIPS
from toposcope.subjects.weights.figures.neural_persistence import is_measured

FEATURES = (H0_TOTAL, H1_TOTAL, H0_SCALED, H1_SCALED)
_CLOUDS = (RIPS, GRADIENT + RIPS)
"""The probes that measure clouds of rows."""
_OF_MODEL = (Scope.POOLED, Scope.MODEL)
"""The scopes of a cloud of the whole model, in the order in which they represent it."""
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
    shown: Sequence[Feature] = FEATURES,
) -> Figure:
    """Draw H0 and H1 total persistence against the step, one line per size: raw, then without scale.

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
        For each run, what a watch raised alarms for, and at which steps; each is a line without its name.
    shown
        Those of `FEATURES` that are drawn, a panel each.

    Returns
    -------
    Figure
        Lines are means over the subsamples (draws) of the cloud, bands their 95% interval; where there
        are seeds, mean and interval over the seeds.
    """
    groups = sizes(runs)
    scaled = not select(features, H0_SCALED.name, probe=RIPS, scope=scope).empty
    drawn = [shown_panel for shown_panel in shown if scaled or shown_panel not in (H0_SCALED, H1_SCALED)]
    with house():
        figure, axes = new_panels(len(drawn), each=2.8 if len(drawn) > 1 else 3.3)
        for ax, feature in zip(axes, drawn, strict=False):
            title = _TITLES[FEATURES.index(feature)] if len(drawn) > 1 else ""
            panel(
                ax, features, groups, feature, scope=scope, title=title, bends=(bends or {}).get(feature.name)
            )
            mark_symptoms(ax, alarms or {}, named=len(drawn) == 1)
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
    draw_sizes(ax, over_draws(rows), groups, unit="total persistence", bends=bends)


_OTHERS = tuple(feature for feature in FEATURES if feature is not H0_TOTAL)


def _drawn(study: Study, shown: Sequence[Feature]) -> Figure:
    bends = changepoints(study, RIPS, [feature.name for feature in shown])
    scope = leading_cloud(study.whole)
    return draw(study.whole, study.runs, scope=scope, bends=bends, alarms=study.alarms, shown=shown)


def leading_cloud(features: pd.DataFrame) -> Scope:
    """Return the scope of the cloud that represents a model: of all weight rows together, else of the layers.

    >>> leading_cloud(pd.DataFrame({"probe": [RIPS], "scope": ["model"]})).value
    'model'
    >>> leading_cloud(pd.DataFrame({"probe": [RIPS] * 2, "scope": ["model", "pooled"]})).value
    'pooled'
    """
    clouds = features[features["probe"].isin(_CLOUDS)] if len(features) else features
    measured = set(clouds["scope"]) if "scope" in clouds else set()
    return next((scope for scope in _OF_MODEL if scope in measured), _OF_MODEL[0])


def _cloud(study: Study) -> str:
    if leading_cloud(study.whole) == Scope.POOLED:
        return "the rows of all matrices in one cloud"
    return "the sum over the clouds of all matrices"


def _components(study: Study) -> Caption:
    """Return the caption of the figure of H0 alone."""
    return Caption(
        moved(study, [study.column(RIPS, H0_TOTAL)], "H0 of the weight cloud"),
        f"The length of the shortest tree through {_cloud(study)} (total persistence of H0). Lines are "
        f"means; {of_draws(study, 'cloud')}.{marked(study, RIPS, [H0_TOTAL.name])}{alarmed(study)}",
        "How far apart the rows of the weight matrices are.",
        "That their shape changed. Weights that grow are also further apart. The figure of distances divided "
        "by their median removes this growth.",
        "H0 total persistence against the step on a log axis, one line per model size.",
    )


def _caption(study: Study) -> Caption:
    return Caption(
        moved(
            study,
            [study.column(RIPS, feature) for feature in (H1_TOTAL, H0_SCALED)],
            "H1 of the weight cloud, and H0 and H1 without the growth of the weights",
        ),
        f"Total persistence of loops (H1) of {_cloud(study)}, and of components (H0) and loops with "
        f"distances divided by their median. Lines are means; {of_draws(study, 'cloud')}."
        + marked(study, RIPS, [feature.name for feature in _OTHERS])
        + alarmed(study),
        "How much of the spread of the rows remains when the overall scale of the weights is removed.",
        "That their shape changed, if the growth is absent where distances are divided by their median. Then "
        "only the weights grew. "
        + (
            "Sizes have clouds of different numbers of points and dimensions, so levels are not comparable "
            "between them."
            if study.has_sizes
            else ""
        ),
        "H1 total persistence, and H0 and H1 of distances divided by their median, against the step on a log "
        "axis, one line per model size.",
    )


COMPONENTS = OnPage(
    "h0",
    questions={"changed": 1, "when": 1},
    needs=lambda study: study.has_curves and is_measured(study, H0_TOTAL),
    draw=lambda study: _drawn(study, [H0_TOTAL]),
    caption=_components,
    means=True,
)

ON_PAGE = OnPage(
    "vietoris_rips",
    questions={"when": 2},
    needs=lambda study: study.has_curves and is_measured(study, H1_TOTAL),
    draw=lambda study: _drawn(study, _OTHERS),
    folded=True,
    caption=_caption,
    means=True,
)
