"""One persistence diagram: death against birth."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from toposcope.core.drawing.style import INK, MUTED, house, say_empty, shown_axes


def draw_diagram(pairs: np.ndarray, dim: int, filtration: str = "", ax: Axes | None = None) -> Axes:
    """Draw pairs (n, 2) of birth and death; those that never die are triangles on the edge."""
    if ax is None:
        with house():
            ax = shown_axes(3.4, 3.6)
    birth, death = pairs.T
    coordinates = np.concatenate([birth, death[np.isfinite(death)]])
    if not len(coordinates):
        say_empty(ax, "no pairs")
        return ax
    low, high = float(coordinates.min()), float(coordinates.max())
    edge = 0.04 * (high - low) or 1.0
    ax.plot([low, high], [low, high], color=MUTED, linewidth=0.8)
    finite = np.isfinite(death)
    ax.plot(birth[finite], death[finite], "o", color=INK, markersize=3, alpha=0.7)
    up = death[~finite] > 0
    ends = np.where(up, high + edge, low - edge)
    ax.plot(birth[~finite], ends, "^" if up.all() else "v", color=INK, markersize=5)
    ax.set_xlabel(f"birth{f' ({filtration})' if filtration else ''}")
    ax.set_ylabel("death")
    ax.set_title(f"H{dim}: {len(pairs):,} pairs")
    return ax
