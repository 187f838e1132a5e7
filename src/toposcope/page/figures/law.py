"""A scaling law and the points that it was fitted to."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from toposcope.core.drawing.style import INK, MUTED, OKABE_ITO, log_axis, on_axes, say_empty
from toposcope.scaling.band import law_band
from toposcope.scaling.table import NEEDS, predicted

_GIVES = {"loss-to-loss": "other", "two-stage": "score"}
"""Law -> the quantity that it gives, if that is not the loss."""
_INPUTS = {"two-stage": ("compute",)}
"""Law -> its inputs, if these are not the quantities before the one that it gives."""
_LOGARITHMIC = ("size", "data", "steps", "compute")


def draw_law(
    law: str, formula: str, fitted: pd.DataFrame, points: pd.DataFrame, ax: Axes | None = None
) -> Axes:
    """Draw a law of one quantity as a curve with its 95% band, one of several as fitted against measured.

    Parameters
    ----------
    law, formula
        A name of `toposcope.scaling.table.NEEDS`, and how the law is written.
    fitted, points
        What `law_table` and `law_points` return.
    """
    gives = _GIVES.get(law, "loss")
    inputs = _INPUTS.get(law, tuple(name for name in NEEDS[law] if name != gives))
    more = [name for name in NEEDS[law] if name in points and name not in (*inputs, gives)]
    finite = points[[*inputs, gives, *more]].astype(float)
    finite = finite.loc[np.isfinite(finite.to_numpy()).all(axis=1)]
    with on_axes(ax, 3.2) as ax:
        ax.set_title(formula)
        if finite.empty:
            say_empty(ax, "no point to fit")
        elif len(inputs) == 1:
            _curve(ax, law, fitted, finite, inputs[0], gives)
        else:
            _beside(ax, predicted(law, fitted, finite), finite[gives].to_numpy(), gives)
    return ax


def _curve(ax: Axes, law: str, fitted: pd.DataFrame, points: pd.DataFrame, name: str, gives: str) -> None:
    first, last = float(points[name].min()), float(points[name].max())
    logarithmic = name in _LOGARITHMIC and first > 0
    grid = np.geomspace(first, last, 200) if logarithmic else np.linspace(first, last, 200)
    at = pd.DataFrame({name: grid})
    low, high = law_band(law, fitted, points, at)
    ax.fill_between(grid, low, high, color=MUTED, alpha=0.2, linewidth=0, label="95% band of the law")
    ax.plot(grid, predicted(law, fitted, at), color=INK, linewidth=1.2, label="law")
    ax.plot(points[name], points[gives], "o", color=OKABE_ITO[0], markersize=4.5, label="measured")
    if name == "compute":
        ax.set_xscale("log")
    elif logarithmic:
        log_axis(ax.xaxis)
    ax.set_xlabel(name)
    ax.set_ylabel(gives)


def _beside(ax: Axes, given: np.ndarray, measured: np.ndarray, gives: str) -> None:
    if not np.isfinite(given).any():
        say_empty(ax, "no number can be given")
        return
    ends = [float(np.nanmin([given, measured])), float(np.nanmax([given, measured]))]
    ax.plot(ends, ends, color=MUTED, linewidth=0.8)
    ax.plot(measured, given, "o", color=OKABE_ITO[0], markersize=4.5)
    ax.set_xlabel(f"{gives}, measured")
    ax.set_ylabel(f"{gives}, by the law")
