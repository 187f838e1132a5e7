"""The losses of two recipes: every run thin, the mean of each recipe thick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from toposcope.core.drawing.style import MUTED, OKABE_ITO, on_axes, say_empty

_SHOWN = 0.9
"""Part of the run, at its end, that sets the range of losses: early ones are far above all others."""


def draw_recipes(
    recipes: Mapping[str, Sequence[tuple[np.ndarray, np.ndarray]]],
    steps: np.ndarray,
    since: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the runs of each recipe with their mean at the steps that all have; return the axes.

    Parameters
    ----------
    recipes
        By name, the steps and losses (n,) of every run.
    steps
        (m,) rising.
    since
        The step since which one is better: a line stands there.
    """
    with on_axes(ax, 3.6) as ax:
        if not len(steps) or not any(recipes.values()):
            say_empty(ax, "no loss is logged")
            return ax
        late: list[float] = []
        for place, (name, runs) in enumerate(recipes.items()):
            colour = OKABE_ITO[place % len(OKABE_ITO)]
            for step, loss in runs:
                ax.plot(step, loss, color=colour, linewidth=0.6, alpha=0.45)
            means = np.mean([np.interp(steps, step, loss) for step, loss in runs], axis=0)
            ax.plot(steps, means, color=colour, linewidth=1.8, label=f"{name} ({len(runs)})")
            late += [float(one) for one in means[steps >= (1.0 - _SHOWN) * steps[-1]]]
        room = 0.08 * (max(late) - min(late) or 1.0)
        ax.set_ylim(min(late) - room, max(late) + room)
        if since is not None:
            ax.axvline(since, color=MUTED, linewidth=0.9, linestyle=(0, (4, 2)))
        ax.set_xlabel("step")
        ax.set_ylabel("loss")
        ax.legend(frameon=False)
    return ax
