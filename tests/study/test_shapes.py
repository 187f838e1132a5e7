"""A title says no more than its values show: shapes against what each may and may not say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope.study.shapes import Course, shape_of

N = 41
AT = np.arange(N) * 25
X = np.linspace(0, 1, N)
NOISE = np.random.default_rng(3).standard_normal(N)
DIP = [4.28, 0.23, 1.4, 5.7, 7.4, 8.1, 9.6, 10.0]

TABLE = {
    "dip and rise": (DIP, "fell from 4.28 to 0.23 at step 25, then rose to 10"),
    "the same, turned over": ([-v for v in DIP], "rose from −4.28 to −0.23 at step 25, then fell to −10"),
    "smooth dip": (10 * (X - 0.5) ** 2 + 0.02 * NOISE, "at step 500, then rose"),
    "smooth peak": (-10 * (X - 0.25) ** 2 + 0.02 * NOISE, "rose from"),
    "jump": (np.r_[np.ones(20), 5 * np.ones(21)] + 0.01 * NOISE, "mostly between steps 475 and 500"),
    "drop": (np.r_[5 * np.ones(20), np.ones(21)] + 0.01 * NOISE, "dropped from"),
    "oscillation": (np.sin(X * 6 * np.pi) + 0.01 * NOISE, "turned 6 times (−0.99"),
    "rise": (X + 0.01 * NOISE, "rose from"),
    "exact fall": (0.5 ** np.arange(N), "fell from 1 to "),
    "effective rank": (25.8 - 15.9 * X**0.5 + 0.3 * NOISE, "fell from "),
    "constant": ([3.0] * 9, "stayed at 3"),
    "noise": (1.3 + 0.05 * NOISE, "shows no clear trend (1."),
    "one point": ([4.5], "has one value (4.5, at step 0)"),
    "two points": ([4.5, 2.0], "fell from 4.5 to 2"),
    "no point": ([np.nan], "has no value"),
}
"""A shape -> its values, and what the words have to say."""
DRAWN = {"dip and rise": 0.2, "the same, turned over": 0.2}
"""The standard error of a value over draws, where values come from draws."""
FORBIDDEN = {
    "dip and rise": ("rose from 4.28", "no clear trend", "did not move"),
    "oscillation": ("rose from", "fell from", "no clear trend"),
    "effective rank": ("no clear trend", "did not move", "rose"),
    "constant": ("rose", "fell", "turned"),
    "noise": ("rose", "fell", "turned", "stayed"),
    "one point": ("rose", "fell", "stayed", "trend"),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_shape_is_told_as_it_is(name):
    values, said = TABLE[name]
    words = shape_of(AT[: len(values)], values, drawn=DRAWN.get(name, 0.0)).words()
    assert said in words
    assert not any(claim in words for claim in FORBIDDEN.get(name, ()))


@pytest.mark.parametrize("name", TABLE)
def test_the_verb_agrees_with_the_two_values_beside_it(name):
    shape = shape_of(AT[: len(TABLE[name][0])], TABLE[name][0])
    if shape.kind in (Course.ROSE, Course.FELL):
        assert (shape.points[-1][1] > shape.points[0][1]) is (shape.kind is Course.ROSE)


def test_a_dip_that_the_noise_might_make_is_no_rise_from_its_bottom():
    """Without draws, the noise of eight values is what a smooth curve leaves: the rise is beyond it."""
    assert shape_of(AT[:8], DIP).words() == "rose from 4.28 to 10"


@pytest.mark.parametrize("n", [6, 7, 12, 61, 300])
def test_noise_alone_is_rarely_given_a_shape(n):
    draws = np.random.default_rng(n).standard_normal((1500, n))
    told = np.mean([shape_of(range(n), one).kind is not Course.STILL for one in draws])
    assert told < 0.05  # 3.5% is stated; standard error half a point


@pytest.mark.parametrize("n", [8, 60])
def test_the_noise_of_draws_alone_is_rarely_given_a_shape(n):
    draws = np.random.default_rng(n).standard_normal((1500, n))
    assert np.mean([shape_of(range(n), one, drawn=1.0).kind is not Course.STILL for one in draws]) < 0.04


def test_the_draws_say_whether_a_dip_is_real():
    assert shape_of(AT[:8], DIP, drawn=0.2).kind is Course.DIP
    assert shape_of(AT[:8], DIP, drawn=3.0).kind is Course.STILL


@pytest.mark.parametrize("name", ["smooth dip", "oscillation", "jump", "rise"])
def test_an_analysis_tells_the_shape(name):
    values = TABLE[name][0]
    step = 50 + AT[: len(values)]
    table = pd.DataFrame({"step": step, "loss": 1 + 4.0 * step**-0.4, "mine": values})
    findings = ts.analyze(table).studies[0].findings
    assert findings["changed"].strength == "moved"
    words = shape_of(step, values).words()
    assert f"mine {words}." in findings.said(findings["changed"]).act
