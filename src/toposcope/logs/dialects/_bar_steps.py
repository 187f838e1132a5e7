"""The steps of training in bars that count batches of validation, too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from toposcope.logs.run import Run

BATCH, BEFORE, ENDS = "\0batch", "\0epochs before", "\0steps at the end"
"""Columns of the records of `progress_bar`."""


def in_steps(run: Run) -> Run:
    """Return a run whose bars count steps of training, by the steps that are stated at the end of epochs."""
    table = run.table
    if ENDS in table and BEFORE in table:
        first = float(table.loc[table[BEFORE] == 0, "epoch"].iloc[0])
        ends = table[table[ENDS].notna()]
        each = (ends[ENDS] / (ends["epoch"] - first + 1)).to_numpy(float)
        length = float(np.median(each))
        if np.abs(each - length).max(initial=0.0) < 1:  # else the run was resumed, or epochs differ
            step = np.minimum(table[BATCH], length) + table[BEFORE] * length
            table = table.assign(step=step.round().where(table[BATCH].notna(), table["step"]))
            rows = table["step"].groupby(table["epoch"]).cummax()  # an evaluation draws the bar anew
            table = table[(table["step"] >= rows) | table["epoch"].isna()]
    hidden = [name for name in (BATCH, BEFORE, ENDS) if name in table]
    return replace(run, table=table.drop(columns=hidden))
