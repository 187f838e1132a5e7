"""Order statistics and moments of |W| against a full sort."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from toposcope.kernels.bipartite_tree import magnitude_bits
from toposcope.kernels.selection import absolute_moments, key_of_rank, largest_keys

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (200, 300), (1200, 1000)], ids=str)
@pytest.mark.parametrize("round_off", [False, True], ids=["distinct", "ties"])
def test_ranks_and_largest_agree_with_a_sort(dtype, shape, round_off):
    W = np.random.default_rng(0).standard_normal(shape)
    W = (np.round(W) if round_off else W).astype(dtype)
    expected = np.sort(np.abs(W.astype(np.float64)).ravel())[::-1]
    bits, mask = magnitude_bits(W)
    for rank in {0, W.size // 500, W.size // 2, W.size - 1}:
        assert float(np.array([key_of_rank(bits, mask, rank)]).view(W.dtype)[0]) == expected[rank]
        keys = largest_keys(bits, mask, rank + 1)
        np.testing.assert_array_equal(keys.view(W.dtype).astype(np.float64), expected[: rank + 1])
    mean, variance = absolute_moments(W)
    assert mean == pytest.approx(expected.mean(), rel=1e-12)
    assert variance == pytest.approx(expected.var(), rel=1e-9, abs=1e-15)
