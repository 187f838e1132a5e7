"""Two series that each answer several drops of a known rate at a pace of their own are not related."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from toposcope import analyze
from toposcope.statistics.trends.basis import schedule_trends
from toposcope.statistics.trends.innovations import innovation_test
from toposcope.statistics.trends.whitening import whiten

PLACES = (0.3, 0.55, 0.8)


def answers(g, n, draws, noise):
    """Power laws (n, draws) minus a relaxation after each drop, with a lag and a size of its own."""
    trend = np.arange(1.0, n + 1.0)[:, None] ** -g.uniform(0.1, 1.5, draws)
    out = (trend - trend.min(axis=0)) / np.ptp(trend, axis=0)
    for place in PLACES:
        since = np.arange(n)[:, None] - np.ceil(place * (n - 1)) + 1
        lag = g.uniform(0.3, 5.0, draws) * n / 51
        out = out - g.uniform(0.05, 0.3, draws) * np.where(
            since > 0, 1 - np.exp(-np.maximum(since, 0) / lag), 0
        )
    return out + noise * g.standard_normal((n, draws))


def rejected(n, draws, noise=0.002):
    g, steps = np.random.default_rng(n), np.arange(n) * 100.0
    rate = 0.3 ** np.sum([np.arange(n) >= np.ceil(place * (n - 1)) for place in PLACES], axis=0)
    x, y = (whiten(answers(g, n, draws, noise), steps, rate) for _ in range(2))
    return np.mean(innovation_test(x, y, intervals=False, rate_known=True).found)


def test_each_of_several_drops_has_answers_of_its_own_and_a_decay_has_none():
    steps = np.arange(48) * 10.0
    share = steps / steps[-1]
    drops = np.where(share < 0.3, 1.0, np.where(share < 0.6, 0.3, 0.09))
    assert schedule_trends(steps, drops).shape == (48, 7)
    for rate in (
        np.where(share < 0.5, 1.0, 0.1),
        1 - share,
        0.5 * (1 + np.cos(np.pi * share)),
        1 - 0.9 * share,
    ):
        assert schedule_trends(steps, rate).shape == (48, 3)
    many = 0.5 ** np.floor(share * 12)
    assert schedule_trends(steps, many).shape == (48, 3)


def test_pairs_that_answer_three_drops_each_in_its_way_are_rarely_found():
    """24% of them were found: one lag for all drops left the rest of each answer to both series."""
    assert rejected(51, 120) < 0.12


@pytest.mark.calibration
@pytest.mark.parametrize("n", [51, 26])
def test_the_rate_of_such_pairs_is_near_the_level(n):
    assert rejected(n, 500) < 0.08


def limits_of(n):
    """The limits of the answer about a table whose column has the noise of its loss, at three drops."""
    g, steps = np.random.default_rng(1), np.arange(1, n + 1) * 100
    rate = 1e-3 * 0.3 ** np.sum([np.arange(n) >= np.ceil(place * (n - 1)) for place in PLACES], axis=0)
    noise = g.standard_normal(n)
    table = pd.DataFrame({"step": steps, "learning_rate": rate, "loss": 2 + steps**-0.3 + 0.05 * noise})
    table["width"] = np.log(steps) + 0.5 * noise + 0.01 * g.standard_normal(n)
    finding = next(one for one in analyze(table).findings if one.question == "beyond")
    assert finding.strength == "adds"
    return analyze(table).findings.said(finding).limits


def test_an_answer_with_few_checkpoints_a_drop_says_that_it_is_wrong_more_often():
    assert "drops 3 times within 26 checkpoints" in limits_of(26)
    assert "9%" in limits_of(26)
    assert "drops" not in limits_of(51)
