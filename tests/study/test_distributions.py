"""Quantiles, tails and ranks against scipy.stats; whitening that is asked again."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from toposcope.core import distributions as own
from toposcope.statistics.correlations import ranks
from toposcope.statistics.trends.whitening import whiten


@pytest.mark.parametrize("degrees", [1, 2, 4.5, 30, 1e5])
def test_student_is_that_of_scipy(degrees: float) -> None:
    for p in (0.5, 0.9, 0.975, 0.995):
        assert own.student_quantile(p, degrees) == pytest.approx(stats.t.ppf(p, degrees), rel=1e-14)
    for t in (-3.0, 0.2, 8.0):
        assert own.student_two_sided(t, degrees) == pytest.approx(2 * stats.t.sf(abs(t), degrees), rel=1e-14)
    assert np.isnan(own.student_quantile(0.9, 0))


def test_normal_and_f_are_those_of_scipy() -> None:
    p = np.array([0.01, 0.5, 0.975])
    np.testing.assert_allclose(own.normal_quantile(p), stats.norm.ppf(p), rtol=1e-14)
    np.testing.assert_allclose(own.normal_below(p), stats.norm.cdf(p), rtol=1e-14)
    assert own.f_quantile(0.95, 1, 7) == pytest.approx(stats.f.ppf(0.95, 1, 7), rel=1e-12)


@pytest.mark.parametrize("shape", [(1,), (26,), (26, 1), (51, 7), (0, 3)])
def test_ranks_are_those_of_scipy(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).integers(0, 9, shape).astype(float)
    np.testing.assert_array_equal(ranks(values), stats.rankdata(values, axis=0))


def test_a_column_with_a_gap_has_no_ranks() -> None:
    values = np.random.default_rng(0).standard_normal((9, 3))
    values[2, 1] = np.nan
    np.testing.assert_array_equal(ranks(values), stats.rankdata(values, axis=0))


def test_a_series_that_was_whitened_before_comes_out_the_same() -> None:
    values = np.random.default_rng(1).standard_normal((51, 4)).cumsum(axis=0)
    steps = np.arange(51) * 100.0
    first, again = whiten(values, steps), whiten(values[:, 1:3], steps)
    np.testing.assert_array_equal(first.e[:, 1:3], again.e)
    again.e[:] = 0.0  # what one caller does to its copy
    np.testing.assert_array_equal(whiten(values, steps).e, first.e)
    other = whiten(values, steps * np.linspace(1.0, 2.0, 51))
    assert not np.array_equal(other.e, first.e)
