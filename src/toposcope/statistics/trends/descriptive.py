"""The usual statistics for two series over checkpoints, and the correlation of their departures from trend.

All but `departure_rho` have intervals or p-values that are wrong under drift; `calibration` says how wrong.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd

from toposcope.core.forms import too_few_checkpoints
from toposcope.statistics import correlations as stat
from toposcope.statistics.trends import resampling as res
from toposcope.statistics.trends.basis import core_trends

LEAST_POINTS = 4
"""The fewest checkpoints for a rank correlation: with three, no order has a p below 1/6."""
DEFAULT = ("spearman", "naive_p", "block_low", "block_high", "departure_rho")
EVERY = (
    "spearman", "pearson", "naive_p", "naive_low", "naive_high", "effective_n", "effective_p",
    "block_length", "block_low", "block_high", "partial_step", "partial_step_p", "partial_norm",
    "partial_norm_p", "walk_p", "ar_p", "departure_rho",
)  # fmt: skip
COLLINEAR_STEP = "the series ranks the checkpoints exactly as the step does, so nothing is left to test"
_SAME_NORM = "the weight norm ranks the checkpoints as the step does, so it adds nothing as a control"


@dataclass(frozen=True, slots=True)
class Draws:
    """How many resamples and simulations a trend table uses; without `block` draws it has no intervals."""

    iid: int = 1000
    block: int = 10_000
    null: int = 10_000


DEFAULT_DRAWS = Draws()


def pair_statistics(
    x: np.ndarray,
    y: np.ndarray,
    steps: np.ndarray,
    norm: np.ndarray | None = None,
    draws: Draws = DEFAULT_DRAWS,
    *,
    every: bool = False,
) -> pd.DataFrame:
    """Return the statistics of the columns of `x` (n, p) against `y` (n,) or (n, p), one row each.

    `steps` (n,) are distinct and rising; `norm` (n,) is the weight norm, or None. `every` adds those of
    `EVERY` that are not in `DEFAULT`.
    """
    n, p = x.shape
    y = np.broadcast_to(y[:, None] if y.ndim == 1 else y, x.shape)
    out = pd.DataFrame({name: np.full(p, np.nan) for name in (EVERY if every else DEFAULT)})
    out.insert(0, "n", n)
    out["status"], out["reason"] = "ok", ""
    if n < LEAST_POINTS:
        out["status"], out["reason"] = "failed", too_few_checkpoints(n, LEAST_POINTS)
        return out
    flat = (np.ptp(x, axis=0) == 0) | (np.ptp(y, axis=0) == 0)
    out.loc[flat, ["status", "reason"]] = ["degenerate", "constant series: no correlation is defined"]
    good = np.flatnonzero(~flat)
    if len(good):
        x, y = x[:, good], np.ascontiguousarray(y[:, good])
        default = _default(x, y, steps, draws)
        statistics: dict[str, np.ndarray | float] = {**default}
        if every:
            more, notes = _others(x, y, steps, norm, draws, default["spearman"])
            statistics |= more
            out.loc[good, "reason"] = notes
            out.loc[good, "status"] = np.where(notes == COLLINEAR_STEP, "partial", "ok")
        for name, values in statistics.items():
            out.loc[good, name] = values
    return out


def _default(x: np.ndarray, y: np.ndarray, steps: np.ndarray, draws: Draws) -> dict[str, np.ndarray]:
    n = len(x)
    rho = stat.correlation(stat.ranks(x), stat.ranks(y))
    statistics = {"spearman": rho, "naive_p": np.maximum(stat.t_p_value(rho, n - 2.0), _least_p(n))}
    if draws.block:
        blocks = res.block_indices(n, draws.block, res.block_length(n))
        statistics["block_low"], statistics["block_high"] = res.bootstrap_interval(x, y, blocks)
    return statistics | {"departure_rho": departure_correlation(x, y, steps)}


def _least_p(n: int) -> float:
    """Return the smallest two-sided p that orders of n values can have: 2 / n!, kept above 0.

    >>> round(_least_p(5), 4), _least_p(1000) > 0
    (0.0167, True)
    """
    return max(math.exp(math.log(2.0) - math.lgamma(n + 1.0)), sys.float_info.min)


def departure_correlation(x: np.ndarray, y: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return the rank correlation of each pair of columns after removing the core trends, without a p.

    NaN if the trends leave fewer than three degrees of freedom, or only rounding errors of a series.

    >>> steps = np.arange(20.0)
    >>> noise = np.random.default_rng(0).standard_normal((20, 1))
    >>> float(departure_correlation(steps[:, None] + noise, noise - steps[:, None], steps)[0].round(2))
    1.0
    """
    trends = core_trends(np.asarray(steps, float))
    if len(steps) - trends.shape[1] < 3:
        return np.full(x.shape[1], np.nan)
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    rest_x, rest_y = (z - trends @ (trends.T @ z) for z in (x, y))
    dust = [
        np.linalg.norm(rest, axis=0) <= stat.COLLINEAR * np.linalg.norm(z, axis=0)
        for rest, z in ((rest_x, x), (rest_y, y))
    ]
    return np.where(dust[0] | dust[1], np.nan, stat.correlation(stat.ranks(rest_x), stat.ranks(rest_y)))


def _others(
    x: np.ndarray, y: np.ndarray, steps: np.ndarray, norm: np.ndarray | None, draws: Draws, rho: np.ndarray
) -> tuple[dict[str, np.ndarray | float], np.ndarray]:
    n = len(x)
    rank_x, rank_y = stat.ranks(x), stat.ranks(y)
    statistics: dict[str, np.ndarray | float] = {"pearson": stat.correlation(x, y)}
    statistics["naive_low"], statistics["naive_high"] = res.bootstrap_interval(
        x, y, res.iid_indices(n, draws.iid)
    )
    size = stat.effective_size(rank_x, rank_y)
    statistics["effective_n"], statistics["effective_p"] = (
        size,
        stat.t_p_value(rho, np.maximum(size - 2.0, 1e-3)),
    )
    statistics["block_length"] = float(res.block_length(n))
    statistics["walk_p"] = res.walk_p_value(rho, n, draws.null)
    statistics["ar_p"] = res.surrogate_p_value(x, y, rho, draws.null)
    return statistics, _partials(statistics, rank_x, rank_y, steps, norm)


def _partials(
    statistics: dict, rank_x: np.ndarray, rank_y: np.ndarray, steps: np.ndarray, norm: np.ndarray | None
) -> np.ndarray:
    """Add the partial correlations given log step (in ranks: given the step), and given the norm as well."""
    clock = stat.ranks(steps[:, None])
    r, degrees = stat.partial_correlation(rank_x, rank_y, clock)
    statistics["partial_step"], statistics["partial_step_p"] = r, stat.t_p_value(r, degrees)
    notes = np.where(np.isfinite(r), "", COLLINEAR_STEP).astype(object)
    if norm is None or not np.isfinite(norm).all():
        return notes
    both = np.column_stack([clock, stat.ranks(norm[:, None])])
    r, degrees = stat.partial_correlation(rank_x, rank_y, both)
    statistics["partial_norm"], statistics["partial_norm_p"] = r, stat.t_p_value(r, degrees)
    if np.array_equal(both[:, 0], both[:, 1]):
        notes = np.where(notes == "", _SAME_NORM, notes)
    return notes
