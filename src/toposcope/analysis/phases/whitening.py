"""The noise of a series' changes: its size along training, its persistence, and what sign flips of it show.

Changes of a series between checkpoints are v_i - v_(i-1) = slope x (log s_i - log s_(i-1)) + sigma_i e_i.

1. Size. The contrast of two neighbouring changes that no slope on log(step) reaches,
   (c_(i+1) x_i - c_i x_(i+1)) / hypot(x_i, x_(i+1)), has the size of the noise. A line through its log
   absolute values on log(step) gives sigma_i: noise that wanes or grows like a power of the step.
2. Persistence. The lag-1 correlation r of the differences of e gives phi = 1 + 2 r, between 0 and 0.5. A
   change of slope hardly touches those differences. Beyond 0.5 a drift cannot be told from a change of slope.
3. Reference. e with its signs flipped at random is as likely as e if no slope changes and the noise is
   symmetric, whatever its size does. Each draw is given back its sizes and persistence and is whitened anew,
   so what the estimates of both cost is in the reference too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numba import njit

from toposcope.analysis.phases.partition import (
    LEAST_SEGMENT,
    MOST_BOUNDARIES,
    Increments,
    best_gain,
    best_split,
)
from toposcope.seeding import rng

FALSE_ALARMS = 0.05
FLIPS = 999
_SHORT = 200
_LEAST_FLIPS = 199
_HOPELESS = 0.15
MOST_PERSISTENCE = 0.5
_FLOOR = 1e-3
_MEAN_LOG = 0.5 * (np.euler_gamma + np.log(2.0))
"""Minus the mean of log |e| of a standard normal e."""
_LEAST_LEFT = 0.1


@dataclass(frozen=True, slots=True)
class Whitened:
    """Changes and clock divided by the noise, persistence removed (n,), with what was taken out.

    `innovations` (n,) are what a single slope leaves, corrected for its leverage. `usable` is False where
    the series hardly ever changes, so that no noise can be seen.
    """

    change: np.ndarray
    clock: np.ndarray
    sigma: np.ndarray
    phi: float
    innovations: np.ndarray
    floor: float
    usable: bool


def whiten(inc: Increments) -> Whitened:
    """Return the whitened changes of a series; see the module.

    Examples
    --------
    >>> from toposcope.analysis.phases.partition import increments
    >>> steps = np.arange(1.0, 60.0)
    >>> noise = np.random.default_rng(0).standard_normal(59) / steps
    >>> white = whiten(increments(steps, noise.cumsum()))
    >>> bool(white.sigma[0] > 10 * white.sigma[-1])
    True
    """
    n = len(inc.change)
    size = _contrasts(inc.change, inc.clock)
    floor = _FLOOR * float(np.median(size)) if n > 1 else 0.0
    z, x, sigma = np.empty(n), np.empty(n), np.ones(n)
    if floor == 0:
        return Whitened(inc.change, inc.clock, sigma, 0.0, np.zeros(n), 0.0, False)
    phi = _whiten(inc.change, inc.clock, np.log(inc.steps), floor, z, x, sigma)
    slope, room = z @ x / (x @ x), x * x / (x @ x)
    left = (z - slope * x) / np.sqrt(np.maximum(1.0 - room, _LEAST_LEFT))
    return Whitened(z, x, sigma, float(phi), left, floor, True)


def flipped_gains(inc: Increments, white: Whitened, gain: float) -> np.ndarray:
    """Return the best gain per boundary of draws of sign flips, sorted.

    999 draws up to 200 changes, fewer for longer series, at least 199; no more than those where over 15% of
    the first 199 reach the series' own `gain`, which is then far from a boundary.
    """
    n = len(inc.change)
    draws = int(np.clip(FLIPS * (_SHORT / n) ** 2, _LEAST_FLIPS, FLIPS))
    flips = signs(draws, n)

    def gains(part: np.ndarray) -> np.ndarray:
        return _gains(
            white.innovations, white.phi, white.sigma, inc.clock, np.log(inc.steps), white.floor, part,
            LEAST_SEGMENT, MOST_BOUNDARIES,
        )  # fmt: skip

    first: np.ndarray = gains(flips[:_LEAST_FLIPS])
    if np.mean(first >= gain) > _HOPELESS or draws == _LEAST_FLIPS:
        return np.sort(first)
    return np.sort(np.concatenate([first, gains(flips[_LEAST_FLIPS:])]))


@lru_cache(maxsize=16)
def signs(draws: int, n: int) -> np.ndarray:
    """Return random signs, int8 (draws, n)."""
    return (2 * rng(name="sign flips", n=n, draw=draws).integers(0, 2, (draws, n)) - 1).astype(np.int8)


@njit(cache=True)
def _contrasts(change, clock):  # type: ignore[no-untyped-def]
    """Return the sizes of the contrasts of neighbouring changes that no slope reaches (n - 1,)."""
    out = np.empty(len(change) - 1)
    for i in range(len(out)):
        x, y = clock[i], clock[i + 1]
        out[i] = abs(change[i + 1] * x - change[i] * y) / np.sqrt(x * x + y * y)
    return out


@njit(cache=True)
def _sizes(change, clock, logs, floor, sigma):  # type: ignore[no-untyped-def]
    """Write sigma of each change: a line through log contrasts on log step (`logs` (n + 1,))."""
    size = np.log(_contrasts(change, clock) + floor)
    n = len(change)
    centre, middle = logs[1:n].mean(), size.mean()
    up = down = 0.0
    for i in range(n - 1):
        u = logs[i + 1] - centre
        up += u * (size[i] - middle)
        down += u * u
    for i in range(n):
        sigma[i] = np.exp(_MEAN_LOG + middle + up / down * (logs[i + 1] - centre))


@njit(cache=True)
def _whiten(change, clock, logs, floor, z, x, sigma):  # type: ignore[no-untyped-def]
    """Write whitened change z and clock x; return phi."""
    n = len(change)
    _sizes(change, clock, logs, floor, sigma)
    zx = xx = 0.0
    for i in range(n):
        z[i], x[i] = change[i] / sigma[i], clock[i] / sigma[i]
        zx += z[i] * x[i]
        xx += x[i] * x[i]
    slope, before, product, square = zx / xx, 0.0, 0.0, 0.0
    for i in range(1, n):
        step = (z[i] - slope * x[i]) - (z[i - 1] - slope * x[i - 1])
        product += step * before
        square += step * step
        before = step
    phi = min(max(1.0 + 2.0 * product / square, 0.0), MOST_PERSISTENCE) if square > 0 else 0.0
    for i in range(n - 1, 0, -1):
        z[i] -= phi * z[i - 1]
        x[i] -= phi * x[i - 1]
    first = np.sqrt(1.0 - phi * phi)
    z[0] *= first
    x[0] *= first
    return phi


@njit(cache=True)
def _recoloured(innovations, phi, sigma, flip, out):  # type: ignore[no-untyped-def]
    """Write the changes that the flipped innovations would have made."""
    state = 0.0
    for i in range(len(innovations)):
        state = phi * state + flip[i] * innovations[i]
        if i == 0:
            state /= np.sqrt(1.0 - phi * phi)
        out[i] = state * sigma[i]


# Milliseconds of work each: threads would cost more than they save wherever something else is running.
@njit(cache=True)
def _gains(innovations, phi, sigma, clock, logs, floor, flips, least, most):  # type: ignore[no-untyped-def]
    draws, n = flips.shape
    out = np.empty(draws)
    z, x, scale, change = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for d in range(draws):
        _recoloured(innovations, phi, sigma, flips[d], change)
        _whiten(change, clock, logs, floor, z, x, scale)
        out[d] = best_gain(z, x, least, most)
    return out


@njit(cache=True)
def split_gains(innovations, phi, sigma, clock, logs, floor, flips, least):  # type: ignore[no-untyped-def]
    """Return the best gain of a single boundary in every draw of sign flips."""
    draws = flips.shape[0]
    n = len(innovations)
    out = np.empty(draws)
    z, x, scale, change = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for d in range(draws):
        _recoloured(innovations, phi, sigma, flips[d], change)
        _whiten(change, clock, logs, floor, z, x, scale)
        out[d] = best_split(z, x, least)[0]
    return out
