"""Finds columns of a plain table without information of their own: functions of a target, or of the step.

A column is a function of a target if one of these holds over all runs together, up to rounding:

- order: it rises and falls with the target (or against it) at every pair of rows, along one curve, and the
  target moves against its overall course at `LEAST_TURNS` pairs of neighbouring steps or more. Another noisy
  quantity would not do so at every one of them.
- form: the column, or its logarithm, is a line in the target, or in the target's logarithm, exponential or
  reciprocal.

- history: it is the running minimum, maximum or mean of the target, the mean of a window, an exponential
  average, or the target some rows earlier or later (`logs/_history_copies.py`).

- name: every word of it says training loss, however it was averaged.

So two smooth curves that only fall are not functions of each other by their order alone, and a held-out loss
is not a function of the loss. A column is a function of the step if one of these holds:

- in every run it is a line in the step or its logarithm, stairs of equal height and length, or a line that
  starts again;
- several runs whose targets differ have the same value at the same step;
- it is a clock: every word of its name means time, tokens or a count, or its values are Unix times, and it
  only rises or only falls, except at restarts.

A clock that goes both ways measures speed (milliseconds a step, tokens per second). It is left out, too.

The limits are judged by the copies, and by the quantities that are none, of
tests/study/test_copied_columns.py. Half and double of each are judged in docs/evidence/benchmarks-limits.csv
(`python -m benchmarks.limits copies`): as they are, 8 of 360 other columns are called copies, all of 7 rows
or of two digits, and 340 of 360 copies are found. Half of `_SLACK` finds 278, double calls 38 others copies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

import numpy as np
import pandas as pd

from toposcope.logs.meanings import meaning

LEAST_TURNS = 5
"""Two unrelated series of 51 values share this many turns in less than one case in a million."""
_BETWEEN, _MOST = 0.05, 0.75
"""Most values of a curve lie this near to the line between their neighbours, as a share of the distance."""
LEAST_ROWS = 5
LEAST_LEVELS = 4
"""With fewer rows of a run, or fewer levels of a column in steps, agreement proves no copy."""
_SINGLE = 4e-7
"""Relative error of numbers that were once of single precision (2^-22, and a half)."""
_MANY_DIGITS = 12
"""Numbers with more digits than this were not rounded for print."""
_WIDE = 20.0
"""A form is tested only if the column's range is at least this many of its rounding errors."""
_SLACK = 1.5
"""The most rounding errors between a form and a value: its line is fitted to rounded values, too."""
_ONE_WAY = 0.9
"""Part of the moves that a clock makes in one direction; the others are restarts."""
_UNIX = ((1e9, 4e9), (1e12, 4e12))
"""Seconds and milliseconds of the years 2001 to 2096."""
# The words are those of the logs of PyTorch Lightning, transformers, Weights & Biases, nanotron and Megatron.
_CLOCK = frozenset({
    "time", "times", "timestamp", "wall", "walltime", "clock", "elapsed", "runtime", "duration", "seconds",
    "second", "secs", "sec", "minutes", "hours", "hour", "epoch", "epochs", "token", "tokens", "sample",
    "samples", "example", "examples", "sequence", "sequences", "step", "steps", "iter", "iters",
    "iteration", "iterations", "batch", "batches", "update", "updates", "flop", "flops", "eta", "progress",
    "index", "row",
})  # fmt: skip
_FILLERS = frozenset({
    "train", "training", "trainer", "global", "total", "cumulative", "sum", "num", "number", "n", "of",
    "seen", "processed", "consumed", "so", "far", "s", "h", "ms", "min", "gpu", "perf", "throughput",
    "optimizer",
})  # fmt: skip
_TIMED = frozenset({
    "time", "times", "wall", "walltime", "clock", "elapsed", "runtime", "duration", "seconds", "second",
    "secs", "sec", "s", "minutes", "hours", "hour", "eta", "ms", "us", "dt", "millis",
    "milliseconds", "microseconds",
    "mfu", "hfu", "tps", "fps", "speed", "throughput", "latency", "tflops", "gflops",
})  # fmt: skip
"""Words of which a speed or a time has one: a name of counts alone may be anything."""
_OF_SPEED = frozenset({
    "per", "tok", "toks", "it", "its", "avg", "mean", "median", "forward", "backward", "fwd", "bwd", "data",
    "load", "loading", "device", "k",
})  # fmt: skip
"""Words that may stand beside them."""
_OF_LOSS = frozenset({
    "loss", "train", "training", "lm", "batch", "minibatch", "step", "epoch", "avg", "average", "mean",
    "running",
    "smooth", "smoothed", "ema",
})  # fmt: skip
"""Words of the names of a training loss."""
_RANGES = {"__MIN": "minimum", "__MAX": "maximum"}
"""Suffixes of the columns that an export of Weights & Biases writes beside each column."""
_LOSSES = ("loss", "heldout_loss", "loss_smooth", "gap", "efficiency", "efficiency_flop")
_NAMES = {"heldout_loss": "held-out loss", "efficiency_flop": "efficiency per FLOP"}


def copies(table: pd.DataFrame, targets: Sequence[str], columns: Sequence[str]) -> dict[str, str]:
    """Return the columns that are functions of a target or of the step, and of which, in words.

    Parameters
    ----------
    table
        Columns run, step, the targets and the columns, as numbers; a row per run and step.

    Examples
    --------
    >>> step = np.arange(0, 2000, 100)
    >>> loss = 3.0 - 0.2 * np.log(step + 50) + 0.05 * np.random.default_rng(0).standard_normal(20)
    >>> table = pd.DataFrame({"run": "a", "step": step, "loss": loss, "ppl": np.exp(loss)})
    >>> table["epoch"] = step / 700
    >>> copies(table, ["loss"], ["ppl", "epoch"])
    {'ppl': 'a function of the loss', 'epoch': 'a function of the step'}
    """
    reasons: dict[str, str] = {}
    arrays = _Arrays(table)
    for column in columns:
        why = _range_of(column, table, targets) or _again(column, targets)
        if not why and _of_step(arrays, column, targets):
            why = "a function of the step"
        if not why and _tells_speed(column):
            why = "a clock"
        if not why:
            of = next((target for target in targets if _of_target(arrays, column, target)), "")
            why = f"a function of {_named(of)}" if of else ""
        if not why:
            why = _of_history(arrays, column, targets)
        if why:
            reasons[column] = why
    return reasons


class _Arrays:
    """The columns of a table as arrays, each taken from the table once."""

    def __init__(self, table: pd.DataFrame) -> None:
        self.table = table
        self._columns: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._columns:
            self._columns[name] = self.table[name].to_numpy(float)
        return self._columns[name]

    @cached_property
    def runs(self) -> np.ndarray:
        """The run of each row, as its place among the sorted names; -1 for none."""
        return np.asarray(pd.factorize(self.table["run"], sort=True)[0])

    def given(self, *names: str) -> np.ndarray:
        """Return the rows that have a run, a step and all these columns."""
        has = self.runs >= 0
        for name in ("step", *names):
            has &= ~np.isnan(self[name])
        return np.flatnonzero(has)

    def by_run(self, rows: np.ndarray) -> list[np.ndarray]:
        """Return the rows of each run, in their order."""
        rows = rows[np.argsort(self.runs[rows], kind="stable")]
        return np.split(rows, np.flatnonzero(np.diff(self.runs[rows])) + 1) if len(rows) else []


def _named(target: str) -> str:
    """Return the name of a target in a sentence: "the loss", but "piqa"."""
    return f"the {_NAMES.get(target, target)}" if target in _LOSSES else target


def _again(column: str, targets: Sequence[str]) -> str:
    """Return which loss a column is once more, by its name alone: a log may have it twice."""
    words = _words(column)
    training = "loss" in words and all(word in _OF_LOSS for word in words)
    name = "loss" if training else meaning(column)
    return f"{_named(name)} again" if name in targets and name in _LOSSES[:2] else ""


def _range_of(column: str, table: pd.DataFrame, targets: Sequence[str]) -> str:
    """Return the column whose range this column of an export gives, or nothing."""
    for ending, word in _RANGES.items():
        base = column.removesuffix(ending)
        if base == column:
            continue
        name = meaning(base)
        if name in targets:
            return f"a function of {_named(name)}"
        if base in table or name == "step":
            return f"the {word} of {base}"
    return ""


def rounding(values: np.ndarray) -> np.ndarray:
    """Return the rounding error of each value, by the digits of all values.

    >>> rounding(np.array([150.7, 18.73, 9.123])).round(5).tolist()
    [0.05, 0.005, 0.0005]
    """
    return _rounding(np.ascontiguousarray(values, dtype=float).tobytes()).copy()


@lru_cache(maxsize=8)  # a column is asked for by several tests, one after the other, and a target by all
def _rounding(content: bytes) -> np.ndarray:
    values = np.frombuffer(content)
    digits, decimals = 0, 0
    for value in values.tolist():
        mantissa, _, power = f"{abs(value):.{_MANY_DIGITS + 2}e}".partition("e")
        mine = max(
            len(mantissa.replace(".", "").rstrip("0")), int(power) + 1
        )  # whole numbers have all digits
        digits, decimals = max(digits, mine), max(decimals, mine - 1 - int(power))
    exact = _SINGLE * np.abs(values)
    if digits > _MANY_DIGITS:
        return exact
    with np.errstate(divide="ignore"):
        size = np.floor(np.log10(np.abs(values)))
    place = np.maximum(-float(decimals), np.where(np.isfinite(size), size, -np.inf) - digits + 1)
    return np.asarray(np.maximum(0.5 * 10.0**place, exact))


def _of_target(table: _Arrays, column: str, target: str) -> bool:
    rows = table.given(target, column)
    x, y = table[target][rows], table[column][rows]
    if len(rows) < LEAST_ROWS or len(np.unique(y)) < 2 or len(np.unique(x)) < LEAST_ROWS:
        return False
    dx, dy = rounding(x), rounding(y)
    ordered = any(_ordered(x, way * y, dx, dy) for way in (1, -1))
    if ordered and _turns(x, dx, y, dy, table.runs[rows]) >= LEAST_TURNS and _one_curve(x, y, dy):
        return True
    return any(_line(*pair) for pair in _forms(x, y, dx, dy))


def _ordered(x: np.ndarray, y: np.ndarray, dx: np.ndarray, dy: np.ndarray) -> bool:
    """Return whether y never falls where x rises, up to rounding."""
    order = np.argsort(x + dx, kind="stable")
    highest = np.maximum.accumulate((y - dy)[order])
    before = np.searchsorted((x + dx)[order], x - dx, "left")
    some = before > 0
    return bool(np.all(highest[before[some] - 1] <= (y + dy)[some]))


def _one_curve(x: np.ndarray, y: np.ndarray, dy: np.ndarray) -> bool:
    """Say whether most values lie on the line between their neighbours in x, not anywhere between these."""
    order = np.argsort(x, kind="stable")
    x, y, dy = x[order], y[order], dy[order]
    gap = np.maximum(x[2:] - x[:-2], 1e-300)
    part = (x[1:-1] - x[:-2]) / gap
    between = (1.0 - part) * y[:-2] + part * y[2:]
    allowed = _BETWEEN * np.abs(y[2:] - y[:-2]) + dy[1:-1] + np.maximum(dy[2:], dy[:-2])
    return bool(np.mean(np.abs(y[1:-1] - between) <= allowed) >= _MOST)


def _turns(x: np.ndarray, dx: np.ndarray, y: np.ndarray, dy: np.ndarray, runs: np.ndarray) -> int:
    """Return at how many neighbouring steps both move beyond rounding, x against its course over the run."""
    count = 0
    for run in np.unique(runs):
        mine = runs == run
        course = np.sign(x[mine][-1] - x[mine][0])
        moves = np.diff(x[mine]), np.diff(y[mine])
        seen = [
            np.abs(move) > error[mine][1:] + error[mine][:-1]
            for move, error in zip(moves, (dx, dy), strict=True)
        ]
        count += int(np.sum(seen[0] & seen[1] & (np.sign(moves[0]) == -course)))
    return count


_Pair = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _forms(x: np.ndarray, y: np.ndarray, dx: np.ndarray, dy: np.ndarray) -> Iterator[_Pair]:
    """Yield transformed target and column, with their rounding errors."""
    plain: Callable[[np.ndarray], np.ndarray] = np.asarray
    targets: list[tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]] = [(plain, np.ones_like(x))]
    if x.max() < 300.0:
        targets.append((np.exp, np.exp(x)))
    if x.min() > 0:
        targets += [(np.log, 1.0 / x), (np.reciprocal, x**-2.0)]
    for transform, slope in targets:
        yield transform(x), y, dx * slope, dy
        if y.min() > 0:
            yield transform(x), np.log(y), dx * slope, dy / y


def _line(x: np.ndarray, y: np.ndarray, dx: np.ndarray, dy: np.ndarray) -> bool:
    """Return whether y is a line in x up to rounding, and changes by much more than rounding."""
    if np.ptp(y) <= _WIDE * np.median(dy) or np.ptp(x) <= _WIDE * np.median(dx):
        return False
    weight = 1.0 / np.maximum(dy + dx * np.ptp(y) / np.ptp(x), 1e-300)
    level, reach = x.mean(), np.ptp(x)
    rows = np.column_stack([np.ones_like(x), (x - level) / reach])
    coefficients, *_ = np.linalg.lstsq(rows * weight[:, None], y * weight, rcond=None)
    allowed = _SLACK * (dy + abs(coefficients[1]) / reach * dx) + _SINGLE * np.ptp(y)
    return bool(coefficients[1] != 0 and np.all(np.abs(y - rows @ coefficients) <= allowed))


def _of_history(table: _Arrays, column: str, targets: Sequence[str]) -> str:
    """Return of which target's history a column is made, and how; "" for none."""
    from toposcope.logs._history_copies import history_of

    for target in targets:
        rows = table.given(target, column)
        rows = rows[np.argsort(table["step"][rows], kind="stable")]
        runs = [(table[target][run], table[column][run]) for run in table.by_run(rows)]
        errors = (rounding(table[name][rows]) for name in (target, column))
        if len(rows) and (how := history_of(runs, *(float(np.max(error)) for error in errors))):
            return f"{how} of {_named(target)}"
    return ""


def _of_step(table: _Arrays, column: str, targets: Sequence[str]) -> bool:
    rows = table.given(column)
    values = table[column][rows]
    if len(np.unique(values)) < 2:
        return False
    runs = [(table["step"][run], table[column][run]) for run in table.by_run(rows)]
    moving = [(step, value) for step, value in runs if len(step) >= LEAST_ROWS and np.ptp(value) > 0]
    if not moving:
        return False
    if _is_clock(column, values) and all(_one_way(value) for _, value in moving):
        return True
    return all(_counts(step, value) for step, value in moving) or _same_in_runs(table, column, targets)


def _is_clock(column: str, values: np.ndarray) -> bool:
    """Return whether a column's name has only words of time and counts, or its values are Unix times."""
    words = _words(column)
    named = any(word in _CLOCK for word in words) and all(word in _CLOCK | _FILLERS for word in words)
    return named or any(low <= values.min() and values.max() <= high for low, high in _UNIX)


def _tells_speed(column: str) -> bool:
    """Return whether a column's name is that of a time or a speed, as its every word says."""
    words = _words(column)
    return any(word in _TIMED for word in words) and all(
        word in _TIMED | _CLOCK | _OF_SPEED | _FILLERS for word in words
    )


def _words(column: str) -> list[str]:
    text = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", column)
    return [word for word in re.split(r"[^a-z]+", text.lower()) if word]


def _one_way(values: np.ndarray) -> bool:
    """Say whether nearly all moves go one way."""
    moves = np.sign(np.diff(values))
    moves = moves[moves != 0]
    return len(moves) > 0 and max(np.mean(moves > 0), np.mean(moves < 0)) >= _ONE_WAY


def _counts(step: np.ndarray, value: np.ndarray) -> bool:
    """Return whether a column of one run is a line in the step or its logarithm, stairs, or a counter."""
    error, none = rounding(value), np.zeros_like(step)
    later = step > 0
    if _line(step, value, none, error):
        return True
    if later.sum() >= LEAST_ROWS and _line(np.log(step[later]), value[later], none[later], error[later]):
        return True
    return _stairs(step, value) or _begins_anew(step, value, error)


def _stairs(step: np.ndarray, value: np.ndarray) -> bool:
    """Say whether a column has equally spaced levels that follow a line in the step."""
    levels = np.unique(value)
    if len(levels) < LEAST_LEVELS or not (np.diff(value) >= 0).all():
        return False
    heights = np.diff(levels)
    slope, start = np.polyfit(step - step[0], value, 1)
    deviation = np.abs(value - start - slope * (step - step[0])).max()
    return bool(np.allclose(heights, heights[0], rtol=1e-6) and deviation <= 0.75 * heights[0])


def _begins_anew(step: np.ndarray, value: np.ndarray, error: np.ndarray) -> bool:
    """Return whether a column rises by the same amount per step except where it falls back."""
    moves, gaps = np.diff(value), np.diff(step)
    up = moves > 0
    rises = up.sum() >= max(LEAST_ROWS, 2 * (~up).sum())  # falls are the exception
    if not rises or np.median(moves[up]) <= _WIDE * np.median(error):  # rounding alone could make such rises
        return False
    rate = np.median(moves[up] / gaps[up])
    allowed = _SLACK * (error[1:] + error[:-1])[up] + _SINGLE * rate * gaps[up]
    return bool(np.all(np.abs(moves[up] - rate * gaps[up]) <= allowed))


def _same_in_runs(table: _Arrays, column: str, targets: Sequence[str]) -> bool:
    """Say whether runs whose targets differ have the same value at every step that two of them share."""
    if not targets or len(np.unique(table.runs)) < 2:
        return False
    once = table.table.drop_duplicates(["run", "step"], keep="last")  # a step may come twice, after a restart
    given: Mapping[str, pd.DataFrame] = {
        name: once.pivot(index="step", columns="run", values=name) for name in (column, *targets[:1])
    }
    shared = given[column].notna().sum(axis=1) >= 2
    mine = given[column][shared]
    if shared.sum() < LEAST_ROWS:
        return False
    ranges = (mine.max(axis=1) - mine.min(axis=1)).to_numpy(float)
    level = mine.mean(axis=1).to_numpy(float)
    differs = given[targets[0]][shared].nunique(axis=1) >= 2
    same = np.all(ranges <= 2.0 * rounding(level) + _SINGLE * np.abs(level))
    return bool(same and np.ptp(level) > 0 and differs.all())
