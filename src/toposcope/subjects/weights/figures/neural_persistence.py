"""Neural persistence of each model size, minus that of its shuffled weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toposcope.core.drawing.lines import draw_sizes
from toposcope.core.drawing.marks import Marks, mark_symptoms
from toposcope.core.drawing.series import DrawnSize, sizes
from toposcope.core.drawing.style import MUTED, NULL, house, new_figure, say_empty
from toposcope.core.types import Feature, Normalization, Scope
from toposcope.page.notes import alarmed, beside_null, changepoints, marked
from toposcope.page.on_page import Caption, OnPage
from toposcope.store.draws import is_counted, over_draws
from toposcope.study.catalogue import nulls_by_feature
from toposcope.study.rows import null_band, select
from toposcope.study.study import Study
from toposcope.subjects.weights.features import NEURAL_PERSISTENCE, PERSISTENCE, PERSISTENCE_EXCESS

MOST = 12
"""The largest number of sizes drawn; more are thinned out evenly."""


@dataclass(frozen=True)
class Persistences:
    """Neural persistence and its null, as every figure of it reads them from a store.

    Parameters
    ----------
    features
        The store's features table. Used: probe "neural_persistence", features "neural_persistence", its null
        (one row per draw) and "neural_persistence_excess".
    runs
        Columns run, family, parameters.
    filtration
        Normalization of neural persistence.
    null
        The name of its null in the table; None if there is none.
    probe
        The probe that measured it: that of the weights, or that of the gradients.
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
        """Return the rows of its null in one scope; empty without a null."""
        return self.features.iloc[:0] if self.null is None else self._rows(self.null, scope)

    def excess(self, scope: Scope) -> pd.DataFrame:
        """Return the rows of the measurement minus its null in one scope; empty without a null."""
        return self.features.iloc[:0] if self.null is None else self._rows(PERSISTENCE_EXCESS.name, scope)

    def _rows(self, feature: str, scope: Scope) -> pd.DataFrame:
        return select(self.features, feature, probe=self.probe, filtration=self.filtration, scope=scope)


def draw(rows: Persistences, *, bends: pd.DataFrame | None = None, alarms: Marks | None = None) -> Figure:
    """Draw how far the mean neural persistence over a model's matrices lies above its null, by step.

    Parameters
    ----------
    rows
        What is drawn: the rows of the scope "model".
    bends
        Changepoints of what is drawn, as `toposcope.core.drawing.marks.bends_of` returns them.
    alarms
        For each run, what a watch raised alarms for, and at which steps.

    Returns
    -------
    Figure
        A line for each run, named at its end, and their mean with its interval where a size has seeds. Grey:
        the widest prediction band for one more shuffle, around its mean at 0. Without a null, the raw values.
    """
    groups = rows.sizes(MOST)
    measured, excess = rows.measured(Scope.MODEL), rows.excess(Scope.MODEL)
    with house():
        figure, axes = new_figure(3.1)
        ax = axes[0, 0]
        if measured.empty:
            say_empty(ax, "neural persistence was not measured")
            return figure
        unit = "neural persistence"
        if len(excess):
            measured, unit = excess, f"{unit} − shuffled"
            _band(ax, rows.shuffled(Scope.MODEL), groups)
        draw_sizes(ax, over_draws(measured), groups, unit=unit, bends=bends)
        mark_symptoms(ax, alarms or {})
    return figure


def _band(ax: Axes, shuffled: pd.DataFrame, groups: list[DrawnSize]) -> None:
    """Draw the widest band of the null among the sizes, minus its mean."""
    bands = [null_band(shuffled, group.runs) for group in groups]
    every = pd.concat([b.assign(low=b["low"] - b["mean"], high=b["high"] - b["mean"]) for b in bands])
    widest = every.groupby("step").agg({"low": "min", "high": "max"}).dropna()
    ax.axhline(0.0, color=NULL, linewidth=1.0)
    if len(widest):
        ax.fill_between(
            widest.index, widest["low"], widest["high"], color=NULL, alpha=0.35, linewidth=0, gid="null band"
        )
    ax.annotate(
        "shuffled", (0.99, 0.0), xycoords=("axes fraction", "data"), xytext=(0, -2),
        textcoords="offset points", ha="right", va="top", fontsize=7, color=MUTED,
    )  # fmt: skip


def thin(groups: list[DrawnSize], most: int) -> list[DrawnSize]:
    """Return at most `most` of the sizes, evenly spaced, including the smallest and the largest."""
    if len(groups) <= most:
        return groups
    return [groups[i] for i in np.unique(np.linspace(0, len(groups) - 1, most).round().astype(int))]


def leading_normalization(study: Study) -> Normalization:
    """Return the normalization that leads: the matrix's, unless only the network's was measured."""
    catalogue = study.series.catalogue
    measured = set(catalogue.loc[catalogue["feature"] == PERSISTENCE.name, "filtration"])
    network, matrix = Normalization.NETWORK, Normalization.MATRIX
    return network if network in measured and matrix not in measured else matrix


def persistences_of(study: Study, features: pd.DataFrame, *, probe: str = NEURAL_PERSISTENCE) -> Persistences:
    """Return the rows of a study that figures of neural persistence draw."""
    null = nulls_by_feature(study.series.catalogue, probe).get(PERSISTENCE.name)
    return Persistences(features, study.runs, leading_normalization(study), null, probe)


def is_measured(study: Study, feature: Feature) -> bool:
    """Return whether any checkpoint has this feature; an empty figure is left out."""
    return any(
        is_counted(rows[rows["feature"] == feature.name]).any() for rows in (study.whole, study.features)
    )


def draw_study(study: Study, *, probe: str = NEURAL_PERSISTENCE, alarms: Marks | None = None) -> Figure:
    """Draw a study's neural persistence with its changepoints."""
    rows, drawn = persistences_of(study, study.whole, probe=probe), _drawn(study, probe)
    return draw(rows, bends=changepoints(study, probe, [drawn])[drawn], alarms=alarms)


def _drawn(study: Study, probe: str) -> str:
    """Return the name of the feature that is drawn: neural persistence, minus its null if there is one."""
    rows = persistences_of(study, study.whole, probe=probe)
    return PERSISTENCE_EXCESS.name if len(rows.excess(Scope.MODEL)) else PERSISTENCE.name


def _title(study: Study, of: str) -> str:
    """Return the result of the figure as a title."""
    for null in study.findings["changed"].numbers["nulls"]:
        if null["feature"] == PERSISTENCE.name:
            where, n = ("below", null["below"]) if null["below"] > null["above"] else ("above", null["above"])
            sizes = f" in {n} of {null['sizes']} sizes" if null["sizes"] > 1 else ""
            if n:
                return f"Neural persistence ends {where} that of shuffled {of}{sizes}"
            return f"Neural persistence ends at the level of shuffled {of}"
    return f"Neural persistence of the {of}"


def caption(study: Study, probe: str = NEURAL_PERSISTENCE, of: str = "weights") -> Caption:
    """Return the caption; `of` is what was measured: weights or gradients."""
    convention = {
        Normalization.MATRIX: "each matrix divided by its own largest entry, p = 1",
        Normalization.NETWORK: "entries divided by the largest of the network, p = 2",
    }[leading_normalization(study)]
    numbers = study.findings["changed"].numbers
    times = numbers["null_draws"]
    few = (
        f"The {of} were shuffled {times:,} time{'s' * (times != 1)}, and a band needs "
        f"{numbers['least_draws']}"
        if times
        else f"The {of} were not shuffled"
    )
    null = f"Only that it changes. {few}, so it is unknown how much of it comes from their sizes alone."
    sentence = beside_null(study)
    if sentence:
        null = (
            f"At the last checkpoint {sentence}. Outside the band, the arrangement of the {of} matters, not "
            "only their sizes."
        )
    return Caption(
        _title(study, of),
        f"Mean over the matrices of each model ({convention}){_beside(study, probe)}"
        f"{marked(study, probe, [_drawn(study, probe)])}{alarmed(study)}",
        null,
        "That neural persistence causes or predicts the loss. Any part of it that moves with the null comes "
        f"from the distribution of the sizes of {of}, not from their arrangement.",
        f"Neural persistence against the step, a line for each size, with a grey band for shuffled {of}.",
    )


def _beside(study: Study, probe: str) -> str:
    if _drawn(study, probe) == PERSISTENCE.name:
        return "."
    return (
        ", minus the mean of the same entries in random order. Grey: the range in which one more shuffle "
        "would lie with 95% probability, for the size with the widest range."
    )


ON_PAGE = OnPage(
    NEURAL_PERSISTENCE,
    questions={"changed": 2},
    needs=lambda study: study.has_curves and is_measured(study, PERSISTENCE),
    draw=lambda study: draw_study(study, alarms=study.alarms),
    caption=caption,
    means=True,
)
