"""The settings that the logs hold, and in which a run differs from its siblings.

A log has more than outcomes: each of its lines may hold the learning rate, the tokens so far or the size of
a batch. A column is a setting if the siblings agree on it at the steps that they share with the run. For a
column whose name says that it is a setting, more than half of them must agree, and any lasting difference
counts. For any other column all of them must, and the run's values must be theirs times one factor: an
outcome that happens to be equal in all siblings, such as the number of skipped steps, has no such factor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from toposcope.core.forms import step_text
from toposcope.logs.facts import SETTINGS
from toposcope.logs.meanings import SCALES, plain
from toposcope.logs.run import is_nan_column

APART = 0.01
"""Values of a setting that are this close, as a share of its largest one, are equal: logs round."""
LASTING = 2
"""The fewest steps at which a setting must differ: one row may be an artefact of a restart."""
FEWEST_STEPS = 3
"""The fewest shared steps of a column whose name does not say that it is a setting."""
_AS_PRINTED = 1e-6
"""All siblings must be this close in such a column: a setting is the same number in all of them."""
_OUTCOMES = frozenset({
    "loss", "losses", "norm", "norms", "grad", "gradient", "acc", "accuracy", "ppl", "perplexity",
    "reward", "rewards", "score", "entropy", "kl", "skipped", "nan", "nans", "inf", "infs", "overflow",
    "zero", "zeros", "clipped", "clip", "dropped", "scaler", "mem", "memory", "gb", "gib", "mb", "mib",
    "allocated", "reserved", "time", "date", "timestamp", "seconds", "second", "sec", "secs", "ms",
    "hours", "minutes", "eta", "elapsed", "runtime", "speed", "throughput", "tflops", "flops", "mfu",
    "gpu", "cpu", "util",
})  # fmt: skip
"""Words of the names of columns that report what training led to, or how fast the machine was."""
_KEYS = frozenset({"run", "step", "parameters", "planned_steps", "seed"})
_BY_NAME = {plain(key): label for label, keys in SETTINGS.items() for key in keys}
_BY_NAME |= {"learning_rate": "learning rate", **dict.fromkeys(SCALES, "learning rate")}
_TOKENS = "tokens per step"
_ALSO_STATED = {
    "learning rate": ("learning rate", "final learning rate", "warmup"),
    _TOKENS: ("batch size", "context"),
}
"""Settings of a configuration that already explain a difference in the log."""


@dataclass(frozen=True, slots=True)
class LoggedDifference:
    """A setting in which a run's log differs: its value and theirs at the step of the largest difference.

    `same_from` is the first step from which on they are equal again; None if they differ to the end.
    """

    label: str
    value: float
    theirs: float
    step: float
    same_from: float | None = None

    def __str__(self) -> str:
        """Return the setting with both values.

        >>> str(LoggedDifference("learning rate", 4.5e-4, 5e-5, 200.0))
        'learning rate is 4.5e-4 at step 200 (the others have 5e-5)'
        """
        again = "" if self.same_from is None else f"; the same from step {step_text(self.same_from)} on"
        theirs = f"(the others have {_shown(self.theirs)}{again})"
        return f"{self.label} is {_shown(self.value)} at step {step_text(self.step)} {theirs}"

    @property
    def ratio(self) -> float:
        """The run's value over theirs."""
        return self.value / self.theirs if self.theirs else np.inf


def logged_differences(
    mine: pd.DataFrame, others: Sequence[pd.DataFrame], stated: Collection[str] = ()
) -> list[LoggedDifference]:
    """Return the settings in which the log of a run differs from those of its siblings, the clearest first.

    Parameters
    ----------
    mine
        The rows of the run's log: step, and any further columns.
    others
        Those of its siblings.
    stated
        Settings whose difference is known from the files of the runs; they are not named twice.

    Examples
    --------
    >>> step = np.arange(1, 6)
    >>> rows = pd.DataFrame({"step": step, "learning_rate": 5e-5, "grad_norm": 1.0})
    >>> mine = rows.assign(learning_rate=4.5e-4, grad_norm=9.0)
    >>> [str(one) for one in logged_differences(mine, [rows, rows, rows])]
    ['learning rate is 4.5e-4 at step 1 (the others have 5e-5)']
    """
    differences: list[LoggedDifference] = []
    for label, name in _candidates(mine):
        if set(_ALSO_STATED.get(label, (label,))) & set(stated) or any(
            difference.label == label for difference in differences
        ):
            continue
        values = _of_column(mine, name)
        theirs = [_of_column(other, name) for other in others]
        difference = _difference(label, values, theirs, named=label == _TOKENS or plain(name) in _BY_NAME)
        # a column with the factor of another one, such as the epoch beside the batch, has the same cause
        if difference is not None and not any(
            abs(difference.ratio / was.ratio - 1) < APART for was in differences
        ):
            differences.append(difference)
    return differences


def _candidates(rows: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield the label and the name of each column that may be a setting: the best known first."""
    names = [str(name) for name in rows.select_dtypes("number") if not is_nan_column(name)]
    by_name = [name for name in names if plain(name) in _BY_NAME]
    yield from ((_BY_NAME[plain(name)], name) for name in sorted(by_name, key=lambda n: n != "learning_rate"))
    if "tokens" in names:
        yield _TOKENS, "tokens"
    for name in names:
        if (
            name not in by_name
            and name not in _KEYS | {"tokens"}
            and not _OUTCOMES & {*plain(name).split("_")}
        ):
            yield name, name


def _of_column(rows: pd.DataFrame, name: str) -> pd.Series:
    """Return the finite values of a column by step; of the tokens so far, those per step since the last row.

    Where a restart sets the counter of tokens back, there is no value.
    """
    if name not in rows or not len(rows):
        return pd.Series(dtype=float)
    steps, values = (rows[column].to_numpy(float, na_value=np.nan) for column in ("step", name))
    finite = np.isfinite(steps) & np.isfinite(values)
    series = pd.Series(values[finite], steps[finite])
    series = series[~series.index.duplicated(keep="last")].sort_index()
    if name != "tokens":
        return series
    gained = np.diff(series.to_numpy()) / np.diff(series.index.to_numpy())
    return pd.Series(gained, series.index[1:])[gained > 0]


def _difference(
    label: str, mine: pd.Series, others: Sequence[pd.Series], *, named: bool
) -> LoggedDifference | None:
    """Return how a setting differs; None if it does not, or if the column is none."""
    table = np.stack([other.reindex(mine.index).to_numpy(float) for other in others]) if len(mine) else None
    if table is None:
        return None
    shared = np.isfinite(table).sum(axis=0) > len(others) / 2
    if shared.sum() < (LASTING if named else FEWEST_STEPS):
        return None
    steps, values, table = mine.index.to_numpy(float)[shared], mine.to_numpy()[shared], table[:, shared]
    theirs = _agreed(table, every=not named)
    if theirs is None:
        return None
    gap = np.abs(values - theirs)
    largest = max(np.abs(values).max(), np.abs(theirs).max())
    apart = gap > APART * largest
    if apart.sum() < LASTING or not (named or _by_one_factor(values, theirs)):
        return None
    at = int(np.argmax(gap))
    # near the end of a decay both rates are near 0, and as far apart as their own sizes allow
    last = int(np.flatnonzero(gap > APART * np.maximum(np.abs(values), np.abs(theirs)))[-1])
    again = float(steps[last + 1]) if last + LASTING < len(steps) else None
    return LoggedDifference(label, float(values[at]), float(theirs[at]), float(steps[at]), again)


def _agreed(table: np.ndarray, *, every: bool) -> np.ndarray | None:
    """Return the value of the siblings (runs, steps) at each step; None where they do not agree.

    With `every`, all that have a value must agree, otherwise more than half of all siblings.
    """
    values = np.sort(table, axis=0)  # missing values last
    many = np.isfinite(values).sum(axis=0)
    # of sorted values that more than half share, the one in the middle is always one of them
    middle = np.take_along_axis(values, (many - 1)[None] // 2, axis=0)[0]
    largest = float(np.abs(middle).max())
    near = np.abs(table - middle) <= (_AS_PRINTED if every else APART / 2) * largest
    needed = many if every else len(table) // 2 + 1
    return middle if bool((near.sum(axis=0) >= needed).all()) else None


def _by_one_factor(values: np.ndarray, theirs: np.ndarray) -> bool:
    """Return whether the values of a run are those of its siblings times one factor at all steps."""
    at = int(np.argmax(np.abs(theirs)))
    if theirs[at] == 0:
        return False
    factor = values[at] / theirs[at]
    return bool((np.abs(values - factor * theirs) <= APART * np.abs(values).max()).all())


def _shown(value: float) -> str:
    """Return the value of a setting as it is written.

    >>> _shown(0.0045), _shown(65536.0), _shown(0.9), _shown(5e-05)
    ('4.5e-3', '65,536', '0.9', '5e-5')
    """
    if value.is_integer():
        return f"{int(value):,}"
    if abs(value) >= 1e-2:
        return f"{value:.3g}"
    digits, _, power = f"{value:.2e}".partition("e")
    return f"{digits.rstrip('0').rstrip('.')}e{int(power)}"
