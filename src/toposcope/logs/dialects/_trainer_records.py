"""transformers' Trainer as it prints: `{'loss': 2.31, 'learning_rate': 5e-05, 'epoch': 0.1}`.

The records have no step. It comes from the progress bar of training (`| 500/10000 [`), which is the one whose
count rises with the records: bars of loading, of a dataset and of an evaluation do not. Without such a bar,
it follows from the epoch and the planned steps (`Num Epochs = 3`, `Total optimization steps = 1,000`, or a
bar and the last epoch). Without these, records are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from toposcope.logs.dialects.pairs import NUMBER, STEP, pairs
from toposcope.logs.records import NOT_A_NUMBER, PLANNED, TRAINING, Record, number
from toposcope.logs.run import Run

COUNTED = "record"
"""The name of the step if records are counted."""
_RECORD = re.compile(
    r"\{'(?:loss|eval_loss|train_runtime)'\s*:.*?\}|(?:\{[^{}]*'(?:step|global_step|iter|iteration)'\s*:\s*\d+[^{}]*)?"
    r"\{[^{}]*'(?:loss|eval_loss)'\s*:[^{}]*\}"
)
_PAIR = re.compile(rf"'(?P<name>[^']{{1,80}})'\s*:\s*'?(?P<number>{NUMBER})'?\s*(?=[,}}])")
_OF_STEPS = re.compile(rf"'([a-z]{{0,9}}_?step)/[a-z_]{{1,20}}'\s*:\s*'({STEP})/({STEP})'")
"""ms-swift's step and plan: `'global_step/max_steps': '4370/58114'`."""
_BAR = re.compile(rf"\|\s*({STEP})/({STEP})\s*\[")
_NAMED = re.compile(r"[\w)]\s?:\s{1,4}\d{1,3}%\|[^|]{0,400}$")
"""A bar with a name before it, such as `Loading checkpoint shards: 100%|`, is not the Trainer's."""
_EPOCHS = re.compile(rf"\bNum Epochs\s*=\s*({NUMBER})")
_TOTAL = re.compile(rf"\bTotal optimization steps\s*=\s*({NUMBER})")
_BARS = 64
"""So many bars of different lengths are followed."""
_MARK, _LAST, _STATED = "\0bar ", "\0last epoch", "\0stated"
_MOST = 0.9
"""Nearly all records: the last one may stand at the end of training."""
_ROUNDED = 0.02
"""Epochs are printed with two decimals, and some trainers print a record a second time with all."""
_FINE = 1e-9
"""The relative error of an epoch that is printed with all its digits."""
_RISING = 0.5
"""A bar is that of training if it rises between at least this share of the records."""


class _Bars:
    """The count of each bar, by its length, and the plan that is printed before training."""

    def __init__(self) -> None:
        self.counts: dict[str, float] = {}
        self.plan: dict[str, float] = {}

    def look(self, line: str) -> None:
        """Read the bars in a line, or the plan."""
        if "Num Epochs" in line and (bar_match := _EPOCHS.search(line)):
            self.plan["\0epochs"] = number(bar_match[1])
        if "Total optimization" in line and (bar_match := _TOTAL.search(line)):
            self.plan[_STATED] = number(bar_match[1])
        if "/" in line and "[" in line:
            for found in _BAR.finditer(line):
                name = f"{_MARK}{found[2]}"
                before = line[max(0, found.start() - 460) : found.start()]
                if ":" in before and _NAMED.search(before):
                    continue
                if name in self.counts or len(self.counts) < _BARS:
                    self.counts[name] = float(found[1])


def records(lines: Iterable[str]) -> Iterator[Record]:
    """Yield the numbers of each printed record; of the summary at the end of training only its epoch."""
    bars = _Bars()
    for line in lines:
        at = 0
        for match in _RECORD.finditer(line) if "loss'" in line else ():
            bars.look(line[at : match.start()])
            at = match.end()
            values = pairs(match[0], _PAIR)
            if "step/" in match[0] and (steps := _OF_STEPS.search(match[0])):
                values[steps[1]], bars.plan[_STATED] = float(steps[2]), float(steps[3])
            if "train_runtime" in values:
                yield {_LAST: values.get("epoch", np.nan)}
            else:
                if (loss := values.get("loss", 0.0)) != loss:
                    values[NOT_A_NUMBER] = 1.0
                yield {**values, **bars.counts, **bars.plan}
        bars.look(line[at:])


def with_steps(run: Run) -> Run:
    """Return a run with the step of each record, and without what only says it."""
    table = run.table
    logged = table["loss"].notna() if "loss" in table else pd.Series(True, table.index)
    if NOT_A_NUMBER in table:
        logged |= table[NOT_A_NUMBER].notna()
    visible = [column for column in table if not str(column).startswith("\0")]
    summary = table[visible].isna().all(axis=1) & ~logged
    epoch = table["epoch"].to_numpy(float) if "epoch" in table else np.zeros(0)
    if not (np.diff(epoch[np.isfinite(epoch)]) < 0).any():
        return replace(run, table=_of_training(table, summary, logged).reset_index(drop=True))
    from toposcope.logs.starts import trainings

    loss = table["loss"].to_numpy(float) if "loss" in table else None
    number = trainings(epoch, loss, logged.to_numpy(), np.cumsum(summary), apart=_ROUNDED)
    run_parts = [
        _of_training(table.iloc[rows].drop(columns=still), summary.iloc[rows], logged.iloc[rows])
        for rows, still in _with_bars(table, number)
    ]
    if len(run_parts) == 1:
        return replace(run, table=run_parts[0].reset_index(drop=True))
    if any("step" in part for part in run_parts):
        run_parts = [part.rename(columns={COUNTED: "step"}) for part in run_parts]
    parts = [part.assign(**{TRAINING: float(k)}) for k, part in enumerate(run_parts)]
    return replace(run, table=pd.concat(parts, ignore_index=True))


def _with_bars(table: pd.DataFrame, number: np.ndarray) -> Iterator[tuple[np.ndarray, list[str]]]:
    """Yield the rows of each training, and the bars that stood still in it: they are of another one."""
    bars = [str(column) for column in table if str(column).startswith(_MARK)]
    counts = table[bars].ffill().fillna(-1.0).to_numpy(float)
    lengths = np.array([float(bar.removeprefix(_MARK)) for bar in bars])
    before = np.full(len(bars), -1.0)
    for k in range(int(number.max()) + 1):
        rows = np.flatnonzero(number == k)
        after = rows[-1] + 1
        last = counts[rows[-1]]
        drawn = (counts[rows] != before).any(axis=0)
        # a bar that stands at its end when the next training begins was drawn to its end in this one
        late = (counts[after] == lengths) & (last < lengths) if after < len(table) else lengths < 0
        yield rows, [bar for bar, is_own in zip(bars, drawn | late, strict=True) if not is_own]
        before = np.where(late, lengths, last)


def _of_training(table: pd.DataFrame, summary: pd.Series, logged: pd.Series) -> pd.DataFrame:
    """Return the records of one training with their steps, and without what only says them."""
    own_columns = table[[column for column in table if not str(column).startswith("\0")]]
    epochs = _epochs(table, summary)
    table, own_columns, trained = table[~summary], own_columns[~summary].copy(), logged[~summary].to_numpy()
    total = _last(table, _STATED)
    if stated := next((name for name in ("step", "global_step") if name in own_columns), None):
        name, step = "step", own_columns[stated].to_numpy(float)
    elif bar := _training_bar(table, trained, total):
        count = table[bar].fillna(0.0).to_numpy(float)
        total = total or float(bar.removeprefix(_MARK))
        fine = _by_fine_epoch(table, count, trained, total)
        name, step = "step", _ended(count, trained) if fine is None else fine
    else:
        name, step, total = _by_epoch(table, trained, epochs, total)
    own_columns[name] = step
    if total:
        own_columns[PLANNED] = total
    return own_columns


def _epochs(table: pd.DataFrame, summary: pd.Series) -> float:
    """Return the number of epochs that is stated before training, or after it; 0 if neither is."""
    return _last(table, "\0epochs") or _last(table[summary], _LAST)


def _last(table: pd.DataFrame, name: str) -> float:
    values = table[name].dropna().to_numpy(float) if name in table else np.zeros(0)
    return float(values[-1]) if len(values) else 0.0


def _training_bar(table: pd.DataFrame, trained: np.ndarray, total: float) -> str:
    """Return the bar whose count rises with the records of training; empty if none does."""
    rising: dict[str, float] = {}
    for name in (str(column) for column in table if str(column).startswith(_MARK)):
        counts = table[name].fillna(0.0).to_numpy(float)[trained if trained.any() else slice(None)]
        rises = float((np.diff(counts) > 0).mean()) if len(counts) > 1 else float(counts.any())
        if rises >= _RISING:
            rising[name] = rises
    return max(
        rising,
        key=lambda name: (
            float(name.removeprefix(_MARK)) == total,
            rising[name],
            float(name.removeprefix(_MARK)),
        ),
        default="",
    )


def _ended(count: np.ndarray, trained: np.ndarray) -> np.ndarray:
    """Return the steps of records: a bar that stands one short of every multiple has not ended the step yet.

    >>> _ended(np.array([9.0, 19.0, 29.0, 39.0]), np.ones(4, bool)).tolist()
    [10.0, 20.0, 30.0, 40.0]
    """
    rises = np.diff(count[trained])
    strides, counts = np.unique(rises[rises > 0], return_counts=True)
    stride = strides[counts.argmax()] if len(strides) else 1.0
    late = stride > 1 and ((count[trained] + 1) % stride == 0).mean() >= _MOST
    return count + 1 if late else count


def _by_fine_epoch(
    table: pd.DataFrame, count: np.ndarray, trained: np.ndarray, total: float
) -> np.ndarray | None:
    """Return the steps that epochs printed with all decimals say; None if they differ from the bar's by two.

    A bar is drawn now and then, and may stand one step behind the record.
    """
    epoch = table["epoch"].to_numpy(float) if "epoch" in table else np.full(len(table), np.nan)
    rows = np.flatnonzero(trained & (epoch > 0))
    if not len(rows) or len(rows) < trained.sum():
        return None
    length = float(np.median(count[rows] / epoch[rows]))  # the steps of an epoch
    epochs = max(round(total / length), 1) if length else 1
    step = epoch * total / epochs
    exact = np.abs(step - np.round(step))[rows] < _FINE * np.maximum(step[rows], 1.0)
    if not exact.all() or (np.abs(step - count)[rows] < 1.5).mean() < _MOST:
        return None
    return np.where(np.isfinite(step), np.round(step), count)


def _by_epoch(
    table: pd.DataFrame, trained: np.ndarray, epochs: float, total: float
) -> tuple[str, np.ndarray, float]:
    """Return the name of the step, its values, and the planned steps, from the epochs of the records."""
    counted = np.cumsum(trained).astype(float)
    epoch = table["epoch"].to_numpy(float) if "epoch" in table else np.zeros(len(table))
    lengths = [float(str(c).removeprefix(_MARK)) for c in table if str(c).startswith(_MARK)]
    if not total and epochs and lengths and np.nanmax(epoch, initial=0.0) > 0:
        total = max(lengths)  # records that were held back until the bar had ended
    if not total or not epochs or not epoch.any():
        return COUNTED, counted, total
    step = epoch / epochs * total
    stride = round(step[trained][-1] / trained.sum()) if trained.any() else 0
    # Epochs are printed with two decimals, so that a step is known to half of the second one.
    off = np.abs(counted[trained] * stride - step[trained])
    if stride and (off <= 1 + 0.006 * total / epochs).all():
        return "step", np.where(trained, counted * stride, np.round(step)), total
    return "step", np.round(step), total
