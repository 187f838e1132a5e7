"""Lanczos with full reorthogonalisation: extreme eigenvalues with their residuals, without ghosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.progress import Progress
from toposcope.core.seeding import rng

if TYPE_CHECKING:
    import torch

# This code and the block Lanczos of `toposcope.kernels.lanczos` stay apart. Here the matrix is an operator
# whose product costs a pass over the batch: one vector at a time, float64 torch rows on the model's device, a
# new random vector if the space is exhausted, and an end as soon as k pairs have converged. There the matrix
# is dense: blocks of numpy columns in its own type, for BLAS, and a fixed number of steps. What they share is
# the one line of a projection.
Matvec = Callable[["torch.Tensor"], "torch.Tensor"]
BASIS_BYTES = 4 * 2**30
"""The limit on the memory of the vectors that are kept for reorthogonalisation."""
_CHECK_EVERY = 5
"""Steps between two checks of convergence, each of which solves the small matrix."""


@dataclass(frozen=True, slots=True)
class Eigenpairs:
    r"""The eigenvalues of largest magnitude, in descending order, with unit eigenvectors (k, n).

    `residuals` are :math:`\|A v - \lambda v\|`; `converged` says which are at most `tolerance` times the
    largest |eigenvalue|. `products` counts the products with the matrix.
    """

    values: np.ndarray
    vectors: torch.Tensor
    residuals: np.ndarray
    converged: np.ndarray
    tolerance: float
    products: int

    def rows(self) -> list[dict[str, object]]:
        """Return a dictionary for each eigenvalue: rank, value, residual over the largest, converged."""
        scale = max(float(np.abs(self.values).max(initial=0.0)), np.finfo(float).tiny)
        return [
            {"rank": i, "eigenvalue": float(v), "residual": float(r) / scale, "converged": bool(c)}
            for i, (v, r, c) in enumerate(zip(self.values, self.residuals, self.converged, strict=True))
        ]


class Basis:
    """A growing orthonormal Krylov basis and its tridiagonal matrix; every vector is kept.

    Each new vector is orthogonalised twice against all earlier ones; otherwise copies of an eigenvalue that
    converged early return as "ghosts". If the Krylov space is exhausted, it continues with a new random
    vector, so that all copies of a multiple eigenvalue are found.
    """

    def __init__(
        self, matvec: Matvec, start: torch.Tensor, size: int, generator: np.random.Generator
    ) -> None:
        import torch

        self._matvec, self._generator = matvec, generator
        n = len(start)
        _check_memory(n, size)
        self.vectors = torch.zeros(size + 1, n, dtype=torch.float64, device=start.device)
        self.vectors[0] = start.double() / start.double().norm()
        self._dtype, self._rounding = start.dtype, torch.finfo(start.dtype).eps
        self.diagonal: list[float] = []
        self.off: list[float] = []
        self._steps = Progress("Lanczos steps", size, quiet=True)

    def __len__(self) -> int:
        """Return how many steps were done."""
        return len(self.diagonal)

    def extend(self) -> None:
        """Do one step: one product with the matrix."""
        import torch

        k = len(self)
        basis = self.vectors[: k + 1]
        image = self._matvec(basis[k].to(self._dtype)).double()
        self.diagonal.append(float(basis[k] @ image))
        rest = _orthogonal(image, basis)
        length = float(rest.norm())
        scale = max(map(abs, (*self.diagonal, *self.off)), default=0.0)
        ended = length <= 16 * self._rounding * max(scale, float(image.norm()))
        if ended:
            fresh = torch.from_numpy(self._generator.standard_normal(basis.shape[1])).to(basis.device)
            rest = _orthogonal(fresh, basis)
        self.off.append(0.0 if ended else length)
        norm = float(rest.norm())
        if norm > 1e-8:  # else the basis spans everything, and there is no next vector
            self.vectors[k + 1] = rest / norm
        self._steps.advance()

    def ritz(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the Ritz values, their residuals, and their coordinates (steps, steps) in the basis.

        A residual is never below the rounding of the products, in units of the largest value.
        """
        from scipy.linalg import eigh_tridiagonal

        values, coordinates = eigh_tridiagonal(np.array(self.diagonal), np.array(self.off[:-1]))
        residuals = abs(self.off[-1]) * np.abs(coordinates[-1])
        return values, np.maximum(residuals, self._rounding * np.abs(values).max()), coordinates


def _orthogonal(vector: torch.Tensor, basis: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        vector = vector - basis.T @ (basis @ vector)
    return vector


def top_eigenpairs(
    matvec: Matvec,
    start: torch.Tensor,
    *,
    k: int = 5,
    tolerance: float = 1e-4,
    most: int = 200,
    axes: Mapping[str, int | str] | None = None,
) -> Eigenpairs:
    r"""Return the k eigenvalues of largest magnitude of a symmetric matrix, of either sign.

    Parameters
    ----------
    matvec : callable
        Multiplies a flat tensor by the matrix; see `Objective.hessian`.
    start : tensor of shape (n,)
        Where the Krylov space starts; see `random_start`.
    k : int
        How many.
    tolerance : float
        An eigenvalue has converged when its residual :math:`\|A v - \lambda v\|` is at most this times the
        largest |eigenvalue|.
    most : int
        The largest number of products; what has not converged by then is marked.
    axes : mapping, optional
        Names the random vectors that continue an exhausted Krylov space.

    Raises
    ------
    InputError
        When k is not between 1 and n, or the basis would need more than 4 GiB.

    Examples
    --------
    >>> import torch
    >>> matrix = torch.diag(torch.tensor([1.0, -9.0, 4.0, 0.5], dtype=torch.float64))
    >>> top_eigenpairs(lambda v: matrix @ v, random_start(4, torch.float64), k=2).values.round(6).tolist()
    [-9.0, 4.0]
    """
    n = len(start)
    if not 1 <= k <= n:
        raise InputError(f"k is {k}; a matrix of {n:,} rows has 1 to {n} eigenvalues")
    steps = min(n, max(most, k))
    basis = Basis(matvec, start, steps, rng(name="lanczos restart", **(axes or {})))
    while True:
        basis.extend()
        if len(basis) == steps or (len(basis) > k and len(basis) % _CHECK_EVERY == 0):
            values, residuals, coordinates = basis.ritz()
            order = np.argsort(-np.abs(values), kind="stable")[:k]
            good = residuals[order] <= tolerance * np.abs(values).max()
            if len(basis) == steps or bool(good.all()):
                break
    import torch

    chosen = torch.from_numpy(coordinates[:, order].copy()).to(start.device)
    vectors = chosen.T @ basis.vectors[: len(basis)]
    return Eigenpairs(values[order], vectors, residuals[order], good, tolerance, len(basis))


@dataclass(frozen=True, slots=True)
class SpectrumEnd:
    """One end of a spectrum: the leading pair of the matrix that is shifted by the other end, or by 0."""

    pairs: Eigenpairs
    shift: float = 0.0

    @property
    def value(self) -> float:
        """The eigenvalue of the matrix itself."""
        return float(self.pairs.values[0]) + self.shift


def spectrum_ends(
    pairs: Eigenpairs, matvec: Matvec, find: Callable[[Matvec, str], Eigenpairs]
) -> tuple[SpectrumEnd, SpectrumEnd]:
    """Return the algebraically largest and the lowest eigenvalue of a symmetric matrix.

    `pairs` are its eigenvalues of largest magnitude, and `find` finds that of another matrix, from the start
    vector of an end ("low" or "high"). Lanczos finds the largest magnitude, which is one end of the spectrum.
    The matrix minus this value has the other end as its largest.

    >>> import torch
    >>> matrix = torch.diag(torch.tensor([1.0, -9.0, 4.0, 0.5], dtype=torch.float64))
    >>> find = lambda product, end: top_eigenpairs(product, random_start(4, torch.float64, end=end), k=1)
    >>> of = lambda v: matrix @ v
    >>> [round(end.value, 6) for end in spectrum_ends(find(of, "low"), of, find)]
    [4.0, -9.0]
    """
    first = float(pairs.values[0])
    other = SpectrumEnd(find(lambda v: matvec(v) - first * v, "low" if first >= 0 else "high"), first)
    known_end = SpectrumEnd(pairs)
    return (known_end, other) if first >= 0 else (other, known_end)


def random_start(n: int, dtype: torch.dtype, **axes: int | str) -> torch.Tensor:
    """Return a Gaussian vector, the same for the same named axes."""
    import torch

    return torch.from_numpy(rng(name="lanczos start", **axes).standard_normal(n)).to(dtype)


def _check_memory(n: int, steps: int) -> None:
    needed = 8 * n * (steps + 1)
    if needed > BASIS_BYTES:
        raise InputError(
            f"{steps} Lanczos steps on {n:,} parameters need {needed / 2**30:.1f} GiB of memory, but the "
            "limit is "
            f"{BASIS_BYTES / 2**30:.0f}: take fewer steps, one layer's block, or the critical sharpness, "
            "which needs forward passes alone"
        )
