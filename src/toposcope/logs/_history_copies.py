"""Columns that a logger makes from the history of another: running minima and means, averages, shifts.

Each is an equation that every row satisfies up to the rounding of what was printed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Runs = Sequence[tuple[np.ndarray, np.ndarray]]
"""The target and the column of each run, in the order of the steps."""
_LEAST = 8
"""Fewer rows of a run prove no equation."""
_SLACK = 1.5
"""The most rounding errors between an equation and a value, as in `logs.copies`."""
_WIDE = 4.0
"""The target and the column must move by this many times what an equation may miss: else all fits."""
_SHIFTS = 20
"""The most rows by which a column may follow or precede the target."""
_WINDOWS = 200
"""The longest window of a mean; half of the rows of a run at most."""
_DECAYS = np.r_[np.arange(0.02, 0.9, 0.02), 1.0 - np.geomspace(0.1, 0.001, 40)]
"""Where the search for the decay of an average that corrects its start begins."""


def history_of(runs: Runs, dx: float, dy: float) -> str:
    """Return what a column is of its target, by every run: "the running minimum", or "" for nothing.

    `dx` and `dy` are the rounding errors of the target and the column.

    >>> loss = 3.0 - np.log(np.arange(1, 41)) / 5 + 0.1 * np.random.default_rng(0).standard_normal(40)
    >>> history_of([(loss, np.minimum.accumulate(loss))], 1e-9, 1e-9)
    'the running minimum'
    >>> history_of([(loss, np.random.default_rng(1).standard_normal(40))], 1e-9, 1e-9)
    ''
    """
    long = [(x, y) for x, y in runs if len(x) >= _LEAST and np.ptp(x) > 0 and np.ptp(y) > 0]
    least = _WIDE * _SLACK * (dx + dy)
    if not long or not all(min(_moves(x), _moves(y)) > least for x, y in long):
        return ""
    for words, holds in _EQUATIONS.items():
        if holds(long, _SLACK * (dx + dy)):
            return words
    return ""


def _moves(values: np.ndarray) -> float:
    """Return the size of a usual move that is none of 0."""
    gaps = np.abs(np.diff(values))
    return float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 0.0


def _minimum(runs: Runs, allowed: float) -> bool:
    return all(_is_extreme(x, y, np.minimum, allowed) for x, y in runs)


def _maximum(runs: Runs, allowed: float) -> bool:
    return all(_is_extreme(x, y, np.maximum, allowed) for x, y in runs)


def _is_extreme(x: np.ndarray, y: np.ndarray, choose: np.ufunc, allowed: float) -> bool:
    """Return whether y is the extreme of itself one row earlier and of x, and moves to x three times."""
    extremes = choose(y[:-1], x[1:])
    news = np.abs(np.diff(y)) > allowed
    return bool((np.abs(y[1:] - extremes) <= allowed).all() and news.sum() >= 3 and (~news).any())


def _mean(runs: Runs, allowed: float) -> bool:
    return all(_fits(y, np.cumsum(x) / np.arange(1, len(x) + 1), allowed) for x, y in runs)


def _window(runs: Runs, allowed: float) -> bool:
    x, y = max(runs, key=lambda pair: len(pair[0]))
    sums = _sums(x)
    for width in range(2, min(_WINDOWS, len(x) // 2) + 1):
        for last in {0, (width - 1) // 2}:
            if _fits(*_averaged(sums, y, width, last), allowed):
                return all(_fits(*_averaged(_sums(a), b, width, last), allowed) for a, b in runs)
    return False


def _sums(x: np.ndarray) -> np.ndarray:
    """Return the sums of x before each row, and that of all."""
    return np.cumsum(np.concatenate([[0.0], x]))


def _averaged(sums: np.ndarray, y: np.ndarray, width: int, after: int) -> tuple[np.ndarray, np.ndarray]:
    """Return y and the mean over `width` rows, of which `after` come later, where all are there."""
    means = (sums[width:] - sums[:-width]) / width
    return y[width - 1 - after : len(y) - after], means


def _average(runs: Runs, allowed: float) -> bool:
    """Test an exponential average from its own first value: y[t] = b y[t-1] + (1 - b) x[t]."""
    up = np.concatenate([y[1:] - x[1:] for x, y in runs])
    down = np.concatenate([y[:-1] - x[1:] for x, y in runs])
    scale = float(down @ down)
    decay = float(up @ down) / scale if scale > 0 else -1.0
    return 0.0 < decay < 1.0 and bool((np.abs(up - decay * down) <= 2 * allowed).all())


def _corrected(runs: Runs, allowed: float) -> bool:
    """Test an exponential average whose start is corrected: the weights b**i over their sum.

    Its first row is that of the target, whatever the decay; the search below costs .05 s a column.
    """
    if any(abs(y[0] - x[0]) > 2 * allowed for x, y in runs):
        return False
    x, y = max(runs, key=lambda pair: len(pair[0]))
    errors = [float(np.median(np.abs(y - _weighted(x, decay)))) for decay in _DECAYS]
    place = int(np.argmin(errors))
    low, high = _DECAYS[max(place - 1, 0)], _DECAYS[min(place + 1, len(_DECAYS) - 1)]
    for _ in range(40):
        grid = np.linspace(low, high, 5)
        best = int(np.argmin([np.median(np.abs(y - _weighted(x, decay))) for decay in grid]))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, 4)]
        if high - low < 1e-12:
            break
    decay = (low + high) / 2
    return all(_fits(other, _weighted(mine, decay), 2 * allowed) for mine, other in runs)


def _weighted(x: np.ndarray, decay: float) -> np.ndarray:
    from scipy.signal import lfilter

    sums = lfilter([1.0], [1.0, -decay], x)
    return np.asarray(sums / lfilter([1.0], [1.0, -decay], np.ones_like(x)))


def _shifted(runs: Runs, allowed: float) -> bool:
    for rows in range(1, _SHIFTS + 1):
        for early in (True, False):
            parts = [
                (x[:-rows], y[rows:]) if early else (x[rows:], y[:-rows]) for x, y in runs if len(x) > rows
            ]
            if parts and all(len(a) >= _LEAST and _fits(b, a, allowed) for a, b in parts):
                return True
    return False


def _fits(values: np.ndarray, extremes: np.ndarray, allowed: float) -> bool:
    if (
        len(values) < _LEAST or not abs(values[0] - extremes[0]) <= allowed
    ):  # most fail at once: no pass over all
        return False
    return bool((np.abs(values - extremes) <= allowed).all())


_EQUATIONS: dict[str, Callable[[Runs, float], bool]] = {
    "the running minimum": _minimum,
    "the running maximum": _maximum,
    "the running mean": _mean,
    "a shifted copy": _shifted,
    "a moving average": _window,
    "an exponential average": lambda runs, allowed: _average(runs, allowed) or _corrected(runs, allowed),
}
"""What a column may be of its target, and whether it is."""
