"""Phases, segments, the online detector, lags, fits and replicates against planted truths."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import toeplitz

from benchmarks.analysis_segments import JUDGED, SIZES
from toposcope.core.errors import InputError
from toposcope.published.forecast_rules import combine, loss_only, rule_table, tda_only
from toposcope.published.phase_rules import coded_rule, phase_table, written_rule
from toposcope.statistics.phases import bends, noise, reference
from toposcope.statistics.phases.bends import scan, scans
from toposcope.statistics.phases.curves import Span, design
from toposcope.statistics.phases.online import OnlineDetector, plan
from toposcope.statistics.phases.simulated import (
    autoregressions,
    gentle_series,
    plain_series,
    unkind_series,
)
from toposcope.study import (
    from_frame,
    lag_table,
    replicate_table,
    saturation_table,
    scaling_table,
    segment_table,
)
from toposcope.study.segments import COLUMNS, segments, usable
from toposcope.study.trends.replicates import POOLED, pooled_pairing_test

STEPS = np.arange(0, 5001, 100)


def frame(**columns: object) -> pd.DataFrame:
    return pd.DataFrame({"run": "a", "step": STEPS, "loss": (STEPS + 100.0) ** -0.2, **columns})


def test_phase_rules_by_hand() -> None:
    values = np.array([0.0, 0, 0, 0, 10, 20, 30, 30, 30, 30, 30, 30, 30, 30, 30])
    assert written_rule(values) == (4, 7)
    peak, diminishing = coded_rule(values)
    smooth = np.convolve(values, np.ones(5) / 5, "valid")
    assert peak == int(np.abs(np.diff(smooth)).argmax()) + 2
    assert diminishing == 8


def test_phase_rules_say_when_they_never_fire() -> None:
    zigzag = np.where(np.arange(51) % 2, 1.0, -1.0) * (1 + np.arange(51) / 50)
    table = phase_table(from_frame(frame(f=zigzag, flat=1.0)))
    mine = table.set_index(["column", "rule"])
    assert mine.loc[("f", "written"), "status"] == "partial"
    assert mine.loc[("flat", "coded"), "status"] == "degenerate"
    short = phase_table(from_frame(frame(f=zigzag).head(5)))
    assert (short["status"] == "failed").all()


@pytest.mark.calibration
@pytest.mark.parametrize("kind", ["power", "line", "walk", "drift", "whole"])
def test_plain_curves_have_no_bends(kind: str) -> None:
    g = np.random.default_rng(11)
    n = len(STEPS) - 1
    noise = g.standard_normal((200, n))
    powers = STEPS[1:] ** -g.uniform(0.1, 1.5, (200, 1))
    curves = {
        "power": (powers - powers[:, -1:]) / np.ptp(powers, axis=1)[:, None] + 0.01 * noise,
        "line": STEPS[1:] / 5000 + 0.01 * noise,
        "walk": noise.cumsum(axis=1),
        "drift": autoregressions(noise, np.full(200, 0.8)).cumsum(axis=1),
        "whole": np.round((0.7 * noise).cumsum(axis=1)),
    }[kind]
    found = [len(segments(STEPS[1:], values)) > 1 for values in curves]
    assert np.mean(found) <= 0.10  # at most 7%, and two standard errors


@pytest.mark.slow
def test_a_series_that_cannot_be_tested_says_why() -> None:
    smooth = segments(STEPS[1:], (STEPS[1:] + 30.0) ** -0.5)[0]
    assert smooth[-2] == "degenerate"
    assert "too smooth" in str(smooth[-1])
    still = segments(STEPS[1:], np.round(STEPS[1:] / 2000))[0]
    assert "hardly ever changes" in str(still[-1])
    assert segments(STEPS[:9], np.arange(9.0))[0][-2] == "failed"


@pytest.mark.slow
def test_the_gain_is_the_ratio_of_the_integrated_likelihoods() -> None:
    g = np.random.default_rng(1)
    grid = design(STEPS[1:])
    cases: list[tuple[Span, ...]] = [(), ((20, 49),), ((20, 30),)]
    apart: list[float] = []
    for given in cases * 2:
        change = np.diff(g.standard_normal(50).cumsum() + 2.0 * g.standard_normal(50))
        found = bends.scan(grid, change, given, grid.shapes)
        n, scale = len(change), found.sigma
        mean = np.vstack([grid.rows(given), grid.trend[: found.trends]]) / scale
        waves = grid.gentle.T @ grid.gentle / np.outer(scale, scale)

        def likelihood(cov: np.ndarray, z: np.ndarray = change / scale, mean: np.ndarray = mean) -> float:
            inverse = np.linalg.inv(cov)
            across = mean @ inverse @ mean.T
            left = z - mean.T @ np.linalg.solve(across, mean @ inverse @ z)
            free = len(z) - len(mean)
            volumes = np.linalg.slogdet(cov)[1] + np.linalg.slogdet(across)[1]
            return float(-0.5 * (volumes + free * np.log(left @ inverse @ left)))

        without, beside = [], []
        for model, variance in enumerate(noise.VARIANCE):
            rise = bends._RISE**2 * variance / np.outer(scale, scale)
            for amplitude in bends.AMPLITUDES:
                cov = toeplitz(noise.covariances(model, n)) + amplitude**2 * variance * waves
                without.append(likelihood(cov))
                beside += [likelihood(cov + rise * np.outer(shape, shape)) for shape in grid.shapes]
        ratio = np.logaddexp.reduce(beside) - np.log(len(grid.shapes)) - np.logaddexp.reduce(without)
        apart.append(abs(found.gain - ratio))
    assert np.median(apart) <= 0.05  # models that hardly count are left out, and a wild step of some is cut


@pytest.mark.parametrize("model", range(len(noise.MODELS)))
def test_noise_is_whitened_exactly(model: int) -> None:
    factor, log_det = noise.factors(12, noise.MODELS)
    white = noise.whitened(np.eye(12), factor[model]).T
    cov = toeplitz(noise.covariances(model, 12))
    np.testing.assert_allclose(white @ cov @ white.T, np.eye(12), atol=1e-12)
    assert log_det[model] == pytest.approx(np.linalg.slogdet(cov)[1])
    assert noise.VARIANCE[model] == pytest.approx(cov[0, 0])
    assert noise.PERSISTENCE[model] == pytest.approx(cov[0, 1] / cov[0, 0])


@pytest.mark.calibration
def test_the_packaged_reference_is_the_simulated_one() -> None:
    held, rate = reference.packaged()[25]
    anew = reference.simulated(np.arange(20.0, 501.0, 20.0), reference.COUNTS)
    for mine, other in zip((held, *held.others), (anew, *anew.others), strict=True):
        assert (np.abs(mine.scanned - other.scanned) < 1e-3).all(axis=1).mean() > 0.99
    assert reference.reference(np.arange(20.0, 501.0, 20.0)).scanned.tolist() == held.scanned.tolist()
    assert rate <= 0.11  # 7%, and two standard errors at 200 series
    assert reference.steps_even([1.0, 2.0, 4.0]) == 0


def test_even_steps_take_the_packaged_reference_of_the_nearest_number() -> None:
    held = reference.packaged()
    assert set(held) == set(SIZES)
    for n, near in ((50, 50), (54, 50), (57, 60), (18, 20), (150, 135)):
        assert reference.nearest(np.arange(1.0, n + 1.0)) is held[near]
    assert reference.nearest(np.arange(1.0, 201.0)) is None
    assert reference.nearest(2.0 ** np.arange(50)) is None
    assert reference.false_alarms(np.arange(5.0, 286.0, 5.0)) == held[60][1]


@pytest.mark.calibration
@pytest.mark.parametrize("n", [18, 45, 67])
def test_the_reference_of_the_nearest_number_keeps_its_stated_rate(n: int) -> None:
    steps = np.arange(1.0, n + 1.0)
    known, rate = reference.nearest(steps)
    grid, draws = reference.design(steps), 150
    for name, series in reference.curves(steps, draws).items():
        found = np.mean(known.p_values(scans(grid, np.diff(series, axis=1))) <= 0.05)
        assert found <= rate + 3 * np.sqrt(rate * (1 - rate) * (1 / draws + 1 / JUDGED)), name


def test_a_long_series_is_searched_as_means_of_neighbours() -> None:
    steps = np.arange(1.0, 421.0) * 10
    g = np.random.default_rng(2)
    log = np.log(steps)
    bent = -log + 2.5 * np.maximum(log - np.log(900.0), 0.0) + 0.02 * g.standard_normal(420)
    rows = segments(steps, bent)
    assert len(rows) == 2
    low, high = (rows[1][COLUMNS.index(name) - 2] for name in ("start_low", "start_high"))
    assert low <= 950.0
    assert high >= 850.0
    assert len(segments(steps, -log + 0.02 * g.standard_normal(420))) == 1


@pytest.mark.calibration
@pytest.mark.parametrize("n", [200, 1000])
def test_means_of_neighbours_keep_the_stated_rate(n: int) -> None:
    steps, draws = np.arange(1.0, n + 1.0), 100
    few = usable(steps, steps)[0]
    known, rate = reference.nearest(few)
    grid = reference.design(few)
    for name, series in reference.curves(steps, draws).items():
        means = np.stack([usable(steps, values)[1] for values in series])
        found = np.mean(known.p_values(scans(grid, np.diff(means, axis=1))) <= 0.05)
        assert found <= rate + 3 * np.sqrt(rate * (1 - rate) * (1 / draws + 1 / JUDGED)), name


def test_a_planted_kink_is_found_and_dated() -> None:
    g = np.random.default_rng(2)
    steps, inside, found = STEPS[1:], 0, 0
    for _ in range(60):
        values = np.where(steps < 1500, 0, np.log(steps / 1500)) + 0.008 * g.standard_normal(50)
        rows = segments(steps, values)
        if len(rows) == 2:
            found += 1
            inside += rows[1][6] <= 1500 <= rows[1][7]
    assert found >= 40
    assert inside / found > 0.8


@pytest.mark.calibration
def test_boundaries_are_calibrated_per_run() -> None:
    g = np.random.default_rng(5)
    per_run = 0
    for _ in range(60):
        walks = {f"f{i}": np.cumsum(g.standard_normal(51)) for i in range(10)}
        table = segment_table(from_frame(frame(**walks)))
        per_run += len(table) > 10
        assert (table["boundary_holm"] >= table["boundary_p"]).all()
        assert (table.loc[table["segment"] > 0, "boundary_holm"] <= 0.05).all()
        told = table["reason"].str.contains("dropped|cannot tell|no verdict") | (table["reason"] == "")
        assert told.all()
    assert per_run <= 8  # 5% of 60 is 3, with a standard error of 1.7


def test_segments_are_labelled_by_the_sign_of_their_slopes() -> None:
    g = np.random.default_rng(0)
    logs = np.log(STEPS[1:])
    knots = np.interp(logs, np.log([100, 600, 2000, 5000]), [0.0, -3.0, 2.0, -2.0])
    values = np.r_[np.nan, knots + 0.01 * np.cumsum(g.standard_normal(50))]
    table = segment_table(from_frame(frame(f=values)))
    labels = list(dict.fromkeys(table["spectral_label"]))
    assert labels == ["warm-up", "entropy-seeking", "compression-seeking"]
    assert (table["false_alarm_rate"] <= 0.11).all()
    short = segment_table(from_frame(frame(f=1.0).head(6))).iloc[0]
    assert short["status"] == "failed"


@pytest.mark.calibration
@pytest.mark.parametrize("power", [0.0, -1.0])
def test_the_online_detector_keeps_its_false_alarm_rate(power: float) -> None:
    g = np.random.default_rng(4)
    steps, alarms = STEPS[::2], 0
    sizes = np.maximum(steps, 200.0) ** power
    for _ in range(120):
        detector = OnlineDetector(steps)
        walk = np.cumsum(sizes * g.standard_normal(26))
        alarms += any(
            detector.update(step, value) is not None for step, value in zip(steps, walk, strict=True)
        )
    assert alarms / 120 <= 0.1


def test_a_rate_at_which_no_series_could_raise_an_alarm_is_refused() -> None:
    with pytest.raises(InputError, match=r"a rate of 0\.00625 .*no alarm could be raised"):
        OnlineDetector(np.arange(1.0, 27.0), rate=0.05 / 8)


@pytest.mark.calibration
@pytest.mark.parametrize("make", [plain_series, unkind_series, gentle_series])
def test_the_online_detector_spends_its_rate_on_unkind_noise_too(make: Callable[..., np.ndarray]) -> None:
    steps = STEPS[2::2].astype(float)
    changes = np.diff(make(steps, 500), axis=1)  # others than the 800 that set the thresholds
    quiet = np.ones(500, bool)
    planned = plan(tuple(steps.tolist()), 0.05)
    for count in planned.counts:
        test = planned.test(count)
        quiet &= ~test.alarms(scans(test.grid, changes[:, : count - 1]))
    assert np.mean(~quiet) <= 0.05 + 2 * 0.01


@pytest.mark.calibration
def test_the_online_detector_spends_less_where_steps_are_uneven() -> None:
    steps = np.unique(np.geomspace(10, 5000, 24).round())
    changes = np.diff(unkind_series(steps, 800), axis=1)  # those that set the thresholds
    quiet = np.ones(800, bool)
    planned = plan(tuple(steps.tolist()), 0.05)
    for count in planned.counts:
        test = planned.test(count)
        quiet &= ~test.alarms(scans(test.grid, changes[:, : count - 1]))
    assert 0.005 < np.mean(~quiet) <= 0.02


def test_a_planted_lead_is_found() -> None:
    g = np.random.default_rng(0)
    noise = g.standard_normal(60)
    feature, loss = noise[5:56], noise[2:53] + 0.3 * g.standard_normal(51)  # loss follows 3 checkpoints later
    row = lag_table(from_frame(frame(loss=loss, f=feature))).iloc[0]
    assert row["lag"] == 3
    assert row["lag_steps"] == 300
    assert row["lag_p"] < 0.01
    assert row["lead_p"] < 0.01


def test_saturating_fits_recover_and_cover_their_truth() -> None:
    g = np.random.default_rng(0)
    u = np.exp(-STEPS / 700.0)
    curves = {f"f{i}": 3.0 - 2.0 * u + 0.03 * g.standard_normal(51) for i in range(40)}
    table = saturation_table(from_frame(frame(**curves)), resamples=200)
    assert (table["form"] == "exponential").mean() > 0.9
    inside = (table["asymptote_low"] <= 3.0) & (table["asymptote_high"] >= 3.0)
    assert inside.mean() > 0.75
    assert np.median(1 / table["rate"]) == pytest.approx(700, rel=0.05)
    slow = saturation_table(from_frame(frame(f=STEPS * 1.0)), resamples=50).iloc[0]
    assert slow["status"] == "extrapolated"


def test_pairing_finds_replicates_that_know_their_own_target() -> None:
    g = np.random.default_rng(0)
    trend = np.log(np.arange(1, 52))[:, None]
    own = g.standard_normal((51, 5))
    target = -trend + 0.1 * own + 0.05 * g.standard_normal((51, 5))
    _, p, smallest = pooled_pairing_test([(trend + 0.1 * own, target)])
    assert smallest == pytest.approx(1 / 120)
    assert p <= 2 / 120
    p_values = [
        pooled_pairing_test([(trend + g.standard_normal((51, 4)), -trend + g.standard_normal((51, 4)))])[1]
        for _ in range(300)
    ]
    assert np.mean(np.array(p_values) <= 2 / 24) == pytest.approx(2 / 24, abs=0.05)


def test_sizes_with_few_seeds_are_judged_together() -> None:
    g = np.random.default_rng(1)
    trend = np.log(np.arange(1, 52))[:, None]

    def family(signal: float) -> tuple[np.ndarray, np.ndarray]:
        own = g.standard_normal((51, 3))
        return trend + signal * own + 0.2 * g.standard_normal((51, 3)), -trend + own

    gap, p, smallest = pooled_pairing_test([family(1.0) for _ in range(3)])
    assert smallest == pytest.approx(1 / 6**3)
    assert p == pytest.approx(smallest)
    assert gap > 0.5
    null = [pooled_pairing_test([family(0.0) for _ in range(3)])[1] for _ in range(300)]
    assert np.mean(np.array(null) <= 0.1) == pytest.approx(0.1, abs=0.05)
    many = pooled_pairing_test(
        [(trend + g.standard_normal((51, 6)), g.standard_normal((51, 6))) for _ in range(2)]
    )
    assert many[2] == pytest.approx(1e-4)


def test_several_sizes_with_seeds_have_a_pooled_row() -> None:
    g = np.random.default_rng(0)
    names = [(f"n{size}-{seed}", size, seed) for size in (10, 20) for seed in (1, 2, 3)]
    parts = [
        frame(f=np.log(STEPS + 100.0) + 0.1 * g.standard_normal(51)).assign(run=name) for name, _, _ in names
    ]
    runs = pd.DataFrame(names, columns=["run", "parameters", "seed"]).assign(family="gpt")
    table = replicate_table(from_frame(pd.concat(parts), features=["f"], runs=runs))
    assert list(table["family"]) == ["gpt 10", "gpt 20", POOLED]
    pooled = table.iloc[-1]
    assert pooled["seeds"] == 6
    assert pooled["smallest_p"] == pytest.approx(1 / 36)
    assert pooled["reason"] == "smallest reachable Holm p 0.083"  # three rows: 3 / 36
    assert "cannot reach p < .05; smallest reachable Holm p 0.33" in table["reason"].iloc[0]
    assert pooled["mean_rho"] == pytest.approx(table["mean_rho"].iloc[:2].mean())
    assert pooled["low"] < pooled["mean_rho"] < pooled["high"]


def test_replicates_are_grouped_by_what_they_share() -> None:
    g = np.random.default_rng(0)
    parts = [
        frame(f=np.log(STEPS + 100.0) + 0.1 * g.standard_normal(51)).assign(run=f"s{i}") for i in range(3)
    ]
    runs = pd.DataFrame({"run": ["s0", "s1", "s2"], "family": "gpt", "parameters": 10, "seed": [1, 2, 3]})
    table = replicate_table(from_frame(pd.concat(parts), features=["f"], runs=runs))
    assert table.loc[0, "seeds"] == 3
    assert table.loc[0, "mean_rho"] < -0.9
    assert "cannot reach" in table.loc[0, "reason"]
    assert replicate_table(from_frame(parts[0])).empty


def test_the_papers_forecasts_by_hand() -> None:
    assert tda_only(np.array([4.0, 3.0, 2.0]), np.array([0.1, 0.2, 0.4]), 13) == pytest.approx(
        2.0 - 0.1 * 0.15 * 10
    )
    assert tda_only(np.array([4.0, 0.4]), np.array([0.1, 0.2]), 5) == 0.5
    assert combine(1.0, 2.0) == pytest.approx(1.4)
    x = np.arange(0, 3000, 100)
    assert loss_only(x, 3.0 * (x + 1.0) ** -0.3 + 1.0, 5000) == pytest.approx(
        3.0 * 5001**-0.3 + 1.0, rel=1e-3
    )


def test_forecasts_without_topology_or_with_gaps_say_so() -> None:
    found = rule_table(from_frame(frame(f=1.0), features=["f"]))
    good = found[found["status"] == "ok"]
    assert set(good["method"]) == {"loss-only", "last-loss control"}
    assert "no column" in found.loc[found["method"] == "combined", "reason"].iloc[0]
    gap = frame(f=1.0)
    gap.loc[3, "loss"] = np.nan
    assert (rule_table(from_frame(gap, features=["f"]))["status"] == "failed").all()


def test_a_law_is_carried_by_sizes_not_by_seeds() -> None:
    sizes = [100, 100, 100, 1000, 10_000, 10_000]
    values = [4.0, 4.2, 4.4, 2.0, 1.0, 1.1]
    names = [f"r{i}" for i in range(6)]
    table = from_frame(
        pd.DataFrame({"run": names, "step": 1, "loss": values}),
        features=[],
        runs=pd.DataFrame({"run": names, "parameters": sizes}),
    )
    row = scaling_table(table).iloc[0]
    means = np.log([4.2, 2.0, 1.05])
    assert np.isnan(row["exponent"])  # three sizes carry no law with a floor
    assert (
        f"without a floor, b would be {np.polyfit(np.log([1e2, 1e3, 1e4]), means, 1)[0]:+.3f}"
        in row["reason"]
    )
    assert (row["n"], row["n_sizes"], row["runs"]) == (3, 3, 6)
    assert row["seed_sd"] == pytest.approx(np.sqrt((0.08 + 0.005) / 3))


def test_scaling_needs_sizes() -> None:
    table = scaling_table(from_frame(frame(f=1.0), features=["f"]))
    assert (table["status"] == "failed").all()


def test_planned_steps_must_grow() -> None:
    from toposcope.statistics.trends.calibration import calibration_matrix

    with pytest.raises(InputError, match="distinct steps in rising order"):
        calibration_matrix(np.zeros(20))
    with pytest.raises(InputError, match="no null called 'x'"):
        calibration_matrix(np.arange(20), nulls=["x"])


def test_unfinished_runs_carry_no_scaling_law() -> None:
    parts = [
        pd.DataFrame({"run": f"r{size}", "step": STEPS, "loss": 9.0 - STEPS / STEPS[-1] * (9 - size**-0.2)})
        for size in (10, 100, 1000, 10000)
    ]
    runs = pd.DataFrame({"run": [f"r{size}" for size in (10, 100, 1000, 10000)], "family": "f"})
    runs["parameters"] = [10, 100, 1000, 10000]
    parts[2] = parts[2].iloc[:30]
    row = scaling_table(from_frame(pd.concat(parts), features=[], runs=runs)).iloc[0]
    assert (row["n"], row["runs"]) == (3, 3)
    assert "left out, unfinished: r1000 (to step 2,900)" in row["reason"]


@pytest.mark.calibration
def test_the_largest_p_of_the_references_counts_and_the_row_says_so() -> None:
    g = np.random.default_rng(12)
    steps = STEPS[1:]
    known = reference.reference(steps)
    drift = autoregressions(g.standard_normal((300, 50)), np.full(300, 0.7)).cumsum(axis=1)
    told, undecided = 0, 0
    for values in drift + 2.0 * g.standard_normal((300, 50)):
        rows = segments(steps, values)
        found = scan(design(steps), np.diff(values))
        parts = [
            part.kindly(found.gain, found.persistence, found.unevenness) for part in (known, *known.others)
        ]
        assert rows[0][-4] == max(parts)
        assert (len(rows) > 1) == (max(parts) <= 0.05)
        told += len(rows) > 1
        if parts[0] <= 0.05 < max(parts):
            undecided += 1
            assert len(rows) == 1
            assert str(rows[0][-1]).startswith(
                ("cannot tell: noise of changing size bends as much", "no verdict")
            )
    assert told / 300 <= 0.08  # 5%, and two standard errors
    assert undecided  # kind noise alone would have called them bends


@pytest.mark.slow
def test_a_power_law_that_begins_late_does_not_bend_where_steps_grow() -> None:
    g = np.random.default_rng(13)
    steps = np.unique(np.geomspace(1, 143_000, 51).round())
    share = (steps - steps[0]) / np.ptp(steps)
    late = (share + np.exp(g.uniform(-4.0, 0.0, (60, 1)))) ** -g.uniform(0.2, 1.5, (60, 1))
    late = (late - late.min(axis=1, keepdims=True)) / np.ptp(late, axis=1)[:, None]
    found = [len(segments(steps, values)) > 1 for values in late + 0.01 * g.standard_normal(late.shape)]
    assert np.mean(found) <= 0.12  # 75% before such trends were taken
    kink = 60.0 * np.maximum(np.log(steps / steps[16]), 0.0) + g.standard_normal((20, len(steps)))
    # 40% of 20; a gentle wave belongs to the trend and explains many kinks as well
    assert np.mean([len(segments(steps, values)) > 1 for values in kink]) > 0.25
