"""Laws with a floor: what they recover, how often their interval holds, and when they say nothing."""

from __future__ import annotations

import numpy as np
import pytest

from toposcope.scaling import fit_loss_law, fit_power_law

SIZES = np.geomspace(1e5, 1e9, 7)


def test_a_floor_is_recovered_where_the_plain_law_is_wrong() -> None:
    noise = 0.001 * np.random.default_rng(0).standard_normal(7)
    loss = 400.0 * SIZES**-0.34 + 1.69 + noise
    law, plain = fit_loss_law(SIZES, loss), fit_power_law(SIZES, loss)
    assert law.status == "ok"
    assert law.low <= -0.34 <= law.high
    assert law.offset == pytest.approx(1.69, abs=0.02)
    assert not plain.low <= -0.34 <= plain.high


def test_the_interval_holds_the_exponent() -> None:
    g = np.random.default_rng(3)
    truth = 400.0 * SIZES**-0.34 + 1.69
    laws = [fit_loss_law(SIZES, truth + 0.01 * g.standard_normal(7)) for _ in range(60)]
    given = [law for law in laws if law.status == "ok"]
    assert len(given) >= 50
    assert np.mean([law.low <= -0.34 <= law.high for law in given]) >= 0.88


def test_sizes_that_cannot_tell_the_floor_give_no_exponent() -> None:
    sizes = np.geomspace(1e6, 4e6, 4)
    loss = 1.6 * (sizes / 1e6) ** -0.3 + 2.4 + 0.02 * np.array([1, -1, 1, -1])
    law = fit_loss_law(sizes, loss)
    assert law.status == "degenerate"
    assert np.isnan(law.exponent)
    assert np.isnan(law.offset)
    assert "E is not identified by 4 sizes: E from 0 to" in law.reason


@pytest.mark.parametrize(
    ("sizes", "loss", "reason"),
    [
        ([1e3, 1e4], [2.0, 1.0], "2 distinct sizes"),
        ([1e3, 1e4, 1e5], [3.0, 2.0, 1.5], "3 distinct sizes are too few for a law with a floor E"),
        ([1e3, 1e4, 1e5, 1e6], [1.0, 2.0, 3.0, 4.0], "does not fall with size"),
        ([1e3, 1e4, 1e5, 1e6], [1.0, 0.5, 0.0, -1.0], "values <= 0"),
        ([1e3, 1e4], [1.0], "2 sizes but 1 values"),
    ],
)
def test_what_cannot_be_fitted_says_why(sizes: list[float], loss: list[float], reason: str) -> None:
    law = fit_loss_law(np.array(sizes), np.array(loss))
    assert law.status == "failed"
    assert reason in law.reason
    assert np.isnan(law.exponent)
