"""Which pairs of whitened series are not tested, and why.

If both series need all available trend functions, their residuals may still contain trend ("too smooth to
test"). If checkpoints are missing, the signs of two waves with the same period do not flip independently. If
steps are uneven, both may turn within one stretch of checkpoints that the trend does not follow. This is one
coincidence, however many checkpoints it covers, and a likely one early in training.

Two waves with drifting periods agree by chance like two waves with the same period: a steady drift is removed
(`sweeps`), other drifts are refused (`swings`).

Innovations that are equal within 1% (|r| at least `SAME`) are tested nevertheless. The residuals of two
smooth curves can agree this well, but only at a few checkpoints. So "too smooth" is waived only if at least
eight innovations, and a quarter of them, carry the products.
"""

from __future__ import annotations

import numpy as np

from toposcope.statistics.trends.grids import even_steps, uneven_steps
from toposcope.statistics.trends.whitening import Whitened

TOO_FEW = "too few checkpoints"
FEW_DECIDE = f"{TOO_FEW}: no correlation, however large, could pass"
TOO_SMOOTH = "too smooth to test"
ONE_PERIOD = "checkpoints are missing, and both have a wave of the same period"
ONE_STRETCH = "both change sharply within the same few checkpoints"
SWINGS = "both are waves whose period drifts"
IN_SHORT = {
    TOO_SMOOTH: "too smooth", ONE_PERIOD: "with gaps", ONE_STRETCH: "with one sharp change",
    SWINGS: "with drifting waves",
}  # fmt: skip
"""Each refusal in a word or two, for the runs left out."""
LINE = 0.05
"""How often the spectrum of white noise has a line beyond the bar (Fisher 1929)."""
STRETCH, MOST_OF = 8, 0.5
"""A stretch is one in this many checkpoints; a series turns in it if it has this share of its power there."""
SAME = 0.99
"""Above this |r| no pair is refused: the largest in 150,000 refused pairs of the setting nulls is .985."""
NOISELESS = 1e-5
"""At uneven steps, a series of which this part is left has no noise: trends leave 2e-6 of a power law."""
EFFECTIVE, EFFECTIVE_PART = 8.0, 0.25
"""A pair that is too smooth counts as equal only if this many innovations, and this share, carry its sum.

The residuals of two noiseless power laws are the same function: |r| >= .99 in 14% to 50% of pairs at 48 to
154 checkpoints, but all of them carried by fewer innovations."""


def untestable(x: Whitened, y: Whitened) -> np.ndarray:
    """Return why each pair is not tested, or an empty string."""
    if x.choices == 1:
        return np.full(len(x.order), f"{TOO_FEW} to choose a trend", dtype=object)
    differ = differing(x, y)
    smooth = x.exhausted & y.exhausted
    why = [smooth, _one_line(x, y), _one_stretch(x, y)]
    reasons = [TOO_SMOOTH, ONE_PERIOD, ONE_STRETCH]
    refused = [mine & differ for mine in why]
    refused[0] |= smooth & ~rich(x, y) | _noiseless(x) & _noiseless(y)
    return np.select(refused, reasons, "").astype(object)


def _noiseless(x: Whitened) -> np.ndarray:
    """Return for each column at uneven steps whether it has no noise beyond the errors of its trends."""
    if x.count == len(x.steps) and even_steps(x.steps):
        return np.zeros(len(x.order), bool)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.sqrt(np.sum(x.e**2, axis=0) / x.count) < NOISELESS)


def rich(x: Whitened, y: Whitened) -> np.ndarray:
    """Return for each pair whether enough checkpoints carry its products: (sum q)^2 / sum q^2 of q = |e f|.

    White noise and its copy have a third of the checkpoints, the residuals of two smooth curves only a few.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        q = np.abs(x.e * y.e)
        effective = np.sum(q, axis=0) ** 2 / np.sum(q * q, axis=0)
        return np.asarray(effective >= max(EFFECTIVE, len(q) * EFFECTIVE_PART))


def differing(x: Whitened, y: Whitened) -> np.ndarray:
    """Return for each pair whether its innovations differ by more than 1%."""
    with np.errstate(invalid="ignore"):
        sizes = np.sum(x.e**2, axis=0) * np.sum(y.e**2, axis=0)
        return np.asarray(~(np.abs(np.sum(x.e * y.e, axis=0)) >= SAME * np.sqrt(sizes)))


def spectrum(x: Whitened) -> np.ndarray:
    """Return the periodogram of each column at half steps of frequency, with mean 1 for white noise."""
    n = len(x.e)
    waves = np.fft.rfft(x.e, 2 * n, axis=0)[1:n]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.abs(waves) ** 2 / np.sum(x.e**2, axis=0))


def line_bar(count: int, level: float) -> float:
    """Return the value that the highest line of `count` white values exceeds with probability `level`.

    >>> round(line_bar(50, 0.05), 2)
    6.21
    """
    return float(np.log(count / 2.0 / level))


def _one_line(x: Whitened, y: Whitened) -> np.ndarray:
    """Return for each pair, if checkpoints are missing, whether both have a line at the same frequency."""
    if x.count == len(x.steps):
        return np.zeros(len(x.order), bool)
    return np.asarray((np.minimum(spectrum(x), spectrum(y)) > line_bar(x.count, LINE)).any(axis=0))


def _one_stretch(x: Whitened, y: Whitened) -> np.ndarray:
    """Return for each pair, if steps are uneven, whether both have their power in stretches that touch."""
    if not uneven_steps(x.steps):
        return np.zeros(len(x.order), bool)
    width = max(len(x.e) // STRETCH, 3)
    (much, at), (more, there) = (_densest(z.e, width) for z in (x, y))
    return np.asarray((np.minimum(much, more) > MOST_OF) & (np.abs(at - there) <= width))


def _densest(e: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest share of each column's power within `width` neighbours, and where these begin."""
    total = np.cumsum(np.vstack([np.zeros((1, e.shape[1])), e * e]), axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = (total[width:] - total[:-width]) / total[-1]
    return shares.max(axis=0), np.where(np.isfinite(shares).all(axis=0), shares.argmax(axis=0), 0)


def robust_size(z: np.ndarray) -> np.ndarray:
    """Return the standard deviation of each column from its median size, without missing checkpoints.

    >>> robust_size(np.array([[3.0], [-1.0], [1.0], [0.0]])).round(2).tolist()
    [1.48]
    """
    sizes = np.abs(z)
    with np.errstate(invalid="ignore"):
        nonzero = sizes > 1e-9 * sizes.max(axis=0)  # a missing checkpoint has no innovation
    count = nonzero.sum(axis=0)
    ranked = np.sort(np.where(nonzero, sizes, np.inf), axis=0)
    places = np.stack([np.maximum(count - 1, 0) // 2, count // 2 * (count > 0)])
    medians = np.take_along_axis(ranked, places, axis=0).sum(axis=0) / 2.0
    return np.where(count > 0, medians, np.nan) / 0.6745
