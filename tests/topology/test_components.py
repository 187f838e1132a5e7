"""Rips H0 from the spanning tree: closed forms, gudhi and ripser, properties."""

from __future__ import annotations

import gudhi
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from ripser import ripser

from toposcope.topology import bottleneck, components


def test_equidistant_points_merge_at_once():
    diagram = components(np.eye(6))
    np.testing.assert_allclose(diagram.death[:-1], np.sqrt(2))
    assert diagram.birth.tolist() == [0.0] * 6
    assert (diagram.dim, diagram.filtration, diagram.n_vertices) == (0, "euclidean", 6)


@pytest.mark.parametrize("n", [3, 8, 50])
def test_regular_polygons_merge_at_their_side(n):
    angle = 2 * np.pi * np.arange(n) / n
    polygon = np.stack((np.cos(angle), np.sin(angle)), axis=1)
    np.testing.assert_allclose(components(polygon).death[:-1], 2 * np.sin(np.pi / n), rtol=1e-12)
    chord = components(polygon, metric="cosine").death[:-1]
    np.testing.assert_allclose(chord, 1 - np.cos(2 * np.pi / n), rtol=1e-12)


def test_agrees_with_gudhi_and_ripser():
    X = np.random.default_rng(0).standard_normal((180, 5))
    tree = gudhi.RipsComplex(points=X).create_simplex_tree(max_dimension=1)
    tree.compute_persistence(persistence_dim_max=True)
    found = components(X).death
    np.testing.assert_allclose(found, np.sort(tree.persistence_intervals_in_dimension(0)[:, 1]), rtol=1e-9)
    np.testing.assert_allclose(found, np.sort(ripser(X, maxdim=0)["dgms"][0][:, 1]), rtol=1e-5)


@settings(max_examples=40, deadline=None)
@given(
    X=hnp.arrays(
        np.float64, st.tuples(st.integers(1, 25), st.integers(1, 4)), elements=st.floats(-8, 8, width=16)
    ),
    noise=st.integers(0, 2**32 - 1),
)
def test_moving_points_a_little_moves_bars_a_little(X, noise):
    """The bottleneck distance is at most twice the largest displacement."""
    step = np.random.default_rng(noise).uniform(-0.05, 0.05, X.shape)
    moved = float(np.linalg.norm(step, axis=1).max())
    assert bottleneck(components(X), components(X + step)) <= 2 * moved + 1e-9


def test_shifting_and_turning_change_nothing():
    generator = np.random.default_rng(2)
    X = generator.standard_normal((120, 6))
    turn, _ = np.linalg.qr(generator.standard_normal((6, 6)))
    np.testing.assert_allclose(components(X @ turn + 50).death, components(X).death, rtol=1e-9)
