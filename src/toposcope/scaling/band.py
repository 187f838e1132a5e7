"""The confidence band of a fitted law, from the law and the sizes of the fitted points."""

from __future__ import annotations

import numpy as np
import pandas as pd

from toposcope.core.distributions import student_quantile
from toposcope.scaling.table import LOGARITHMIC, NEEDS, predicted

_STEP = 1e-6
"""Relative step of the finite differences; their error is far below the width of any drawn band."""
_RANK = 1e-9
"""Directions whose squared singular value is below this share of the largest are not determined."""


def law_band(
    law: str,
    fitted: pd.DataFrame,
    points: pd.DataFrame,
    at: pd.DataFrame,
    *,
    level: float = 0.95,
    sigma: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the confidence band (low, high) of a law's value at some points, each (n,).

    f -+ t_{n-p} s sqrt(g' (J'J)^+ g): J and g are the derivatives of the law by its p parameters at the
    fitted and at the requested points, s^2 is the residual sum of squares over n - p. The law without a floor
    is fitted in logarithms; so its band is that of a straight line in logarithms. If the band of another law
    would reach 0, it is f exp(-+ half / f). NaN if no degree of freedom is left.

    Parameters
    ----------
    law, fitted, points
        What `law_table` and `law_points` take and return.
    at
        The quantities of which the law is a function, one row per point.
    sigma
        The residual standard deviation s, if known; in logarithms for the law without a floor.

    Examples
    --------
    >>> size = np.array([1e3, 1e4, 1e5, 1e6])
    >>> points = pd.DataFrame({"size": size, "loss": [8.0, 4.1, 2.0, 0.99]})
    >>> fitted = pd.DataFrame({"parameter": ["scale", "exponent"], "value": [65.84, -0.3026]})
    >>> low, high = law_band("power", fitted, points, points[["size"]])
    >>> bool((low < 66 * size**-0.3026).all() and (high > 65 * size**-0.3026).all())
    True
    """
    nothing = np.full(len(at), np.nan), np.full(len(at), np.nan)
    middle = predicted(law, fitted, at)
    gives = [name for name in NEEDS[law] if name not in at]
    finite = points[[*at.columns, *gives]].astype(float).dropna()
    if not np.isfinite(middle).any() or not len(finite):
        return nothing
    logs = law in LOGARITHMIC
    value = np.log if logs else np.asarray
    measured = finite[{"loss-to-loss": "other", "two-stage": "score"}.get(law, "loss")].to_numpy(float)
    parameters = [str(name) for name in fitted["parameter"]]
    inner, outer = (_derivatives(law, fitted, parameters, where, logs=logs) for where in (finite, at))
    scale = np.where((norm := np.sqrt((inner**2).sum(axis=0))) > 0, norm, 1.0)
    _, size, right = np.linalg.svd(inner / scale, full_matrices=False)
    identified = size**2 > _RANK * size[0] ** 2
    free = len(finite) - int(identified.sum())
    if free < 1:
        return nothing
    residual = value(measured) - value(predicted(law, fitted, finite))
    spread = np.sqrt(float(residual @ residual) / free) if sigma is None else sigma
    lever = np.sqrt((((outer / scale) @ right[identified].T / size[identified]) ** 2).sum(axis=1))
    half = float(student_quantile(0.5 + level / 2, free)) * spread * lever
    if not logs and not (middle - half <= 0).any():
        return middle - half, middle + half
    share = half if logs else half / middle
    return middle * np.exp(-share), middle * np.exp(share)


def _derivatives(
    law: str, fitted: pd.DataFrame, names: list[str], at: pd.DataFrame, *, logs: bool
) -> np.ndarray:
    """Return the derivatives of a law, or of its logarithm, by each of its parameters: (points, numbers)."""
    columns = []
    for name in names:
        mine = (fitted["parameter"] == name).to_numpy()
        number = float(fitted.loc[mine, "value"].iloc[0])
        if name.startswith(("offset", "floor")) and number == 0.0:
            continue  # a floor at its bound is not free
        step = _STEP * max(abs(number), 1e-3)
        ends = []
        for sign in (-1.0, 1.0):
            moved = fitted.assign(value=fitted["value"].where(~mine, number + sign * step))
            value = predicted(law, moved, at)
            ends.append(np.log(value) if logs else value)
        columns.append((ends[1] - ends[0]) / (2 * step))
    return np.column_stack(columns)
