"""Trend statistics against scipy, closed forms, planted effects, and bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from toposcope.analysis import from_frame, trend_table
from toposcope.analysis import statistics as stat
from toposcope.analysis.trends import resampling as res
from toposcope.analysis.trends.innovations import (
    beta_quantile,
    beta_tail,
    innovation_filter,
    innovation_test,
    innovations,
)
from toposcope.analysis.trends.nulls import NULLS, REQUIRED, null_pairs, planted_pairs
from toposcope.analysis.trends.verdicts import Draws
from toposcope.errors import InputError

FEW = Draws(200, 300, 1000)
STEPS = np.arange(51) * 100.0


def series(**columns: object) -> pd.DataFrame:
    g = np.random.default_rng(1)
    base = {"run": "a", "step": STEPS, "loss": (STEPS + 100) ** -0.3 + 0.01 * g.standard_normal(51)}
    return pd.DataFrame({**base, "f": np.log(STEPS + 100) + 0.1 * g.standard_normal(51), **columns})


def test_correlations_agree_with_scipy_with_ties() -> None:
    g = np.random.default_rng(0)
    x, y = g.integers(0, 8, (40, 5)).astype(float), g.standard_normal((40, 5))
    rho = stat.correlation(stat.ranks(x), stat.ranks(y))
    p = stat.t_p_value(rho, 38.0)
    for j in range(5):
        found = stats.spearmanr(x[:, j], y[:, j])
        assert rho[j] == pytest.approx(found.statistic)
        assert p[j] == pytest.approx(found.pvalue)


def test_partial_correlation_agrees_with_the_closed_form() -> None:
    g = np.random.default_rng(0)
    z = g.standard_normal((30, 1))
    x, y = z + g.standard_normal((30, 1)), z + g.standard_normal((30, 1))
    xy, xz, yz = (stat.correlation(a, b)[0] for a, b in ((x, y), (x, z), (y, z)))
    expected = (xy - xz * yz) / np.sqrt((1 - xz**2) * (1 - yz**2))
    r, degrees = stat.partial_correlation(x, y, z)
    assert r[0] == pytest.approx(expected)
    assert degrees[0] == 27
    again, degrees = stat.partial_correlation(x, y, np.column_stack([z, 2 * z]))
    assert again[0] == pytest.approx(expected)
    assert degrees[0] == 27


def test_a_feature_that_ranks_like_the_step_has_no_partial_correlation() -> None:
    row = trend_table(from_frame(series(f=STEPS**0.5)), draws=FEW).iloc[0]
    assert np.isnan(row["partial_step"])
    assert row["status"] == "partial"
    assert "ranks the checkpoints exactly as the step does" in row["reason"]


def test_a_norm_that_ranks_like_the_step_is_told() -> None:
    row = trend_table(from_frame(series(weight_norm=1 + STEPS), features=["f"]), draws=FEW).iloc[0]
    assert row["partial_norm"] == pytest.approx(row["partial_step"])
    assert "adds nothing" in row["reason"]


def test_effective_size_of_white_noise_and_of_a_walk() -> None:
    g = np.random.default_rng(0)
    white, walk = g.standard_normal((400, 50)), np.cumsum(g.standard_normal((400, 50)), axis=0)
    assert 300 < stat.effective_size(white[:, :25], white[:, 25:]).mean() <= 400
    assert stat.effective_size(walk[:, :25], walk[:, 25:]).mean() < 100


def test_bootstraps_agree_with_a_plain_loop() -> None:
    g = np.random.default_rng(0)
    x, y = g.integers(0, 9, (30, 2)).astype(float), g.standard_normal((30, 2))
    indices = res.block_indices(30, 150, 5)
    low, high = res.bootstrap_interval(x, y, indices)
    for j in range(2):
        plain = [stats.spearmanr(x[i, j], y[i, j]).statistic for i in indices]
        assert (low[j], high[j]) == pytest.approx(tuple(np.percentile(plain, [2.5, 97.5])))


def test_blocks_are_consecutive_and_inside() -> None:
    indices = res.block_indices(51, 50, 8)
    assert indices.min() >= 0
    assert indices.max() <= 50
    assert (np.diff(indices[:, :8], axis=1) == 1).all()


def test_the_null_of_random_walks_agrees_with_a_direct_simulation() -> None:
    g = np.random.default_rng(5)
    x, y = (np.cumsum(g.standard_normal((51, 4000)), axis=0) for _ in range(2))
    direct = np.abs(stat.correlation(stat.ranks(x), stat.ranks(y)))
    for rho in (0.3, 0.6, 0.9):
        share = np.mean(direct >= rho)
        assert res.walk_p_value(np.array([rho]), 51, 10_000)[0] == pytest.approx(share, abs=0.03)


def test_adjusted_p_values() -> None:
    p = np.array([0.001, 0.2, 0.03, 0.04, np.nan])
    assert stat.holm(p)[:4] == pytest.approx([0.004, 0.2, 0.09, 0.09])
    expected = stats.false_discovery_control(p[:4])
    assert stat.benjamini_hochberg(p)[:4] == pytest.approx(expected)


def test_the_filter_diagonalises_a_random_walk_and_removes_power_laws() -> None:
    filt = innovation_filter(STEPS)
    n = len(STEPS)
    walk = np.minimum.outer(np.arange(n), np.arange(n)).astype(float)
    inside = filt.basis.T @ walk @ filt.basis
    assert np.abs(inside - np.diag(np.diag(inside))).max() < 1e-8 * np.diag(inside).max()
    for b in (0.1, 0.37, 1.3):
        trend = (STEPS / 100 + 1) ** -b
        assert np.linalg.norm(filt.basis.T @ trend) < 2e-3 * np.linalg.norm(trend - trend.mean())


def test_the_reference_distribution_is_that_of_sign_flips() -> None:
    g = np.random.default_rng(0)
    q = g.standard_normal(40) * g.standard_normal(40)
    z = np.abs(g.choice([-1.0, 1.0], (200_000, 40)) @ q) / np.sqrt(q @ q)
    equal = np.array([3 * (q @ q) ** 2 / np.sum(q**4) - 2])
    cut = beta_quantile(0.95, equal)
    assert np.mean(z > cut) == pytest.approx(0.05, abs=0.01)
    assert beta_tail(cut, equal)[0] == pytest.approx(0.05)


@pytest.mark.parametrize("name", [*REQUIRED, "power laws + 10% noise, waning", "random walk + white noise"])
@pytest.mark.parametrize("steps", [STEPS, np.arange(25) * 10.0, np.arange(100.0), np.geomspace(1, 1e5, 51)],
                         ids=["51", "25", "100", "51 log"])  # fmt: skip
def test_the_verdict_holds_its_level_under_every_null(name: str, steps: np.ndarray) -> None:
    x, y = null_pairs(name, steps, 4000)
    result = innovation_test(innovations(x, steps), innovations(y, steps), innovation_filter(steps).left)
    assert 0.03 <= np.mean(result.p <= 0.05) <= 0.07


def test_the_verdict_finds_a_planted_effect() -> None:
    for kind in ("white", "walk"):
        x, y = planted_pairs(0.5, STEPS, 2000, kind=kind)
        result = innovation_test(innovations(x, STEPS), innovations(y, STEPS), innovation_filter(STEPS).left)
        assert np.mean(result.p <= 0.05) > 0.85
        assert np.median(result.r) == pytest.approx(0.5, abs=0.07)
        assert np.mean((result.low <= 0.5) & (result.high >= 0.5)) > 0.85


def test_a_planted_pair_adds_and_a_pair_of_trends_does_not() -> None:
    g = np.random.default_rng(3)
    shared = g.standard_normal(51)
    loss = (STEPS + 100) ** -0.3 + 0.01 * shared
    good = np.log(STEPS + 100) + 0.1 * (shared + 0.3 * g.standard_normal(51))
    table = trend_table(
        from_frame(series(loss=loss, f=good, g=np.log(STEPS + 50) + 0.1 * g.standard_normal(51))), draws=FEW
    )
    verdicts = dict(zip(table["column"], table["verdict"], strict=True))
    assert verdicts == {"f": "adds", "g": "nothing beyond the trend"}
    assert (table["seed_p"] < 1e-6).all()


def test_bad_series_become_rows_with_a_reason() -> None:
    broken = series()["loss"].to_numpy().copy()
    broken[[4, 9]] = [np.nan, np.inf]
    table = from_frame(series(loss=broken, flat=1.0, tied=np.repeat(np.arange(17.0), 3)))
    found = trend_table(table, draws=FEW).set_index("column")
    assert found.loc["f", "n"] == 49
    assert "2 checkpoints without a finite value left out" in found.loc["f", "reason"]
    assert found.loc["flat", "status"] == "degenerate"
    assert np.isnan(found.loc["flat", "spearman"])
    assert np.isfinite(found.loc["tied", "innovation_p"])


@pytest.mark.parametrize(("length", "status"), [(1, "failed"), (3, "failed"), (8, "partial")])
def test_short_runs_say_so(length: int, status: str) -> None:
    row = trend_table(from_frame(series().iloc[:length]), draws=FEW).iloc[0]
    assert row["status"] == status
    assert f"{length} checkpoints" in row["reason"]
    assert row["verdict"] == "untested"


def test_nulls_are_reproducible_and_independent() -> None:
    for name in NULLS:
        x, y = null_pairs(name, STEPS, 3)
        assert np.array_equal(x, null_pairs(name, STEPS, 3)[0])
        assert not np.allclose(x, y)


def test_unknown_columns_are_named() -> None:
    with pytest.raises(InputError, match="'nothing' is not a column"):
        trend_table(from_frame(series()), columns=["nothing"])
