"""The random-feature model with power-law spectra, whose exponents are known (Bordelon et al. 2024).

Inputs psi have independent modes with variances lambda_k = k^-b; the target is w* . psi with
(w*_k)^2 lambda_k = k^-a; the model is f = N^(-1/2) w . A psi with A (N, M) standard normal and w trained by
gradient descent on squared error. Then the loss falls as

    time (infinite width and data)   t^-(a-1)/b
    width or data (after training)   N^-min(a-1, 2b)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.seeding import rng


@dataclass(frozen=True, slots=True)
class Spectrum:
    """The two exponents and the number of modes; a > 1 makes the target's power finite."""

    a: float = 1.5
    b: float = 1.25
    modes: int = 1024

    def __post_init__(self) -> None:
        if not (np.isfinite(self.a) and self.a > 1):
            raise InputError(
                "the target's power is finite only for a > 1", argument="a", value=self.a,
                remedy="give a larger one",
            )  # fmt: skip
        if not (np.isfinite(self.b) and self.b > 0):
            raise InputError(
                "the spectrum decays only for b > 0", argument="b", value=self.b,
                remedy="give a positive one",
            )  # fmt: skip
        if self.modes < 8:
            raise InputError("it must be at least 8", argument="modes", value=self.modes)

    @property
    def variances(self) -> np.ndarray:
        """lambda_k = k^-b, shape (modes,)."""
        return np.arange(1, self.modes + 1, dtype=float) ** -self.b

    @property
    def powers(self) -> np.ndarray:
        """(w*_k)^2 lambda_k = k^-a, shape (modes,)."""
        return np.arange(1, self.modes + 1, dtype=float) ** -self.a

    @property
    def tail(self) -> float:
        """Power of the modes that are cut off, about modes^(1-a) / (a-1): the floor of every loss."""
        return float((self.modes + 0.5) ** (1 - self.a) / (self.a - 1))

    def exponents(self) -> dict[str, float]:
        """Return the theoretical exponents: time, size and data.

        >>> Spectrum(a=1.5, b=1.25).exponents()
        {'time': -0.4, 'size': -0.5, 'data': -0.5}
        """
        limit = -min(self.a - 1, 2 * self.b)
        return {"time": -(self.a - 1) / self.b, "size": limit, "data": limit}

    def loss_at(self, time: np.ndarray) -> np.ndarray:
        """Return sum_k k^-a exp(-2 lambda_k t) + tail: the loss of gradient flow, infinite width and data."""
        decay = np.exp(-2.0 * np.outer(np.asarray(time, float), self.variances))
        return decay @ self.powers + self.tail


@dataclass(frozen=True, slots=True)
class KernelProblem:
    """One draw of features (and data), in r coordinates in which the training Hessian is diagonal.

    `rates` (r,) are the Hessian's eigenvalues, `goal` (r, outputs) the weights to which training converges,
    `floor` (outputs,) the training loss there. `basis` (n, r) maps coordinates to readout weights, None if
    they are the same. `test_hessian` (r, r), or (r,) if diagonal, `test_linear` (r, outputs) and
    `test_constant` (outputs,) give the loss on fresh inputs, constant - 2 w . linear + w' hessian w.
    `features` is A (N, M), None for infinite width, where the readout is the function itself.
    """

    spectrum: Spectrum
    rates: np.ndarray
    goal: np.ndarray
    floor: np.ndarray
    basis: np.ndarray | None
    test_hessian: np.ndarray
    test_linear: np.ndarray
    test_constant: np.ndarray
    features: np.ndarray | None

    def test_loss(self, weights: np.ndarray) -> float:
        """Return the mean loss over outputs on fresh inputs, with the tail, for coordinates (r, outputs)."""
        if self.test_hessian.ndim == 1:
            quadratic = self.test_hessian @ (weights * weights)
        else:
            quadratic = np.einsum("no,no->o", weights, self.test_hessian @ weights)
        linear = np.einsum("no,no->o", weights, self.test_linear)
        return float(np.mean(self.test_constant - 2 * linear + quadratic)) + self.spectrum.tail

    def train_loss(self, weights: np.ndarray) -> float:
        """Return the mean training loss over outputs, including the tail."""
        gap = weights - self.goal
        return float(np.mean(self.floor + self.rates @ (gap * gap))) + self.spectrum.tail

    def readout(self, weights: np.ndarray) -> np.ndarray:
        """Return the readout weights (outputs, n) at coordinates (r, outputs)."""
        return (weights if self.basis is None else self.basis @ weights).T


def draw_problem(
    spectrum: Spectrum, *, width: int, data: int = 0, outputs: int = 16, seed: int = 0
) -> KernelProblem:
    """Draw features A and training inputs for one run; `width` 0 and `data` 0 mean infinitely many.

    Every output has its own random signs of w*; the target depends on the seed only, so models of all
    widths are trained on one task.

    Raises
    ------
    InputError
        When width, data or outputs are out of range.
    """
    if width < 0 or width == 1 or outputs < 1 or data < 0 or data == 1:
        raise InputError(
            f"width {width}, outputs {outputs}, data {data}: give 0 or at least 2, and outputs >= 1"
        )
    m, variances = spectrum.modes, spectrum.variances
    signs = rng(name="synthetic-target", seed=seed).choice([-1.0, 1.0], size=(m, outputs))
    target = signs * np.sqrt(spectrum.powers / variances)[:, None]
    constant = variances @ (target * target)
    features = (
        rng(name="synthetic-features", seed=seed, width=width).standard_normal((width, m)) if width else None
    )
    inputs = None
    if data:
        inputs = rng(name="synthetic-data", seed=seed, data=data).standard_normal((data, m)) * np.sqrt(
            variances
        )
    if features is None and inputs is None:
        linear = variances[:, None] * target
        floor = np.zeros(outputs)
        return KernelProblem(spectrum, variances, target, floor, None, variances, linear, constant, None)
    if features is None:
        assert inputs is not None
        return _kernel_problem(spectrum, inputs, target, constant)
    scaled = features / np.sqrt(width)
    hessian, linear = (scaled * variances) @ scaled.T, (scaled * variances) @ target
    train_hessian, train_linear, train_constant = hessian, linear, constant
    if inputs is not None:
        seen, labels = inputs @ scaled.T / np.sqrt(data), inputs @ target / np.sqrt(data)
        train_hessian, train_linear, train_constant = (
            seen.T @ seen,
            seen.T @ labels,
            np.sum(labels**2, axis=0),
        )
    rates, basis = np.linalg.eigh(train_hessian)
    rates = np.maximum(rates, 0.0)
    rotated = basis.T @ train_linear
    goal = np.where(rates[:, None] > 1e-12, rotated / np.maximum(rates, 1e-12)[:, None], 0.0)
    floor = np.maximum(train_constant - np.einsum("no,no->o", goal, rotated), 0.0)
    return KernelProblem(
        spectrum, rates, goal, floor, basis, basis.T @ hessian @ basis, basis.T @ linear, constant, features
    )


def _kernel_problem(
    spectrum: Spectrum, inputs: np.ndarray, target: np.ndarray, constant: np.ndarray
) -> KernelProblem:
    """Infinite width, finite data: coordinates along the span of the training inputs."""
    rates, left = np.linalg.eigh(inputs @ inputs.T / len(inputs))
    positive = rates > 1e-12
    rates = rates[positive]
    basis = inputs.T @ left[:, positive] / np.sqrt(len(inputs) * rates)
    weighted = basis * spectrum.variances[:, None]
    goal = basis.T @ target
    floor = np.zeros(target.shape[1])
    return KernelProblem(
        spectrum, rates, goal, floor, basis, basis.T @ weighted, weighted.T @ target, constant, None
    )


def flow_losses(problem: KernelProblem, time: np.ndarray) -> np.ndarray:
    """Return the exact test loss of noiseless gradient flow from zero at each time (the sum of rates).

    >>> limit = Spectrum(a=2.0, b=1.5, modes=64)
    >>> exact = flow_losses(draw_problem(limit, width=0, outputs=2), np.array([1.0, 10.0]))
    >>> bool(np.allclose(exact, limit.loss_at(np.array([1.0, 10.0]))))
    True
    """
    shares = -np.expm1(-np.outer(np.asarray(time, float), problem.rates))
    return np.array([problem.test_loss(problem.goal * share[:, None]) for share in shares])


def converged_loss(problem: KernelProblem) -> float:
    """Return the test loss at the end of training."""
    return problem.test_loss(problem.goal)
