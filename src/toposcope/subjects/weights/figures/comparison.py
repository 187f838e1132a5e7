"""Two checkpoints side by side: the difference in each matrix, beside the noise of the draws."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toposcope.core.drawing.style import MUTED, OKABE_ITO, house, new_figure, on_axes, say_empty
from toposcope.core.types import Normalization, Scope
from toposcope.subjects.weights.features import H0_SCALED, PERSISTENCE, WEIGHTS_MOVED

PANELS = (
    (PERSISTENCE.name, Normalization.MATRIX, "neural persistence"),
    (H0_SCALED.name, "euclidean", "H0 / median distance"),
    (WEIGHTS_MOVED.name, "weights", "W1 of weights"),
)
"""Feature, filtration and title of the panels: two differences and one distance."""
MOST = 32
"""The largest number of matrices with a line; of more, those with the largest distances are shown."""


def comparison(table: pd.DataFrame, *, first: str, second: str) -> Figure:
    """Return the figure of a table of `toposcope.subjects.weights.compare`.

    Every matrix is a line. A bar is twice the standard error of the paired difference over the draws; without
    a bar the cloud was not subsampled, which does not mean that there is no noise.
    """
    matrices = table[(table["scope"] == Scope.MATRIX) & (table["status"] == "ok")]
    every = list(dict.fromkeys(matrices["name"]))
    names = _most_different(matrices, every)
    with house():
        figure, axes = new_figure(_height(names), columns=len(PANELS), sharey=True)
        for ax, (feature, filtration, title) in zip(axes[0], PANELS, strict=True):
            panel = matrices[(matrices["feature"] == feature) & (matrices["filtration"] == filtration)]
            _panel(ax, panel.set_index("name"), names)
            ax.set_title(title)
        axes[0, 0].set_yticks(range(len(names)), names)
        axes[0, 0].invert_yaxis()
        cut = f" ({len(names):,} of {len(every):,} matrices)" if len(names) < len(every) else ""
        figure.suptitle(f"{second} minus {first}{cut}", x=0.01, ha="left", fontsize=9.5)
    return figure


def draw_moved(moved: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw how far each matrix moved relative to its norm: columns `name` and `change`, in this order."""
    rows = moved[moved["change"] >= moved["change"].nlargest(MOST).min()]
    cut = f" ({len(rows):,} of {len(moved):,} matrices)" if len(rows) < len(moved) else ""
    with on_axes(ax, _height(rows["name"])) as ax:
        if moved.empty:
            say_empty(ax, "no matrix of the same name and shape in both")
            return ax
        finite = rows["change"].where(np.isfinite(rows["change"]))
        names = rows["name"].where(finite.notna(), rows["name"] + " (zero before)")
        ax.barh(range(len(rows)), 100 * finite, color=OKABE_ITO[0], height=0.6)
        ax.set_xlabel(f"change in % of the matrix's norm{cut}")
        ax.set_yticks(range(len(rows)), names)
        ax.set_ylim(len(rows) - 0.5, -0.5)
    return ax


def _height(names: Sequence[str]) -> float:
    return max(2.4, 0.24 * len(names) + 1.2)


def _most_different(matrices: pd.DataFrame, names: list[str]) -> list[str]:
    """Return at most `MOST` of the names, in their order: those whose weights moved farthest."""
    if len(names) <= MOST:
        return names
    feature, filtration, _ = PANELS[-1]
    moved = matrices[(matrices["feature"] == feature) & (matrices["filtration"] == filtration)]
    size = moved.set_index("name")["difference"].abs().reindex(names).fillna(0.0)
    chosen = set(size.sort_values(ascending=False, kind="stable").index[:MOST])
    return [name for name in names if name in chosen]


def _panel(ax: Axes, panel: pd.DataFrame, names: Sequence[str]) -> None:
    places = [place for place, name in enumerate(names) if name in panel.index]
    if not places:
        say_empty(ax, "not measured")
        return
    shown = panel.loc[[names[place] for place in places]]
    noise = 2 * shown["standard_error"].to_numpy(dtype=np.float64, na_value=0.0)
    values = shown["difference"].to_numpy(dtype=np.float64)
    ax.axvline(0.0, color=MUTED, linewidth=0.8)
    ax.errorbar(values, places, xerr=noise, fmt="o", color=OKABE_ITO[0], markersize=4, elinewidth=1.2)
