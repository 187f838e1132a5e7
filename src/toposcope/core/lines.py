"""From a store's rows to a line with its interval, and to the band of a null."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from toposcope.core.distributions import student_quantile

LEVEL = 0.95
"""Coverage of every interval and null band made here."""
LEAST = 3
"""Fewer values give no interval: two give one degree of freedom, and Student's factor of 12.7 on their
distance says little of a quantity that cannot be negative."""


def select(
    features: pd.DataFrame,
    feature: str,
    *,
    probe: str,
    filtration: str | None = None,
    name: str | None = None,
    role: str | None = None,
    scope: str | None = None,
) -> pd.DataFrame:
    """Return the finite rows of one feature (columns as in the store's features table)."""
    keep = (features["feature"] == feature) & (features["probe"] == probe)
    for column, wanted in (("filtration", filtration), ("name", name), ("role", role), ("scope", scope)):
        if wanted is not None:
            keep &= features[column] == wanted
    chosen = features[keep]
    return chosen[np.isfinite(chosen["value"].to_numpy(dtype=np.float64))]


def of_column(features: pd.DataFrame, line: Mapping[Hashable, Any]) -> pd.DataFrame:
    """Return the finite long rows of a column of a series table; `line` is its line of the catalogue.

    Of several layers it is each run's last one.
    """
    rows = select(features, str(line["feature"]), probe=str(line["probe"]))
    for name, unnamed in (("filtration", ""), ("name", "model"), ("role", "model")):
        if name in rows:
            rows = rows[rows[name].fillna(unnamed).replace("", unnamed) == line[name]]
    if "layer" not in rows or rows["layer"].isna().all():
        return rows
    every = features[(features["probe"] == line["probe"]) & (features["name"] == line["name"])]
    return rows[rows["layer"] == rows["run"].map(every.groupby("run")["layer"].max())]


def curve(rows: pd.DataFrame, runs: tuple[str, ...]) -> pd.DataFrame:
    """Return the mean line of one size: columns step, mean, low, high, draws, seeds.

    Draws (random subsamples) are averaged first. The interval is Student's: with one run, of the mean over
    its draws; with several, of the mean over the seeds, which are the independent unit. With fewer than
    `LEAST` of them, low and high are NaN. Of several runs, only the steps that all of them have are used: the
    mean over fewer runs would jump although no run does. If the interval of values that are never negative
    would reach 0 anywhere on the line, all of it is mean * exp(-+ half / mean): the same to first order, and
    above 0.
    """
    return _line(_by_run(rows, runs))


def run_lines(rows: pd.DataFrame, runs: tuple[str, ...]) -> dict[str, pd.DataFrame]:
    """Return the line of each run of a size that was measured, as `curve` of it alone."""
    lines = {str(run): _line(own) for run, own in _by_run(rows, runs).groupby("run", sort=False)}
    return {run: lines[run] for run in runs if run in lines}


def _by_run(rows: pd.DataFrame, runs: tuple[str, ...]) -> pd.DataFrame:
    """Return the values of each step of each run over its draws: run, step, mean, std, count, min."""
    mine = rows[rows["run"].isin(runs)]
    return mine.groupby(["run", "step"])["value"].agg(["mean", "std", "count", "min"]).reset_index()


def _line(per_run: pd.DataFrame) -> pd.DataFrame:
    """Return the mean line over the runs of `per_run`, as `curve` does."""
    measured = per_run["run"].nunique()
    if measured > 1:
        grouped = per_run.groupby("step")["mean"].agg(["mean", "std", "count"])
        draws = per_run.groupby("step")["count"].min()
        shared = grouped["count"] == measured
        grouped, draws = grouped[shared], draws[shared]
        seeds = grouped["count"]
    else:
        grouped = per_run.set_index("step")[["mean", "std", "count"]].sort_index()
        draws, seeds = grouped["count"], grouped["count"].clip(upper=1)
    half = _half_width(grouped["std"], grouped["count"], of_mean=True)
    return pd.DataFrame(
        {
            "step": grouped.index.to_numpy(),
            "mean": grouped["mean"].to_numpy(),
            **_bounds(grouped["mean"], half, positive=bool((per_run["min"] >= 0).all())),
            "draws": draws.to_numpy(),
            "seeds": seeds.to_numpy(),
        }
    )


def at_shared_steps(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the mean over runs of each step that all runs of a cell (columns `by`) have: by, step, value.

    >>> rows = pd.DataFrame({"run": ["a", "a", "b"], "step": [0, 10, 0], "value": [1.0, 5.0, 2.0]})
    >>> at_shared_steps(rows, [])[["step", "value"]].to_numpy().tolist()
    [[0.0, 1.5]]
    """
    per_run = rows.groupby([*by, "step", "run"])["value"].mean().reset_index()
    cells = per_run.groupby([*by, "step"])["value"].agg(["mean", "count"]).reset_index()
    counts = per_run.groupby(list(by))["run"].nunique().rename("runs").reset_index() if by else None
    runs = cells.merge(counts, on=list(by))["runs"] if counts is not None else per_run["run"].nunique()
    shared = cells[cells["count"] == runs]
    return shared.rename(columns={"mean": "value"})[[*by, "step", "value"]].reset_index(drop=True)


def left_out_of_means(rows: pd.DataFrame, runs: tuple[str, ...]) -> dict[str, int]:
    """Return the runs of a size that end before another one's last step: the last step of each.

    >>> rows = pd.DataFrame({"run": ["a", "a", "b"], "step": [0, 10, 0], "value": 1.0})
    >>> left_out_of_means(rows, ("a", "b"))
    {'b': 0}
    """
    ends = rows[rows["run"].isin(runs)].groupby("run")["step"].max()
    return {str(run): int(step) for run, step in ends.items() if step < ends.max()}


def null_band(rows: pd.DataFrame, runs: tuple[str, ...]) -> pd.DataFrame:
    """Return where one more value of the null would fall: columns step, mean, low, high, draws.

    Each draw of the null is averaged over the runs of a size first, so that the band is comparable
    with the mean line of that size: over the steps and the draws that all measured runs have. The band is
    Student's prediction interval over the draws, NaN where there are fewer than `LEAST`; above 0 where its
    values are, as that of `curve`.
    """
    mine = rows[rows["run"].isin(runs)]
    cells = mine.groupby(["step", "draw"])["value"].agg(["mean", "count"])
    whole = cells.loc[cells["count"] == mine["run"].nunique(), "mean"]
    grouped = whole.groupby("step").agg(["mean", "std", "count"])
    half = _half_width(grouped["std"], grouped["count"], of_mean=False)
    return pd.DataFrame(
        {
            "step": grouped.index.to_numpy(),
            "mean": grouped["mean"].to_numpy(),
            **_bounds(grouped["mean"], half, positive=bool((mine["value"] >= 0).all())),
            "draws": grouped["count"].to_numpy(),
        }
    )


def _bounds(mean: pd.Series, half: pd.Series, *, positive: bool) -> dict[str, np.ndarray]:
    """Return mean -+ half; mean * exp(-+ half / mean) where values that are never negative need it."""
    middle, width = mean.to_numpy(float), half.to_numpy(float)
    low, high = middle - width, middle + width
    if positive and (low <= 0).any():
        share = np.divide(width, middle, out=np.where(np.isnan(width), np.nan, 0.0), where=middle > 0)
        low, high = middle * np.exp(-share), middle * np.exp(share)
    return {"low": low, "high": high}


def _half_width(std: pd.Series, count: pd.Series, *, of_mean: bool) -> pd.Series:
    repeated = count.where(count >= LEAST).astype(float)
    factor = 1.0 / repeated if of_mean else 1.0 + 1.0 / repeated
    quantile = student_quantile(0.5 + LEVEL / 2, repeated - 1.0)
    return pd.Series(quantile * std.to_numpy() * np.sqrt(factor.to_numpy()), index=std.index)
