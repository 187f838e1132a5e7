"""The spectrum of a symmetric matrix by block Lanczos: extreme eigenvalues, and a quadrature for traces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

# This code and `toposcope.subjects.landscape.geometry.lanczos` stay apart. A product with a dense matrix is
# cheap, so here all start vectors advance together as a block of numpy columns (matrix-matrix products, in
# the matrix's own type) for a fixed number of steps, and the weights serve traces. There a product costs a
# pass over a batch: single torch vectors on the model's device, and an end at convergence. A kernel knows no
# torch, either.

# Relative residual up to which a Ritz value counts as one converged eigenvalue, so that its weight is 1.
_CONVERGED = 1e-3
# A moment corrects the weights only if its rounding error is below this share of the part to correct.
_LOST = 1e-2


@dataclass(frozen=True, slots=True)
class RitzValues:
    r"""Ritz values, largest first, and weights with :math:`\sum_i w_i f(\theta_i) \approx \mathrm{tr} f(A)`.

    `residuals` bound how far each is from an eigenvalue; `settled` marks converged Ritz values, each of which
    represents only itself. `shares` are the weights from each start vector alone, `weights` their mean; `eps`
    is the rounding unit of A's type, `earlier` the result after three quarters of the steps, and `moments`
    the arguments of `with_moments`.
    """

    size: int
    eps: float
    values: np.ndarray
    weights: np.ndarray
    residuals: np.ndarray
    settled: np.ndarray
    shares: np.ndarray
    earlier: RitzValues | None = None
    moments: tuple[float, float] = (np.nan, np.nan)

    def with_moments(self, trace: float, square: float) -> RitzValues:
        """Return the same with the nearest weights that give n, `trace` and tr A^2 exactly.

        Converged Ritz values have weight 1. The other weights w become w p(theta), with p a polynomial of
        degree up to 2; this is a control variate for the functions with known traces. A moment whose rest is
        lost in rounding is left out.
        """
        earlier = self.earlier.with_moments(trace, square) if self.earlier is not None else None
        weights, rest = np.where(self.settled, 1.0, self.weights), ~self.settled
        left = self.size - int(self.settled.sum())
        if left <= 0 or not weights[rest].sum() > 0:
            return replace(self, weights=weights, earlier=earlier, moments=(trace, square))
        weights[rest] *= left / weights[rest].sum()
        powers, missing = [np.ones(int(rest.sum()))], [0.0]
        for degree, moment in ((1, trace), (2, square)):
            power = self.values**degree
            missed = moment - float(power @ weights)
            rounding = 10 * self.eps * float(np.abs(power) @ np.abs(weights))
            if rounding < _LOST * float(power[rest] @ weights[rest]):
                powers.append(power[rest] / np.abs(power[rest]).max())
                missing.append(missed / float(np.abs(power[rest]).max()))
        basis = self._basis(weights)[: len(powers)]
        response = (np.stack(powers) * weights[rest]) @ basis.T
        step = np.linalg.lstsq(response, np.array(missing), rcond=1e-9)[0]
        weights[rest] *= 1.0 + step @ basis
        return replace(self, weights=weights, earlier=earlier, moments=(trace, square))

    def standard_error(self, value: Callable[[RitzValues], float]) -> float:
        """Return the standard error of `value` of this spectrum, by leaving out one start vector at a time.

        This jackknife is valid for any `value`, and includes the fit of the weights to the known moments.
        """
        if len(self.shares) < 2 or self.settled.all():
            return 0.0
        bare = replace(self, earlier=None)
        estimates = []
        for k in range(len(self.shares)):
            weights = np.delete(self.shares, k, axis=0).mean(axis=0)
            estimates.append(value(replace(bare, weights=weights).with_moments(*self.moments)))
        return float(np.sqrt((len(estimates) - 1) * np.var(estimates)))

    def _basis(self, weights: np.ndarray) -> np.ndarray:
        """Polynomials of degree 0, 1, 2 at the nodes that have not converged, orthonormal under `weights`."""
        rest = ~self.settled
        root = np.sqrt(np.maximum(weights[rest], 0.0))
        unit = max(float(np.abs(self.values[rest]).max()), 1e-300)
        columns = np.stack([root * (self.values[rest] / unit) ** k for k in range(3)], axis=1)
        left, size, _ = np.linalg.svd(columns, full_matrices=False)
        basis = left[:, size > 1e-9 * size[0]]
        return np.divide(basis.T, root, out=np.zeros_like(basis.T), where=root > 0)


def block_lanczos(A: np.ndarray, start: np.ndarray, steps: int) -> RitzValues:
    """Return the Ritz values of the block Krylov space of `start` under `A`, fully reorthogonalised.

    `A` is symmetric (n, n) and `start` (n, b) random normal, of one floating type; the space has at most
    b * steps dimensions. The weights are those of stochastic Lanczos quadrature: a Ritz vector's squared
    products with the start vectors, times n / b.

    >>> A = np.diag(np.arange(1.0, 7.0))
    >>> found = block_lanczos(A, np.random.default_rng(0).standard_normal((6, 2)), 3)
    >>> [round(float(value), 6) for value in found.values]
    [6.0, 5.0, 4.0, 3.0, 2.0, 1.0]
    """
    n, width = start.shape
    steps = max(1, min(steps, n // width))
    basis = np.empty((n, width * steps), A.dtype)
    small = np.zeros((width * steps, width * steps))
    block, last = np.linalg.qr(start)[0], np.zeros((width, width))
    size = float(np.sqrt(np.vdot(A, A)))
    for step in range(steps):
        here = slice(step * width, (step + 1) * width)
        basis[:, here] = block
        done = basis[:, : here.stop]
        image = A @ block
        diagonal = block.T @ image
        small[here, here] = (diagonal + diagonal.T) / 2.0
        for _ in range(2):
            image -= done @ (done.T @ image)
        block, last = np.linalg.qr(image)
        if step + 1 < steps:
            if float(np.abs(last).max()) <= np.finfo(A.dtype).eps * size:
                steps = step + 1  # the space is invariant: its Ritz values are eigenvalues
                break
            block -= done @ (done.T @ block)  # new directions if the block lost rank
            block, turned = np.linalg.qr(block)
            last = turned @ last
            after = slice(here.stop, here.stop + width)
            small[after, here], small[here, after] = last, last.T
    part = max(1, 3 * steps // 4)
    earlier = None
    if part < steps:
        cut = slice(part * width, (part + 1) * width)
        earlier = _quadrature(
            small[: cut.start, : cut.start], small[cut, cut.start - width : cut.start], n, A
        )
    return replace(_quadrature(small[: width * steps, : width * steps], last, n, A), earlier=earlier)


def _quadrature(small: np.ndarray, last: np.ndarray, n: int, A: np.ndarray) -> RitzValues:
    """Return the spectrum that A's projection `small` gives, `last` the block that leads out of it."""
    m, width, eps = len(small), len(last), float(np.finfo(A.dtype).eps)
    values, vectors = np.linalg.eigh(small)
    values, vectors = values[::-1], vectors[:, ::-1]
    residuals = np.linalg.norm(last @ vectors[m - width :], axis=0)
    shares = n * vectors[:width] ** 2
    gaps = np.abs(np.diff(values, prepend=np.inf, append=-np.inf))
    alone = np.minimum(gaps[:-1], gaps[1:]) > 100 * residuals + 100 * eps * np.abs(values).max()
    settled = (residuals <= _CONVERGED * np.abs(values)) & alone
    if m == n:
        settled, shares = np.ones(n, bool), np.ones((width, n))
    return RitzValues(n, eps, values, shares.mean(axis=0), residuals, settled, shares)
