"""Changepoints against gentle curves: a wave, a hump or a moving mean is none, and a sharp move is one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from toposcope.statistics.phases.bends import scans
from toposcope.statistics.phases.curves import design, edges
from toposcope.statistics.phases.online import OnlineDetector
from toposcope.statistics.phases.reference import reference
from toposcope.study.segments import segments

STEPS = np.arange(100.0, 5001.0, 100.0)
PART = np.linspace(0.0, 1.0, len(STEPS))
DRAWS = 60
MOST = 0.05 + 2.5 * (0.05 * 0.95 / DRAWS) ** 0.5
"""The stated rate and two and a half standard errors."""
Make = Callable[[np.random.Generator], np.ndarray]


def found(series: np.ndarray) -> np.ndarray:
    """Say of each series whether it has a change."""
    p = reference(STEPS).p_values(scans(design(STEPS), np.diff(series, axis=1)))
    return np.asarray(p <= 0.05)


def noise(g: np.random.Generator, size: float) -> np.ndarray:
    return size * g.standard_normal((DRAWS, len(STEPS)))


def smoothed(series: np.ndarray, keep: float) -> np.ndarray:
    out = series.copy()
    for i in range(1, series.shape[1]):
        out[:, i] = keep * out[:, i - 1] + (1.0 - keep) * series[:, i]
    return out


def power(g: np.random.Generator) -> np.ndarray:
    return np.asarray((STEPS / 100.0) ** -g.uniform(0.2, 1.4, (DRAWS, 1)))


def wave(g: np.random.Generator, periods: float) -> np.ndarray:
    return np.asarray(np.sin(2.0 * np.pi * (periods * PART + g.random((DRAWS, 1)))))


def logistic(g: np.random.Generator, width: float) -> np.ndarray:
    return np.asarray(1.0 / (1.0 + np.exp(-(PART - g.uniform(0.25, 0.75, (DRAWS, 1))) / width)))


@pytest.mark.calibration
@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda g: smoothed(power(g) + noise(g, 0.01), 0.9),
        lambda g: smoothed(power(g) + noise(g, 0.03), 0.6),
        lambda g: wave(g, 1.0) + noise(g, 0.1),
        lambda g: wave(g, 2.5) + noise(g, 0.02),
        lambda g: 4.0 * (PART - g.uniform(0.2, 0.8, (DRAWS, 1))) ** 2 + noise(g, 0.01),
        lambda g: PART * np.exp(-PART / g.uniform(0.05, 0.3, (DRAWS, 1))) + noise(g, 0.003),
    ],
    ids=["moving mean .9", "moving mean .6", "one wave", "two waves and a half", "parabola", "hump"],
)
def test_gentle_curves_have_no_bends(make: Make) -> None:
    assert found(make(np.random.default_rng(41))).mean() <= MOST


@pytest.mark.calibration
@pytest.mark.slow
def test_sharp_moves_are_found_the_more_the_less_noise() -> None:
    g = np.random.default_rng(42)
    rates = [found(logistic(g, 0.03) + noise(g, size)).mean() for size in (0.1, 0.05, 0.02, 0.01, 0.002)]
    assert np.diff(rates).min() >= -0.05
    assert min(rates[2:]) >= 0.9  # 37% at .01 and none at .002, when the noise was judged with the move in it


def test_a_gentle_wave_that_leaves_every_falling_trend_has_no_verdict() -> None:
    g = np.random.default_rng(43)
    rows = [segments(STEPS, values) for values in (wave(g, 1.0) + noise(g, 0.1))[:12]]
    whole = [row[0] for row in rows if len(row) == 1]
    assert len(whole) >= 10
    assert any(str(row[-1]).startswith("no verdict") and "wave" in str(row[-1]) for row in whole)


def test_a_ramp_lies_between_its_edges() -> None:
    grid, span = design(STEPS), (20, 32)
    level = np.cumsum(grid.rows([span])[0])
    low, high = edges(span, len(grid.clock))
    assert level[low - 1] <= 0.15
    assert level[high - 1] >= 0.85
    assert np.isclose(level[-1], 1.0)


def test_a_move_is_dated_where_it_is() -> None:
    g = np.random.default_rng(44)
    values = 1.0 / (1.0 + np.exp(-(PART - 0.5) / 0.03)) + 0.01 * g.standard_normal(len(STEPS))
    rows = segments(STEPS, values)
    assert len(rows) == 3
    assert (
        1800.0 <= rows[1][1] < 2600.0 < rows[2][1] <= 3400.0
    )  # it has risen by 10% at 2,225 and by 90% at 2,875


@pytest.mark.slow
def test_the_online_detector_is_not_alarmed_by_a_moving_mean_of_a_power_law() -> None:
    g = np.random.default_rng(45)
    series = smoothed(power(g) + noise(g, 0.01), 0.9)[:40, ::2]
    alarms = 0
    for values in series:
        detector = OnlineDetector(STEPS[::2])
        alarms += any(detector.update(s, v) is not None for s, v in zip(STEPS[::2], values, strict=True))
    assert alarms / 40 <= 0.05 + 2.5 * (0.05 * 0.95 / 40) ** 0.5
