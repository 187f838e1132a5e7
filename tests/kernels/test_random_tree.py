"""The permuted matrix's tree without a permutation: the same distribution, the same ranks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp

from toposcope.kernels import random_tree
from toposcope.kernels.bipartite_tree import spanning_tree
from toposcope.kernels.random_tree import merge_ranks


def ranks_by_permuting(n_out: int, n_in: int, generator: np.random.Generator) -> np.ndarray:
    """Permute a matrix of distinct values in full and read off the ranks of its tree's weights."""
    total = n_out * n_in
    W = (generator.permutation(total) + 1.0).reshape(n_out, n_in)
    return total - np.sort(spanning_tree(W).keys.view(np.float64))[::-1].astype(int)


@pytest.mark.parametrize("shape", [(40, 30), (10, 120)], ids=str)
def test_same_distribution_as_a_full_permutation(monkeypatch, shape):
    monkeypatch.setattr(random_tree, "_DENSE", np.inf)  # never fall back on a permutation
    generator = np.random.default_rng(0)
    drawn = np.array([merge_ranks(*shape, generator) for _ in range(800)])
    permuted = np.array([ranks_by_permuting(*shape, generator) for _ in range(800)])
    n = sum(shape) - 1
    for place in (n // 3, n // 2, (9 * n) // 10, n - 2, n - 1):
        assert ks_2samp(drawn[:, place], permuted[:, place], method="asymp").pvalue > 1e-3
    assert ks_2samp(drawn.mean(axis=1), permuted.mean(axis=1), method="asymp").pvalue > 1e-3


def test_the_test_above_would_see_repeated_cells(monkeypatch):
    monkeypatch.setattr(random_tree, "_DENSE", np.inf)
    generator = np.random.default_rng(1)
    permuted = [ranks_by_permuting(40, 30, generator)[-1] for _ in range(800)]
    none = np.empty(0, np.int64)
    kept = [random_tree._ranks(generator.integers(1200, size=4000), 40, 30, none)[-1] for _ in range(800)]
    assert ks_2samp(kept, permuted, method="asymp").pvalue < 1e-4


@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (50, 1), (2, 2), (3, 400), (128, 12)], ids=str)
def test_thin_shapes_are_connected(shape):
    ranks = merge_ranks(*shape, np.random.default_rng(0))
    assert ranks.size == sum(shape) - 1
    assert ranks[0] == 0
    assert (np.diff(ranks) > 0).all()
    assert ranks[-1] < shape[0] * shape[1]


def test_more_cells_follow_where_the_first_do_not_connect(monkeypatch):
    monkeypatch.setattr(random_tree, "_CELLS", 0.01)
    ranks = merge_ranks(200, 300, np.random.default_rng(0))
    assert ranks.size == 499


def test_one_generator_state_gives_one_answer():
    first, second = (merge_ranks(200, 300, np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
