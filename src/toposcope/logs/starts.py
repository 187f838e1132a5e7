"""Where another run begins in a log: by step, loss, plan, or a counter. All other falls are restarts."""

from __future__ import annotations

import numpy as np
import pandas as pd

from toposcope.logs.records import BEGINS_AGAIN, PLANNED, TRAINING, parts

_COUNTERS = frozenset(["epoch", "epochs", "episode", "episodes", "game", "round"])
"""Columns that count beside the step."""
_LEAST = 5
"""The fewest losses of a run that say at which level it began and where it stood."""
_FAR_BACK = 0.5
"""Below this share of the last step no loss goes on as it was: restarts use one of the latest checkpoints."""
_LAST = 3
"""So many losses say where a run has come to."""


def run_numbers(table: pd.DataFrame) -> np.ndarray:
    """Return the run number (0, 1, ...) of each row of a table under canonical names.

    Another run begins where the step falls to the first one or below a tenth of the last (`parts`). It also
    begins where the step falls and the run before had reached its planned end, or the loss is not that of a
    checkpoint (`is_elsewhere`); where a counter beside the step begins again; and at a first step that comes
    again with another loss. All other falls are restarts.

    >>> rows = pd.DataFrame({"step": [1, 1, 2, 3, 1, 1], "loss": [9.0, 8.5, 4.0, 3.0, 8.0, 9.0]})
    >>> run_numbers(rows).tolist()
    [0, 1, 1, 1, 2, 3]
    >>> rows = pd.DataFrame({"step": [50, 100, 150, 100, 150], "loss": 2.0, PLANNED: [150.0] * 3 + [900] * 2})
    >>> run_numbers(rows).tolist()
    [0, 0, 0, 1, 1]
    """
    if TRAINING in table:
        return table[TRAINING].to_numpy(np.int64)
    step = table["step"].to_numpy(float)
    if not (np.diff(step) <= 0).any():
        return np.zeros(len(table), np.int64)
    if (counted := _by_counter(table, step)) is not None:
        return counted
    loss = table["loss"].to_numpy(float) if "loss" in table else np.full(len(table), np.nan)
    planned = table[PLANNED].to_numpy(float) if PLANNED in table else np.full(len(table), np.nan)
    begins = np.diff(parts(step), prepend=0) > 0
    rows = np.flatnonzero(np.isfinite(loss))
    begin = 0
    for place in np.flatnonzero(np.diff(step[rows]) < 0) + 1:
        at = rows[place]
        begin = max(begin, int(np.flatnonzero(begins[: at + 1]).max(initial=0)))
        run_rows = rows[(rows >= begin) & (rows < at)]
        if not begins[rows[place - 1] + 1 : at + 1].any() and len(run_rows) > 1:
            reached = _reached(step[run_rows], planned[run_rows])
            begins[at] = reached or is_elsewhere(step[run_rows], loss[run_rows], step[at], loss[at])
    return np.cumsum(begins | _first_again(step, loss, rows, begins))


def _reached(step: np.ndarray, planned: np.ndarray) -> bool:
    """Return whether a run had reached its planned end; steps may count from 0."""
    stated = planned[np.isfinite(planned)]
    return bool(len(stated)) and step.max() >= stated[-1] - (step[0] == 0) > 0


def _first_again(step: np.ndarray, loss: np.ndarray, rows: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """Return where the first step of a run comes again with another loss: a run of one record was before.

    That is so only where no other step comes twice, and several runs begin.
    """
    again = np.zeros(len(step), bool)
    steps_of_rows, values = step[rows], loss[rows]
    twice = np.flatnonzero((np.diff(steps_of_rows) == 0) & (np.diff(values) != 0)) + 1
    first = np.cumsum(begins)[rows]
    starts = steps_of_rows[np.searchsorted(first, first)]  # the first step of the run of each record
    if (steps_of_rows[twice] == starts[twice]).all() and len(twice) + begins.sum() > 1:
        again[rows[twice]] = True
    return again


def _by_counter(table: pd.DataFrame, step: np.ndarray) -> np.ndarray | None:
    """Return the run of each row by a counter that rises with every row or begins again; None without one.

    Most of its begins must be falls of the step, and all falls of the step its begins.
    """
    falls = np.diff(step) < 0
    for column in (c for c in table if str(c).lower() in _COUNTERS):
        values = pd.to_numeric(table[column], errors="coerce").to_numpy(float)
        begins = values[1:] == values[0]
        rises = np.diff(values) > 0
        agree = falls.any() and not (falls & ~begins).any() and 2 * falls.sum() >= begins.sum()
        if agree and (begins | rises).all():
            return np.cumsum(np.r_[False, begins])
    return None


def trainings(
    epoch: np.ndarray, loss: np.ndarray | None, logged: np.ndarray, ended: np.ndarray, *, apart: float
) -> np.ndarray:
    """Return the number of the training (0, 1, ...) of each record that states an epoch and no step.

    Another one begins where the epoch falls after the summary of a training, to the first epoch, or below a
    tenth of the last, or where its loss there is not that of a checkpoint.

    Parameters
    ----------
    epoch, loss
        Of each record (records,); NaN where it has none.
    logged
        Which records log a training loss.
    ended
        How many summaries of trainings stand up to each record.
    apart
        Epochs that differ by less are one: they are rounded.
    """
    begins = np.zeros(len(epoch), bool)
    summary = np.diff(ended, prepend=0) > 0
    rows = np.flatnonzero(logged & np.isfinite(epoch))
    begin = 0
    for place in np.flatnonzero(np.diff(epoch[rows]) < 0) + 1:
        last, at, before = rows[place - 1], rows[place], rows[begin:place]
        first, top = epoch[before[0]], epoch[before].max()
        returns = epoch[at] <= first + apart / 2 and top > first + apart
        if top - epoch[at] > apart and loss is not None:
            returns |= is_elsewhere(epoch[before], loss[before], epoch[at], loss[at])
        if ended[at] > ended[last] or returns or epoch[at] < min(BEGINS_AGAIN * top, top - apart):
            between = np.arange(last + 1, at + 1)
            summaries = between[
                (ended[between] == ended[at]) & ~summary[between] & (epoch[between] <= epoch[at])
            ]
            begins[summaries[0]], begin = True, int(place)
    return np.cumsum(begins)


def is_elsewhere(step: np.ndarray, loss: np.ndarray, again: float, value: float) -> bool:
    """Return whether a loss at the step `again` cannot come from a checkpoint of a run there.

    It then is nearer to the run's first loss than to any since that step (a new model), or, far back, nearer
    to each of the last losses than to any until that step (the last weights, trained anew). Where the run
    diverged or the levels are not apart, it may be a restart.

    >>> steps, losses = np.arange(6.0), np.array([9, 7, 5, 4, 3, 2.0])
    >>> [is_elsewhere(steps, losses, 2, value) for value in (8.5, 5.2, 4.6)]
    [True, False, False]
    >>> is_elsewhere(np.arange(9.0), np.array([9, 8, 7, 6, 5, 4, 2.1, 2.1, 2.0]), 1, 2.2)
    True
    """
    since, until = loss[step >= again], loss[step <= again]
    if len(loss) < _LEAST or not len(since) or not len(until):
        return False
    highest, lowest, last = since.max(), until.min(), loss[-_LAST:].max()
    high = loss[0] > highest and value - highest > loss[0] - value
    low = again < _FAR_BACK * step[-1] and last < lowest and value - last < lowest - value
    return bool(high or low)


def without_copies(table: pd.DataFrame, name: str, notes: list[str]) -> pd.DataFrame:
    """Return a table without rows after a fall of the step that repeat earlier ones and end before the last.

    A restart trains the steps again, so its rows are others, or go on to the last step.
    """
    if "step" not in table or TRAINING in table:
        return table
    step = table["step"].to_numpy(float)
    if not (np.diff(step) < 0).any():
        return table
    copy = table.duplicated().to_numpy()
    gone = np.zeros(len(table), bool)
    for rows in (
        table.groupby("run", sort=False).indices.values() if "run" in table else [np.arange(len(table))]
    ):
        falls = np.flatnonzero(np.diff(step[rows]) < 0) + 1
        for at in falls[copy[rows[falls]]]:
            before = step[rows[:at]]
            later = np.flatnonzero((step[rows[at:]] > before.max()) | (np.diff(step[rows[at - 1 :]]) < 0))
            end = at + (later[later > 0].min() if (later > 0).any() else len(rows) - at)
            gone[rows[at:end]] |= copy[rows[at:end]].all() and step[rows[end - 1]] < before.max()
    if not gone.any():
        return table
    notes.append(f"{name}: {int(gone.sum()):,} rows that repeat earlier ones left out")
    return table[~gone].reset_index(drop=True)
