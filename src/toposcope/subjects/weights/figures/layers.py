"""Neural persistence of every matrix, layer by layer and role by role."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from toposcope.core.drawing.series import binned
from toposcope.core.drawing.style import (
    INK,
    NULL,
    OKABE_ITO,
    graded,
    house,
    new_figure,
    say_empty,
    step_axis,
)
from toposcope.core.lines import at_shared_steps
from toposcope.core.types import Scope
from toposcope.page.on_page import Caption, OnPage
from toposcope.store.draws import over_draws
from toposcope.study.study import Study
from toposcope.subjects.weights.features import PERSISTENCE
from toposcope.subjects.weights.figures.neural_persistence import Persistences, is_measured, persistences_of

ROLES = ("attention", "mlp", "head", "embedding", "other")
POINTS = 120
"""The largest number of points of a line; longer series are averaged in log-spaced bins."""
MOST_DRAWN = 40
"""The largest number of matrices of a role drawn as lines; more are rasterised, so the page stays small."""
_OF_MATRIX = ("name", "run", "step")
_OUTSIDE = OKABE_ITO[1]
"""The colour of matrices outside the layers (head, embedding)."""


def draw(rows: Persistences) -> Figure:
    """Draw the neural persistence of each matrix of the largest model against the step: a panel per role.

    Of `rows` those of the scope "matrix" are drawn: coloured by layer, averaged over seeds at the
    steps that all of them have; dotted grey, the null's mean over draws and matrices of the role.
    """
    largest = rows.sizes(most=2)[-1:]
    runs = [run for group in largest for run in group.runs]
    every = (rows.measured(Scope.MATRIX), rows.shuffled(Scope.MATRIX))
    matrices, shuffled = (table[table["run"].isin(runs)] for table in every)
    roles = [role for role in ROLES if (matrices["role"] == role).any()]
    depth = int(matrices["layer"].max()) + 1 if matrices["layer"].notna().any() else 0
    colours = graded(depth)
    with house():
        figure, axes = new_figure(2.9, columns=max(len(roles), 1), sharey=True)
        if not roles:
            say_empty(axes[0, 0], "neural persistence per matrix was not measured")
        for ax, role in zip(axes[0], roles, strict=False):
            panel(ax, matrices[matrices["role"] == role], shuffled[shuffled["role"] == role], colours)
            ax.set_title(role)
            step_axis(ax, matrices["step"].unique(), label=False)
            ax.set_xlabel("step (log)")
        if roles:
            axes[0, 0].set_ylabel(f"neural persistence, {largest[0].label}")
            _key(figure, colours, outside=bool(matrices["layer"].isna().any()))
    return figure


def panel(ax: Axes, mine: pd.DataFrame, shuffled: pd.DataFrame, colours: list[str]) -> None:
    """Draw the matrices of one role on `ax`."""
    if len(shuffled):
        mean = at_shared_steps(over_draws(shuffled), []).set_index("step")["value"]  # over matrices, too
        ax.plot(
            mean.index, mean, color=NULL, linewidth=1.1, linestyle=(0, (1.5, 1.2)), label="shuffled", zorder=3
        )
    painted = mine["name"].nunique() > MOST_DRAWN
    once = mine.drop_duplicates("name")
    layers: dict[str, float] = dict(zip(once["name"], once["layer"], strict=True))
    means = at_shared_steps(over_draws(mine, _OF_MATRIX), ["name"])
    for name, line in means.groupby("name", sort=True):
        layer = layers[str(name)]
        colour = _OUTSIDE if pd.isna(layer) else colours[int(layer)]
        shown = binned(line["step"].to_numpy(), line["value"].to_numpy(float), bins=POINTS, spread=False)
        ax.plot(
            shown["step"], shown["mean"], color=colour, linewidth=1.0, label=str(name), rasterized=painted
        )


def _key(figure: Figure, colours: list[str], *, outside: bool) -> None:
    depth = len(colours) if len(colours) > 1 else 1
    shown = np.unique(np.linspace(0, depth - 1, min(depth, 6)).round().astype(int))
    handles = [Line2D([], [], color=colours[i], label=f"layer {i}") for i in shown if i < len(colours)]
    if outside:
        handles.append(Line2D([], [], color=_OUTSIDE, label="outside the layers"))
    handles.append(Line2D([], [], color=NULL, linestyle=(0, (1.5, 1.2)), label="shuffled weights, role mean"))
    figure.legend(
        handles=handles, loc="outside lower center", ncols=len(handles), labelcolor=INK, handlelength=1.6
    )


def _title(study: Study) -> str:
    """Return a title with the number of matrices in which neural persistence ended higher than it began."""
    rows = persistences_of(study, study.features)
    largest = [run for group in rows.sizes(most=2)[-1:] for run in group.runs]
    matrices = rows.measured(Scope.MATRIX)
    values = over_draws(matrices[matrices["run"].isin(largest)], _OF_MATRIX)
    means = at_shared_steps(values, ["name"]).dropna(subset=["value"])
    if means.empty:
        return "Neural persistence of every matrix of the largest model"
    ends = means.sort_values("step", kind="stable").groupby("name")["value"].agg(["first", "last"])
    rose = int((ends["last"] > ends["first"]).sum())
    of = f"{rose:,} of {len(ends):,} matrices of the largest model"
    return f"Neural persistence ended higher than it began in {of}"


def _caption(study: Study) -> Caption:
    return Caption(
        _title(study),
        "Each line is one weight matrix, in the panel of its role and coloured by depth. Dotted: the mean of "
        "the shuffled weights of that role. The other models are in the store.",
        "Which matrices move early, and which depart from their shuffled counterparts.",
        "That a layer matters for the loss. Matrices are of different shapes, and neural persistence "
        "depends on shape. A layer's "
        "place among a few layers is not a trend.",
        "Line charts: neural persistence of each matrix of the largest model against the step, a panel for "
        "each role.",
    )


ON_PAGE = OnPage(
    "layers",
    needs=lambda study: study.has_curves and is_measured(study, PERSISTENCE),
    draw=lambda study: draw(persistences_of(study, study.features)),
    caption=_caption,
    means=True,
    folded=True,
)
