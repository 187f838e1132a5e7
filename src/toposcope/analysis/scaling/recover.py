"""Reading scaling exponents off features of the weights: a regression that must beat knowing nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from toposcope.analysis.forecast.siblings import ridge_predict


def recover_exponents(
    table: pd.DataFrame, feature_sets: Mapping[str, Sequence[str]], targets: Sequence[str] = ("a", "b")
) -> pd.DataFrame:
    """Predict each family's exponents from its features, every family left out in turn.

    Parameters
    ----------
    table : DataFrame
        One row per family: the columns of every feature set, and the known exponents.
    feature_sets : mapping
        Name -> columns; put the topology, the norms and spectra, and the loss curve side by side.
    targets : sequence of str
        Columns of the exponents.

    Returns
    -------
    DataFrame
        One row per (target, features): `mae` left out, `mean_mae` of predicting the other families' mean,
        `r` of predicted and true, `effect` = mean of |error| - |error of the mean| with its 95% interval, n,
        status and reason. An interval that reaches 0 means that nothing was recovered.
    """
    rows = []
    for target in targets:
        for name, columns in feature_sets.items():
            rows.append({"target": target, "features": name, **_left_out(table, list(columns), target)})
    return pd.DataFrame(rows)


def _left_out(table: pd.DataFrame, columns: list[str], target: str) -> dict[str, object]:
    nan = float("nan")
    empty = {"mae": nan, "mean_mae": nan, "r": nan, "effect": nan, "low": nan, "high": nan}
    missing = [column for column in [*columns, target] if column not in table]
    if missing:
        return {**empty, "n": 0, "status": "failed", "reason": f"no column {missing[0]!r}"}
    used = table[[*columns, target]].replace([np.inf, -np.inf], np.nan).dropna()
    if len(used) < 5:
        return {
            **empty,
            "n": len(used),
            "status": "failed",
            "reason": f"{len(used)} usable families; at least 5",
        }
    x, y = used[columns].to_numpy(float), used[target].to_numpy(float)
    predicted, by_mean = np.empty(len(y)), np.empty(len(y))
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        centre, spread = x[rest].mean(axis=0), np.maximum(x[rest].std(axis=0), 1e-12)
        z = (x - centre) / spread
        predicted[i] = ridge_predict(z[rest], y[rest], z[i : i + 1])[0]
        by_mean[i] = y[rest].mean()
    error, base = np.abs(predicted - y), np.abs(by_mean - y)
    gain = error - base
    half = float(stats.t.ppf(0.975, len(y) - 1) * gain.std(ddof=1) / np.sqrt(len(y)))
    r = float(np.corrcoef(predicted, y)[0, 1]) if np.ptp(predicted) > 0 and np.ptp(y) > 0 else nan
    return {
        "mae": float(error.mean()), "mean_mae": float(base.mean()), "r": r, "effect": float(gain.mean()),
        "low": float(gain.mean()) - half, "high": float(gain.mean()) + half, "n": len(y), "status": "ok",
        "reason": "",
    }  # fmt: skip
