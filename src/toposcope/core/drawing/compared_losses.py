"""The losses of two recipes against the mean of the first: every run thin, the mean of each recipe thick."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from toposcope.core.drawing.style import MUTED, OKABE_ITO, on_axes, say_empty

_SHOWN = 0.9
"""Part of the steps, at the end, that sets the range: early in training runs differ by far more."""


def draw_recipes(
    recipes: Mapping[str, np.ndarray], steps: np.ndarray, since: float | None = None, ax: Axes | None = None
) -> Axes:
    """Draw every run less the mean of the first recipe, at the steps that all have; return the axes.

    This removes what all runs share, such as the noise of the same batches.

    Parameters
    ----------
    recipes
        By name, the losses (runs, steps) of each.
    steps
        (steps,) rising.
    since
        The step since which one is better: a line stands there.
    """
    with on_axes(ax, 3.6) as ax:
        if not len(steps) or not len(recipes):
            say_empty(ax, "no loss is logged")
            return ax
        name_of_first, first = next(iter(recipes.items()))
        level = first.mean(axis=0)
        late = steps >= steps[-1] - _SHOWN * (steps[-1] - steps[0])
        seen: list[float] = []
        for place, (name, runs) in enumerate(recipes.items()):
            colour = OKABE_ITO[place % len(OKABE_ITO)]
            for run in runs:
                ax.plot(steps, run - level, color=colour, linewidth=0.7, alpha=0.5)
            ax.plot(
                steps, runs.mean(axis=0) - level, color=colour, linewidth=1.8, label=f"{name} ({len(runs)})"
            )
            seen += [
                float(end)
                for run_values in (runs - level)[:, late]
                for end in (run_values.min(), run_values.max())
            ]
        room = 0.08 * (max(seen) - min(seen) or 1.0)
        ax.set_ylim(min(seen) - room, max(seen) + room)
        if since is not None:
            ax.axvline(since, color=MUTED, linewidth=0.9, linestyle=(0, (4, 2)))
        ax.set_xlabel("step")
        ax.set_ylabel(f"loss - mean of {name_of_first}")
        ax.legend(frameon=False)
    return ax
