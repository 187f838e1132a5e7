"""The true error rate of every statistic: its false-alarm rate at a nominal 5%, and its power."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from importlib import resources

import numpy as np
import pandas as pd

from toposcope.core.errors import InputError
from toposcope.core.progress import track
from toposcope.statistics import correlations as stat
from toposcope.statistics.trends import resampling as res
from toposcope.statistics.trends._nulls import NULLS, null_pairs, planted_pairs
from toposcope.statistics.trends.held_out_nulls import HELD_OUT_NULLS
from toposcope.statistics.trends.innovations import (
    LEAST_LENGTH,
    innovation_test,
)
from toposcope.statistics.trends.lags import lag_statistics
from toposcope.statistics.trends.preregistered_nulls import PREREGISTERED_NULLS
from toposcope.statistics.trends.whitening import whiten

DRAWS = 10_000
"""The number of pairs of series; a rate of 5% then has a standard error of .2 points."""
OTHER_DRAWS = 100
"""The number of pairs for tests other than the verdict's; their rates are off by tens of points."""
ALPHA = 0.05  # the level whose rate is counted
RESAMPLES, SURROGATES = 200, 2000
"""The numbers of bootstraps and of surrogate nulls for each of those pairs."""
PLANTED = (0.3, 0.5, 0.7)
"""Correlations of innovations for which power is measured."""
VERDICT = "innovations"
REFUSED = "not tested"
COLUMNS = ("kind", "case", "test", "columns", "rate", "error", "draws", "n")
TESTS = {
    "Spearman's own p": "naive_p",
    "iid bootstrap": "naive_low, naive_high",
    "effective n": "effective_p",
    "block bootstrap": "block_low, block_high",
    "partial rho, step": "partial_step_p",
    "partial rho, step and norm": "partial_norm_p",
    "random-walk null": "walk_p",
    "AR(1) surrogates": "ar_p",
    "lag scan": "lag_p",
    VERDICT: "p",
    REFUSED: "verdict",
}
"""Test -> the columns of the trend and lag tables that it covers; last, the share not tested."""


def rejections(x: np.ndarray, y: np.ndarray, steps: np.ndarray, norm: np.ndarray) -> dict[str, float]:
    """Return the share of the pairs (n, pairs) that each test rejects at 5%; untested pairs are not rejected.

    `norm` (n,) stands for the weight norm in the partial correlation. All tests but the verdict's see only
    the first `OTHER_DRAWS` pairs.
    """
    test = innovation_test(whiten(x, steps), whiten(y, steps), intervals=False)
    x, y = x[:, :OTHER_DRAWS], y[:, :OTHER_DRAWS]
    n = len(steps)
    rank_x, rank_y = stat.ranks(x), stat.ranks(y)
    rho = stat.correlation(rank_x, rank_y)
    ticks = np.arange(n, dtype=float)[:, None]
    both = np.column_stack([ticks, stat.ranks(norm[:, None])])
    size = stat.effective_size(rank_x, rank_y)
    step_r, step_free = stat.partial_correlation(rank_x, rank_y, ticks)
    norm_r, norm_free = stat.partial_correlation(rank_x, rank_y, both)
    p_values: dict[str, np.ndarray] = {
        "Spearman's own p": stat.t_p_value(rho, n - 2.0),
        "effective n": stat.t_p_value(rho, np.maximum(size - 2.0, 1e-3)),
        "partial rho, step": stat.t_p_value(step_r, step_free),
        "partial rho, step and norm": stat.t_p_value(norm_r, norm_free),
        "random-walk null": res.walk_p_value(rho, n, SURROGATES),
        "AR(1) surrogates": res.surrogate_p_value(x, y, rho, SURROGATES),
        "lag scan": lag_statistics(x, y, steps)[2],
        VERDICT: test.p,
    }
    rates = {name: float(np.mean(p <= ALPHA)) for name, p in p_values.items()}
    rates[VERDICT], rates[REFUSED] = float(np.mean(test.found)), float(np.mean(test.silent))
    for name, indices in (
        ("iid bootstrap", res.iid_indices(n, RESAMPLES)),
        ("block bootstrap", res.block_indices(n, RESAMPLES, res.block_length(n))),
    ):
        low, high = res.bootstrap_interval(x, y, indices)
        rates[name] = float(np.mean((low > 0) | (high < 0)))
    return rates


def calibration_matrix(
    steps: np.ndarray,
    *,
    nulls: Sequence[str] | None = None,
    draws: int = DRAWS,
    planted: Sequence[float] = PLANTED,
    quiet: bool = True,
) -> pd.DataFrame:
    """Simulate every null at these steps; return the true rejection rate of every test, in long form.

    Columns: kind ("null", "blind", "fresh" or "planted"), case, test, columns (of the trend table), rate,
    error (binomial standard error), draws, n. A blind null was written after the constants were set, a fresh
    one after the last rule. A planted case is a pair of power laws with noise of the named correlation. The
    simulated weight norm grows like t^0.3, with noise of a tenth of its range. Every case has its own random
    numbers, so simulating cases one by one gives the same rates as all together.

    Raises
    ------
    InputError
        If the steps are not distinct and ascending, there are fewer than 12, or a null is unknown.
    """
    steps = _checked(steps)
    cases = simulated_cases(nulls, planted)
    rows = [case_rates(steps, *case, draws=draws) for case in track(cases, "simulating", quiet=quiet)]
    return pd.DataFrame([row for part in rows for row in part], columns=list(COLUMNS))


Simulate = Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]]


def simulated_cases(
    nulls: Sequence[str] | None = None, planted: Sequence[float] = PLANTED
) -> list[tuple[str, str, Simulate]]:
    """Return kind, case and a simulator of pairs (steps, draws) for each null and each planted effect."""
    kinds = {
        name: kind
        for kind, names in (("null", NULLS), ("blind", HELD_OUT_NULLS), ("fresh", PREREGISTERED_NULLS))
        for name in names
    }
    nulls = list(kinds) if nulls is None else list(nulls)
    unknown = [name for name in nulls if name not in kinds]
    if unknown:
        raise InputError(f"no null called {unknown[0]!r}; there are: {', '.join(kinds)}")
    cases: list[tuple[str, str, Simulate]] = [
        (kinds[name], name, partial(null_pairs, name)) for name in nulls
    ]
    for rho in planted:
        for noise, text in _NOISE.items():
            cases.append(("planted", f"r = {rho} in {text}", partial(planted_pairs, rho, kind=noise)))
    return cases


def case_rates(
    steps: np.ndarray, kind: str, case: str, simulate: Simulate, *, draws: int
) -> list[tuple[object, ...]]:
    """Return the rows of `calibration_matrix` for one case."""
    rates = rejections(*simulate(steps, draws), steps, _simulated_norm(steps))
    rows: list[tuple[object, ...]] = []
    for test, columns in TESTS.items():
        rate, count = rates[test], draws_of(test, draws)
        error = float(np.sqrt(rate * (1.0 - rate) / count))
        rows.append((kind, case, test, columns, rate, error, count, len(steps)))
    return rows


_NOISE = {"white": "white noise", "walk": "random-walk noise"}


def draws_of(test: str, draws: int) -> int:
    """Return on how many of `draws` pairs a test is tried."""
    return draws if test in (VERDICT, REFUSED) else min(draws, OTHER_DRAWS)


def _simulated_norm(steps: np.ndarray) -> np.ndarray:
    t = np.arange(1.0, len(steps) + 1.0)
    g = np.random.Generator(np.random.PCG64(len(steps)))
    return t**0.3 + 0.1 * np.ptp(t**0.3) * g.standard_normal(len(t))


def _checked(steps: np.ndarray) -> np.ndarray:
    steps = np.asarray(steps, float)
    if len(steps) < LEAST_LENGTH or (np.diff(steps) <= 0).any():
        raise InputError(
            f"steps: {len(steps):,} checkpoints given; the simulation needs at least {LEAST_LENGTH} "
            "distinct steps in rising order"
        )
    return steps


def as_matrix(table: pd.DataFrame, kind: str = "null") -> pd.DataFrame:
    """Return the rates as a matrix case x test."""
    mine = table[table["kind"] == kind]
    cases, tests = list(dict.fromkeys(mine["case"])), list(dict.fromkeys(mine["test"]))
    return mine.pivot(index="case", columns="test", values="rate").loc[cases, tests]


@lru_cache(maxsize=1)
def _packaged() -> dict[str, tuple[np.ndarray, pd.DataFrame]]:
    text = resources.files("toposcope.statistics.trends").joinpath("rates.json").read_text()
    grids = {}
    for name, grid in json.loads(text)["grids"].items():
        rows = [
            (
                kind,
                case,
                test,
                columns,
                rate,
                float(np.sqrt(rate * (1 - rate) / draws_of(test, grid["draws"]))),
                draws_of(test, grid["draws"]),
                len(grid["steps"]),
            )
            for (kind, case), rates in zip(grid["cases"], grid["rates"], strict=True)
            for (test, columns), rate in zip(TESTS.items(), rates, strict=True)
        ]
        grids[name] = np.array(grid["steps"], float), pd.DataFrame(rows, columns=list(COLUMNS))
    return grids


def nearest_grid(steps: np.ndarray) -> str:
    """Return the packaged grid most similar to these steps in number and spacing.

    The distance is |log ratio of the numbers of checkpoints| + the largest difference between the shares of
    the run that both grids have covered at the same share of their checkpoints.

    >>> nearest_grid(np.arange(0, 5001, 100)), nearest_grid(2.0 ** np.arange(14))
    ('51 even', '14 log')
    """
    steps = np.asarray(steps, float)
    share = np.linspace(0, 1, 21)

    def progress(grid: np.ndarray) -> np.ndarray:
        return np.interp(share, np.linspace(0, 1, len(grid)), (grid - grid[0]) / (grid[-1] - grid[0]))

    def distance(grid: np.ndarray) -> float:
        return float(abs(np.log(len(steps) / len(grid))) + np.abs(progress(steps) - progress(grid)).max())

    return min(_packaged(), key=lambda name: distance(_packaged()[name][0]))


def known_rates(grid: str = "51 even") -> pd.DataFrame:
    """Return the packaged matrix of a grid, as from `calibration_matrix`; `draws` is the number of pairs."""
    return _packaged()[grid][1]


def true_rates(grid: str = "51 even") -> dict[str, tuple[float, float]]:
    """Return test -> (lowest, highest) true rejection rate over the packaged nulls, at a nominal 5%."""
    table = known_rates(grid)
    grouped = table[table["kind"] != "planted"].groupby("test")["rate"]
    return {str(test): (float(rates.min()), float(rates.max())) for test, rates in grouped}
