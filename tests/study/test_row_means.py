"""Series smoothed row by row at uneven steps: the mean is found again, and shared delays are no relation."""

from __future__ import annotations

import numpy as np
import pytest

from toposcope.statistics.trends import simulators as sim
from toposcope.statistics.trends.innovations import innovation_test
from toposcope.statistics.trends.row_means import RowMean
from toposcope.statistics.trends.whitening import _design, _mean_of, whiten

STEPS = np.cumsum(np.random.default_rng(3).integers(70, 131, 60)).astype(float)
MISSING = 100.0 * np.sort(np.random.default_rng(4).choice(62, 50, replace=False))


def smoothed(mean: RowMean, noise: float, steps: np.ndarray, seed: int, draws: int = 60) -> np.ndarray:
    """Return smoothed power laws with noise, (n, draws)."""
    return mean.of(sim.curve(sim.power_law, noise)(np.random.default_rng(seed), steps, draws).T).T


@pytest.mark.parametrize("mean", [RowMean(keep=0.9), RowMean(keep=0.97), RowMean(width=5)])
def test_the_mean_is_found_again(mean):
    series = smoothed(mean, 0.001, STEPS, 1, draws=1)[:, 0]
    found = _mean_of((series - series.mean()) / series.std(), _design(STEPS, None))
    assert found is not None
    assert found.width == mean.width
    assert abs(found.keep - mean.keep) < 0.02


@pytest.mark.parametrize("steps", [STEPS, MISSING], ids=["random gaps", "missing rows"])
@pytest.mark.parametrize("mean", [RowMean(keep=0.9), RowMean(keep=0.95), RowMean(width=9)])
@pytest.mark.parametrize("noise", [0.0, 0.01, 0.1])
def test_shared_delays_are_no_relation(mean, steps, noise):
    x, y = (whiten(smoothed(mean, noise, steps, seed), steps) for seed in (1, 2))
    test = innovation_test(x, y, intervals=False)
    assert test.found.sum() <= 9  # of 60: one chance in 70 at 7.5%; without the rule up to 37


def test_a_relation_of_smoothed_series_is_found():
    g = np.random.default_rng(5)
    first, other = g.standard_normal((2, len(STEPS), 40))
    curve = sim.curve(sim.power_law, 0.0)
    noises = (first, 0.7 * first + np.sqrt(0.51) * other)
    x, y = (whiten(RowMean(keep=0.9).of((curve(g, STEPS, 40) + 0.1 * part).T).T, STEPS) for part in noises)
    assert innovation_test(x, y, intervals=False).found.mean() > 0.8


def test_two_curves_without_noise_are_not_tested():
    x, y = (whiten(smoothed(RowMean(), 0.0, STEPS, seed), STEPS) for seed in (1, 2))
    test = innovation_test(x, y, intervals=False)
    assert test.silent.all()
    assert set(test.why) <= {"too smooth to test"}
