"""Plain tables made elsewhere: what describes their runs, and the targets that can be worked out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from toposcope.analysis.efficiency import FLOP_PER_PARAMETER_TOKEN, TARGETS, local_slope
from toposcope.analysis.table import SeriesTable, from_frame

DESCRIBES = ("family", "parameters", "seed", "schedule", "corpus")
"""Columns that describe a run: constant along it, never features."""


def plain_table(frame: pd.DataFrame, targets: Sequence[str] = ()) -> SeriesTable:
    """Return the series table of a plain one: columns step, features and targets, run and what describes it.

    The named targets and the known ones among the columns become targets, the others features. Where `gap`,
    `efficiency` or `efficiency_flop` is asked for and absent, it is worked out: held-out minus training loss;
    -dL/dlog tokens (log steps without tokens); the same per FLOP, 6 N per token.

    Raises
    ------
    InputError
        If `step` or a target is absent and cannot be worked out.

    Examples
    --------
    >>> step = np.arange(1.0, 40.0)
    >>> frame = pd.DataFrame({"step": step, "loss": 5 - 0.3 * np.log(step), "mine": step, "seed": 1})
    >>> table = plain_table(frame, ("efficiency",))
    >>> table.targets, table.columns(), round(float(table.values["efficiency"].iloc[20]), 6)
    (('loss', 'efficiency'), ['mine'], 0.3)
    """
    frame = frame.copy()
    if "run" not in frame:
        frame["run"] = "run"
    for target in targets:
        if target not in frame and "step" in frame:
            frame = _with(frame, target)
    described = [name for name in DESCRIBES if name in frame and name not in targets]
    runs = frame[["run", *described]].drop_duplicates("run").reset_index(drop=True)
    known = [name for name in ("loss", "heldout_loss", *TARGETS) if name in frame]
    wanted = list(dict.fromkeys([*known, *targets])) or ["loss"]
    return from_frame(frame.drop(columns=described), targets=wanted, runs=runs)


def _with(frame: pd.DataFrame, target: str) -> pd.DataFrame:
    if target == "gap" and {"loss", "heldout_loss"} <= set(frame):
        return frame.assign(gap=frame["heldout_loss"] - frame["loss"])
    needs = {"efficiency": {"loss"}, "efficiency_flop": {"loss", "tokens", "parameters"}}
    if target not in needs or not needs[target] <= set(frame):
        return frame
    clock = "tokens" if "tokens" in frame else "step"
    frame = frame.assign(**{target: np.nan})
    for _, rows in frame.sort_values("step").groupby("run", sort=False):
        x = rows[clock].to_numpy(float)
        gain = -local_slope(x, rows["loss"].to_numpy(float), x)[0]
        if target == "efficiency_flop":
            with np.errstate(divide="ignore", invalid="ignore"):
                gain = gain / (FLOP_PER_PARAMETER_TOKEN * rows["parameters"].to_numpy(float) * x)
        frame.loc[rows.index, target] = np.where(np.isfinite(gain), gain, np.nan)
    return frame
