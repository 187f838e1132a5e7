"""Trend statistics against scipy, closed forms, planted effects, and bad input."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks.repeating_nulls import REPEATING_SETTING
from benchmarks.setting_nulls import SETTING_NULLS
from toposcope.core.errors import InputError
from toposcope.statistics import correlations as stat
from toposcope.statistics.trends import innovations
from toposcope.statistics.trends import resampling as res
from toposcope.statistics.trends._coincidences import folded, folded_bar, freed
from toposcope.statistics.trends._nulls import NULLS, null_pairs, planted_pairs
from toposcope.statistics.trends.alignment import alignment_interval, alignment_tail, standardised
from toposcope.statistics.trends.basis import core_trends, trend_family
from toposcope.statistics.trends.innovations import (
    Innovations,
    innovation_test,
    pair_innovations,
    persistence_left,
    scores,
)
from toposcope.statistics.trends.joint import WIDER, joint_test
from toposcope.statistics.trends.refusals import (
    ONE_PERIOD,
    ONE_STRETCH,
    TOO_SMOOTH,
    rich,
    untestable,
)
from toposcope.statistics.trends.signs import (
    OWN_SHARE,
    SignTest,
    detectable_r,
    pair_products,
    sign_tail,
    sign_test,
)
from toposcope.statistics.trends.whitening import whiten
from toposcope.study import from_frame, trend_table
from toposcope.study.trends.verdicts import Draws, family_table, judged

FEW = Draws(200, 300, 1000)

STEPS = np.arange(51) * 100.0
REQUIRED = (
    "random walks", "AR(1) 0.5", "AR(1) 0.9", "power laws + 30% noise", "power laws + 10% noise",
    "power laws + 3% noise", "power laws + 1% noise",
)  # fmt: skip
"""The most basic nulls: drift, persistence, shared trends."""


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
    row = trend_table(from_frame(series(f=STEPS**0.5)), draws=FEW, every=True).iloc[0]
    assert np.isnan(row["partial_step"])
    assert row["status"] == "partial"
    assert "ranks the checkpoints exactly as the step does" in row["reason"]


def test_a_norm_that_ranks_like_the_step_is_told() -> None:
    row = trend_table(from_frame(series(weight_norm=1 + STEPS), features=["f"]), draws=FEW, every=True).iloc[
        0
    ]
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


def test_pairs_that_share_a_series_and_resamples_without_a_rank_are_counted_as_a_plain_loop_counts() -> None:
    g = np.random.default_rng(1)
    rare = np.where(np.arange(12) == 5, 1.0, 0.0)  # constant wherever a resample misses checkpoint 5
    x = np.column_stack([rare, g.integers(0, 3, (12, 4)), g.standard_normal((12, 2))]).astype(float)
    shared, other = g.integers(0, 4, 12).astype(float), g.standard_normal(12)
    y = np.column_stack([shared, other, shared, rare, other, shared, other])
    indices = res.iid_indices(12, 300)
    low, high = res.bootstrap_interval(x, y, indices)
    for j in range(x.shape[1]):
        taken = [(x[i, j], y[i, j]) for i in indices if np.ptp(x[i, j]) and np.ptp(y[i, j])]
        assert (len(taken) < len(indices)) == (j in (0, 3))
        plain = [stats.spearmanr(*pair).statistic for pair in taken]
        assert (low[j], high[j]) == pytest.approx(tuple(np.percentile(plain, [2.5, 97.5])), abs=1e-12)


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


def _tested(x: np.ndarray, y: np.ndarray, steps: np.ndarray) -> Innovations:
    return innovation_test(whiten(x, steps), whiten(y, steps))


def test_the_core_removes_power_laws_and_the_family_other_smooth_curves() -> None:
    core, (family, sizes) = core_trends(STEPS), trend_family(STEPS)
    assert np.abs(family @ family.T - np.eye(len(family))).max() < 1e-8
    assert sizes[0] == core.shape[1]
    for curve, trends, part in (
        *(((STEPS / 100 + 1) ** -b, core.T, 2e-3) for b in (0.1, 0.37, 1.3)),
        (np.exp(-STEPS / 700), family, 1e-3),
        (1 / (1 + np.exp(-(STEPS - 2000) / 300)), family, 1e-2),
    ):
        rest = curve - trends.T @ (trends @ curve)
        assert np.linalg.norm(rest) < part * np.linalg.norm(curve - curve.mean())


def test_a_smooth_series_takes_trends_and_a_noisy_one_none() -> None:
    g = np.random.default_rng(0)
    curve = np.exp(-STEPS / 500)[:, None]
    quiet, loud = (whiten(curve + noise * g.standard_normal((51, 50)), STEPS) for noise in (1e-3, 0.3))
    assert np.median(loud.trends) == trend_family(STEPS)[1][0]
    assert (quiet.trends > loud.trends.min()).mean() > 0.9


def test_persistence_is_taken_out() -> None:
    x, _ = null_pairs("AR(2) cycles of 10", STEPS, 300)
    white = whiten(x, STEPS)
    assert (white.order >= 2).mean() > 0.8
    before, after = (np.abs(stat.autocorrelations(z, 1)).mean() for z in (x, white.e))
    assert after < 0.15 < 0.6 < before


def _exact(q: np.ndarray, total: float) -> float:
    signs = 1 - 2 * ((np.arange(2 ** len(q))[:, None] >> np.arange(len(q))) & 1)
    return float(np.mean(np.abs(signs @ q) >= abs(total) - 1e-12))


@pytest.mark.parametrize("seed", range(6))
def test_the_saddlepoint_tail_is_that_of_sign_flips(seed: int) -> None:
    g = np.random.default_rng(seed)
    q = g.standard_normal(18) * g.standard_normal(18)
    for share in (0.2, 0.4, 0.6, 0.75):
        exact = _exact(q, share * np.abs(q).sum())
        assert sign_tail(q, share * np.abs(q).sum()) == pytest.approx(exact, rel=0.25, abs=4e-5)
    assert sign_tail(q, np.abs(q).sum()) == pytest.approx(2.0**-17)
    assert sign_tail(q, 0.0) == 1.0


def test_the_tail_is_below_the_normal_one_far_out() -> None:
    q = np.ones(51)
    exact = 2 * stats.binom.sf(42, 51, 0.5)  # a sum of 35 or more is 43 heads or more
    assert sign_tail(q, 34.0) == pytest.approx(exact, rel=0.3)  # between two lattice points
    assert sign_tail(q, 34.0) < 0.5 * 2 * stats.norm.sf(34 / np.sqrt(51))


@pytest.mark.calibration
@pytest.mark.parametrize("name", [*REQUIRED, "AR(1) -0.8", "exponentials + 0.1% noise", "edge of stability",
                                  "sigmoids + 1% noise"])  # fmt: skip
@pytest.mark.parametrize(
    "steps", [STEPS, np.arange(100.0), np.geomspace(1, 1e5, 51)], ids=["51", "100", "51 log"]
)
def test_the_verdict_holds_its_level_under_every_null(name: str, steps: np.ndarray) -> None:
    x, y = null_pairs(name, steps, 1000)
    p = innovation_test(whiten(x, steps), whiten(y, steps), intervals=False).p
    assert np.mean(p <= 0.05) <= 0.07 + 2 * 0.007  # twice the standard error of 1,000 pairs


def test_the_nulls_that_judge_are_not_those_that_set() -> None:
    assert not set(NULLS) & set(SETTING_NULLS)
    assert len(NULLS) >= 40
    ours, theirs = (
        {name: simulate(np.random.default_rng(0), STEPS, 1) for name, simulate in nulls.items()}
        for nulls in (NULLS, SETTING_NULLS)
    )
    for name, series in ours.items():
        same = [other for other, drawn in theirs.items() if np.allclose(series, drawn)]
        assert not same, (name, same)


@pytest.mark.slow
def test_the_verdict_finds_a_planted_effect() -> None:
    for kind, least, off in (("white", 0.83, 0.05), ("walk", 0.81, 0.06)):  # 84.5 and 83.2%, error 1.1
        result = _tested(*planted_pairs(0.5, STEPS, 1000, kind=kind), STEPS)
        assert np.mean(result.p <= 0.05) > least
        assert np.nanmedian(result.r) == pytest.approx(0.5, abs=off)
        inside = (result.low <= 0.5) & (result.high >= 0.5)
        assert inside.sum() / np.isfinite(result.low).sum() > 0.88


def test_the_interval_inverts_the_test_by_signs() -> None:
    x, y = (whiten(z, STEPS) for z in planted_pairs(0.3, STEPS, 300))
    results = _by_signs(scores(x.e), scores(y.e), np.sqrt(x.left * y.left))
    outside = [result.low > 0 or result.high < 0 for result in results]
    assert np.mean(np.array(outside) == [result.p <= 0.05 for result in results]) > 0.99


def _by_signs(e: np.ndarray, f: np.ndarray, left: np.ndarray) -> list[SignTest]:
    whole = slice(None)
    parts = pair_products(e, f, whole, whole, left)
    return [sign_test(*(part[:, j] for part in parts)) for j in range(e.shape[1])]


def _spiky(g: np.random.Generator, pairs: int) -> list[np.ndarray]:
    high = 0.16 * (g.random((51, pairs)) < 0.05)
    trend = (STEPS[:, None] + 100) ** -0.3
    return [trend + high + 0.02 * g.standard_normal((51, pairs)) for _ in range(2)]


@pytest.mark.parametrize("planted", [0.0, 0.3, 0.5])
def test_an_interval_excludes_zero_where_p_is_below_the_level_and_only_there(planted: float) -> None:
    pairs = [planted_pairs(planted, STEPS, 300), _spiky(np.random.default_rng(3), 300)]
    for x, y in pairs:
        result = innovation_test(whiten(x, STEPS), whiten(y, STEPS))
        known = np.isfinite(result.p)
        outside = (result.low > 0) | (result.high < 0)
        assert (outside == (result.p <= 0.05))[known].all()
        assert ((result.low <= result.r) & (result.r <= result.high))[known].all()
    assert result.spikes.any()  # rows whose interval is that of the alignment


@pytest.mark.calibration
def test_an_interval_reaches_further_where_both_persist() -> None:
    x, y = planted_pairs(0.7, STEPS, 200, kind="walk")
    a, b = whiten(x, STEPS), whiten(y, STEPS)
    found, persist = innovation_test(a, b), (a.order > 0) & (b.order > 0)
    assert 0.5 < persist.mean() < 1.0
    known = np.isfinite(found.p) & (found.high < 1.0)
    bare = [joint_test([replace(pair, persists=False)]) for pair in pair_innovations(a, b, rate_known=False)]
    further = (found.high - found.r)[known] / np.array([test.high - test.r for test in bare])[known]
    assert np.allclose(further, np.where(persist, WIDER, 1.0)[known])
    assert np.mean(((found.low <= 0.7) & (found.high >= 0.7))[known]) > 0.9  # without it 88%


def test_the_interval_of_the_alignment_inverts_it() -> None:
    g = np.random.default_rng(0)
    found = []
    for _ in range(200):
        e, f = g.standard_normal((2, 1, 40))
        _, low, high = alignment_interval(e, 0.6 * e + 0.8 * f, 1.0, 0.05)
        found.append(low <= 0.6 <= high)
        _, low, high = alignment_interval(e, f, 1.0, 0.05)
        assert (low > 0 or high < 0) == (alignment_tail(e, f, 1.0)[0] <= 0.05)
    assert np.mean(found) == pytest.approx(0.95, abs=0.04)


def test_a_walk_is_not_taken_for_a_trend() -> None:
    x, _ = planted_pairs(0.0, STEPS, 300, kind="walk")
    white = whiten(x, STEPS)
    assert np.mean(white.trends == white.trends.min()) > 0.8
    assert np.mean(white.order > 0) > 0.8


def test_persistence_that_both_have_kept_widens_the_reference() -> None:
    g = np.random.default_rng(0)
    white = g.standard_normal((51, 500))
    none = np.zeros((10, 500))
    assert np.mean(persistence_left(white, g.standard_normal((51, 500)), none) == 1.0) > 0.75
    waves = [np.sin(2 * np.pi * (np.arange(51)[:, None] / 7 + g.random(500))) for _ in range(2)]
    assert np.median(persistence_left(*waves, none)) > 5.0
    assert np.mean(persistence_left(white, white, none)) < 1.2  # what two series share is no persistence


def test_missing_checkpoints_have_no_innovation_and_no_outlier() -> None:
    some = np.delete(STEPS, [7, 19, 20, 33])
    x, y = (whiten(z, some) for z in planted_pairs(0.5, some, 50))
    assert x.count == 47
    assert len(x.steps) == 51
    holes = ~np.isin(x.steps, some)
    white = x.order == 0
    assert white.mean() > 0.5
    assert np.abs(x.e[holes][:, white]).max() < 1e-9
    assert (pair_products(x.e, y.e, slice(None), slice(None), x.left)[2][holes][:, white] == 1.0).all()


def test_the_alignment_is_that_of_all_orders() -> None:
    g = np.random.default_rng(0)
    e, f = g.standard_normal((2, 7))
    sums = np.array([np.abs(e @ f[list(order)]) for order in permutations(range(7))])
    p, least = alignment_tail(e[None], f[None], 1.0)
    assert p == pytest.approx(np.mean(sums >= abs(e @ f) - 1e-9), abs=0.03)
    assert least < 0.005  # the best of 5,040 orders, and its mirror


def test_one_shared_spike_is_one_of_n() -> None:
    e, f = 0.001 * np.random.default_rng(0).standard_normal((2, 50))
    e[20], f[20] = 1.0, -1.0
    assert alignment_tail(e[None], f[None], 0.9)[0] == pytest.approx(1 / 50, abs=0.008)
    apart = [alignment_tail(e[None], np.roll(f, shift)[None], 0.9)[0] for shift in range(1, 11)]
    assert np.median(apart) > 0.2


def test_shared_spikes_are_found() -> None:
    x, y = (whiten(z, STEPS) for z in _spiky(np.random.default_rng(1), 300))
    found = innovation_test(x, y, intervals=False, rate_known=True)
    assert np.mean(found.p <= 0.05) > 0.6
    signs = np.array([result.p for result in _by_signs(x.e, y.e, np.sqrt(x.left * y.left))])
    assert np.mean(signs <= OWN_SHARE * 0.05) < np.mean(found.p <= 0.05) - 0.15
    assert found.spikes.any()


def test_a_scale_that_follows_the_run_is_taken_out() -> None:
    g = np.random.default_rng(0)
    waning = g.standard_normal((51, 200)) * np.exp(-np.arange(51) / 15)[:, None]
    even = np.abs(standardised(waning))
    assert even[:17].mean() / even[-17:].mean() < 1.6 < 8 < np.exp(34 / 15)


def test_a_copy_is_tested_where_the_series_is_too_smooth() -> None:
    x, y = null_pairs("sigmoids + 0.1% noise", STEPS, 200)
    white, other = whiten(x, STEPS), whiten(y, STEPS)
    refused = untestable(white, other) == TOO_SMOOTH
    assert refused.mean() > 0.2
    again = innovation_test(white, white, intervals=False)
    assert np.isfinite(again.p)[rich(white, white)].all()
    assert rich(white, white).mean() > 0.7  # the others are leftovers at a few checkpoints
    assert (again.p < 0.004)[rich(white, white)].mean() > 0.99


@pytest.mark.parametrize("name", ["jumps + 2%", "wave 6 + 10%"])
def test_few_checkpoints_that_jump_or_cycle_keep_the_level(name: str) -> None:
    g = np.random.default_rng(0)
    few = STEPS[:26]
    x, y = (whiten(SETTING_NULLS[name](g, few, 400), few) for _ in range(2))
    assert np.mean(innovation_test(x, y, intervals=False).found) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)
    plain = [whiten(z, few) for z in planted_pairs(0.7, few, 200)]
    assert np.mean(untestable(*plain) != "") < 0.05


def test_what_can_be_detected_is_found_as_often_as_said() -> None:
    r = detectable_r(45, 60)
    g = np.random.default_rng(11)
    e, other = g.standard_normal((2, 45, 500))
    products = e * (r * e + np.sqrt(1 - r * r) * other)
    found = [sign_tail(np.ascontiguousarray(q), q.sum()) <= 0.05 / 60 for q in products.T]
    assert np.mean(found) == pytest.approx(0.8, abs=0.07)
    assert np.isnan(detectable_r(8, 60))
    assert detectable_r(45, 1) < r < detectable_r(45, 1000)


@pytest.mark.calibration
def test_a_strong_relation_passes_a_family_of_sixty() -> None:
    x, y = planted_pairs(0.7, STEPS, 500)
    p = innovation_test(whiten(x, STEPS), whiten(y, STEPS), intervals=False).p
    assert np.mean(p <= 0.05 / 12) > 0.9
    few = innovation_test(*(whiten(z, STEPS) for z in planted_pairs(0.7, STEPS, 400)), intervals=False).p
    assert np.mean(few <= 0.05 / 60) > 0.8


def _many(length: int, runs: int = 5, columns: int = 11) -> pd.DataFrame:
    g = np.random.default_rng(2)
    parts = []
    for run in range(runs):
        part = series().iloc[:length].assign(run=f"r{run}")
        part["loss"] = (part["step"] + 100) ** -0.3 + 0.01 * g.standard_normal(length)
        noise = {f"f{i}": part["step"] ** 0.3 + 0.5 * g.standard_normal(length) for i in range(columns)}
        parts.append(part.drop(columns="f").assign(copy=part["loss"], **noise))
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize("length", [26, 51])
def test_a_copy_of_the_loss_adds_in_every_run(length: int) -> None:
    found = trend_table(from_frame(_many(length)), draws=FEW)
    assert (found.loc[found["column"] == "copy", "verdict"] == "adds").all()
    assert (found["family_size"] >= (60 if length == 51 else 50)).all()  # a few are refused at 26
    pooled = family_table(from_frame(_many(length))).set_index("column")
    assert pooled.loc["copy", "verdict"] == "adds"
    assert pooled.loc["copy", "runs"] == 5
    assert (pooled["family_size"] == 12).all()


def test_a_design_that_cannot_answer_says_so() -> None:
    found = trend_table(from_frame(_many(14)), draws=FEW)
    assert set(found["verdict"]) == {"cannot tell"}
    assert found["reason"].str.contains("too few checkpoints").all()
    assert found["detectable_r"].isna().all()


def test_a_row_that_no_correlation_could_pass_states_no_power() -> None:
    rows = pd.DataFrame({
        "target": "loss", "column": ["even", "carried"], "n": 104, "p": [0.6, 0.6], "least": [1e-9, 0.03],
        "free": 90, "why": "", "reason": "", "spikes": False, "lag": 0, "lag_steps": 0.0, "doubt": "",
        "turned": "", "rate_known": True, "part": "", "otherwise": None,
    })  # fmt: skip
    found = judged(rows, ["even", "carried"], 0.05).set_index("column")
    assert found.loc["even", "verdict"] == "trend only"
    assert np.isfinite(found.loc["even", "detectable_r"])
    assert found.loc["carried", "verdict"] == "cannot tell"
    assert found.loc["carried", "reason"] == "too few checkpoints: no correlation, however large, could pass"
    assert np.isnan(found.loc["carried", "detectable_r"])


def test_several_runs_are_one_test() -> None:
    g = np.random.default_rng(5)
    parts = []
    for run in range(5):
        shared = g.standard_normal(51)
        loss = (STEPS + 100) ** -0.3 + 0.01 * shared
        weak = np.log(STEPS + 100) + 0.1 * (0.4 * shared + g.standard_normal(51))
        parts.append(series(loss=loss, f=weak).assign(run=f"r{run}"))
    table = from_frame(pd.concat(parts))
    row = family_table(table).iloc[0]
    assert row["verdict"] == "adds"
    assert row["p"] < trend_table(table, draws=FEW)["p"].min()
    assert row["r_low"] > 0
    assert row["detectable_r"] < trend_table(table, draws=FEW)["detectable_r"].min()


@pytest.mark.calibration
def test_runs_that_share_their_noise_are_not_counted_twice() -> None:
    g = np.random.default_rng(0)
    hits = 0
    for _ in range(100):
        loss, f = g.standard_normal((2, 51))
        same = pd.concat([series(loss=loss, f=f).assign(run=f"r{run}") for run in range(4)])
        hits += family_table(from_frame(same)).iloc[0]["p"] <= 0.05
    assert hits <= 12  # 5 expected; four independent runs would make it about 30


def test_only_confirmatory_rows_carry_a_verdict() -> None:
    table = from_frame(_many(51, columns=3))
    table.catalogue["primary"] = table.catalogue["column"] == "copy"
    found = family_table(table).set_index("column")
    assert found.loc["copy", ["confirmatory", "family_size", "verdict"]].tolist() == [True, 1, "adds"]
    assert np.isnan(found.loc["copy", "q"])
    table.catalogue["primary"] = table.catalogue["column"] == "f0"
    found = family_table(table).set_index("column")
    assert found.loc["copy", "verdict"] == "cannot tell"
    assert "exploratory" in found.loc["copy", "reason"]
    assert found.loc["copy", "q"] < 1e-6
    assert np.isnan(found.loc["copy", "p_holm"])


def test_a_known_learning_rate_is_taken_out() -> None:
    g = np.random.default_rng(0)
    rate = np.where(STEPS < 3500, 1.0, 0.1)
    x, y = ((STEPS + 100)[:, None] ** -0.3 + 0.3 * (rate**2)[:, None] + 0.01 * g.standard_normal((51, 400))
            for _ in range(2))  # fmt: skip
    known = innovation_test(whiten(x, STEPS, rate), whiten(y, STEPS, rate), intervals=False).p
    assert np.mean(known <= 0.05) < 0.085
    frame = series(learning_rate=rate)
    assert "learning_rate" not in from_frame(frame).columns()
    assert (
        trend_table(from_frame(frame), draws=FEW)["p"].item()
        != trend_table(from_frame(series()), draws=FEW)["p"].item()
    )


def test_a_planted_pair_adds_and_a_pair_of_trends_does_not() -> None:
    g = np.random.default_rng(3)
    shared = g.standard_normal(51)
    loss = (STEPS + 100) ** -0.3 + 0.01 * shared
    good = np.log(STEPS + 100) + 0.1 * (shared + 0.3 * g.standard_normal(51))
    table = trend_table(
        from_frame(series(loss=loss, f=good, g=np.log(STEPS + 50) + 0.1 * g.standard_normal(51))), draws=FEW
    )
    verdicts = dict(zip(table["column"], table["verdict"], strict=True))
    assert verdicts == {"f": "adds", "g": "trend only"}
    assert (table["naive_p"] < 1e-6).all()


def test_bad_series_become_rows_with_a_reason() -> None:
    broken = series()["loss"].to_numpy().copy()
    broken[[4, 9]] = [np.nan, np.inf]
    table = from_frame(series(loss=broken, flat=1.0, tied=np.repeat(np.arange(17.0), 3)))
    found = trend_table(table, draws=FEW).set_index("column")
    assert found.loc["f", "n"] == 49
    assert "2 checkpoints without a finite value left out" in found.loc["f", "reason"]
    assert found.loc["flat", "status"] == "degenerate"
    assert np.isnan(found.loc["flat", "spearman"])
    assert np.isfinite(found.loc["tied", "p"])


@pytest.mark.parametrize(("length", "status"), [(1, "failed"), (3, "failed"), (8, "partial")])
def test_short_runs_say_so(length: int, status: str) -> None:
    row = trend_table(from_frame(series().iloc[:length]), draws=FEW).iloc[0]
    assert row["status"] == status
    assert f"{length} checkpoint" in row["reason"]
    assert row["verdict"] == "cannot tell"


def test_nulls_are_reproducible_and_independent() -> None:
    for name in NULLS:
        x, y = null_pairs(name, STEPS, 3)
        assert np.array_equal(x, null_pairs(name, STEPS, 3)[0])
        assert not np.allclose(x, y)


def test_unknown_columns_are_named() -> None:
    with pytest.raises(InputError, match="'nothing' is not a column"):
        trend_table(from_frame(series()), columns=["nothing"])


def _holed(g: np.random.Generator) -> np.ndarray:
    return STEPS[np.sort(np.r_[0, g.choice(np.arange(1, 50), 37, replace=False), 50])]


def test_waves_of_one_period_are_not_tested_where_checkpoints_are_missing() -> None:
    g = np.random.default_rng(5)
    steps, pairs = _holed(g), 60
    noise = g.standard_normal((4, len(steps), pairs))
    phases = g.uniform(0.0, 2.0 * np.pi, (2, 1, pairs))
    waves = np.sin(2.0 * np.pi * steps[:, None] / 1100.0 + phases) + 0.45 * noise[:2]
    x, y = (whiten(series, steps) for series in waves)
    refused = untestable(x, y)
    assert np.mean(refused == ONE_PERIOD) > 0.5
    assert np.mean(innovation_test(x, y, intervals=False).p <= 0.05) < 0.1

    related = noise[2], 0.8 * noise[2] + 0.6 * noise[3]
    x, y = (whiten(series, steps) for series in related)
    assert np.mean(untestable(x, y) == ONE_PERIOD) < 0.15
    x, y = (whiten(series, STEPS[: len(steps)]) for series in waves)
    assert not np.any(untestable(x, y) == ONE_PERIOD)


def test_a_jump_that_both_share_is_seen_and_is_no_verdict_where_the_rate_is_not_known() -> None:
    g, pairs = np.random.default_rng(6), 80
    at, late = g.integers(8, 43, pairs), g.integers(8, 43, pairs)
    places = np.arange(51)[:, None]

    def series(jump: np.ndarray) -> np.ndarray:
        trend = (places + 2.0) ** -g.uniform(0.2, 1.2, pairs)
        return trend / np.ptp(trend, axis=0) + 0.3 * (places >= jump) + 0.02 * g.standard_normal((51, pairs))

    x, shared, apart = (whiten(series(jump), STEPS) for jump in (at, at, late))
    assert np.mean(innovation_test(x, shared, intervals=False, rate_known=True).p <= 0.05) > 0.35
    bare = innovation_test(x, shared, intervals=False)
    assert bare.turned.mean() > 0.3
    assert bare.found.mean() < 0.5 * np.mean(bare.p <= 0.05)
    assert np.mean(innovation_test(x, apart, intervals=False).p <= 0.05) < 0.15


@pytest.mark.parametrize("n", [22, 26, 30, 51])
def test_a_known_learning_rate_leaves_a_choice_of_trends(n: int) -> None:
    steps = np.arange(n) * 100.0
    _, plain = trend_family(steps)
    for drop in (0.3, 0.7):
        _, sizes = trend_family(steps, np.where(steps < drop * steps[-1], 1.0, 0.1))
        assert len(sizes) >= len(plain) - 1 >= 1
        assert len(sizes) >= 2
        assert sizes[0] == plain[0] + 3  # value, integral, lag: none of them in place of another trend
    assert trend_family(steps, 2.0 - steps / steps[-1])[1][0] <= plain[0] + 1  # a line in the step is a trend


def test_a_wave_that_both_keep_is_left_out() -> None:
    g = np.random.default_rng(0)
    wave = np.sin(2.0 * np.pi * STEPS / 700.0 + np.arange(60)[:, None]).T
    x, y = (whiten(g.standard_normal((51, 60)), STEPS) for _ in range(2))
    bare = [replace(z, e=z.e + size * wave) for z, size in ((x, 1.5), (y, -1.5))]
    a, b, notes, _ = freed(*bare, rate_known=True)
    touched = notes != ""  # as a wave, or as a shape
    assert np.mean(touched) > 0.8
    assert all(note.startswith(("a wave of", "a pattern of")) for note in notes[touched])
    periods = [float(note.split(" of ")[1].split()[0]) for note in notes[touched]]
    assert np.median(periods) == pytest.approx(7.0, abs=0.3)
    quiet = np.array([(notes[j] == "") for j in range(60)])
    assert np.array_equal(a.e[:, quiet], bare[0].e[:, quiet])
    shared = np.abs(np.sum(wave * b.e, axis=0)) / np.abs(np.sum(wave * bare[1].e, axis=0))
    assert np.median(shared[touched]) < 0.3
    test = innovation_test(*bare, intervals=False, rate_known=True)
    assert (test.note[touched & (test.why == "")] != "").all()
    untouched = freed(x, y, rate_known=True)[2]
    assert np.mean(untouched != "") < 0.05
    assert (freed(bare[0], bare[0])[2] == "").all()  # what is the same stays as it is


def test_a_turn_that_both_make_is_left_out_where_no_rate_is_known() -> None:
    g = np.random.default_rng(1)
    u = STEPS[:, None] / 5000.0

    def curve() -> np.ndarray:
        return np.minimum(u / g.uniform(0.04, 0.1, 200), 1.0) - 0.5 * u + 0.01 * g.standard_normal((51, 200))

    x, y = whiten(curve(), STEPS), whiten(curve(), STEPS)
    a, _, notes, where = freed(x, y)
    turned = np.char.find(notes.astype(str), "a turn at steps") >= 0
    assert np.mean(turned) > 0.2
    assert np.array_equal(turned, where != "")
    gone = (a.e == 0.0) & (x.e != 0.0)
    assert np.array_equal(gone.any(axis=0), turned)
    assert np.median(STEPS[gone.any(axis=1)]) <= 1000.0
    test = innovation_test(x, y, intervals=False)
    assert np.mean(test.p <= 0.05) < 0.12
    assert test.silent[turned].all()
    assert not np.char.startswith(freed(x, y, rate_known=True)[2].astype(str), "a turn").any()
    assert np.mean(innovation_test(x, y, intervals=False, rate_known=True).found) < 0.08


def test_mostly_missing_checkpoints_have_no_second_p() -> None:
    """Where over half of the places have no innovation there is no size to divide by, and no order to try."""
    g = np.random.default_rng(6)
    u = STEPS[:, None] / 5000.0
    there = np.sort(np.r_[0:8, g.permutation(np.arange(8, 51))[:18]])

    def curve() -> np.ndarray:
        return np.minimum(u / g.uniform(0.04, 0.1, 300), 1.0) - 0.5 * u + 0.01 * g.standard_normal((51, 300))

    x, y = (whiten(curve()[there], STEPS[there]) for _ in range(2))
    test = innovation_test(x, y)
    a, b, notes, _ = freed(x, y)
    assert (np.isnan(standardised(a.e)).any(axis=0) & (notes != "") & (test.why == "")).sum() > 10
    bare = np.isnan(standardised(a.e) + standardised(b.e)).any(axis=0)
    assert not test.spikes[bare].any()
    assert np.nanmean(test.p[bare] <= 0.05) < 0.12
    tested = np.isfinite(test.p)
    outside = (test.low > 0.0) | (test.high < 0.0)
    assert np.array_equal((test.p <= 0.05)[tested], outside[tested])


@pytest.mark.calibration
def test_one_turn_on_uneven_steps_is_not_tested() -> None:
    g = np.random.default_rng(2)
    steps = np.unique(np.r_[0.0, np.geomspace(1, 143_000, 50).round()])
    u = steps[:, None] / steps[-1]

    def curve() -> np.ndarray:
        return np.minimum(u / g.uniform(0.04, 0.1, 200), 1.0) - 0.5 * u + 0.005 * g.standard_normal((48, 200))

    x, y = whiten(curve(), steps), whiten(curve(), steps)
    assert np.mean(untestable(x, y) == ONE_STRETCH) > 0.5
    assert np.mean(untestable(*(whiten(z, steps) for z in planted_pairs(0.7, steps, 200))) == "") > 0.98
    assert np.mean(innovation_test(x, x, intervals=False).p <= 0.05) == 1.0  # the same are tested


def test_a_row_says_what_was_left_out_only_where_it_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = []
    for seed in range(12):
        g = np.random.default_rng(seed)
        loss, f = (((np.arange(51) / 12 + g.random()) % 1.0) + 0.1 * g.standard_normal(51) for _ in range(2))
        tables.append(from_frame(series(loss=loss, f=f).assign(learning_rate=1e-3)))
    rows = [family_table(table).iloc[0] for table in tables]
    alone = [trend_table(table, draws=FEW).iloc[0] for table in tables]
    monkeypatch.setattr(innovations, "freed", lambda x, y, **_: (x, y, *np.full((2, 1), "", dtype=object)))
    bare = [family_table(table).iloc[0] for table in tables]
    decided = [row["verdict"] != other["verdict"] for row, other in zip(rows, bare, strict=True)]
    assert 2 < sum(decided) < 12
    for row, own, other in zip(rows, alone, decided, strict=True):
        rule = "; after a pattern of 12 checkpoints that both share is removed"
        named = row["reason"].endswith(rule) or "drift" in row["reason"]
        assert bool(named) == other
        assert row["reason"] == own["reason"]


def test_a_row_of_noise_names_no_rule() -> None:
    g = np.random.default_rng(11)
    frame = pd.DataFrame(g.standard_normal((51, 40)), columns=[f"f{k}" for k in range(40)])
    frame = frame.assign(step=STEPS, loss=g.standard_normal(51), learning_rate=1e-3)
    reasons = family_table(from_frame(frame), targets=["loss"])["reason"]
    assert (reasons == "no shared movement beyond trend").mean() > 0.9


def test_a_row_says_in_how_many_runs_it_was_tested() -> None:
    g = np.random.default_rng(3)
    runs = []
    for run in range(5):
        smooth = (STEPS + 100.0) ** -0.5
        noise = g.standard_normal((2, 51))
        noise[1] = noise[0] if run else noise[1]
        loss, f = (smooth * 10 + (1e-9 if not run else 0.05) * z for z in noise)
        runs.append(series(loss=loss, f=f).assign(run=f"r{run}", learning_rate=1e-3))
    row = family_table(from_frame(pd.concat(runs))).iloc[0]
    assert (row["verdict"], row["runs"]) == ("adds", 4)
    assert row["reason"] == "moves with the loss beyond trend (4 of 5 runs)"


@pytest.mark.calibration
@pytest.mark.parametrize(
    ("name", "n", "share"),
    [("saws of 12", 51, 0.95), ("pulses of 10", 51, 0.1), ("saws of 6", 26, 0.8), ("bumps of 8", 26, 0.6)],
)
def test_a_shape_that_both_repeat_is_left_out(name: str, n: int, share: float) -> None:
    g = np.random.default_rng(3)
    steps = STEPS[:n]
    x, y = (whiten(REPEATING_SETTING[name](g, steps, 1000), steps) for _ in range(2))
    assert np.mean(innovation_test(x, y, intervals=False).p <= 0.05) <= 0.085  # 17 and 16% of saws before
    notes = freed(x, y)[2]
    repeats = [found[1] for note in notes if (found := re.match(r"a pattern of ([\d.]+) checkpoints", note))]
    assert len(repeats) >= share * 1000
    periods = np.array(repeats, float)
    assert np.median(periods) == pytest.approx(float(name.split()[-1]), rel=0.03)
    assert max(note.count("a wave of") for note in notes) <= 1


@pytest.mark.parametrize("n", [14, 26, 51, 154])
def test_one_white_series_in_five_repeats_a_shape(n: int) -> None:
    white = np.random.default_rng(n).standard_normal((n, 1500))
    assert 0.15 < np.mean((folded(white) > folded_bar(n)[:, None]).any(axis=0)) < 0.26


def test_few_or_missing_checkpoints_repeat_no_shape() -> None:
    assert folded(np.ones((5, 3))).shape == (0, 3)
    x = whiten(np.random.default_rng(0).standard_normal((51, 3)), STEPS)
    gone = replace(x, e=np.full((51, 3), np.nan))
    assert (freed(gone, x)[2] == "").all()
    g = np.random.default_rng(1)
    spaced = np.sort(g.permutation(51)[:36]) * 100.0
    holes = [whiten(REPEATING_SETTING["saws of 12"](g, spaced, 300), spaced) for _ in range(2)]
    assert holes[0].count < len(holes[0].e)
    assert not any("a pattern of" in note for note in freed(*holes)[2])


@pytest.mark.calibration
def test_a_walk_has_a_unit_root_where_checkpoints_are_few() -> None:
    few = STEPS[:26]
    g = np.random.default_rng(4)
    noise = g.standard_normal((26, 400))
    walks = whiten(np.cumsum(noise, axis=0), few)
    kept = [np.corrcoef(noise[1:, j], walks.e[1:, j])[0, 1] for j in range(400)]
    assert np.median(kept) > 0.85  # .69 without
    assert np.mean(_tested(*planted_pairs(0.7, few, 1000, kind="walk"), few).p <= 0.05) > 0.67


def test_no_rank_correlation_has_a_p_of_zero() -> None:
    step = np.arange(8.0) * 100
    row = trend_table(from_frame(pd.DataFrame({"run": "a", "step": step, "loss": -step, "f": step}))).iloc[0]
    assert (row["spearman"], row["naive_p"]) == (-1.0, pytest.approx(2 / 40_320))
