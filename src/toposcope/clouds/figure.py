"""The ring in its plane with its cycle, and its bar beside the bars of the nulls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toposcope.clouds.nulls import NULLS
from toposcope.core.drawing.style import INK, MUTED, NULL, OKABE_ITO, house, new_figure, on_axes

if TYPE_CHECKING:
    from toposcope.clouds.cycle import RingPlane
    from toposcope.clouds.ring import RingTest


def draw_plane(plane: RingPlane, title: str, ax: Axes | None = None) -> Axes:
    """Draw the points in the plane of the longest bar, its cycle as a line through its points."""
    with on_axes(ax, 5.0) as ax:
        places, ring = plane.places, plane.places[plane.cycle]
        ax.plot(*places.T, "o", color=MUTED, markersize=3.0, alpha=0.6, linewidth=0, label="points")
        if len(ring):
            closed = np.vstack([ring, ring[:1]])
            ax.plot(
                *closed.T, "s-", color=OKABE_ITO[1], markersize=3.5, linewidth=1.4, label="cycle of the bar"
            )
        ax.set_aspect("equal", adjustable="datalim")
        ax.set_xlabel(f"first axis of the cycle ({plane.share:.0%} of the variance in this plane)")
        ax.set_ylabel("second axis")
        ax.set_title(title)
        ax.legend(loc="upper right")
    return ax


def draw_nulls(test: RingTest, ax: Axes) -> Axes:
    """Draw death/birth of the longest bar in the clouds of every null, and in the cloud itself."""
    for row, (name, label) in enumerate(NULLS.items()):
        reached = test.reached[name]
        spread = row + 0.28 * (np.arange(len(reached)) % 7 - 3) / 3.0
        ax.plot(reached, spread, "o", color=NULL, markersize=2.5, alpha=0.7, linewidth=0)
        ax.annotate(
            label, (0.02, row + 0.42), xycoords=("axes fraction", "data"), ha="left", va="center",
            fontsize=7.5, color=INK,
        )  # fmt: skip
    ax.axvline(test.ratio, color=OKABE_ITO[1], linewidth=1.6, label="this cloud")
    ax.set_yticks([])
    ax.set_ylim(-0.6, len(NULLS) - 0.2)
    ax.set_xlabel("death/birth of the longest H1 bar")
    ax.set_title("The longest bar here and in clouds without a ring")
    ax.legend(loc="upper left", bbox_to_anchor=(0.0, -0.13))
    return ax


def draw_splits(values: np.ndarray, title: str, ax: Axes | None = None) -> Axes:
    """Draw the statistic of every split as a histogram, and that of the given groups as a line."""
    with on_axes(ax, 4.0) as ax:
        ax.hist(values, bins=min(40, max(len(values) // 4, 2)), color=NULL, label="members exchanged")
        ax.axvline(values[0], color=OKABE_ITO[1], linewidth=1.6, label="as given")
        ax.set_xlabel("distance of the groups")
        ax.set_ylabel("number of ways")
        ax.set_title(title)
        ax.legend(loc="upper right")
    return ax


def ring_figure(plane: RingPlane, test: RingTest, title: str) -> Figure:
    """Draw both panels side by side: the plane, and the bar beside those of the nulls."""
    with house():
        figure, axes = new_figure(3.9, columns=2, width_ratios=(1.15, 1.0))
        draw_plane(plane, title, axes[0, 0])
        draw_nulls(test, axes[0, 1])
    return figure
