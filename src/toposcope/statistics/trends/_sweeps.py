"""The wave that two series share, with a constant or steadily drifting period (a chirp).

Two chirps with the same sweep agree, or disagree, throughout, whatever their phases, and have no line in
their spectra. So a spectrum is computed for each drift: the series times exp(-i pi d t^2 / n), where d is the
drift of the frequency over the n checkpoints, then a Fourier transform (the chirplet transform: Mann and
Haykin 1995). Two series share a wave if both have more power at one frequency and drift than the strongest
wave has in a quarter of white series (in half of them if checkpoints are few). Shared noise loses little by
this, because a wave takes two of n values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from toposcope.core.seeding import rng
from toposcope.statistics.trends.whitening import SHORT

LEAST_TURNS = 2.0
"""The fewest periods of a wave over the run; slower waves belong to the trend."""
MOST_DRIFTS = 512
"""The largest number of drifts tried: with more checkpoints than this, a sweep can lie between two drifts."""
_WEAKER, _WEAKER_SHORT, _SIMULATED = 0.25, 0.5, 200
"""Share of white series whose strongest wave is below the bar; the same below `SHORT` checkpoints; how many.

Set on chirps of 20 to 4 and of 12 to 5 checkpoints and on r = .3 to .7. At a half, chirps at 48 log steps
pass more often; at a quarter, r = .7 at 26 checkpoints is found in 65%, against 71% at a half and 76% with no
bar."""


@dataclass(frozen=True, slots=True)
class Shared:
    """The strongest wave that each pair of columns shares: its power and frequencies per checkpoint."""

    n: int
    power: np.ndarray
    first: np.ndarray
    last: np.ndarray

    def turns(self, j: int) -> np.ndarray:
        """Return the phase of pair j's wave at each checkpoint, in radians."""
        t = np.arange(self.n)
        return 2.0 * np.pi * (self.first[j] * t + (self.last[j] - self.first[j]) * t * t / (2.0 * self.n))

    def words(self, j: int) -> str:
        """Return the period of pair j's wave, or both ends of its drift."""
        first, last = (f"{1.0 / part[j]:.3g}" for part in (self.first, self.last))
        return f"{first} checkpoints" if first == last else f"{first} to {last} checkpoints"


def shared(e: np.ndarray, f: np.ndarray) -> Shared:
    """Return the strongest wave that each column of e (n, pairs) shares with that of f.

    Its power is the smaller of the two; the mean for white noise is 1.

    >>> t = np.arange(60)
    >>> sweep = 2 * np.pi * (t / 20 + (1 / 5 - 1 / 20) * t**2 / 120)
    >>> found = shared(np.cos(sweep)[:, None], np.sin(sweep)[:, None])
    >>> found.words(0), bool(found.power[0] > bar(60))
    ('20 to 5 checkpoints', True)
    """
    n, pairs = e.shape
    # Pairs share columns, above all the target, so each column is transformed once.
    columns, place = np.unique(np.hstack([_scaled(e), _scaled(f)]), axis=1, return_inverse=True)
    power, first, last = np.zeros(pairs), np.ones(pairs), np.ones(pairs)
    for drift, spectrum in _spectra(columns):
        at = np.flatnonzero(_frequencies(n, drift))
        if not len(at):
            continue
        there = spectrum[at]
        both = np.minimum(there[:, place[:pairs]], there[:, place[pairs:]])
        best = both.argmax(axis=0)
        highest = both[best, np.arange(pairs)]
        more = highest > power
        frequency = at[best] / (2.0 * n)
        power = np.where(more, highest, power)
        first, last = np.where(more, frequency, first), np.where(more, frequency + drift, last)
    return Shared(n, power, first, last)


def bar(n: int) -> float:
    """Return the power that the strongest wave exceeds in three (or two) of four white series of n values."""
    return float(np.quantile(_of_noise(n), _WEAKER_SHORT if n < SHORT else _WEAKER))


@lru_cache(maxsize=64)
def _of_noise(n: int) -> np.ndarray:
    white = rng(name="sweeps", n=n).standard_normal((n, _SIMULATED))
    return shared(white, white).power


def _scaled(e: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.nan_to_num(e / np.sqrt(np.sum(e * e, axis=0)))


def _frequencies(n: int, drift: float) -> np.ndarray:
    """Return for each half step of frequency whether a wave that begins there stays within the range."""
    first = np.arange(n + 1) / (2.0 * n)
    last = first + drift
    slowest, fastest = 1.0 / (2.0 * n) - 1e-9, 0.5 - 1.0 / (2.0 * n) + 1e-9
    inside = (np.minimum(first, last) >= slowest) & (np.maximum(first, last) <= fastest)
    return np.asarray(inside & ((first + last) / 2.0 * n >= LEAST_TURNS))


def _spectra(e: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    """Yield each drift of the frequency over the run, from -1/2 to 1/2, and the power of its waves.

    The power is that of waves that begin at each half step of frequency, (n + 1, columns). One transform
    serves a drift and its opposite: for real values, one is the mirror image of the other.
    """
    n = len(e)
    t, k = np.arange(n), np.arange(n + 1)
    side = min(n, MOST_DRIFTS) // 2
    for drift in np.arange(side + 1) / (2.0 * side):
        turned = e * np.exp(-1j * np.pi * drift / n * t * t)[:, None]
        power = np.abs(np.fft.fft(turned, 2 * n, axis=0)) ** 2
        yield drift, power[k]
        if drift:
            yield -drift, power[-k]
