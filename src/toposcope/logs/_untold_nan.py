"""Where a table in memory has NaN for a loss that was written as NaN: such a table cannot tell."""

from __future__ import annotations

import numpy as np
import pandas as pd

from toposcope.logs.run import nan_column

_LOSSES = ("loss", "heldout_loss")


def with_written_nan(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table in memory with marks where its loss counts as written as NaN, which it cannot tell.

    A NaN counts as written if its row has every number that all rows with a loss have, apart from the step
    and the epoch, no number that none of them has, and no held-out loss. So a summary (`train_runtime`) among
    records is none. Beside other numbers, only rows at the end count, more than in any gap before.

    >>> rows = [{"step": 1, "loss": 2.0, "lr": 0.1}, *({"step": k, "lr": 0.1} for k in (2, 3, 4))]
    >>> with_written_nan(pd.DataFrame(rows))["loss is nan"].tolist()
    [nan, 1.0, 1.0, 1.0]
    """
    name = next((loss for loss in _LOSSES if loss in table and table[loss].notna().any()), None)
    name = name or next((loss for loss in _LOSSES if loss in table), None)
    if name is None or nan_column(name) in table or table[name].notna().all():
        return table
    logged = table[name].notna().to_numpy()
    others = table.loc[logged, [c for c in table if c not in ("run", "step", "epoch", *_LOSSES)]].notna()
    beside = [c for c in others if len(others) and others[c].all()]
    apart = [c for c in others if len(others) and not others[c].any()]
    lost = ~logged & table[beside].notna().all(axis=1).to_numpy()
    lost &= table[apart].isna().all(axis=1).to_numpy()
    for other in _LOSSES:
        if other != name and other in table:
            lost &= table[other].isna().to_numpy()
    if not holds_losses_alone(table):
        lost &= _end_without(logged)
    return table.assign(**{nan_column(name): np.where(lost, 1.0, np.nan)}) if lost.any() else table


def _end_without(logged: np.ndarray) -> np.ndarray:
    """Return the rows after the last loss if they are more than two and than in any gap before; or none."""
    places = np.flatnonzero(logged)
    end = len(logged) - 1 - places[-1] if len(places) else len(logged)
    gap = int(np.diff(places).max()) - 1 if len(places) > 1 else 0
    return np.arange(len(logged)) >= len(logged) - (end if end > max(2, gap) else 0)


def holds_losses_alone(table: pd.DataFrame) -> bool:
    """Return whether a table logs nothing beside its losses, or no loss at all.

    There an empty cell is a NaN as pandas writes it: a record without a loss would have no reason. A single
    one in the last row is none: that row may still be written.
    """
    losses = [name for name in _LOSSES if name in table]
    if not losses or any(nan_column(name) in table for name in losses):
        return False
    absent = np.flatnonzero(table[losses].isna().all(axis=1).to_numpy())
    if absent.tolist() == [len(table) - 1]:
        return False
    others = [c for c in table if c not in ("run", "step", "epoch", *losses)]
    alone = all(table[c].nunique(dropna=False) == 1 for c in others)
    return alone or not table[losses].notna().to_numpy().any()
