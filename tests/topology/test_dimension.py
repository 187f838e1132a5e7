"""Dimension estimates converge on clouds whose dimension is known; magnitude has closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from toposcope.core.errors import InputError
from toposcope.topology import magnitude, mle_dimension, ph_dimension, twonn
from toposcope.topology.dimension import DimensionEstimate, distinct

RANDOM = np.random.default_rng(0)


def embedded(points: np.ndarray) -> np.ndarray:
    """Turn the points into ten dimensions by an isometry."""
    basis, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((10, points.shape[1])))
    return points @ basis.T


CLOUDS = {
    1: embedded(np.column_stack([np.cos(t := RANDOM.uniform(0, 2 * np.pi, 1200)), np.sin(t)])),
    2: embedded(RANDOM.uniform(size=(1200, 2))),
    3: embedded(RANDOM.uniform(size=(1200, 3))),
}


@pytest.mark.parametrize("estimator", [ph_dimension, twonn, mle_dimension])
@pytest.mark.parametrize("dim", CLOUDS)
def test_the_dimension_of_circle_square_and_cube(estimator, dim: int) -> None:  # type: ignore[no-untyped-def]
    estimate = estimator(CLOUDS[dim])
    assert estimate.value == pytest.approx(dim, rel=0.12)
    assert estimate.low < estimate.value < estimate.high
    assert estimate.high - estimate.low < 0.4 * dim
    assert (estimate.n, estimate.merged) == (1200, 0)


@pytest.mark.parametrize("estimator", [ph_dimension, twonn, mle_dimension])
def test_dimension_has_no_unit_and_ignores_duplicates(estimator) -> None:  # type: ignore[no-untyped-def]
    plain = estimator(CLOUDS[2][:300])
    doubled = estimator(np.vstack([1e3 * CLOUDS[2][:300], 1e3 * CLOUDS[2][:50]]))
    assert doubled.value == pytest.approx(plain.value, rel=1e-3)
    assert (doubled.n, doubled.merged) == (300, 50)


def test_twonn_covers_the_truth_at_its_rate() -> None:
    random = np.random.default_rng(5)
    covered = 0
    for _ in range(60):
        estimate = twonn(random.uniform(size=(400, 2)), discard=0.1)
        covered += estimate.low <= 2.0 <= estimate.high
    assert covered >= 48  # 95% if points were independent; P(fewer than 48 of 60) is below 1e-5 then


def test_ph_dimension_repeats_and_takes_sizes() -> None:
    first = ph_dimension(CLOUDS[2][:200], sizes=[50, 100, 200], name="a")
    assert first == ph_dimension(CLOUDS[2][:200], sizes=[50, 100, 200], name="a")
    assert first != ph_dimension(CLOUDS[2][:200], sizes=[50, 100, 200], name="b")


def test_magnitude_of_one_two_and_equidistant_points() -> None:
    assert magnitude([[5.0]]).value == pytest.approx(1.0)
    assert magnitude([[0.0], [2.0]], t=0.5).value == pytest.approx(2 / (1 + np.exp(-1.0)))
    n, apart = 6, np.sqrt(2)
    assert magnitude(np.eye(n)).value == pytest.approx(n / (1 + (n - 1) * np.exp(-apart)), rel=1e-6)


def test_magnitude_grows_from_one_to_the_number_of_points() -> None:
    points = RANDOM.standard_normal((40, 3))
    values = [float(magnitude(points, t)) for t in (1e-3, 0.1, 1.0, 10.0, 1e3)]
    assert values == sorted(values)
    assert values[0] == pytest.approx(1.0, abs=0.02)
    assert values[-1] == pytest.approx(40.0)
    doubled = magnitude(np.vstack([points, points]))
    assert doubled == DimensionEstimate(doubled.value, doubled.low, doubled.high, 40, 40)
    assert doubled.value == pytest.approx(magnitude(points).value)


def test_magnitude_of_a_line_is_one_plus_half_its_length() -> None:
    line = np.linspace(0, 3, 400)[:, None]
    assert magnitude(line).value == pytest.approx(1 + 1.5, rel=1e-3)


def test_distinct_keeps_the_first_of_each() -> None:
    points, merged = distinct(np.array([[2.0], [1.0], [2.0], [1.0], [0.0]]))
    assert points.ravel().tolist() == [2.0, 1.0, 0.0]
    assert merged == 2


def test_a_grid_with_equal_neighbours_has_no_twonn() -> None:
    square = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    assert np.isnan(twonn(square, discard=0.0).value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ph_dimension(np.eye(5)), "X has 5 distinct points; the PH dimension needs at least 10"),
        (lambda: ph_dimension(np.eye(20), draws=9), "draws is 9"),
        (lambda: ph_dimension(np.eye(20), alpha=0.0), "alpha is 0"),
        (lambda: ph_dimension(np.eye(20), sizes=[5, 10, 21]), "sizes is .* from 3 to 20"),
        (lambda: twonn([[0.0], [0.0], [1.0]]), "X has 2 distinct points; TwoNN needs at least 3"),
        (lambda: twonn(np.eye(5), discard=1.0), "discard is 1.0"),
        (lambda: mle_dimension(np.eye(5), k=2), "k is 2"),
        (lambda: mle_dimension(np.eye(5), k=5), "needs? at least 6"),
        (lambda: magnitude(np.eye(3), t=0.0), "t is 0.0; the scale must be positive"),
        (lambda: magnitude(np.linspace(0, 1, 50)[:, None], t=1e-18), "numerically singular"),
        (lambda: twonn([[np.nan]]), "is nan"),
    ],
)
def test_bad_calls_say_what_to_do(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=message):
        call()
