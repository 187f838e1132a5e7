from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from toposcope.scaling import fit_power_law, spearman_exact

SEED_SIZES = {"tiny-3k": 2936, "small-7k": 7408, "med-21k": 20640, "large-46k": 46368, "xl-97k": 97200}


def test_exact_law_is_recovered_without_and_with_an_offset():
    sizes = np.geomspace(1e3, 1e8, 7)
    plain = fit_power_law(sizes, 3.0 * sizes**-0.14)
    assert plain.scale == pytest.approx(3.0)
    assert plain.exponent == pytest.approx(-0.14)
    assert plain.r2 == pytest.approx(1.0)
    shifted = fit_power_law(sizes, 400.0 * sizes**-0.34 + 1.69, offset=True)
    assert (shifted.exponent, shifted.offset) == (
        pytest.approx(-0.34, abs=1e-5),
        pytest.approx(1.69, abs=1e-4),
    )
    assert shifted.scale == pytest.approx(400.0, rel=1e-3)
    assert shifted.predict(1e9) == pytest.approx(400.0 * 1e9**-0.34 + 1.69, rel=1e-4)


@pytest.mark.calibration
@pytest.mark.parametrize("offset", [False, True])
def test_interval_covers_at_its_nominal_rate(offset):
    random = np.random.default_rng(7)
    sizes = np.geomspace(1e4, 1e8, 8)
    truth = 300.0 * sizes**-0.3 + (1.5 if offset else 0.0)
    hits = 0
    for _ in range(300):
        noise = random.normal(0, 0.01, len(sizes))
        values = truth + noise if offset else truth * np.exp(noise)
        law = fit_power_law(sizes, values, offset=offset)
        hits += law.low <= -0.3 <= law.high
    assert 0.91 <= hits / 300 <= 0.985


def test_a_rising_quantity_has_a_positive_exponent():
    law = fit_power_law(np.array([1e3, 1e4, 1e5]), np.array([1.0, 2.0, 4.0]))
    assert law.exponent == pytest.approx(math.log10(2))
    assert law.spearman == pytest.approx(1.0)


def test_repeated_sizes_are_not_counted_as_sizes():
    law = fit_power_law(np.array([1e3, 1e3, 1e3, 1e6]), np.array([4.0, 4.1, 3.9, 1.0]))
    assert (law.n, law.n_sizes) == (4, 2)


@pytest.mark.parametrize(
    ("sizes", "values", "offset", "reason"),
    [
        ([1e3], [2.0], False, "1 distinct sizes"),
        ([1e3, 1e3], [2.0, 3.0], False, "1 distinct sizes"),
        ([1e3, 1e4], [2.0, 1.0], True, "at least 4"),
        ([1e3, 1e4, 1e5], [2.0, 2.0, 2.0], False, "constant"),
        ([1e3, 1e4, 1e5], [2.0, 0.0, 1.0], False, "<= 0"),
        ([1e3, 1e4, np.nan], [2.0, np.nan, 1.0], False, "1 distinct sizes"),
        ([1e3, 1e4], [2.0, 1.0, 1.0], False, "2 sizes but 3 values"),
    ],
)
def test_bad_input_is_a_failed_law_with_its_reason(sizes, values, offset, reason):
    law = fit_power_law(np.array(sizes), np.array(values), offset=offset)
    assert law.status == "failed"
    assert reason in law.reason
    assert math.isnan(law.exponent)


def test_two_sizes_give_no_exponent():
    law = fit_power_law(np.array([1e3, 1e4]), np.array([2.0, 1.0]))
    assert law.status == "failed"
    assert "2 distinct sizes; the law needs at least 3" in law.reason
    assert math.isnan(law.exponent)


def test_spearman_p_is_exact_for_few_points():
    rho, p = spearman_exact(np.array([1.0, 2, 3, 4, 5]), np.array([1.0, 2, 3, 5, 4]))
    assert rho == pytest.approx(0.9)
    assert p == pytest.approx(10 / 120)  # the t approximation says 0.037


def test_ties_bound_the_p_value_of_a_rank_correlation() -> None:
    sizes = np.repeat([1.0, 2.0, 3.0], 3)
    rho, p = spearman_exact(sizes, np.arange(9.0))
    assert rho == pytest.approx(0.9487, abs=1e-4)
    assert p == pytest.approx(2 / 1680)  # 9! / (3! 3! 3!) arrangements differ
    assert spearman_exact(np.arange(12.0), np.arange(12.0))[1] == pytest.approx(2 / 479001600)


def test_published_exponent_of_the_final_loss_of_the_five_models(shared_data: Path):
    losses = [
        json.loads((shared_data / "seed_runs" / name / "training_log.json").read_text())[-1]["loss"]
        for name in SEED_SIZES
    ]
    law = fit_power_law(np.array(list(SEED_SIZES.values())), np.array(losses))
    assert law.exponent == pytest.approx(-0.144, abs=6e-3)
    assert law.r2 == pytest.approx(0.997, abs=3e-3)
