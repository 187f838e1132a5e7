"""Predicts scaling exponents from features of the weights, against a prediction by the mean.

On synthetic families the exponents a and b of the spectra are known. On other runs the exponent is the one
that a power law with an offset fits to the run's own loss.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from toposcope.core.distributions import student_quantile
from toposcope.core.seeding import rng
from toposcope.core.types import Use
from toposcope.forecasting.siblings import ridge_predict
from toposcope.scaling.power_law import fit_power_law
from toposcope.study.table import SeriesTable
from toposcope.subjects.weights.features import WEIGHT_NORM

LEAST_UNITS = 5
"""Families or runs that an exponent is predicted over."""
PERMUTATIONS = 99
"""The number of shuffles: p = .01 is the smallest possible."""
SEEN = 0.5
"""Share of each run that is seen."""
_ALL_UP_TO = 5
"""Up to this many units, all orders are used: 5! is 120."""
_SETS = {"topology": Use.EXPONENT, "norms": Use.NORM}
_NORM = "weight_norm"
"""The norm that training logs; it replaces the measured one."""


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
        `r` of predicted and true, `effect` = mean of |error| - |error of the mean| with its 95% interval,
        `null_p` = how often shuffled targets are predicted as well (99 shuffles; all 120 of five families),
        n, status and reason. An interval that reaches 0 means that nothing was recovered.
    """
    rows = []
    for target in targets:
        for name, columns in feature_sets.items():
            rows.append({"target": target, "features": name, **_left_out(table, list(columns), target)})
    return pd.DataFrame(rows)


def _left_out(table: pd.DataFrame, columns: list[str], target: str) -> dict[str, object]:
    nan = float("nan")
    names = ("mae", "mean_mae", "r", "effect", "low", "high", "null_p")
    empty = dict.fromkeys(names, nan)
    missing = [column for column in [*columns, target] if column not in table]
    if missing:
        return {**empty, "n": 0, "status": "failed", "reason": f"no column {missing[0]!r}"}
    used = table[[*columns, target]].replace([np.inf, -np.inf], np.nan).dropna()
    if len(used) < LEAST_UNITS:
        return {
            **empty,
            "n": len(used),
            "status": "failed",
            "reason": f"{len(used):,} usable families; at least 5 are needed",
        }
    x, y = used[columns].to_numpy(float), used[target].to_numpy(float)
    predicted, by_mean = _predictions(x, y)
    error, base = np.abs(predicted - y), np.abs(by_mean - y)
    gain = error - base
    half = float(student_quantile(0.975, len(y) - 1) * gain.std(ddof=1) / np.sqrt(len(y)))
    r = float(np.corrcoef(predicted, y)[0, 1]) if np.ptp(predicted) > 0 and np.ptp(y) > 0 else nan
    return {
        "mae": float(error.mean()), "mean_mae": float(base.mean()), "r": r, "effect": float(gain.mean()),
        "low": float(gain.mean()) - half, "high": float(gain.mean()) + half, "null_p": _null_p(x, y, error),
        "n": len(y), "status": "ok", "reason": "",
    }  # fmt: skip


def _predictions(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return every target predicted from the others, by ridge on the features and by their mean."""
    predicted, by_mean = np.empty(len(y)), np.empty(len(y))
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        centre, spread = x[rest].mean(axis=0), np.maximum(x[rest].std(axis=0), 1e-12)
        z = (x - centre) / spread
        predicted[i] = ridge_predict(z[rest], y[rest], z[i : i + 1])[0]
        by_mean[i] = y[rest].mean()
    return predicted, by_mean


def _null_p(x: np.ndarray, y: np.ndarray, error: np.ndarray) -> float:
    n = len(y)
    if n <= _ALL_UP_TO:
        orders, reaching = [np.array(order) for order in itertools.permutations(range(n))], 0
    else:
        g = rng(name="exponent shuffles", n=n)
        orders, reaching = [g.permutation(n) for _ in range(PERMUTATIONS)], 1
    reached = [np.abs(_predictions(x, y[o])[0] - y[o]).mean() <= error.mean() + 1e-12 for o in orders]
    return (reaching + int(np.sum(reached))) / (reaching + len(orders))


def exponent_recovery(table: SeriesTable, *, seen: float = SEEN) -> pd.DataFrame:
    """Predict exponents from what features were over the first `seen` of training, each family left out.

    Where at least five families state their a and b (`toposcope synth` writes them), these are the targets
    and a family is its largest model. Elsewhere the unit is a run and the target the exponent of a power law
    with offset fitted to its whole loss. Feature sets: topology, norms and spectra, the loss curve, the size.
    Every series gives its last value seen (its logarithm where positive) and its slope per log step over the
    second half of what was seen.
    """
    points = _known_points(table)
    targets: tuple[str, ...] = ("a", "b")
    if points is None:
        points, targets = _fitted_points(table), ("time_exponent",)
    sets = _feature_sets(table)
    states = [_state(table.of_run(run), sets, seen) for run in points["run"]]
    wide = pd.concat([points.reset_index(drop=True), pd.DataFrame(states)], axis=1)
    columns = [str(column) for column in wide]
    named = {name: [c for c in columns if c.startswith(f"{name}:")] for name in sets}
    sizes = table.parameters()
    wide["size"] = [math.log(sizes[run]) if run in sizes else math.nan for run in wide["run"]]
    chosen: dict[str, list[str]] = {name: columns for name, columns in named.items() if columns}
    chosen["size"] = ["size"]
    return recover_exponents(wide, chosen, targets)


def _known_points(table: SeriesTable) -> pd.DataFrame | None:
    """Return family, run, a and b of the largest model of every family that states them; None below five."""
    rows = []
    sizes = table.parameters()
    for run in table.run_names:
        info = table.runs[table.runs["run"] == run] if "config" in table.runs else table.runs.iloc[:0]
        config = info["config"].iloc[0] if len(info) else "{}"
        config = json.loads(config) if isinstance(config, str) and config else config or {}
        if {"a", "b", "time_exponent"} <= set(config):
            family = str(info["family"].iloc[0])
            rows.append((family, run, sizes.get(run, 0), float(config["a"]), float(config["b"])))
    points = pd.DataFrame(rows, columns=["family", "run", "parameters", "a", "b"])
    points = points.sort_values("parameters", kind="stable").groupby("family", as_index=False).last()
    return points if len(points) >= LEAST_UNITS else None


def _fitted_points(table: SeriesTable) -> pd.DataFrame:
    rows = []
    for run in table.run_names:
        frame = table.of_run(run)
        frame = frame[frame["step"] > 0]
        loss = frame["loss"].to_numpy(float) if "loss" in frame else np.full(len(frame), np.nan)
        rows.append((run, fit_power_law(frame["step"].to_numpy(float), loss, offset=True).exponent))
    return pd.DataFrame(rows, columns=["run", "time_exponent"])


def _feature_sets(table: SeriesTable) -> dict[str, list[str]]:
    """Return set -> columns of the series table; one filtration and one cloud of each feature."""
    model = table.catalogue.set_index("column")
    sets = {
        name: list(map(str, model.loc[table.leads(use)].drop_duplicates("feature").index))
        for name, use in _SETS.items()
    }
    if _NORM in table.values and table.values[_NORM].notna().any():
        measured = f"/{WEIGHT_NORM.name}"
        sets["norms"] = [_NORM, *(column for column in sets["norms"] if not column.endswith(measured))]
    losses = [str(name) for name in ("loss_smooth", "loss") if name in table.targets]
    sets["loss"] = losses[:1]
    return sets


def _state(frame: pd.DataFrame, sets: Mapping[str, Sequence[str]], seen: float) -> dict[str, float]:
    """Return the last value and the late slope of every column over the first `seen` of a run."""
    out = {}
    frame = frame[frame["step"] <= seen * frame["step"].max()]
    for name, columns in sets.items():
        for column in columns:
            measured_rows = frame[["step", column]].dropna()
            value, slope = math.nan, math.nan
            if len(measured_rows) >= 3:
                series = measured_rows[column].to_numpy(float)
                series = np.log(series) if (series > 0).all() else series
                late = measured_rows["step"].to_numpy(float) >= min(
                    measured_rows["step"].max() / 2, measured_rows["step"].iloc[-3]
                )
                clock = np.log(measured_rows["step"].to_numpy(float)[late] + 1.0)
                value, slope = float(series[-1]), float(np.polyfit(clock, series[late], 1)[0])
            out[f"{name}:{column}"], out[f"{name}:{column}:slope"] = value, slope
    return out
