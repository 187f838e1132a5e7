"""The Euclidean spanning tree against dense float64 trees, at every block boundary and under cancellation."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import pdist, squareform

from toposcope.kernels import euclidean_tree as module
from toposcope.kernels.distances import euclidean_distances
from toposcope.kernels.euclidean_tree import dense_tree, duplicates, euclidean_tree

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]


def plain_prim(distances: np.ndarray) -> np.ndarray:
    """Sorted edge lengths of the minimum spanning tree, by Prim in numpy."""
    best, outside, lengths = distances[0].copy(), np.ones(len(distances), bool), []
    outside[0] = False
    for _ in range(len(distances) - 1):
        nearest = int(np.where(outside, best, np.inf).argmin())
        lengths.append(best[nearest])
        outside[nearest] = False
        best = np.minimum(best, distances[nearest])
    return np.sort(np.array(lengths))


def reference(X: np.ndarray) -> np.ndarray:
    """Pairwise distances in float64 from differences, scaled against overflow."""
    wide = X.astype(np.float64)
    scale = float(np.abs(wide).max()) or 1.0
    return squareform(pdist(wide / scale)) * scale


def clouds(n: int, d: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((n, d))
    centres = 10 * generator.standard_normal((5, d))
    outlier = X.copy()
    outlier[0] *= 1e12
    return {
        "gaussian": X,
        "common offset": X + 1e4,
        "tight far-apart clusters": centres[generator.integers(5, size=n)] + 1e-5 * X,
        "duplicates": np.round(X),
        "one point repeated": np.ones((n, d)),
        "line in order": np.arange(n)[:, None] * np.ones((1, d)),
        "simplex": np.eye(n),
        "outlier": outlier,
        "huge": X * 1e200,
        "tiny": X * 1e-150,
    }


@pytest.mark.slow
@pytest.mark.parametrize("block", [512, 64, 7])
@pytest.mark.parametrize("n", [2, 3, 65, 200])
@pytest.mark.parametrize("d", [2, 30])
def test_agrees_with_prim_in_float64(monkeypatch, block, n, d):
    monkeypatch.setattr(module, "_BLOCK", block)
    for name, X in clouds(n, d).items():
        for dtype in DTYPES:
            if dtype is not np.float64 and name in ("outlier", "huge", "tiny"):
                continue
            cloud = X.astype(dtype)
            expected = plain_prim(reference(cloud))
            u, v, lengths = euclidean_tree(cloud)
            np.testing.assert_allclose(
                lengths, expected, rtol=1e-6, atol=1e-12 * expected.max(), err_msg=name
            )
            assert connected_components(coo_array((np.ones(n - 1), (u, v)), shape=(n, n)))[0] == 1


def test_threaded_blocks_agree_with_the_dense_tree():
    X = np.random.default_rng(1).standard_normal((1500, 40)).astype(np.float32)
    np.testing.assert_allclose(euclidean_tree(X)[2], np.sort(dense_tree(reference(X))[2]), rtol=1e-6)


def test_tight_far_apart_clusters_are_right_to_a_millionth():
    generator = np.random.default_rng(2)
    centres = 100 * generator.standard_normal((8, 64))
    X = (centres[generator.integers(8, size=900)] + 1e-3 * generator.standard_normal((900, 64))).astype(
        np.float32
    )
    expected = plain_prim(reference(X))
    np.testing.assert_allclose(euclidean_tree(X)[2], expected, rtol=1e-6)
    # What the float32 products alone would have given is wrong by far more.
    norms = (X**2).sum(axis=1)
    naive = np.sqrt(np.maximum(norms[:, None] + norms[None, :] - 2 * (X @ X.T), 0)).astype(np.float64)
    assert np.abs(plain_prim(naive) / expected - 1).max() > 0.1


def test_large_common_offset_is_right_to_a_millionth():
    X = (np.random.default_rng(3).standard_normal((700, 64)) + 3e4).astype(np.float32)
    np.testing.assert_allclose(euclidean_tree(X)[2], plain_prim(reference(X)), rtol=1e-6)


def test_unit_rows_measure_angles():
    X = np.random.default_rng(4).standard_normal((300, 20)).astype(np.float32) * 1e3
    wide = X.astype(np.float64)
    expected = plain_prim(reference(wide / np.linalg.norm(wide, axis=1)[:, None]))
    np.testing.assert_allclose(euclidean_tree(X, unit=True)[2], expected, rtol=1e-6)


def test_copies_are_found_and_joined_at_zero():
    X = np.random.default_rng(5).standard_normal((50, 3)).astype(np.float32)
    X[[7, 30, 31]] = X[2]
    X[40] = X[11]
    assert (duplicates(X) != np.arange(50)).sum() == 4
    assert (euclidean_tree(X)[2] == 0).sum() == 4


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_distance_matrix_is_right_to_a_hundred_millionth(dtype):
    for name, X in clouds(120, 16).items():
        if dtype is not np.float64 and name in ("outlier", "huge", "tiny"):
            continue
        cloud = X.astype(dtype)
        found, expected = euclidean_distances(cloud), reference(cloud)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-13 * expected.max(), err_msg=name)
        np.testing.assert_array_equal(found, found.T)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    X=hnp.arrays(
        np.float64, st.tuples(st.integers(1, 30), st.integers(1, 4)), elements=st.floats(-8, 8, width=16)
    ),
    data=st.data(),
)
def test_permuting_points_and_scaling(X, data):
    order = data.draw(st.permutations(range(len(X))))
    lengths = euclidean_tree(X)[2]
    np.testing.assert_allclose(euclidean_tree(X[order])[2], lengths, rtol=1e-9)
    np.testing.assert_allclose(euclidean_tree(X * 4.0)[2], 4 * lengths, rtol=1e-9)
