"""Steps that a trainer prints in thousands, such as `step:12K` on ten records in a row."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

_DECIMALS = 6
"""A counter has at most so many decimals."""
_ROOM = 1.25
"""The interval of the steps is known where the largest possible one is less than so many times the least."""
_MOST = 10
"""So many tens of intervals are tried at most."""
_BOUNDS = ((0.5, 0.5), (0.0, 1.0))
"""How far below and above what is printed a step may lie, in units: rounded, or cut off."""


def unrounded(
    printed: np.ndarray, unit: np.ndarray, trained: np.ndarray, counters: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, str]:
    """Return the steps of records whose printed steps are rounded and come again, and a note.

    The steps are evenly spaced if one interval gives all that is printed; else they follow a finer counter of
    the same lines, to which they are proportional; else they are interpolated.

    Parameters
    ----------
    printed
        The step of each record (records,).
    unit
        What each is rounded to, NaN for one that is exact.
    trained
        Which records log training.
    counters
        The other numbers of the records, by name.

    >>> step, unit = np.array([900, 1e3, 1e3, 1e3, 1e3, 1e3]), np.array([np.nan, 1e3, 1e3, 1e3, 1e3, 1e3])
    >>> unrounded(step, unit, step > 0, {})[0].astype(int).tolist()
    [900, 1000, 1100, 1200, 1300, 1400]
    """
    rows = np.flatnonzero(trained & np.isfinite(printed))
    shown, width = printed[rows], np.nan_to_num(unit[rows])
    again = (np.diff(shown) == 0) & (width[1:] > 0)
    if not again.any():
        return printed, ""
    if (np.diff(shown) < 0).any():
        return printed, "the log rounds its steps: of several records with one step the last counts"
    steps, note = _finer(shown, width, {name: values[rows] for name, values in counters.items()})
    whole = printed.copy()
    whole[rows] = steps
    for at in np.flatnonzero(~trained & np.isfinite(printed) & (np.nan_to_num(unit) > 0)):
        before = np.searchsorted(rows, at) - 1  # an evaluation stands at the last step of training
        if before >= 0 and shown[before] == printed[at]:
            whole[at] = steps[before]
    return whole, f"the log rounds its steps: {note}"


def _finer(
    shown: np.ndarray, width: np.ndarray, counters: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, str]:
    for below, above in _BOUNDS:
        low, high = shown - below * width, shown + above * width
        if (even := _even(low, high)) is not None:
            return even, f"they are taken as {even[1] - even[0]:,.0f} apart, which is what is printed"
    for below, above in _BOUNDS:
        low, high = shown - below * width, shown + above * width
        for name, counter in counters.items():
            if (steps := _proportional(low, high, counter)) is not None:
                return steps, f"they are taken from {name!r}"
    return _interpolated(shown, width), "the steps between are interpolated"


def _even(low: np.ndarray, high: np.ndarray) -> np.ndarray | None:
    """Return evenly spaced steps between bounds; None if none fit, or if several intervals do.

    Two exact steps say the interval. Else it is the roundest that fits, where the bounds leave little room.
    """
    exact = np.flatnonzero(low == high)
    if len(exact) > 1:
        first, last = exact[0], exact[-1]
        return _spaced(low, high, float(low[last] - low[first]) / (last - first))
    count = len(low) - 1
    least, most = float(low[-1] - high[0]) / count, float(high[-1] - low[0]) / count
    if least < 1 or most > _ROOM * least:
        return None
    for digits in range(int(np.log10(most)), -1, -1):
        unit = 10**digits
        tried = np.arange(np.ceil(least / unit), np.floor(most / unit) + 1)[: 10 * _MOST] * unit
        fitting = [steps for spacing in tried if (steps := _spaced(low, high, float(spacing))) is not None]
        if fitting:
            return fitting[0] if len(fitting) == 1 else None
    return None


def _spaced(low: np.ndarray, high: np.ndarray, interval: float) -> np.ndarray | None:
    """Return steps with one interval between bounds, at multiples of it if these fit; None if none fit."""
    places = np.arange(len(low))
    lowest, highest = float((low - interval * places).max()), float((high - interval * places).min())
    if interval <= 0 or interval % 1 or lowest > highest:
        return None
    first = np.ceil(lowest / interval) * interval
    return (first if first <= highest else np.ceil(lowest)) + interval * places


def _proportional(low: np.ndarray, high: np.ndarray, counter: np.ndarray) -> np.ndarray | None:
    """Return steps in proportion to a counter that rises in every record; None if they leave the bounds."""
    if not np.isfinite(counter).all() or counter[0] <= 0 or (np.diff(counter) <= 0).any():
        return None
    decimals = next((d for d in range(_DECIMALS) if _is_whole(counter * 10**d)), _DECIMALS)
    half = 0.5 * 10.0**-decimals
    lowest, highest = float((low / (counter + half)).max()), float((high / (counter - half)).min())
    steps = np.clip(np.round((lowest + highest) / 2 * counter), low, high)
    return steps if lowest <= highest and (np.diff(steps) > 0).all() else None


def _is_whole(values: np.ndarray) -> bool:
    return bool((np.abs(values - np.round(values)) < 1e-6 * np.maximum(np.abs(values), 1)).all())


def _interpolated(shown: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Return steps on lines between the places where what is printed changes."""
    changes = np.flatnonzero(np.diff(shown) > 0)
    places, values = changes + 0.5, (shown[changes] + shown[changes + 1]) / 2
    exact = np.flatnonzero(width == 0)
    order = np.argsort(places := np.r_[places, exact])
    places, values = places[order], np.r_[values, shown[exact]][order]
    index = np.arange(len(shown), dtype=float)
    if len(places) < 2:
        return shown
    steps = np.interp(index, places, values)
    first, last = ((values[k + 1] - values[k]) / (places[k + 1] - places[k]) for k in (0, -2))
    steps = np.where(index < places[0], values[0] + (index - places[0]) * first, steps)
    steps = np.where(index > places[-1], values[-1] + (index - places[-1]) * last, steps)
    return np.round(np.clip(steps, np.maximum(shown - width / 2, 0), shown + width / 2))
