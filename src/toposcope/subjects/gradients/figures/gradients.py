"""Topology of the loss gradients on a fixed batch, and their norm, against the step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from toposcope.core.drawing.lines import draw_sizes
from toposcope.core.drawing.series import sizes
from toposcope.core.drawing.style import house, new_panels
from toposcope.core.forms import capital, listed
from toposcope.core.types import Feature, Normalization, Scope
from toposcope.page.notes import changepoints, marked, moved
from toposcope.page.on_page import Caption, OnPage
from toposcope.store.draws import over_draws
from toposcope.study.catalogue import column_of
from toposcope.study.rows import select
from toposcope.study.study import Study
from toposcope.subjects.weights.features import (
    BASELINES,
    GRADIENT,
    H0_TOTAL,
    H1_SCALED,
    NEURAL_PERSISTENCE,
    PERSISTENCE,
    RIPS,
    WEIGHT_NORM,
)


@dataclass(frozen=True, slots=True)
class GradientPanel:
    """A panel: a feature that a probe of the weights measured on gradients, in one scope."""

    title: str
    said: str
    weights_probe: str
    feature: Feature
    scope: Scope
    unit: str
    log: bool = False

    @property
    def probe(self) -> str:
        """The probe of the gradients."""
        return GRADIENT + self.weights_probe

    def rows(self, features: pd.DataFrame) -> pd.DataFrame:
        """Return the rows that are drawn; of two normalizations, those of the leading one."""
        rows = select(features, self.feature.name, probe=self.probe, scope=self.scope)
        of_matrices = (
            rows["filtration"] == Normalization.MATRIX if self.feature.filtrations else rows["step"].isna()
        )
        return rows[of_matrices] if of_matrices.any() else rows


PANELS = (
    GradientPanel(
        "Norm of the gradient", "the norm of the gradient on a fixed batch", BASELINES, WEIGHT_NORM,
        Scope.MODEL, "norm", log=True,
    ),
    GradientPanel(
        "H0 of the gradient cloud", "H0 of the cloud of its matrices' rows", RIPS, H0_TOTAL, Scope.POOLED,
        "total persistence", log=True,
    ),
    GradientPanel(
        "H1, distances / median", "H1 of that cloud without its scale", RIPS, H1_SCALED, Scope.POOLED,
        "ratio",
    ),
    GradientPanel(
        "Neural persistence", "the neural persistence of its matrices", NEURAL_PERSISTENCE, PERSISTENCE,
        Scope.MODEL, "mean over matrices",
    ),
)  # fmt: skip


def measured(features: pd.DataFrame) -> list[GradientPanel]:
    """Return the panels that some rows have values for."""
    return [panel for panel in PANELS if len(panel.rows(features))]


def draw(
    features: pd.DataFrame, runs: pd.DataFrame, *, bends: Mapping[str, pd.DataFrame] | None = None
) -> Figure:
    """Draw a panel for everything that was measured, one line per size.

    Parameters
    ----------
    features
        The store's features table; rows of the probes whose name begins with "gradient_".
    runs
        Columns run, family, parameters.
    bends
        The changepoints of each feature, as `toposcope.core.drawing.marks.bends_of` returns them.

    Returns
    -------
    Figure
        Lines are means over the subsamples (draws), bands their 95% interval; with seeds, over the seeds.
    """
    groups, shown = sizes(runs), measured(features)
    with house():
        figure, axes = new_panels(len(shown), each=2.6, more=0.2)
        for ax, panel in zip(axes, shown, strict=False):
            rows = panel.rows(features)
            log = panel.log and bool((rows["value"] > 0).all())
            ax.set_title(panel.title)
            draw_sizes(
                ax, over_draws(rows), groups, unit=panel.unit, log=log,
                bends=(bends or {}).get(panel.feature.name),
            )  # fmt: skip
    return figure


def _drawn(study: Study) -> Figure:
    bends = {panel.feature.name: _bends(study, panel) for panel in measured(study.features)}
    return draw(study.features, study.runs, bends=bends)


def _bends(study: Study, panel: GradientPanel) -> pd.DataFrame:
    return changepoints(study, panel.probe, [panel.feature.name])[panel.feature.name]


def _column(study: Study, panel: GradientPanel) -> str:
    return column_of(study.series.catalogue, panel.probe, panel.feature.name)


def _caption(study: Study) -> Caption:
    shown = measured(study.features)
    labels_shown = listed([panel.said for panel in shown])
    marks = next(filter(None, (marked(study, panel.probe, [panel.feature.name]) for panel in shown)), "")
    return Caption(
        moved(study, [_column(study, panel) for panel in shown], "Gradients"),
        f"{capital(labels_shown)}. Bands are 95% intervals of the mean over random subsamples.{marks}",
        "How the gradient's size and shape change during training.",
        "That a change of H0 is a change of shape. H0 grows and shrinks with the norm; only the panels "
        "without scale show the shape. The gradient of one batch contains the noise of that batch.",
        f"Against the optimiser step: {labels_shown}.",
    )


ON_PAGE = OnPage(
    "gradients",
    questions={"changed": 6},
    needs=lambda study: study.has_curves and len(measured(study.features)) > 0,
    draw=_drawn,
    caption=_caption,
    means=True,
)
