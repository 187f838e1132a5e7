"""The height of a rise, its rank among draws, and where it is placed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from toposcope.studies.grokking.rises import height, place, rank

STEPS = np.arange(0.0, 3001.0, 60.0)


def walks(g: np.random.Generator, count: int) -> np.ndarray:
    """Return series that persist and wander, as bars of an embedding do."""
    return np.asarray(g.standard_normal((count, len(STEPS))).cumsum(axis=1) / 7.0)


def rise(start: float, end: float) -> np.ndarray:
    """Return a smooth move from 0 to 1 that begins and ends at these steps."""
    part = np.clip((STEPS - start) / (end - start), 0.0, 1.0)
    return np.asarray(part * part * (3.0 - 2.0 * part))


def test_the_rank_among_exchangeable_draws_is_uniform() -> None:
    """Each of the 20 ranks is as likely, whatever the series: here ones on which no test of levels holds."""
    g = np.random.default_rng(1)
    repeats = 2000
    ranks = np.empty(repeats)
    for i in range(repeats):
        own, *draws = [height(values) for values in walks(g, 20)]
        ranks[i] = rank(own, draws)
    counts = np.bincount(np.round(20 * ranks).astype(int), minlength=21)[1:]
    expected = repeats / 20
    assert counts.sum() == repeats
    assert np.sum((counts - expected) ** 2 / expected) < 43.8  # chi-squared of 19 degrees, .999
    assert binomtest(int(np.sum(ranks <= 0.05)), repeats, 0.05).pvalue > 0.001


def test_draws_that_tie_make_the_rank_no_smaller() -> None:
    assert rank(1.0, [1.0] * 19) == 1.0
    assert rank(2.0, [1.0] * 19) == 0.05


@pytest.mark.parametrize("width", [60.0, 600.0, 1500.0])
def test_a_gentle_rise_counts_as_a_jump_does(width: float) -> None:
    jump, gentle = height(rise(1470.0, 1530.0)), height(rise(1500.0 - width / 2, 1500.0 + width / 2))
    assert 0.8 * jump < gentle <= 1.001 * jump
    assert height(-rise(900.0, 2100.0)) < 0.1 * gentle


def test_a_missing_value_leaves_the_height_where_it_was() -> None:
    values = np.r_[np.zeros(8), np.ones(8)]
    assert height(np.r_[values[:4], np.nan, values[4:]]) == height(values)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_rise_is_placed_within_its_set(sign: int) -> None:
    g = np.random.default_rng(4)
    covered = np.zeros(2)
    for _ in range(40):
        start, width = g.uniform(600, 1200), g.uniform(600, 1500)
        part = 1.0 / (1.0 + 9.0 ** -(2.0 * (STEPS - start) / width - 1.0))
        noise = walks(g, 1)[0] * 0.3 + 0.05 * g.standard_normal(len(STEPS))
        found = place(STEPS, sign * 4.0 * part + noise, sign)
        assert found is not None
        covered += [
            found.start_low <= start + 30 and start - 30 <= found.start_high,
            found.middle_low <= start + width / 2 + 15 and start + width / 2 - 15 <= found.middle_high,
        ]
    assert (covered >= 34).all()  # at 95%, 33 or fewer of 40 have probability .003


def test_a_jump_at_the_start_is_not_where_a_long_rise_lies() -> None:
    g = np.random.default_rng(6)
    values = 4.0 * rise(0.0, 2400.0) + (STEPS > 0) * 0.8 + 0.01 * g.standard_normal(len(STEPS))
    found = place(STEPS, values, 1)
    assert found is not None
    assert 700.0 < found.middle < 1700.0


def test_what_only_falls_has_no_rise() -> None:
    assert place(STEPS, -STEPS, 1) is None
    assert place(STEPS[:5], STEPS[:5], 1) is None
    falling = place(STEPS, -rise(900.0, 2100.0), -1)
    assert falling is not None
    assert abs(falling.middle - 1500.0) <= 60.0
