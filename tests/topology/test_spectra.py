"""Large matrices' baselines against full decompositions, and the errors that they state."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np
import pytest

from toposcope.core.errors import InputError
from toposcope.kernels.lanczos import block_lanczos
from toposcope.topology import baselines
from toposcope.topology.spectra import is_large, large_baselines

N = 512


@cache
def bases(rank: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(3)
    return tuple(np.linalg.qr(rng.standard_normal((N, rank)))[0] for _ in range(2))


def with_spectrum(sigma: np.ndarray) -> np.ndarray:
    left, right = bases(len(sigma))
    return ((left * sigma) @ right.T).astype(np.float32)


@cache
def cases() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    k = np.arange(1.0, N + 1)
    noise = rng.standard_normal((N, N)).astype(np.float32)
    low = (rng.standard_normal((N, 32)) @ rng.standard_normal((32, N))).astype(np.float32)
    return {
        "noise": noise,
        "tall": rng.standard_normal((1500, N)).astype(np.float32),
        "wide": rng.standard_normal((N, 1500)).astype(np.float32),
        "low rank and noise": low * np.float32(0.2) + noise,
        "low rank": with_spectrum(np.linspace(1.0, 2.0, 8)),
        "power 0.5": with_spectrum(k**-0.5),
        "power 1": with_spectrum(1 / k),
        "power 2": with_spectrum(k**-2.0),
        "spiked": with_spectrum(np.r_[30.0, 20.0, 10.0, np.ones(N - 3)]),
        "flat": with_spectrum(np.ones(N)),
        "offset": noise + np.float32(1),
        "heavy rows": (noise.T * rng.random(N) ** -0.4).T.astype(np.float32),
        "bfloat16": noise.astype(ml_dtypes.bfloat16),
    }


NAMES = (
    "noise", "tall", "wide", "low rank and noise", "low rank", "power 0.5", "power 1", "power 2",
    "spiked", "flat", "offset", "heavy rows", "bfloat16",
)  # fmt: skip


def test_every_case_has_its_name() -> None:
    assert tuple(cases()) == NAMES


@pytest.mark.parametrize("case", NAMES)
def test_each_value_is_within_what_it_states(case: str) -> None:
    W = cases()[case]
    exact = baselines(W)
    for draw in range(3):
        found = large_baselines(W, rng=np.random.default_rng(draw))
        assert found.keys() == exact.keys()
        for feature in ("frobenius_norm", "participation_ratio"):
            assert found[feature].value == pytest.approx(exact[feature], rel=1e-5), feature
            assert found[feature].note == ""
        for feature in ("spectral_norm", "stable_rank", "top_eigenvalue"):
            allowed = max(found[feature].error, 2e-6)
            assert found[feature].value == pytest.approx(exact[feature], rel=allowed), feature
        for feature in ("rankme", "rankme_eigenvalues", "mean_pairwise_distance"):
            allowed = max(5 * found[feature].error, 2e-4)
            assert found[feature].value == pytest.approx(exact[feature], rel=allowed), feature
            assert found[feature].error < 0.02, feature


@pytest.mark.parametrize("case", ["power 0.5", "power 1", "power 2", "low rank and noise", "heavy rows"])
def test_the_decay_of_a_decaying_spectrum(case: str) -> None:
    # A flat one has no decay for the Ritz values to find: the error that is stated says so.
    found = large_baselines(cases()[case], rng=np.random.default_rng(0), alpha_range=(1, 20))["alpha_req"]
    exact = baselines(cases()[case], alpha_range=(1, 20))["alpha_req"]
    assert found.value == pytest.approx(exact, rel=max(5 * found.error, 1e-4))


@pytest.mark.calibration
def test_standard_errors_are_of_the_size_of_the_errors() -> None:
    W = cases()["noise"]
    exact = baselines(W)["rankme_eigenvalues"]
    found = [large_baselines(W, rng=np.random.default_rng(k))["rankme_eigenvalues"] for k in range(30)]
    spread = np.sqrt(np.mean([(one.value / exact - 1) ** 2 for one in found]))
    stated = np.mean([one.error for one in found])
    assert 0.4 < spread / stated < 2.0


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_extreme_scales_change_nothing_but_the_scale(factor: float) -> None:
    plain = large_baselines(cases()["tall"], rng=np.random.default_rng(0))
    scaled = large_baselines(
        cases()["tall"].astype(np.float64) * 2.0 ** round(np.log2(factor)), rng=np.random.default_rng(0)
    )
    assert scaled["rankme"].value == pytest.approx(plain["rankme"].value, rel=1e-5)
    assert scaled["frobenius_norm"].value == pytest.approx(
        plain["frobenius_norm"].value * 2.0 ** round(np.log2(factor)), rel=1e-5
    )


def test_a_zero_matrix_has_norms_and_no_ranks() -> None:
    found = large_baselines(np.zeros((300, 200), np.float32), rng=np.random.default_rng(0))
    assert (found["frobenius_norm"].value, found["spectral_norm"].value) == (0.0, 0.0)
    assert np.isnan(found["rankme"].value)
    assert np.isnan(found["stable_rank"].value)
    assert found["mean_pairwise_distance"].value == 0.0


def test_the_same_generator_gives_the_same_numbers() -> None:
    first, second = (large_baselines(cases()["wide"], rng=np.random.default_rng(4)) for _ in range(2))
    assert first == second


def test_not_finite_is_refused() -> None:
    W = np.full((300, 200), np.nan, np.float32)
    with pytest.raises(InputError, match="not finite"):
        large_baselines(W, rng=np.random.default_rng(0), name="w")


def test_small_and_large() -> None:
    assert not is_large((4096, 768))
    assert not is_large((768, 100000))
    assert is_large((1024, 1024))
    assert is_large((256000, 768))


def test_a_whole_krylov_space_holds_every_eigenvalue_once() -> None:
    eigenvalues = np.r_[5.0, 5.0, 3.0, np.linspace(0.1, 1, 29)]
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((32, 32)))[0]
    found = block_lanczos((Q * eigenvalues) @ Q.T, rng.standard_normal((32, 4)), 8)
    np.testing.assert_allclose(found.values, np.sort(eigenvalues)[::-1], atol=1e-12)
    assert found.weights.tolist() == [1.0] * 32


def test_an_invariant_space_ends_early() -> None:
    rng = np.random.default_rng(0)
    found = block_lanczos(np.eye(64), rng.standard_normal((64, 4)), 8)
    assert len(found.values) == 4
    assert found.with_moments(64.0, 64.0).weights.sum() == pytest.approx(64)
