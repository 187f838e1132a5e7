"""Scalar summaries of diagrams."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toposcope.core.types import Diagram
from toposcope.topology.summaries import SUMMARIES, lifetimes, persistent_entropy, summaries

lengths_lists = st.lists(st.floats(0, 1e6), max_size=20)


def h0(lengths: list[float]) -> Diagram:
    return Diagram(0, np.zeros(len(lengths)), np.array(lengths, np.float64))


def test_all_values_of_a_small_diagram() -> None:
    diagram = Diagram(1, np.array([0.0, 1.0, 2.0, 0.0]), np.array([1.0, 4.0, 2.0, np.inf]))
    values = summaries(diagram)
    assert tuple(values) == SUMMARIES
    assert values["count"] == 3
    assert values["essential"] == 1
    assert values["total"] == 4.0
    assert values["total_sq"] == 10.0
    assert values["max"] == 3.0
    assert values["mean"] == pytest.approx(4 / 3)
    assert values["std"] == pytest.approx(np.std([1.0, 3.0, 0.0]))
    entropy = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    assert values["entropy"] == pytest.approx(entropy)
    assert values["entropy_normalized"] == pytest.approx(entropy / np.log(3))


@pytest.mark.parametrize("death", [[], [np.inf], [-np.inf]])
def test_a_diagram_without_finite_bars_is_zero_everywhere(death: list[float]) -> None:
    values = summaries(Diagram(0, np.zeros(len(death)), np.array(death)))
    assert values.pop("essential") == len(death)
    assert set(values.values()) == {0.0}


def test_superlevel_bars_have_positive_lengths() -> None:
    diagram = Diagram(0, np.array([1.0, 1.0]), np.array([0.25, -np.inf]))
    assert lifetimes(diagram).tolist() == [0.75]


@given(st.integers(1, 50), st.floats(1e-300, 1e300))
def test_equal_bars_have_the_entropy_of_their_number(n: int, length: float) -> None:
    assert persistent_entropy(h0([length] * n)) == pytest.approx(np.log(n), abs=1e-9)


# a subnormal length cannot be scaled: 5e-324 times a half is 0
@given(st.lists(st.just(0.0) | st.floats(1e-200, 1e6), max_size=20), st.floats(1e-3, 1e3))
def test_scaling_moves_totals_and_not_entropy(lengths: list[float], factor: float) -> None:
    plain, scaled = summaries(h0(lengths)), summaries(h0([factor * x for x in lengths]))
    assert scaled["total"] == pytest.approx(factor * plain["total"])
    assert scaled["total_sq"] == pytest.approx(factor**2 * plain["total_sq"])
    assert scaled["entropy"] == pytest.approx(plain["entropy"], abs=1e-6)


@given(lengths_lists)
def test_normalised_entropy_is_a_share(lengths: list[float]) -> None:
    assert -1e-12 <= summaries(h0(lengths))["entropy_normalized"] <= 1 + 1e-12
