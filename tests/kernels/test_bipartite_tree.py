"""The maximum spanning tree of |W| against plain Kruskal, scipy and itself."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree

from toposcope.kernels import _bipartite_rest as bipartite_rest
from toposcope.kernels import bipartite_tree
from toposcope.kernels.bipartite_tree import heaviest_edges, magnitude_bits, spanning_tree, spanning_tree_keys

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
SHAPES = [(1, 1), (1, 9), (9, 1), (2, 2), (5, 9), (48, 144), (130, 257), (2, 20_000), (20_000, 2)]


def plain_kruskal(W: np.ndarray) -> tuple[list[float], list[int], list[int]]:
    """Kruskal in plain Python, ties by (weight, row, column): weights, rows and columns of the tree."""
    n_out, n_in = W.shape
    values = np.abs(W.astype(np.float64)).ravel()
    parent = list(range(n_out + n_in))

    def root(x: int) -> int:
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    weights, rows, columns = [], [], []
    for flat in np.argsort(-values, kind="stable").tolist():
        i, j = divmod(flat, n_in)
        a, b = root(i), root(n_out + j)
        if a != b:
            parent[a] = b
            weights.append(float(values[flat]))
            rows.append(i)
            columns.append(j)
    return weights, rows, columns


def assert_tree(W: np.ndarray) -> None:
    found = spanning_tree(W)
    weights, rows, columns = plain_kruskal(W)
    assert np.abs(W.astype(np.float64))[found.rows, found.columns].tolist() == weights
    assert found.rows.tolist() == rows
    assert found.columns.tolist() == columns


def variants(shape: tuple[int, int], generator: np.random.Generator) -> dict[str, np.ndarray]:
    gaussian = generator.standard_normal(shape)
    dead = gaussian.copy()
    dead[shape[0] // 2] = 0
    dead[:, shape[1] // 2] = 0
    huge = gaussian.copy()
    huge[-1] *= 1000
    rows, columns = generator.standard_normal((shape[0], 1)), generator.standard_normal((1, shape[1]))
    blocks = np.zeros(shape)
    for k in range(4):
        part = (
            slice(k * shape[0] // 4, (k + 1) * shape[0] // 4),
            slice(k * shape[1] // 4, (k + 1) * shape[1] // 4),
        )
        blocks[part] = gaussian[part] * 0.5**k
    return {
        "gaussian": gaussian,
        "ties": np.round(gaussian),
        "zero": np.zeros(shape),
        "constant": np.full(shape, -3.0),
        "negative zero": np.where(gaussian > 0, -0.0, 0.0),
        "dead row and column": dead,
        "huge row": huge,
        "lognormal scales": gaussian * np.exp(rows) * np.exp(columns),
        "sparse": (generator.random(shape) < 0.02) * gaussian,
        "identity": np.eye(*shape),
        "blocks": blocks,
    }


@pytest.mark.sample
@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("small", [bipartite_tree.SMALL, 0], ids=["prim", "threshold"])
def test_agrees_with_plain_kruskal_edge_by_edge(monkeypatch, dtype, shape, small):
    monkeypatch.setattr(bipartite_tree, "SMALL", small)
    for name, W in variants(shape, np.random.default_rng(7)).items():
        if W.size > 10_000 and name not in ("gaussian", "ties", "lognormal scales", "identity"):
            continue
        assert_tree(W.astype(dtype))


@pytest.mark.parametrize("limit", [bipartite_rest._FLOORED_LIMIT, 0], ids=["floors", "rounds"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_both_ways_of_finishing_are_exact(monkeypatch, limit, dtype):
    monkeypatch.setattr(bipartite_rest, "_FLOORED_LIMIT", limit)
    generator = np.random.default_rng(3)
    W = generator.standard_normal((300, 200)) * np.exp(2 * generator.standard_normal((300, 1)))
    assert_tree((W * np.exp(generator.standard_normal((1, 200)))).astype(dtype))


@pytest.mark.parametrize("prefix", [1e-6, 0.05, 50.0], ids=["nothing passes", "little passes", "all passes"])
def test_a_poor_threshold_costs_time_never_correctness(monkeypatch, prefix):
    monkeypatch.setattr(bipartite_tree, "PREFIX", prefix)
    assert_tree(np.random.default_rng(1).standard_normal((300, 200)).astype(np.float32))


def test_threaded_passes_agree_with_scipy():
    W = np.random.default_rng(0).standard_normal((1100, 1000)).astype(np.float32)
    n_out, n_in = W.shape
    rows, columns = np.divmod(np.arange(W.size, dtype=np.int32), np.int32(n_in))  # scipy 1.13 takes no other
    graph = csr_array(
        (-np.abs(W).ravel().astype(np.float64), (rows, columns + np.int32(n_out))), shape=(2100, 2100)
    )
    expected = np.sort(-minimum_spanning_tree(graph).data)[::-1]
    found = spanning_tree(W).keys.view(np.float32)
    np.testing.assert_array_equal(found, expected.astype(np.float32))


def test_threaded_lognormal_scales_agree_with_scipy():
    generator = np.random.default_rng(5)
    W = generator.standard_normal((1100, 1000)) * np.exp(generator.standard_normal((1100, 1)))
    W = (W * np.exp(generator.standard_normal((1, 1000)))).astype(np.float32)
    W[4] = 0
    n_out, n_in = W.shape
    rows, columns = np.divmod(np.arange(W.size, dtype=np.int32), np.int32(n_in))  # scipy 1.13 takes no other
    # Zero weights would not be edges of a sparse graph: shift all of them, which keeps the tree.
    graph = csr_array(
        (-1.0 - np.abs(W).ravel().astype(np.float64), (rows, columns + np.int32(n_out))), shape=(2100, 2100)
    )
    expected = np.sort(-minimum_spanning_tree(graph).data - 1.0)[::-1]
    np.testing.assert_allclose(spanning_tree(W).keys.view(np.float32), expected, rtol=0, atol=1e-12)


def test_strided_and_fortran_views_are_read_as_they_look():
    W = np.random.default_rng(2).standard_normal((60, 80)).astype(np.float32)
    for view in (W.T, W[::2, ::3], np.asfortranarray(W), W[::-1]):
        assert_tree(view)


def test_a_batch_gives_what_single_calls_give():
    generator = np.random.default_rng(4)
    batch = [
        generator.standard_normal((int(m), int(n))).astype(dtype)
        for dtype in DTYPES
        for m, n in generator.integers(1, 60, (20, 2))
    ]
    batch.append(generator.standard_normal((250, 260)).astype(np.float32))
    for keys, W in zip(spanning_tree_keys(batch), batch, strict=True):
        np.testing.assert_array_equal(keys, spanning_tree(W).keys)
    assert spanning_tree_keys([]) == []


def test_a_batch_over_threads_gives_what_single_calls_give():
    generator = np.random.default_rng(4)
    batch = [generator.standard_normal((100, 120)).astype(np.float32) for _ in range(100)]
    for keys, W in zip(spanning_tree_keys(batch), batch, strict=True):
        np.testing.assert_array_equal(keys, spanning_tree(W).keys)


def test_the_largest_entry_comes_first_even_when_it_is_not_finite():
    W = np.random.default_rng(0).standard_normal((300, 200)).astype(np.float32)
    for bad in (np.inf, -np.inf, np.nan):
        spoilt = W.copy()
        spoilt[17, 5] = bad
        assert not np.isfinite(spanning_tree(spoilt).keys.view(np.float32)[0])
        assert not np.isfinite(spanning_tree(spoilt[:20, :20]).keys.view(np.float32)[0])


def test_heaviest_edges_are_a_level_set():
    W = np.random.default_rng(0).standard_normal((700, 600)).astype(np.float32)
    found = heaviest_edges(*magnitude_bits(W), 5000)
    assert 2500 < found.keys.size < 20_000
    weights = np.abs(W)
    assert (weights >= weights[found.rows, found.columns].min()).sum() == found.keys.size


@settings(max_examples=60, deadline=None)
@given(
    W=hnp.arrays(
        np.float32,
        hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12),
        elements=st.floats(-4, 4, width=16),
    ),
    data=st.data(),
)
def test_permuting_neurons_changes_no_weight(W, data):
    rows = data.draw(st.permutations(range(W.shape[0])))
    columns = data.draw(st.permutations(range(W.shape[1])))
    first = spanning_tree(W).keys
    np.testing.assert_array_equal(first, spanning_tree(W[rows][:, columns]).keys)
    np.testing.assert_array_equal(first, spanning_tree(W.T).keys)
    np.testing.assert_array_equal(first, spanning_tree(-W).keys)


@pytest.mark.slow
def test_fifty_thousand_rows_of_bfloat16():
    generator = np.random.default_rng(0)
    W = np.empty((50_000, 2_048), ml_dtypes.bfloat16)
    for start in range(0, 50_000, 2_000):
        W[start : start + 2_000] = generator.standard_normal((2_000, 2_048), np.float32)
    found = spanning_tree(W)
    assert found.keys.size == 52_047
    assert np.unique(found.rows).size == 50_000
    assert np.unique(found.columns).size == 2_048
    # Every row's heaviest entry is in the tree, so the sum over rows is a lower bound for the tree's.
    strongest = np.sort(np.abs(W.view(np.uint16) & 0x7FFF).max(axis=1))
    assert set(strongest[:100].tolist()) <= set(found.keys.tolist())


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_two_heavy_blocks_are_joined_by_the_heaviest_edge_between_them(dtype):
    """The floors of the finishing pass are keys of edges, to the last of 64 bits."""
    for seed in range(300):
        generator = np.random.default_rng(seed)
        shape = generator.integers(1, 12, 2)
        assert_tree((generator.choice([0.0, 5.0], shape) + generator.uniform(-0.1, 0.1, shape)).astype(dtype))
