"""Does a feature move before the loss? Innovations correlated at every lag, against the best of all lags."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from toposcope.core.forms import too_few_checkpoints
from toposcope.statistics.correlations import holm, signs
from toposcope.statistics.trends.innovations import LEAST_LENGTH
from toposcope.statistics.trends.refusals import untestable
from toposcope.statistics.trends.signs import LEVERAGE_POWER, pair_products, sign_test
from toposcope.statistics.trends.whitening import whiten
from toposcope.study.table import SeriesTable
from toposcope.study.trends.verdicts import default_columns

FLIPS = 999
TAIL = 0.01
"""Below this the draws are few, and the bound over the lags takes over where it is less."""
_PAIRS = 16

COLUMNS = (
    "run", "target", "column", "n", "lag", "lag_steps", "lag_r", "lag_p", "lag_holm", "lead_p",
    "status", "reason",
)  # fmt: skip


def most_lags(n: int) -> int:
    """Return how many checkpoints of lead or lag are tried: n // 8, at most 10.

    >>> most_lags(51)
    6
    """
    return max(1, min(10, n // 8))


def lag_statistics(
    x: np.ndarray, y: np.ndarray, steps: np.ndarray, rate: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return, per pair of columns (n, pairs): best lag, its r, its p over all lags, and p of a lead.

    A positive lag means that the feature x moves that many checkpoints before y. Each lag has the statistic
    of the verdict's test; the largest of all K lags is compared with the largest when the signs of x's
    innovations are flipped at random, the same flips for every lag (999 draws). Below 1%, where the draws are
    few, 1 - (1 - p)^K of the smallest p takes over where it is less. The last value is that of the positive
    lags alone.
    """
    first, last = whiten(x, steps, rate), whiten(y, steps, rate)
    e, f, why = first.e, last.e, untestable(first, last)
    n, reach = len(e), most_lags(len(steps))
    lags = np.arange(-reach, reach + 1)
    r, p = np.empty((len(lags), x.shape[1])), np.empty((len(lags), x.shape[1]))
    products, z = np.zeros((len(lags), n, x.shape[1])), np.empty((len(lags), x.shape[1]))
    for i, lag in enumerate(lags):
        a, b = (slice(0, n - lag), slice(lag, n)) if lag >= 0 else (slice(-lag, n), slice(0, n + lag))
        left = np.sqrt(first.left[a] * last.left[b])
        r[i], p[i] = _each(pair_products(e, f, a, b, left), why)
        products[i, a] = e[a] * f[b] / left**LEVERAGE_POWER
        size = np.sqrt(np.sum(products[i] ** 2, axis=0))
        with np.errstate(invalid="ignore", divide="ignore"):
            products[i] /= size
            z[i] = np.abs(np.sum(e[a] * f[b], axis=0)) / size
    safe = np.where(np.isfinite(p), p, 1.0)
    best = safe.argmin(axis=0)
    pick = np.arange(x.shape[1])
    known = np.isfinite(p).all(axis=0)
    after = lags > 0
    scan, lead = np.full(x.shape[1], np.nan), np.full(x.shape[1], np.nan)
    if known.any():
        scan[known], lead[known] = _largest(products[:, :, known], z[:, known], safe[:, known], after)
    return lags[best], r[best, pick], scan, lead


def _each(parts: tuple[np.ndarray, ...], why: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return r and p of each pair of columns; p is NaN where `why` says so."""
    r, p = (np.full(len(why), np.nan) for _ in range(2))
    for j in np.flatnonzero(np.isfinite(parts[0]).all(axis=0)):
        test = sign_test(*(part[:, j] for part in parts), intervals=False)
        r[j], p[j] = test.r, test.p if why[j] == "" else np.nan
    return r, p


def _largest(
    products: np.ndarray, z: np.ndarray, p: np.ndarray, after: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the p of the largest |z| (lags, pairs) over all lags, and over those `after` zero."""
    lags, n, pairs = products.shape
    flips = signs(FLIPS, n).astype(np.float32)
    hits, leads = np.ones(pairs), np.ones(pairs)
    for start in range(0, pairs, _PAIRS):
        part = slice(start, start + _PAIRS)
        some = np.moveaxis(products[:, :, part], 1, 0).reshape(n, -1).astype(np.float32)
        drawn = np.abs(flips @ some).reshape(FLIPS, lags, -1)
        hits[part] += np.sum(drawn.max(axis=1) >= z[:, part].max(axis=0), axis=0)
        leads[part] += np.sum(drawn[:, after].max(axis=1) >= z[after][:, part].max(axis=0), axis=0)
    out = []
    for count, own in ((hits, p), (leads, p[after])):
        share = count / (FLIPS + 1)
        bound = 1.0 - (1.0 - own.min(axis=0)) ** len(own)
        out.append(np.where(share > TAIL, share, np.minimum(share, bound)))
    return out[0], out[1]


def lag_table(
    table: SeriesTable, *, targets: Sequence[str] | None = None, columns: Sequence[str] | None = None
) -> pd.DataFrame:
    """Find the lag at which each feature's innovations agree best with each target's, in every run.

    `lag` and `lag_steps` (median spacing) are positive where the feature leads; `lag_p` is against the best
    of all lags tried, `lead_p` against the best of the leads alone, `lag_holm` adjusts `lag_p` over the rows
    of a target.
    """
    targets = table.usual_targets if targets is None else list(targets)
    columns = default_columns(table) if columns is None else list(columns)
    rows: list[tuple[object, ...]] = []
    for target in targets:
        for run in table.run_names:
            frame = table.of_run(run)
            for column in columns:
                rows.append((run, target, column, *_of_pair(frame, column, target)))
    out = pd.DataFrame(rows, columns=list(COLUMNS))
    for target in targets:
        mine = out["target"] == target
        out.loc[mine, "lag_holm"] = holm(out.loc[mine, "lag_p"].to_numpy(float))
    return out


def _of_pair(frame: pd.DataFrame, column: str, target: str) -> tuple[object, ...]:
    known = frame[["step", column, target]].dropna()
    n = len(known)
    nothing = (np.nan,) * 6
    if n < LEAST_LENGTH:
        return (n, *nothing, "failed", too_few_checkpoints(n, LEAST_LENGTH))
    steps, x, y = (known[name].to_numpy(float) for name in ("step", column, target))
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return (n, *nothing, "degenerate", "constant series")
    rate = None
    if "learning_rate" in frame:
        rate = frame.set_index("step")["learning_rate"].reindex(steps).to_numpy(float)
    lag, r, p, lead = (value[0] for value in lag_statistics(x[:, None], y[:, None], steps, rate))
    if not np.isfinite(p):
        return (n, *nothing, "degenerate", "too smooth to test: nothing is left beside a smooth trend")
    return (n, int(lag), float(lag * np.median(np.diff(steps))), r, p, np.nan, lead, "ok", "")
