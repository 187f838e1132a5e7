"""The Hessian and the Gauss-Newton matrix as operators: scipy takes them as they are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import aslinearoperator, eigsh

from tests.landscape.conftest import tiny_objective
from toposcope.core.errors import InputError
from toposcope.models.curvature import GaussNewtonProduct, HessianProduct, Product
from toposcope.subjects.landscape.geometry.lanczos import random_start, top_eigenpairs


def test_scipys_eigenvalues_are_those_of_the_dense_hessian_and_our_own(objective, dense) -> None:
    hessian = HessianProduct(objective)
    exact = np.linalg.eigvalsh(dense.numpy())
    wanted = exact[np.argsort(-np.abs(exact))][:4]
    start = np.random.default_rng(0).normal(size=hessian.shape[0])
    theirs = eigsh(hessian, k=4, which="LM", v0=start, tol=1e-10, return_eigenvectors=False)
    np.testing.assert_allclose(theirs[np.argsort(-np.abs(theirs))], wanted, rtol=1e-9)
    ours = top_eigenpairs(hessian, random_start(300, torch.float64), k=4, tolerance=1e-9)
    np.testing.assert_allclose(ours.values, wanted, rtol=1e-9)
    low = eigsh(hessian, k=1, which="SA", v0=start, tol=1e-10, return_eigenvectors=False)
    np.testing.assert_allclose(low, exact[:1], rtol=1e-9)


def test_scipy_takes_the_gauss_newton_product_as_it_is(objective) -> None:
    product = GaussNewtonProduct(objective)
    exact = np.linalg.eigvalsh(product @ np.eye(product.shape[0]))
    start = np.random.default_rng(0).normal(size=product.shape[0])
    theirs = eigsh(product, k=4, which="LA", v0=start, tol=1e-10, return_eigenvectors=False)
    np.testing.assert_allclose(np.sort(theirs), exact[-4:], rtol=1e-9)
    ours = top_eigenpairs(product, random_start(300, torch.float64), k=4, tolerance=1e-9)
    np.testing.assert_allclose(ours.values[::-1], exact[-4:], rtol=1e-9)
    assert exact[0] > -1e-12 * exact[-1]  # the matrix is positive semi-definite, unlike the Hessian


@pytest.mark.parametrize("product", [HessianProduct, GaussNewtonProduct])
def test_a_product_is_a_linear_operator(objective, product: type[Product]) -> None:
    matrix = product(objective)
    assert matrix.shape == (300, 300)
    assert matrix.dtype == np.float64
    generator = np.random.default_rng(1)
    block, vector = generator.normal(size=(300, 3)), generator.normal(size=300)
    found = matrix @ block
    assert isinstance(found, np.ndarray)
    for column in range(3):
        expected = matrix(torch.from_numpy(block[:, column].copy()))
        np.testing.assert_allclose(found[:, column], expected.numpy(), rtol=1e-10, atol=1e-14)
    as_tensor = matrix @ torch.from_numpy(block)
    assert isinstance(as_tensor, torch.Tensor)
    np.testing.assert_allclose(as_tensor.numpy(), found, rtol=1e-10, atol=1e-14)
    known = aslinearoperator(matrix)
    for found in (known.matvec(vector), known.rmatvec(vector)):
        np.testing.assert_allclose(found, matrix @ vector, rtol=1e-10, atol=1e-14)
    assert known.matvec(vector[:, None]).shape == (300, 1)
    # the matrix is symmetric: <u, A v> = <A u, v>, which is what makes it its own adjoint
    assert vector @ (matrix @ block[:, 0]) == pytest.approx(
        block[:, 0] @ (matrix.adjoint() @ vector), rel=1e-9
    )
    assert (matrix @ block[:, :0]).shape == (300, 0)
    with pytest.raises(InputError, match=r"has shape \(299,\); give \(300,\) or \(300, k\)"):
        matrix @ vector[1:]


def test_an_operator_in_float32_keeps_its_type() -> None:
    matrix = HessianProduct(tiny_objective(dtype=torch.float32))
    assert matrix.dtype == np.float32
    found = matrix @ np.ones(300)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, matrix(torch.ones(300)).numpy())
