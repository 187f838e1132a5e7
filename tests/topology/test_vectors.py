"""Vectors of diagrams against their definitions and gudhi's."""

from __future__ import annotations

import numpy as np
import pytest
from gudhi import representations
from hypothesis import given, settings
from hypothesis import strategies as st

from toposcope.core.errors import InputError
from toposcope.core.types import Diagram
from toposcope.topology import vectors
from toposcope.topology.vectors import (
    betti_curve,
    common_grid,
    crocker,
    entropy_curve,
    euler_curve,
    landscape,
    persistence_image,
    silhouette,
)

RANDOM = np.random.default_rng(0)
BIRTHS = RANDOM.uniform(0, 1, (4, 60))
SERIES = [np.column_stack([b, b + RANDOM.exponential(0.3, 60)]) for b in BIRTHS]
GRID = common_grid(SERIES, 70)
SPAN = [GRID[0], GRID[-1]]


def test_agrees_with_gudhi_on_the_same_grid() -> None:
    curves = {
        "betti": (crocker(SERIES, GRID), representations.BettiCurve(70, SPAN)),
        "landscape": (
            np.sqrt(2) * np.stack([landscape(d, GRID, 4).ravel() for d in SERIES]),
            representations.Landscape(4, 70, SPAN),
        ),
        "silhouette": (
            np.sqrt(2) * np.stack([silhouette(d, GRID, 2.0) for d in SERIES]),
            representations.Silhouette(lambda p: (p[1] - p[0]) ** 2, 70, SPAN),
        ),
        "entropy": (
            np.stack([entropy_curve(d, GRID) for d in SERIES]),
            representations.Entropy("vector", False, 70, SPAN),
        ),
    }
    for name, (ours, theirs) in curves.items():
        np.testing.assert_allclose(ours, theirs.fit_transform(SERIES), atol=1e-9, err_msg=name)


def test_images_agree_with_gudhi() -> None:
    theirs = representations.PersistenceImage(0.1, lambda p: p[1], [15, 12], [0, 1, 0, 2])
    across, up = np.linspace(0, 1, 15), np.linspace(0, 2, 12)
    ours = [persistence_image(d, across, up, bandwidth=0.1).ravel() for d in SERIES]
    np.testing.assert_allclose(np.stack(ours), theirs.fit_transform(SERIES), rtol=1e-9)


def test_a_fine_image_integrates_to_the_total_length() -> None:
    across, up = np.linspace(-1, 2, 301), np.linspace(-1, 4, 401)
    image = persistence_image([[0.2, 1.2], [0.5, 1.0]], across, up, bandwidth=0.1)
    assert image.sum() * (across[1] - across[0]) * (up[1] - up[0]) == pytest.approx(1.5, rel=1e-6)
    flat = persistence_image([[0.2, 1.2], [0.5, 1.0]], across, up, bandwidth=0.1, power=0.0)
    assert flat.sum() * (across[1] - across[0]) * (up[1] - up[0]) == pytest.approx(2.0, rel=1e-6)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=8))
def test_curves_follow_their_definitions(pairs: list[tuple[int, int]]) -> None:
    bars = np.array([(b, b + length) for b, length in pairs], float).reshape(-1, 2)
    grid = np.arange(-1.0, 20.0, 0.5)
    alive = [[b <= t < d for b, d in bars] for t in grid]
    assert betti_curve(bars, grid).tolist() == [sum(row) for row in alive]
    tents = np.array([[max(min(t - b, d - t), 0.0) for b, d in bars] + [0.0] * 3 for t in grid])
    np.testing.assert_allclose(landscape(bars, grid, 3), np.sort(tents, axis=1)[:, ::-1][:, :3].T)
    upside_down = Diagram(0, -bars[:, 0], -bars[:, 1])
    assert betti_curve(upside_down, np.sort(-grid)).tolist() == betti_curve(bars, grid)[::-1].tolist()


def test_essential_classes_count_and_have_no_tent() -> None:
    diagram, grid = [[0.0, np.inf], [1.0, 3.0]], np.array([0.0, 2.0, 9.0])
    assert betti_curve(diagram, grid).tolist() == [1.0, 2.0, 1.0]
    assert landscape(diagram, grid, 2).tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    assert silhouette(diagram, grid).tolist() == [0.0, 1.0, 0.0]
    superlevel = Diagram(0, np.array([2.0, 1.0]), np.array([-np.inf, 0.0]))
    assert betti_curve(superlevel, np.array([-1.0, 0.0, 0.5, 1.5, 3.0])).tolist() == [1, 1, 2, 1, 0]


def test_the_euler_curve_alternates_by_dimension() -> None:
    h0 = Diagram(0, np.zeros(3), np.array([1.0, 1.0, np.inf]))
    h1 = Diagram(1, np.array([1.0]), np.array([2.0]))
    assert euler_curve([h1, h0], np.array([0.0, 1.0, 2.0])).tolist() == [3.0, 0.0, 1.0]


def test_empty_diagrams_give_zeros() -> None:
    grid = np.linspace(0, 1, 5)
    for values in (
        betti_curve([], grid),
        landscape([], grid),
        silhouette([], grid),
        entropy_curve([], grid),
        persistence_image([], grid, grid, bandwidth=1.0),
    ):
        assert not values.any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: common_grid([[]]), "no finite bar"),
        (lambda: common_grid([[[0.0, 1.0]]], resolution=1), "resolution is 1"),
        (lambda: betti_curve([], np.array([1.0, 0.0])), "ascending"),
        (lambda: betti_curve([], np.zeros((2, 2))), r"grid has shape \(2, 2\)"),
        (lambda: landscape([], GRID, levels=0), "levels is 0"),
        (lambda: persistence_image([], GRID, GRID, bandwidth=0.0), "bandwidth is 0.0"),
        (lambda: crocker([], GRID), "series is empty"),
        (lambda: vectors.silhouette([[0.0, np.nan]], GRID), "death must be a number"),
    ],
)
def test_bad_calls_say_what_to_do(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=message):
        call()
