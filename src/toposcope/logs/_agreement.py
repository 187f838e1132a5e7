"""Whether two logs are of one run: the losses that both state, to the digits that they print."""

from __future__ import annotations

import numpy as np
import pandas as pd

from toposcope.core.forms import step_text

LOSSES = ("loss", "heldout_loss")
LEAST = 3
"""The fewest losses at shared steps that show agreement; a log with fewer losses has to share all of them."""
_FLOAT32 = 2.0**-22
"""Relative error of a loss that was stored as float32 or summed in another order."""
_MOST_DIGITS = 12


def disagreement(first: pd.DataFrame, second: pd.DataFrame) -> str:
    """Return how two logs disagree, in words; empty if they agree.

    Two logs agree if at every step that both have, the losses are equal to the last digit that either of them
    prints, or if the log with fewer rows has there the mean of the other since its row before. With fewer
    than three shared losses, or three distinct ones, nobody can tell, and they do not agree.

    >>> dense = pd.DataFrame({"step": range(1, 7), "loss": [2.34567, 2.29871, 2.21113, 2.10047, 2.0511, 2.0]})
    >>> disagreement(dense, pd.DataFrame({"step": [2, 4, 6], "loss": [2.299, 2.1, 2.0]}))
    ''
    >>> disagreement(dense, pd.DataFrame({"step": [2, 4, 6], "loss": [2.3222, 2.1558, 2.0256]}))
    ''
    >>> disagreement(dense, pd.DataFrame({"step": [2, 4, 6], "loss": [2.4, 2.15, 2.03]}))
    'loss 2.29871 against 2.4 at step 2'
    >>> disagreement(dense, pd.DataFrame({"step": [7, 8], "loss": [2.1, 2.0]}))
    'no step in common'
    """
    compared = 0
    for column in LOSSES:
        mine, theirs = _losses(first, column), _losses(second, column)
        shared = mine.index.intersection(theirs.index)
        if not len(shared):
            continue
        difference = _differ(mine, theirs, shared, column)
        if difference:
            return difference
        distinct = min(len(np.unique(mine[shared])), len(np.unique(theirs[shared])))
        if min(len(shared), distinct) >= min(LEAST, len(mine), len(theirs)):
            compared += 1
    if compared:
        return ""
    shared_steps = set(first["step"]) & set(second["step"])
    return f"only {len(shared_steps):,} steps in common" if shared_steps else "no step in common"


def fullest(logs: list[pd.DataFrame]) -> int:
    """Return the place of the fullest log.

    Of the logs that reach the last step, to within one logging interval, it is the one with the most losses,
    then the most columns, then the finest digits.

    >>> dense = pd.DataFrame({"step": range(100), "loss": 2.0})
    >>> sparse = pd.DataFrame({"step": range(0, 105, 10), "loss": 2.0})
    >>> longer = pd.DataFrame({"step": range(0, 205, 10), "loss": 2.0})
    >>> fullest([sparse, dense]), fullest([dense, longer])
    (1, 1)
    """
    ends = [float(log["step"].max()) for log in logs]
    strides = [float(np.median(np.diff(np.unique(log["step"])))) if len(log) > 1 else 0.0 for log in logs]
    slack = max(strides)

    def rank(place: int) -> tuple[bool, int, int, float]:
        columns = int(logs[place].notna().any().sum())
        return ends[place] + slack >= max(ends), losses_in(logs[place]), columns, -_coarseness(logs[place])

    return max(range(len(logs)), key=rank)


def _coarseness(rows: pd.DataFrame) -> float:
    """Return the median unit of the last digit in which a log prints its losses."""
    losses = pd.concat([_losses(rows, column) for column in LOSSES])
    return float(np.median(_last_digit(losses))) if len(losses) else np.inf


def losses_in(rows: pd.DataFrame) -> int:
    """Return how many losses a log states, training and held-out."""
    return sum(int(rows[name].notna().sum()) for name in LOSSES if name in rows)


def _losses(rows: pd.DataFrame, column: str) -> pd.Series:
    """Return the finite losses by step; of several at a step, the last one."""
    if column not in rows:
        return pd.Series(dtype=float)
    losses = pd.Series(rows[column].to_numpy(float, na_value=np.nan), rows["step"].to_numpy(float))
    losses = losses[np.isfinite(losses)]
    return losses[~losses.index.duplicated(keep="last")].sort_index()


def _differ(mine: pd.Series, theirs: pd.Series, shared: pd.Index, column: str) -> str:
    """Return at which shared step the losses differ first; empty if they agree."""
    unit = np.maximum(_last_digit(mine[shared]), _last_digit(theirs[shared]))
    a, b = mine[shared].to_numpy(), theirs[shared].to_numpy()
    off = ~_equal(a, b, unit)
    if not off.any():
        return ""
    dense, sparse = (mine, theirs) if len(mine) > len(theirs) else (theirs, mine)
    if len(sparse) == len(shared) and _equal(_means(dense, shared), sparse[shared].to_numpy(), unit).all():
        return ""
    place = int(np.argmax(off))
    word = "loss" if column == "loss" else "held-out loss"
    return f"{word} {a[place]:.6g} against {b[place]:.6g} at step {step_text(float(shared[place]))}"


def _equal(a: np.ndarray, b: np.ndarray, unit: np.ndarray) -> np.ndarray:
    # one whole unit, because some trainers cut the last digit instead of rounding it
    equal: np.ndarray = np.abs(a - b) <= unit * (1 + 1e-6) + _FLOAT32 * np.abs(a)
    return equal


def _means(dense: pd.Series, ends: pd.Index) -> np.ndarray:
    """Return the mean of the losses up to each end since the end before.

    The first interval is as long as the second.
    """
    edges = ends.to_numpy(float)
    begin = edges[0] - (edges[1] - edges[0]) if len(edges) > 1 else -np.inf
    steps = dense.index.to_numpy(float)
    interval = np.searchsorted(edges, steps[steps > begin])
    return dense[steps > begin].groupby(interval).mean().reindex(range(len(edges))).to_numpy(float)


def _last_digit(losses: pd.Series) -> np.ndarray:
    """Return the unit of the last printed digit of each loss.

    A log prints a fixed number of decimals or of significant digits; the largest number of each that occurs
    is the log's, because zeros at the end are lost.
    """
    values = losses.to_numpy(float)
    texts = [np.format_float_positional(abs(value), trim="-") for value in values]
    decimals = max(len(text.partition(".")[2]) for text in texts)
    significant = max(len(text.replace(".", "").strip("0")) for text in texts)
    size = np.floor(np.log10(np.maximum(np.abs(values), 1e-300))) + 1
    by_significant = size - min(significant, _MOST_DIGITS)
    unit: np.ndarray = 10.0 ** np.maximum(-min(decimals, _MOST_DIGITS), by_significant)
    return unit
