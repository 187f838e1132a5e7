"""The two-sample test of diagrams: its level is exact, and it finds what differs."""

import math

import numpy as np
import pytest

from toposcope.core.errors import InputError
from toposcope.topology import bottleneck, two_sample


def group(generator, count, scale=1.0):
    return [np.column_stack([np.zeros(4), scale * generator.uniform(1, 2, 4)]) for _ in range(count)]


def test_the_statistic_is_the_mean_distance_within_the_groups():
    generator = np.random.default_rng(1)
    first, second = group(generator, 3), group(generator, 2)
    pairs = [bottleneck(first[i], first[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    wanted = (np.mean(pairs) + bottleneck(*second)) / 2
    assert two_sample(first, second, distance="bottleneck").statistic == pytest.approx(wanted)


def test_all_splits_are_counted_where_they_are_few():
    generator = np.random.default_rng(2)
    found = two_sample(group(generator, 4), group(generator, 4, 9.0))
    assert (found.splits, found.exhaustive) == (math.comb(8, 4), True)
    assert found.p == pytest.approx(2 / 70)  # as given, and with the groups' names exchanged


def test_many_diagrams_are_split_at_random_and_the_same_way_each_time():
    generator = np.random.default_rng(3)
    first, second = group(generator, 12), group(generator, 12, 1.5)
    found = two_sample(first, second, draws=199)
    assert (found.splits, found.exhaustive) == (200, False)
    assert found == two_sample(first, second, draws=199)
    assert found.p <= 0.02


@pytest.mark.calibration
def test_the_level_is_exact():
    """With 39 random splits p takes the values k/40 with equal probability: P(p <= 1/20) = 1/20."""
    generator = np.random.default_rng(4)
    small = sum(
        two_sample(group(generator, 8), group(generator, 8), draws=39, seed=at).p <= 0.05 for at in range(400)
    )
    low, high = 7, 36  # the central 99.9% of a binomial law of 400 at 1/20
    assert low <= small <= high


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"distance": "hausdorff"}, "hausdorff"),
        ({"draws": 0}, "draws is 0"),
        ({"first": [[[0.0, 1.0]]]}, "at least two"),
        ({"first": [[[0.0, np.inf]], [[0.0, 1.0]]]}, "essential"),
        ({"first": [[[0.0, np.nan]], [[0.0, 1.0]]]}, "diagram 0"),
    ],
)
def test_bad_input_is_refused_in_one_line(change, word):
    given = {"first": [[[0.0, 1.0]], [[0.0, 2.0]]], "second": [[[0.0, 1.0]], [[0.0, 2.0]]], **change}
    with pytest.raises(InputError, match=word):
        two_sample(given.pop("first"), given.pop("second"), **given)
