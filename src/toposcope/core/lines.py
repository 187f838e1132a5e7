"""From one value for each run and step to the mean line of a model size, with its interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from toposcope.core.distributions import student_quantile

LEVEL = 0.95
"""Coverage of every interval and null band made here."""
LEAST = 3
"""Fewer values give no interval: two give one degree of freedom, and Student's factor of 12.7 on their
distance says little of a quantity that cannot be negative."""


def half_width(sd: ArrayLike, n: ArrayLike, *, of_mean: bool = True) -> np.ndarray:
    """Return half of Student's interval of a mean over `n` values whose standard deviation is `sd`.

    With `of_mean` false, of the prediction interval of one more value. NaN for fewer than `LEAST` values.

    >>> half_width(1.0, [2, 4]).round(2).tolist()
    [nan, 1.59]
    """
    count = np.asarray(n, dtype=np.float64)
    count = np.where(count >= LEAST, count, np.nan)
    factor = 1.0 / count if of_mean else 1.0 + 1.0 / count
    return student_quantile(0.5 + LEVEL / 2, count - 1.0) * np.asarray(sd, np.float64) * np.sqrt(factor)


def one_value_each(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return a column of a log as `curve` takes it: nothing was drawn, and a repeated step is averaged.

    >>> table = pd.DataFrame({"run": "a", "step": [0, 1, 1], "loss": [3.0, 2.0, 1.0]})
    >>> one_value_each(table, "loss")[["step", "value"]].to_numpy().tolist()
    [[0.0, 3.0], [1.0, 1.5]]
    """
    means = table.groupby(["run", "step"])[column].mean().rename("value").reset_index()
    return means.assign(sd=np.nan, least=means["value"], n=1)


def curve(values: pd.DataFrame, runs: tuple[str, ...]) -> pd.DataFrame:
    """Return the mean line of one size: columns step, mean, low, high, draws, seeds.

    `values` has one row for each run and step: run, step, value, sd, n and least, as
    `toposcope.store.draws.over_draws` returns them. The interval is Student's: with one run, of the mean over
    its draws; with several, of the mean over the seeds, which are the independent unit. With fewer than
    `LEAST` of them, low and high are NaN. Of several runs, only the steps that all of them have are used: the
    mean over fewer runs would jump although no run does. If the interval of values that are never negative
    would reach 0 anywhere on the line, all of it is mean * exp(-+ half / mean): the same to first order, and
    above 0.
    """
    return _line(values[values["run"].isin(runs)])


def run_lines(values: pd.DataFrame, runs: tuple[str, ...]) -> dict[str, pd.DataFrame]:
    """Return the line of each run of a size that was measured, as `curve` of it alone."""
    mine = values[values["run"].isin(runs)]
    lines = {str(run): _line(rows) for run, rows in mine.groupby("run", sort=False)}
    return {run: lines[run] for run in runs if run in lines}


def _line(values: pd.DataFrame) -> pd.DataFrame:
    """Return the mean line over the runs of `values`, as `curve` does."""
    measured = values["run"].nunique()
    if measured > 1:
        grouped = values.groupby("step")["value"].agg(["mean", "std", "count"])
        draws = values.groupby("step")["n"].min()
        shared = grouped["count"] == measured
        grouped, draws = grouped[shared], draws[shared]
        seeds = grouped["count"]
    else:
        named = {"value": "mean", "sd": "std", "n": "count"}
        grouped = values.set_index("step")[list(named)].rename(columns=named).sort_index()
        draws, seeds = grouped["count"], grouped["count"].clip(upper=1)
    half = half_width(grouped["std"], grouped["count"])
    return pd.DataFrame(
        {
            "step": grouped.index.to_numpy(),
            "mean": grouped["mean"].to_numpy(),
            **bounds(grouped["mean"], half, positive=bool((values["least"] >= 0).all())),
            "draws": draws.to_numpy(),
            "seeds": seeds.to_numpy(),
        }
    )


def at_shared_steps(values: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the mean over runs of each step that all runs of a cell (columns `by`) have: by, step, value.

    `values` has one value for each run, step and cell.

    >>> values = pd.DataFrame({"run": ["a", "a", "b"], "step": [0, 10, 0], "value": [1.0, 5.0, 2.0]})
    >>> at_shared_steps(values, [])[["step", "value"]].to_numpy().tolist()
    [[0.0, 1.5]]
    """
    cells = values.groupby([*by, "step"])["value"].agg(["mean", "count"]).reset_index()
    counts = values.groupby(list(by))["run"].nunique().rename("runs").reset_index() if by else None
    runs = cells.merge(counts, on=list(by))["runs"] if counts is not None else values["run"].nunique()
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


def bounds(mean: pd.Series, half: np.ndarray, *, positive: bool) -> dict[str, np.ndarray]:
    """Return mean -+ half; mean * exp(-+ half / mean) where values that are never negative need it."""
    middle = mean.to_numpy(float)
    low, high = middle - half, middle + half
    if positive and (low <= 0).any():
        share = np.divide(half, middle, out=np.where(np.isnan(half), np.nan, 0.0), where=middle > 0)
        low, high = middle * np.exp(-share), middle * np.exp(share)
    return {"low": low, "high": high}
