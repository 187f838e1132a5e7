"""Neural persistence of each model size beside its weight-shuffle null."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toposcope.core.drawing.lines import draw_group, draw_sizes
from toposcope.core.drawing.marks import Marks, mark_symptoms
from toposcope.core.drawing.series import DrawnSize, sizes
from toposcope.core.drawing.style import (
    MUTED,
    NULL,
    house,
    new_figure,
    readable,
    say_empty,
    size_title,
    step_axis,
)
from toposcope.core.lines import null_band, select
from toposcope.core.types import Feature, Normalization, Scope
from toposcope.page.notes import alarmed, beside_null, changepoints, marked, of_seeds
from toposcope.page.on_page import Caption, OnPage
from toposcope.study.catalogue import nulls_by_feature
from toposcope.study.study import Study
from toposcope.subjects.weights.features import NEURAL_PERSISTENCE, PERSISTENCE

PANELS = 12
"""Most sizes drawn side by side; beyond it the sizes are thinned out evenly."""


@dataclass(frozen=True)
class Persistences:
    """Neural persistence and its null, as every figure of it reads them from a store.

    Parameters
    ----------
    features
        The store's features table. Used: probe "neural_persistence", feature "neural_persistence" and its
        null (one row per draw).
    runs
        Columns run, family, parameters.
    filtration
        Normalization of neural persistence.
    null
        What its null is called in the table; None: there is none.
    probe
        Who measured it: the probe of the weights, or that of the gradients.
    """

    features: pd.DataFrame
    runs: pd.DataFrame
    filtration: str = Normalization.MATRIX
    null: str | None = None
    probe: str = NEURAL_PERSISTENCE

    def sizes(self, most: int) -> list[DrawnSize]:
        """Return at most `most` of the model sizes."""
        return thin(sizes(self.runs), most)

    def measured(self, scope: Scope) -> pd.DataFrame:
        """Return the rows of the measurement in one scope."""
        return self._rows(PERSISTENCE.name, scope)

    def shuffled(self, scope: Scope) -> pd.DataFrame:
        """Return the rows of its null in one scope; none where there is no null."""
        return self.features.iloc[:0] if self.null is None else self._rows(self.null, scope)

    def _rows(self, feature: str, scope: Scope) -> pd.DataFrame:
        return select(self.features, feature, probe=self.probe, filtration=self.filtration, scope=scope)


def draw(rows: Persistences, *, bends: pd.DataFrame | None = None, alarms: Marks | None = None) -> Figure:
    """Draw the mean neural persistence over a model's matrices against the step, one panel per size.

    Parameters
    ----------
    rows
        What is drawn: the rows of the scope "model".
    bends
        Its changepoints, as `toposcope.core.drawing.marks.bends_of` returns them.
    alarms
        For each run what a watch raised alarms for, and at which steps: they are marked on its panel.

    Returns
    -------
    Figure
        Coloured: the measurement, a line for each seed and their mean with its interval at the steps that all
        have. Grey: the same entries in random order, mean and 95% prediction band over the draws.
    """
    groups = rows.sizes(PANELS)
    measured, shuffled = rows.measured(Scope.MODEL), rows.shuffled(Scope.MODEL)
    lines = max(int(np.ceil(len(groups) / 5)), 1)
    columns = int(np.ceil(len(groups) / lines)) if groups else 1
    with house():
        figure, axes = new_figure(2.35 * lines + 0.25, rows=lines, columns=columns, sharey=True)
        for ax, group in zip(axes.flat, groups, strict=False):
            panel(ax, measured, shuffled, group, bends=bends)
            mark_symptoms(ax, {run: found for run, found in (alarms or {}).items() if run in group.runs})
        for ax in axes.flat[len(groups) :]:
            ax.set_axis_off()
        axes[0, 0].set_ylabel("neural persistence\n(mean over matrices)")
    return figure


def panel(
    ax: Axes,
    measured: pd.DataFrame,
    shuffled: pd.DataFrame,
    group: DrawnSize,
    *,
    bends: pd.DataFrame | None = None,
) -> None:
    """Draw one size and its null on `ax`."""
    size_title(ax, group.label, group.colour)
    mine = measured[measured["run"].isin(group.runs)]
    if mine.empty:
        say_empty(ax, "not measured")
        return
    null = null_band(shuffled, group.runs)
    if not null.empty:
        ax.fill_between(
            null["step"], null["low"], null["high"], color=NULL, alpha=0.35, linewidth=0, label="null band"
        )
        ax.plot(null["step"], null["mean"], color=NULL, linewidth=1.0, label="shuffled weights")
        last = float(null["step"].iloc[-1])
        under = float(null.loc[null["step"] >= 0.15 * last, ["low", "mean"]].min().min())
        ax.annotate(
            "shuffled", (last, under), xytext=(0, -3), textcoords="offset points", ha="right", va="top",
            fontsize=7, color=MUTED,
        )  # fmt: skip
    labels = draw_group(ax, measured, group, bends=bends, label="measured")
    ax.margins(y=0.12)  # room for the word under the null's line
    step_axis(ax, mine["step"].unique(), label=False)
    if len(labels) > 1:
        for y, text, colour in labels:
            last = float(mine.loc[mine["run"] == text, "step"].max())
            ax.annotate(
                text, (last, y), xytext=(-2, 2), textcoords="offset points", ha="right", va="bottom",
                fontsize=6, color=readable(colour),
            )  # fmt: skip
    ax.set_xlabel("step (log)")


def together(ax: Axes, features: pd.DataFrame, groups: list[DrawnSize], *, filtration: str) -> None:
    """Draw all sizes on one pair of axes, without their nulls."""
    rows = select(features, PERSISTENCE.name, probe=NEURAL_PERSISTENCE, filtration=filtration, role="model")
    ax.set_title("Neural persistence")
    if rows.empty:
        say_empty(ax, "neural persistence was not measured")
        return
    draw_sizes(ax, rows, groups, unit="mean over matrices")


def thin(groups: list[DrawnSize], most: int) -> list[DrawnSize]:
    """Return at most `most` of the sizes, evenly spaced, the smallest and the largest among them."""
    if len(groups) <= most:
        return groups
    return [groups[i] for i in np.unique(np.linspace(0, len(groups) - 1, most).round().astype(int))]


def persistences_of(study: Study, features: pd.DataFrame, *, probe: str = NEURAL_PERSISTENCE) -> Persistences:
    """Return what figures of neural persistence draw of a study's rows."""
    null = nulls_by_feature(study.series.catalogue, probe).get(PERSISTENCE.name)
    return Persistences(features, study.runs, study.filtration, null, probe)


def is_measured(study: Study, feature: Feature) -> bool:
    """Return whether any checkpoint has this feature: a figure of nothing is left out."""
    return any(
        np.isfinite(rows.loc[rows["feature"] == feature.name, "value"].to_numpy(float)).any()
        for rows in (study.whole, study.features)
    )


def draw_study(study: Study, *, probe: str = NEURAL_PERSISTENCE, alarms: Marks | None = None) -> Figure:
    """Draw a study's neural persistence with its changepoints."""
    bends = changepoints(study, probe, [PERSISTENCE.name])[PERSISTENCE.name]
    return draw(persistences_of(study, study.whole, probe=probe), bends=bends, alarms=alarms)


def caption(study: Study, probe: str = NEURAL_PERSISTENCE, of: str = "weights") -> Caption:
    """Return the words under it; `of` is what was measured: weights or gradients."""
    convention = {
        Normalization.MATRIX: "each matrix divided by its own largest entry, p = 1",
        Normalization.NETWORK: "entries divided by the largest of the network, p = 2",
    }[Normalization(study.filtration)]
    known = study.findings["changed"].numbers
    times = known["null_draws"]
    few = (
        f"The {of} were shuffled {times} time{'s' * (times != 1)}, and a band needs {known['least_draws']}"
        if times
        else f"The {of} were not shuffled"
    )
    null = f"Only that it changes. {few}, so it is unknown how much of it comes only from their sizes."
    found = beside_null(study)
    if found:
        null = (
            f"At the last checkpoint {found}. Outside the band, the arrangement of the {of} matters and "
            "not only how large they are."
        )
    return Caption(
        f"Neural persistence beside shuffled {of}",
        f"Mean over the matrices of each model ({convention}). Grey: the same entries in random order, mean "
        f"and 95% prediction band.{marked(study, probe, [PERSISTENCE.name])}{alarmed(study)}",
        null,
        "That neural persistence causes or predicts the loss. Any part of it that moves together with the "
        f"grey line comes from the distribution of the sizes of {of}, not from structure. Also, "
        + of_seeds(study)
        + ".",
        f"One panel per model size: neural persistence against the step, with a grey band for shuffled {of}.",
    )


ON_PAGE = OnPage(
    NEURAL_PERSISTENCE,
    needs=lambda study: study.has_curves and is_measured(study, PERSISTENCE),
    draw=lambda study: draw_study(study, alarms=study.alarms),
    caption=caption,
    means=True,
)
