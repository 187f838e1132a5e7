"""The study on one picture: loss, neural persistence, loss against H0, and H0 against model size."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toposcope.core.drawing import loss_curves
from toposcope.core.drawing.series import sizes
from toposcope.core.drawing.style import house, new_panels, say_empty
from toposcope.core.forms import capital, listed
from toposcope.core.types import Feature, Normalization, Scope
from toposcope.page.figures import scaling
from toposcope.page.notes import of_seeds
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.study import Study
from toposcope.subjects.weights.features import H0_TOTAL, H1_TOTAL, PERSISTENCE, RIPS
from toposcope.subjects.weights.figures import loss_against_h0, neural_persistence, vietoris_rips


def draw(
    features: pd.DataFrame,
    metrics: pd.DataFrame,
    runs: pd.DataFrame,
    finals: pd.DataFrame,
    fits: pd.DataFrame,
    catalogue: pd.DataFrame,
    *,
    filtration: str = Normalization.MATRIX,
    quantity: str,
    scope: str = Scope.POOLED,
) -> Figure:
    """Draw the panels that there are numbers for, each the short form of another figure, with its tables.

    `quantity` is the column key of the last panel, which shows H1 where there is one size only, and `scope`
    the cloud of the one before.
    """
    groups = sizes(runs)
    shown = panels(features, metrics, runs, finals, quantity=quantity)
    made: dict[str, Callable[[Axes], None]] = {
        "loss": lambda ax: loss_curves.training(ax, metrics, groups),
        "neural persistence": lambda ax: neural_persistence.together(
            ax, features, groups, filtration=filtration
        ),
        "loss against H0": lambda ax: loss_against_h0.together(ax, features, metrics, groups, scope=scope),
        "H1 of the weight cloud": lambda ax: vietoris_rips.panel(
            ax, features, groups, H1_TOTAL, scope=scope, title="H1: loops, raw distances"
        ),
        "the last H0 against model size": lambda ax: scaling.panel(
            ax, finals[finals["quantity"] == quantity], fits[fits["quantity"] == quantity], groups, catalogue
        ),
    }
    with house():
        figure, axes = new_panels(len(shown), each=2.95)
        for ax, name in zip(axes, shown, strict=False):
            made[name](ax)
        if not shown:
            say_empty(axes[0], "nothing that this picture shows was measured")
    return figure


def panels(
    features: pd.DataFrame, metrics: pd.DataFrame, runs: pd.DataFrame, finals: pd.DataFrame,
    *, quantity: str,
) -> list[str]:  # fmt: skip
    """Return what the picture shows, in order: nothing that was not measured."""

    def has(feature: Feature) -> bool:
        return bool(features.loc[features["feature"] == feature.name, "value"].notna().any())

    logged = [column for column in ("loss", "heldout_loss") if column in metrics]
    one = len(sizes(runs)) == 1
    there = {
        "loss": "loss" in logged and bool(metrics["loss"].notna().any()),
        "neural persistence": has(PERSISTENCE),
        "loss against H0": bool(metrics[logged].notna().any(axis=None)) and has(H0_TOTAL),
        "H1 of the weight cloud": one and has(H1_TOTAL),
        "the last H0 against model size": not one and bool((finals["quantity"] == quantity).any()),
    }
    return [name for name, known in there.items() if known]


def _shown(study: Study) -> list[str]:
    """Return what the picture of the whole study shows; empty where that is less than two things."""
    quantity = study.column(RIPS, H0_TOTAL)
    found = panels(study.whole, study.metrics, study.runs, scaling.fitted(study), quantity=quantity)
    return found if len(found) > 1 else []


def _drawn(study: Study) -> Figure:
    return draw(
        study.whole,
        study.metrics,
        study.runs,
        scaling.fitted(study),
        study.fits,
        study.series.catalogue,
        filtration=study.filtration,
        quantity=study.column(RIPS, H0_TOTAL),
        scope=study.cloud,
    )


def _caption(study: Study) -> Caption:
    shown = _shown(study)
    runs = "one run" if len(study.runs) == 1 else f"{len(study.runs)} runs"
    return Caption(
        "The study on one page",
        f"{capital(listed(shown))} for {runs}.",
        "Which quantities move during training"
        + (", and in which order the sizes end." if study.has_sizes else "."),
        "Whether they move together for any reason but time"
        + (": see the correlations below for that" if study.target else "")
        + ". Also, "
        + of_seeds(study)
        + ".",
        f"Panels of {listed(shown)}.",
    )


ON_PAGE = OnPage(
    "overview",
    questions={"changed": 1},
    needs=lambda study: study.has_curves and len(_shown(study)) > 0,
    draw=_drawn,
    caption=_caption,
    means=True,
)
