"""Lanczos, trace, density and critical sharpness on spectra that are known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import LinearOperator, eigsh

from tests.landscape.conftest import tiny_objective
from toposcope.core.errors import InputError
from toposcope.models.curvature import HessianProduct
from toposcope.subjects.landscape.geometry.lanczos import (
    Basis,
    Eigenpairs,
    _check_memory,
    random_start,
    spectrum_ends,
    top_eigenpairs,
)
from toposcope.subjects.landscape.geometry.sharpness import along_update, critical_step
from toposcope.subjects.landscape.geometry.trace import hutchinson, spectral_density

KNOWN = np.r_[100.0, 99.9, -80.0, 50.0, 50.0, 50.0, np.linspace(-1.0, 1.0, 294)]


def matrix_of(values: np.ndarray, seed: int = 0) -> torch.Tensor:
    frame, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values), len(values))))
    return torch.from_numpy((frame * values) @ frame.T)


@pytest.fixture(scope="module")
def quadratic() -> torch.Tensor:
    return matrix_of(KNOWN)


def test_eigenvalues_of_either_sign_and_of_a_cluster_are_found(quadratic) -> None:
    found = top_eigenpairs(lambda v: quadratic @ v, random_start(300, torch.float64), k=6, tolerance=1e-9)
    np.testing.assert_allclose(found.values, KNOWN[:6], rtol=1e-8)
    assert found.converged.all()
    for value, vector in zip(found.values, found.vectors, strict=True):
        assert float((quadratic @ vector - value * vector).norm()) < 1e-6
    values, vectors = torch.linalg.eigh(quadratic)
    space = vectors[:, (values - 50.0).abs() < 1e-6]  # the cluster is compared as a subspace
    overlap = torch.linalg.svdvals(found.vectors[3:6] @ space)
    torch.testing.assert_close(overlap, torch.ones(3, dtype=torch.float64), atol=1e-6, rtol=0)


def test_a_hundred_steps_leave_no_ghosts(quadratic) -> None:
    basis = Basis(lambda v: quadratic @ v, random_start(300, torch.float64), 100, np.random.default_rng(1))
    for _ in range(100):
        basis.extend()
    vectors = basis.vectors[:100]
    torch.testing.assert_close(vectors @ vectors.T, torch.eye(100, dtype=torch.float64), atol=1e-12, rtol=0)
    values = basis.ritz()[0]
    for value, most in ((100.0, 1), (99.9, 1), (-80.0, 1), (50.0, 3)):
        assert 1 <= (np.abs(values - value) < 0.01).sum() <= most


def test_too_few_steps_are_said_not_to_have_converged(quadratic) -> None:
    found = top_eigenpairs(
        lambda v: quadratic @ v, random_start(300, torch.float64), k=3, tolerance=1e-9, most=6
    )
    assert found.products == 6
    assert not found.converged.all()
    row = found.rows()[0]
    assert row["converged"] is bool(found.converged[0])
    assert row["residual"] == pytest.approx(found.residuals[0] / np.abs(found.values).max())
    errors = np.abs(found.values - KNOWN[:3])
    assert (errors[found.converged] < 1e-6).all()


def test_every_copy_of_a_multiple_eigenvalue_is_found() -> None:
    found = top_eigenpairs(lambda v: 2.0 * v, random_start(5, torch.float64), k=5)
    np.testing.assert_allclose(found.values, 2.0)
    torch.testing.assert_close(found.vectors @ found.vectors.T, torch.eye(5, dtype=torch.float64))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_top_eigenvalue_is_the_algebraically_largest_whatever_the_largest_magnitude(sign: float) -> None:
    matrix = sign * torch.diag(torch.linspace(-24.1, 13.9, 50, dtype=torch.float64))

    def product(v: torch.Tensor) -> torch.Tensor:
        return matrix @ v

    def find(of, end: str) -> Eigenpairs:  # type: ignore[no-untyped-def]
        return top_eigenpairs(of, random_start(50, torch.float64, end=end), k=1, tolerance=1e-9)

    top, low = spectrum_ends(find(product, "first"), product, find)
    assert [top.value, low.value] == pytest.approx([13.9, -24.1] if sign > 0 else [24.1, -13.9])


def test_a_transformers_eigenvalues_are_those_of_its_dense_hessian_and_of_arpack(objective, dense) -> None:
    n = objective.n_parameters
    found = top_eigenpairs(HessianProduct(objective), random_start(n, torch.float64), k=6, tolerance=1e-8)
    values = torch.linalg.eigvalsh(dense).numpy()
    expected = values[np.argsort(-np.abs(values))][:6]
    np.testing.assert_allclose(found.values, expected, rtol=1e-7)
    product = HessianProduct(objective)
    operator = LinearOperator(
        (n, n), matvec=lambda v: product(torch.from_numpy(v.ravel())).numpy(), dtype=np.float64
    )
    other = eigsh(operator, k=6, which="LM", v0=np.ones(n), return_eigenvectors=False)
    np.testing.assert_allclose(np.sort(found.values), np.sort(other), rtol=1e-7)


def test_wrong_requests_are_named() -> None:
    with pytest.raises(InputError, match="k is 9; a matrix of 4 rows has 1 to 4 eigenvalues"):
        top_eigenpairs(lambda v: v, random_start(4, torch.float64), k=9)
    with pytest.raises(
        InputError, match=r"100 Lanczos steps on 1,000,000,000 parameters need .* critical sharp"
    ):
        _check_memory(10**9, 100)
    with pytest.raises(InputError, match="vectors is 1; an interval needs at least 2"):
        hutchinson(lambda v: v, torch.zeros(3), vectors=1)


def test_the_traces_interval_covers_at_its_level(quadratic) -> None:
    truth, like = KNOWN.sum(), torch.zeros(300, dtype=torch.float64)
    covered = 0
    for trial in range(100):
        found = hutchinson(lambda v: quadratic @ v, like, vectors=10, trial=trial)
        covered += found.low <= truth <= found.high
    assert 88 <= covered <= 100  # of 100 at 95%: outside with probability .005
    exact = hutchinson(lambda v: torch.diag(torch.from_numpy(KNOWN)) @ v, like, vectors=3)
    assert exact.value == pytest.approx(truth)  # signs leave a diagonal as it is


def test_the_density_has_the_spectrums_moments_and_its_outliers(quadratic) -> None:
    like = torch.zeros(300, dtype=torch.float64)
    found = spectral_density(lambda v: quadratic @ v, like, vectors=20, steps=30)
    np.testing.assert_allclose(found.weights.sum(axis=1), 1.0)
    for power in (1, 2):
        samples = found.moment(power) * 300
        error = samples.std(ddof=1) / np.sqrt(len(samples))
        assert abs(samples.mean() - (KNOWN**power).sum()) < 4 * error
    grid = np.linspace(-120, 120, 4801)
    density = found.on(grid, 1.0)
    np.testing.assert_allclose(np.trapezoid(density, grid, axis=1), 1.0, atol=1e-6)
    bulk = np.trapezoid(np.where(np.abs(grid) < 10, density.mean(axis=0), 0.0), grid)
    assert bulk == pytest.approx(294 / 300, abs=0.02)


@pytest.mark.parametrize("top", [0.5, 40.0])
def test_a_linear_networks_critical_step_along_its_top_eigenvector_is_two_over_lambda(top: float) -> None:
    """Square loss of x -> w x: from the minimum along v_1, the gradient step 2 / lambda_1 comes back up."""
    g = np.random.default_rng(0)
    inputs = g.standard_normal((200, 6)) * np.sqrt(np.array([top, 0.3, 0.2, 0.1, 0.1, 0.05]))
    curvature = inputs.T @ inputs / len(inputs)
    values, vectors = np.linalg.eigh(curvature)
    best = g.standard_normal(6)
    here = best + 0.7 * vectors[:, -1]
    gradient = curvature @ (here - best)

    def losses_at(step: float) -> np.ndarray:
        return 0.5 * (inputs @ (here - step * gradient - best)) ** 2

    found = critical_step(losses_at)
    assert found.status == "ok"
    assert found.step == pytest.approx(2.0 / values[-1], rel=1e-6)
    assert found.sharpness == pytest.approx(values[-1], rel=1e-6)
    assert found.lower <= found.step <= found.upper
    assert found.passes <= 8
    assert found.low <= found.step <= found.high


@pytest.mark.parametrize(
    ("loss", "status"),
    [
        (lambda s: 1.0 + s, "no descent"),
        (lambda s: 1.0 - s, "beyond range"),
        (lambda s: 1.0 + 0.0 * s, "flat"),
    ],
)
def test_where_there_is_no_step_the_reason_stands(loss, status: str) -> None:
    found = critical_step(lambda s: np.full(3, loss(s)))
    assert found.status == status
    assert np.isnan(found.step)
    assert found.passes == 8


def test_a_loss_that_overflows_counts_as_risen() -> None:
    found = critical_step(lambda s: np.array([1.0 - s if s < 2.9 else np.nan]))
    assert found.status == "ok"
    assert found.lower < 2.9 <= found.upper
    with pytest.raises(InputError, match="the loss at the start of the line is not finite"):
        critical_step(lambda s: np.array([np.nan]))
    with pytest.raises(InputError, match="passes is 3"):
        critical_step(lambda s: np.array([1.0]), passes=3)


def test_the_interval_narrows_with_sequences_and_covers() -> None:
    """Sequences whose own curvature varies: the mean's crossing lies in the interval nearly always."""
    widths, covered = {}, 0
    for n in (20, 320):
        for trial in range(30):
            bends = 2.0 + 0.5 * np.random.default_rng(trial).standard_normal(n)
            found = critical_step(lambda s, bends=bends: 1.0 - s + 0.5 * bends * s**2, axes={"trial": trial})
            widths.setdefault(n, []).append(found.high - found.low)
            covered += n == 320 and found.low <= 1.0 <= found.high
    assert covered >= 25
    assert np.median(widths[320]) < 0.4 * np.median(widths[20])


def test_along_a_transformers_gradient_the_step_is_where_the_loss_comes_back() -> None:
    objective = tiny_objective()
    found = along_update(objective, -objective.gradient())
    assert found.status == "ok"
    back = objective.at(objective.parameters - found.step * objective.gradient()).loss()
    start = objective.loss()
    lowest = min(found.losses)
    assert abs(back - start) < 0.1 * (start - lowest)
