"""The correlation of two whitened series beyond their trends and persistence: the pairs of one run.

`whitening` computes the innovations of each series separately. e and f are their normal scores, which keep
sign and rank, so that a few large values do not decide the test. Their mean is subtracted: skewed noise, such
as upward spikes, has more signs of one kind, and two such series would share them. `joint` tests the sum of
their products, at lags of up to two checkpoints, against random signs and random orders.

Sign flips assume that one of the two series is white. Persistence left in both multiplies the variance of sum
e f by 1 + 2 sum_k rho_e(k) rho_f(k) (Bartlett 1935). If this exceeds the value for white series by more than
its standard error, the sum is divided by its root.

`refusals` says which pairs are not tested; single coincidences are left out first (`coincidences`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toposcope.core.distributions import normal_quantile
from toposcope.statistics import correlations as stat
from toposcope.statistics.trends._coincidences import freed
from toposcope.statistics.trends._swings import both_swing
from toposcope.statistics.trends.alignment import standardised
from toposcope.statistics.trends.joint import RunInnovations, joint_test
from toposcope.statistics.trends.refusals import SAME, SWINGS, differing, untestable
from toposcope.statistics.trends.signs import ALPHA
from toposcope.statistics.trends.whitening import SHORT, Whitened

LEAST_LENGTH = 12
"""The fewest checkpoints for a test; with fewer, trend and persistence leave too little to judge."""


@dataclass(frozen=True, slots=True)
class Innovations:
    """Per pair: `r`, its interval [`low`, `high`] and the two-sided `p`, all at `lag`.

    A positive lag means that the first of the pair moves that many checkpoints before the second. `least` is
    the smallest p that innovations of these sizes can reach. `why` says why a pair is not tested (p is then
    NaN), `note` what was left out of it; both may be empty. `spikes` means that only the alignment finds the
    correlation. `doubt` says why a p below the level gives no verdict, or is empty. `turned` means that a
    shared turn was left out, which a step in the unknown learning rate could have caused.
    """

    r: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    least: np.ndarray
    lag: np.ndarray
    why: np.ndarray
    note: np.ndarray
    spikes: np.ndarray
    doubt: np.ndarray
    turned: np.ndarray

    @property
    def silent(self) -> np.ndarray:
        """Whether a pair has no verdict, whatever its p."""
        return np.asarray((self.why != "") | (self.doubt != "") | self.turned)

    @property
    def found(self) -> np.ndarray:
        """Whether this pair alone adds, at 5%."""
        return np.asarray((self.p <= ALPHA) & ~self.silent)


def innovation_test(
    x: Whitened, y: Whitened, *, intervals: bool = True, rate_known: bool = False
) -> Innovations:
    """Test each pair of whitened columns for correlation; the interval of r inverts the test.

    Examples
    --------
    >>> from toposcope.statistics.trends.whitening import whiten
    >>> steps = np.arange(51) * 100.0
    >>> noise = np.random.default_rng(0).standard_normal((51, 2))
    >>> x = (steps + 100) ** -0.5 + 0.01 * noise[:, 0]
    >>> y = -((steps + 100) ** -0.3) + 0.01 * (noise[:, 0] + noise[:, 1])
    >>> result = innovation_test(whiten(x[:, None], steps), whiten(y[:, None], steps))
    >>> bool(result.p[0] < 0.001), bool(result.low[0] > 0.3), int(result.lag[0])
    (True, True, 0)
    """
    pairs = pair_innovations(x, y, rate_known=rate_known)
    count = len(pairs)
    r, low, high, p, least = np.full((5, count), np.nan)
    out = Innovations(
        r=r,
        low=low,
        high=high,
        p=p,
        least=least,
        lag=np.zeros(count, int),
        why=np.array([pair.why for pair in pairs], dtype=object),
        note=np.array(["" if pair.why else pair.note for pair in pairs], dtype=object),
        spikes=np.zeros(count, bool),
        doubt=np.full(count, "", dtype=object),
        turned=np.array([bool(pair.turned) for pair in pairs]),
    )
    for j, pair in enumerate(pairs):
        if not np.isfinite(pair.e).all() or not np.isfinite(pair.f).all():
            continue
        test = joint_test([pair], intervals=intervals)
        out.r[j] = test.r
        if pair.why:
            continue
        out.low[j], out.high[j], out.p[j], out.least[j] = test.low, test.high, test.p, test.least
        out.lag[j], out.spikes[j], out.doubt[j] = test.lag, test.spikes, test.doubt
    return out


def pair_innovations(x: Whitened, y: Whitened, *, rate_known: bool) -> list[RunInnovations]:
    """Return the input of `joint_test` for each pair in one run, or why the pair is not tested."""
    why = untestable(x, y)
    x, y, notes, turned = freed(x, y, rate_known=rate_known)
    e, f = scores(x.e), scores(y.e)
    swing = both_swing(x.steps, e, f) & differing(x, y) & (turned == "") & (why == "")
    return _runs(x, y, (e, f), np.where(swing, SWINGS, why), notes, turned)


def whole_innovations(x: Whitened, y: Whitened) -> list[RunInnovations]:
    """Return the same with nothing left out and no pair refused."""
    nothing = np.full(len(x.order), "", dtype=object)
    return _runs(x, y, (scores(x.e), scores(y.e)), nothing, nothing, nothing)


def _runs(
    x: Whitened,
    y: Whitened,
    both: tuple[np.ndarray, np.ndarray],
    why: np.ndarray,
    notes: np.ndarray,
    turned: np.ndarray,
) -> list[RunInnovations]:
    e, f = both
    excess = persistence_left(e, f, x.trace * y.trace)
    scaled = [standardised(z.e) for z in (x, y)]
    persist = persisting(x, y)
    return [
        RunInnovations(
            steps=x.steps, why=str(why[j]), note=str(notes[j]), turned=str(turned[j]),
            e=e[:, j], f=f[:, j], left=(x.left[:, j], y.left[:, j]),
            scaled=(scaled[0][:, j], scaled[1][:, j]),
            excess=float(excess[j]), persists=bool(persist[j]),
        )
        for j in range(len(why))
    ]  # fmt: skip


def persisting(x: Whitened, y: Whitened) -> np.ndarray:
    """Return for each pair whether both persist, or are too short for a decision."""
    return ((x.order > 0) & (y.order > 0)) | (x.count < SHORT)


def persistence_left(e: np.ndarray, f: np.ndarray, trace: np.ndarray) -> np.ndarray:
    """Return the factor by which persistence left in both columns (n, pairs) raises the variance of sum e f.

    It is 1 + 2 sum_k (rho_e(k) rho_f(k) - trace_k - (1 - k/n) r^2 / n), with k up to the largest order of
    autoregression tried; 1 if it does not exceed 1 by 2 sqrt(lags) / n, the standard error for white series.
    `trace` (lags, pairs) is the part of rho_e rho_f that comes from the two projections, for which h already
    corrects. Equal innovations have no excess: their common persistence is what they share.

    >>> walks = np.cumsum(np.random.default_rng(0).standard_normal((50, 2)), axis=0)
    >>> bool(persistence_left(walks[:, :1], walks[:, 1:], np.zeros((10, 1)))[0] > 2.0)
    True
    """
    n, lags = len(e), len(trace)
    with np.errstate(invalid="ignore", divide="ignore"):
        e, f = (z / np.sqrt(np.sum(z * z, axis=0)) for z in (e, f))
        own_part = np.sum(e * f, axis=0) ** 2 / n
        excess = np.zeros(e.shape[1])
        for k in range(1, lags + 1):
            both = np.sum(e[k:] * e[:-k], axis=0) * np.sum(f[k:] * f[:-k], axis=0)
            excess += 2.0 * (both - trace[k - 1] - (1.0 - k / n) * own_part)
        persistent = (excess > 2.0 * np.sqrt(lags) / n) & (own_part * n < SAME**2)
        return np.where(persistent, 1.0 + excess, 1.0)


def scores(e: np.ndarray) -> np.ndarray:
    """Return the normal scores of each column, by the rank of |e| and with the sign of e, minus their mean.

    A missing checkpoint has no innovation and no score.

    >>> scores(np.array([[9.0], [-0.1], [0.2]])).round(2).ravel().tolist()
    [0.65, -0.82, 0.17]
    """
    with np.errstate(invalid="ignore"):
        nonzero = np.abs(e) > 1e-9 * np.abs(e).max(axis=0)
        z = np.sign(e) * normal_quantile(0.5 + stat.ranks(np.abs(e)) / (len(e) + 1) / 2.0)
        mean = np.sum(np.where(nonzero, z, 0.0), axis=0) / np.maximum(nonzero.sum(axis=0), 1)
    return np.where(nonzero, z - mean, np.where(np.isfinite(e), 0.0, np.nan))
