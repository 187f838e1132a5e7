"""Norms and spectra against dense float64 references."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist

from toposcope.core.errors import InputError
from toposcope.topology import baselines
from toposcope.topology.baselines import effective_rank, spectral_slope


def reference(W: np.ndarray) -> dict[str, float]:
    """Straight from the definitions, with full decompositions."""
    W = W.astype(np.float64)
    sigma = np.linalg.svd(W, compute_uv=False)
    lam = np.sort(np.linalg.eigvalsh(np.cov(W, rowvar=False)))[::-1]
    lam = np.maximum(lam, 0)
    p = sigma / sigma.sum() + 1e-7
    q = lam[lam > 0] / lam.sum()
    k = np.arange(1, min(10, len(W) - 1, W.shape[1]) + 1)
    return {
        "frobenius_norm": np.linalg.norm(W),
        "spectral_norm": sigma[0],
        "stable_rank": (sigma**2).sum() / sigma[0] ** 2,
        "participation_ratio": lam.sum() ** 2 / (lam**2).sum(),
        "rankme": np.exp(-(p * np.log(p)).sum()),
        "rankme_eigenvalues": np.exp(-(q * np.log(q)).sum()),
        "alpha_req": -np.polyfit(np.log(k), np.log(lam[k - 1]), 1)[0],
        "top_eigenvalue": lam[0],
        "mean_pairwise_distance": pdist(W).mean(),
    }


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(40, 25), (25, 40), (30, 30), (1500, 12), (13, 1400)])
@pytest.mark.parametrize("offset", [0.0, 30.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_all_values(shape: tuple[int, int], offset: float, dtype: type) -> None:
    W = (np.random.default_rng(0).standard_normal(shape) + offset).astype(dtype)
    values, expected = baselines(W, alpha_range=(1, 10)), reference(W)
    assert values.keys() == expected.keys()
    for key, value in expected.items():
        assert values[key] == pytest.approx(value, rel=2e-6), key


def test_the_identity_is_full_and_flat() -> None:
    values = baselines(np.eye(8))
    assert values["rankme"] == pytest.approx(8, rel=1e-5)
    assert values["stable_rank"] == pytest.approx(8)
    # Centring takes one direction away and leaves the other seven equal.
    assert values["rankme_eigenvalues"] == pytest.approx(7)
    assert values["participation_ratio"] == pytest.approx(7)
    assert values["mean_pairwise_distance"] == pytest.approx(np.sqrt(2))


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(1e-6, 1e6))
def test_neither_order_nor_unit_moves_a_rank(seed: int, factor: float) -> None:
    random = np.random.default_rng(seed)
    W = random.standard_normal((12, 7))
    moved = factor * W[random.permutation(12)][:, random.permutation(7)]
    plain, other = baselines(W), baselines(moved)
    for key in ("stable_rank", "participation_ratio", "rankme", "rankme_eigenvalues", "alpha_req"):
        assert other[key] == pytest.approx(plain[key], rel=1e-5)
    for key in ("frobenius_norm", "spectral_norm", "mean_pairwise_distance"):
        assert other[key] == pytest.approx(factor * plain[key], rel=1e-6)


def test_undefined_values_are_nan_not_numbers() -> None:
    zero = baselines(np.zeros((4, 3)))
    assert zero["frobenius_norm"] == 0.0
    assert np.isnan([zero["stable_rank"], zero["rankme"], zero["participation_ratio"]]).all()
    row = baselines(np.array([[3.0, 4.0]]))
    assert row["spectral_norm"] == pytest.approx(5.0)
    assert np.isnan([row["top_eigenvalue"], row["mean_pairwise_distance"], row["alpha_req"]]).all()


def test_effective_rank_and_slope_of_known_spectra() -> None:
    assert effective_rank(np.array([2.0, 2.0, 2.0, 0.0])) == pytest.approx(3.0)
    assert np.isnan(effective_rank(np.zeros(3)))
    power = 5.0 * np.arange(1.0, 101.0) ** -0.7
    assert spectral_slope(power, 1, 100) == pytest.approx(0.7)
    power[50:] = 1e-3
    assert spectral_slope(power, 1, 50) == pytest.approx(0.7)
    assert np.isnan(spectral_slope(power[:2], 1, 50))


def test_bad_matrices_are_named() -> None:
    with pytest.raises(InputError, match=r"h\.0\.weight\[0, 1\] is nan"):
        baselines(np.array([[0.0, np.nan]]), name="h.0.weight")
