"""The largest magnitude of an array, 16-bit types by their bits."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from toposcope.kernels.selection import largest_magnitude


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (1200, 1000)])
def test_it_is_the_maximum_of_the_magnitudes(dtype: type, shape: tuple[int, int]) -> None:
    W = (np.random.default_rng(0).standard_normal(shape) - 0.5).astype(dtype)
    assert largest_magnitude(W) == np.abs(W.astype(np.float64)).max()
    assert largest_magnitude(W.T) == largest_magnitude(W)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_what_is_not_finite_shows(dtype: type) -> None:
    W = np.ones((4, 5), dtype)
    W[2, 3] = -np.inf
    assert largest_magnitude(W) == np.inf
    W[1, 1] = np.nan
    assert np.isnan(largest_magnitude(W))
    assert largest_magnitude(W[:0]) == 0.0
