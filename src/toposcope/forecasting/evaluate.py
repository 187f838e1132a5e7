"""Scores forecasts: every run left out in turn, topology ablated in pairs, and the smallest possible p."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import scipy

from toposcope.core.distributions import student_quantile, student_two_sided
from toposcope.forecasting.base import LEVEL, Forecast, Forecaster
from toposcope.forecasting.one_run import forecast
from toposcope.logs.curve import Curve
from toposcope.scaling import spearman_exact
from toposcope.statistics.correlations import ranks

_ROUNDING = 1e-9
"""Two errors count as equal if they differ by less than this share of the actual loss."""


def score_forecasts(
    curves: Sequence[Curve],
    methods: Sequence[Forecaster],
    cuts: Sequence[float],
    *,
    level: float = LEVEL,
    advance: Callable[[], None] | None = None,
    make: Callable[..., Forecast] = forecast,
) -> pd.DataFrame:
    """Forecast every finished run from its siblings, at every cut, with every method.

    The logged learning rate of a finished run counts as its plan, known from the start.

    Parameters
    ----------
    curves : finished runs
    cuts : shares of the horizon in (0, 1)
    advance : called after each forecast, for a progress bar.
    make : makes one forecast, as `forecast` does; it may return one that it has made before.

    Returns
    -------
    DataFrame
        One row per (method, run, cut): predicted, low, high, actual, error (predicted - actual), relative,
        covered, interval_from, status, reason.
    """
    rows = []
    for cut in cuts:
        for curve in curves:
            siblings = [other for other in curves if other is not curve]
            seen, actual = curve.planned().seen(cut * curve.horizon), curve.final_loss()
            for method in methods:
                end = make(method, seen, siblings, level=level)
                bounded = math.isfinite(end.low)
                rows.append(
                    {
                        "method": end.method,
                        "run": curve.run,
                        "cut": cut,
                        "parameters": curve.parameters,
                        "predicted": end.final,
                        "low": end.low,
                        "high": end.high,
                        "actual": actual,
                        "error": end.final - actual,
                        "relative": end.final / actual - 1.0,
                        "covered": bool(end.low <= actual <= end.high) if bounded else None,
                        "interval_from": end.interval_from,
                        "status": end.status,
                        "reason": end.reason,
                    }
                )
                if advance is not None:
                    advance()
    return pd.DataFrame(rows)


def summarise(scores: pd.DataFrame) -> pd.DataFrame:
    """Return one row per (method, cut): mean absolute and relative error, coverage, rank correlation."""
    rows = []
    for (method, cut), group in scores.groupby(["method", "cut"], sort=False):
        good = group[np.isfinite(group["predicted"])]
        rho, p = spearman_exact(good["predicted"].to_numpy(), good["actual"].to_numpy())
        covered = good["covered"].dropna()
        rows.append(
            {
                "method": method,
                "cut": cut,
                "n": len(good),
                "mae": good["error"].abs().mean(),
                "mean_relative": good["relative"].abs().mean(),
                "worst": good["error"].abs().max(),
                "covered": int(covered.sum()),
                "bounded": len(covered),
                "rank_correlation": rho,
                "rank_p": p,
                "failed": len(group) - len(good),
                "reason": next(iter(group.loc[group["status"] == "failed", "reason"]), ""),
            }
        )
    return pd.DataFrame(rows)


def ablate(scores: pd.DataFrame, base: str, level: float = 0.95) -> pd.DataFrame:
    """Compare each method with `base` in pairs: effect = mean over runs of |error with| - |error without|.

    Negative means that the method is better. The interval is Student's over runs. The paired tests come with
    the smallest two-sided p that this number of runs can reach: 2 / 2^n for Wilcoxon's signed ranks, no limit
    for the t-test. Differences below 1e-9 of the loss are rounding and count as zero.
    """
    rows = []
    for cut in scores["cut"].unique():
        at = scores[scores["cut"] == cut]
        without = at[at["method"] == base].set_index("run")["error"].abs()
        actual = at.drop_duplicates("run").set_index("run")["actual"].abs()
        for method in at["method"].unique():
            if method == base:
                continue
            error = at[at["method"] == method].set_index("run")["error"].abs()
            difference = error - without
            rounding = difference.abs() < _ROUNDING * actual.reindex(difference.index)
            difference = difference.mask(rounding, 0.0)
            rows.append({"cut": cut, "method": method, "base": base, **paired(difference, level)})
    return pd.DataFrame(rows)


def paired(difference: pd.Series, level: float = 0.95) -> dict[str, object]:
    """Return the mean paired difference, its interval, both tests and the smallest p they can reach."""
    d = difference[np.isfinite(difference)].to_numpy(float)
    n = len(d)
    base: dict[str, object] = {"n": n, "effect": float(d.mean()) if n else math.nan}
    if n < 2 or not np.any(d):
        return {
            **base, "low": math.nan, "high": math.nan, "t_p": math.nan, "wilcoxon_p": math.nan,
            "smallest_wilcoxon_p": 2.0 ** (1 - n) if n else math.nan, "status": "failed",
            "reason": "no run differs" if n >= 2 else f"{n:,} paired runs; at least 2 are needed",
        }  # fmt: skip
    error = float(d.std(ddof=1)) / math.sqrt(n)
    half = float(student_quantile(0.5 + level / 2, n - 1)) * error
    t_p = float(student_two_sided(float(d.mean()) / error, n - 1)) if error > 0 else 0.0
    return {
        **base, "low": float(d.mean()) - half, "high": float(d.mean()) + half, "t_p": t_p,
        "wilcoxon_p": _wilcoxon(d), "smallest_wilcoxon_p": 2.0 ** (1 - n), "status": "ok", "reason": "",
    }  # fmt: skip


def _wilcoxon(d: np.ndarray) -> float:
    """Return the two-sided signed-rank p, exact by enumeration up to 16 pairs."""
    d = d[d != 0]
    sizes = ranks(np.abs(d))
    observed = abs(float(sizes @ np.sign(d)))
    if len(d) > 16:
        return float(scipy.stats.wilcoxon(d).pvalue)
    signs = 1 - 2 * ((np.arange(2 ** len(d))[:, None] >> np.arange(len(d))) & 1)
    return float(np.mean(np.abs(signs @ sizes) >= observed - 1e-9))


def unseen_largest(
    curves: Sequence[Curve], methods: Sequence[Forecaster], cuts: Sequence[float], *, level: float = LEVEL
) -> pd.DataFrame:
    """Forecast the largest model from the smaller ones, and from its size alone, without its losses.

    The rows called "size alone" are a power law of final loss in parameters over the smaller models, with
    Student's prediction interval in log-log. Runs of unknown size are left out. Of runs of one size none is
    the largest, and nothing is forecast.
    """
    ordered = sorted((c for c in curves if c.parameters > 0), key=lambda curve: curve.parameters)
    columns = ["method", "run", "cut", "predicted", "low", "high", "actual", "error", "status", "reason"]
    smaller = [curve for curve in ordered if curve.parameters < ordered[-1].parameters]
    if not smaller:
        nan, reason = math.nan, "the runs have one size" if ordered else "the size of no run is known"
        row = ("size alone", "", 0.0, nan, nan, nan, nan, nan, "failed", reason)
        return pd.DataFrame([row], columns=columns)
    largest = ordered[-1]
    rows = [_from_size(largest, smaller, level)]
    for cut in cuts:
        for method in methods:
            end = forecast(method, largest.planned().seen(cut * largest.horizon), smaller, level=level)
            actual = largest.final_loss()
            rows.append(
                (end.method, largest.run, cut, end.final, end.low, end.high, actual, end.final - actual,
                 end.status, end.reason)
            )  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def _from_size(largest: Curve, smaller: Sequence[Curve], level: float) -> tuple[object, ...]:
    actual = largest.final_loss()
    size = np.array([c.parameters for c in smaller], float)
    final = np.array([c.final_loss() for c in smaller])
    if len(np.unique(size)) < 3:
        nan = math.nan
        reason = "fewer than 3 smaller sizes are known"
        return "size alone", largest.run, 0.0, nan, nan, nan, actual, nan, "failed", reason
    u, v = np.log(size), np.log(final)
    slope, centre = np.polyfit(u, v, 1)[0], u.mean()
    mean = v.mean() + slope * (math.log(largest.parameters) - centre)
    free = len(u) - 2
    sigma = math.sqrt(float(np.sum((v - v.mean() - slope * (u - centre)) ** 2)) / free)
    reach = (math.log(largest.parameters) - centre) ** 2 / float(np.sum((u - centre) ** 2))
    half = float(student_quantile(0.5 + level / 2, free)) * sigma * math.sqrt(1 + 1 / len(u) + reach)
    predicted = math.exp(mean)
    return (
        "size alone", largest.run, 0.0, predicted, math.exp(mean - half), math.exp(mean + half), actual,
        predicted - actual, "ok", "",
    )  # fmt: skip
