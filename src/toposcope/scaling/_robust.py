"""Robust fits of log-loss laws: summed Huber loss, a grid of starts, analytic Jacobians.

The objective is the **sum** of Huber losses over points. Its mean has the same minimum but gradients n
times smaller, so an optimiser with an absolute tolerance stops early and reports intervals that are far too
narrow (Besiroglu et al. 2024). Here the final polish also checks the gradient at the optimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy  # optimize loads on first use: it costs a quarter of a second

Law = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""theta (s, p) -> log-loss predictions (s, n) and their Jacobian (s, n, p), for s vectors at once."""

HUBER_DELTA = 1e-3
"""Huber threshold in log loss, as in Hoffmann et al. (2022)."""
_SWEEPS = 30
"""Steps of the coarse descent from every start."""
_CHUNK = 500
"""Number of starts that descend together; affects only memory and speed."""
_POLISHED = 12
"""The number of best ends of the coarse descent to polish."""


@dataclass(frozen=True, slots=True)
class RobustFit:
    """The best parameter vector, its summed Huber loss, and the largest entry of the gradient there."""

    theta: np.ndarray
    objective: float
    gradient: float
    starts: int

    @property
    def converged(self) -> bool:
        """Whether the gradient of the sum vanishes to the accuracy that a Huber kink allows."""
        return bool(np.isfinite(self.objective) and self.gradient < 1e-4)


def huber_objective(residual: np.ndarray, delta: float = HUBER_DELTA) -> np.ndarray:
    """Return the Huber loss summed over the last axis: r^2/2 inside `delta`, delta (|r| - delta/2) outside.

    >>> float(huber_objective(np.array([0.5, 2.0]), delta=1.0))
    1.625
    """
    size = np.abs(residual)
    inside = size <= delta
    return np.where(inside, 0.5 * residual**2, delta * (size - 0.5 * delta)).sum(axis=-1)


def fit_robust(
    law: Law, log_loss: np.ndarray, starts: np.ndarray, *, delta: float = HUBER_DELTA
) -> RobustFit:
    """Minimise sum_i Huber(log_loss_i - law(theta)_i) from every row of `starts`.

    All starts descend together by damped, reweighted Gauss-Newton sweeps; the best of them are polished by
    L-BFGS with the analytic gradient.

    Parameters
    ----------
    law : Law
        Batched predictions and Jacobian of the log-loss.
    log_loss : array (n,)
    starts : array (s, p)
    delta : float
        Where the Huber loss becomes linear, in log loss.
    """
    ends = [_descend(law, log_loss, starts[i : i + _CHUNK], delta) for i in range(0, len(starts), _CHUNK)]
    theta = np.concatenate([end[0] for end in ends])
    value = np.concatenate([end[1] for end in ends])
    best: RobustFit | None = None
    for i in _distinct(theta, value):
        fit = _polish(law, log_loss, theta[i], delta, len(starts))
        if best is None or fit.objective < best.objective:
            best = fit
    if best is None:
        return RobustFit(np.full(starts.shape[1], np.nan), np.nan, np.nan, len(starts))
    return best


def _descend(
    law: Law, log_loss: np.ndarray, theta: np.ndarray, delta: float
) -> tuple[np.ndarray, np.ndarray]:
    """Levenberg-Marquardt with Huber weights on a batch of parameter vectors; returns them and their loss."""
    theta = theta.copy()
    damping = np.full(len(theta), 1e-2)
    with np.errstate(all="ignore"):
        prediction, jacobian = law(theta)
        value = huber_objective(log_loss - prediction, delta)
        for _ in range(_SWEEPS):
            step = _newton_step(log_loss - prediction, jacobian, damping, delta)
            trial = theta + step
            trial_prediction, trial_jacobian = law(trial)
            trial_value = huber_objective(log_loss - trial_prediction, delta)
            better = trial_value < value
            damping = np.where(better, np.maximum(damping / 3, 1e-9), np.minimum(damping * 4, 1e8))
            theta[better], value[better] = trial[better], trial_value[better]
            prediction[better], jacobian[better] = trial_prediction[better], trial_jacobian[better]
    return theta, value


def _newton_step(residual: np.ndarray, jacobian: np.ndarray, damping: np.ndarray, delta: float) -> np.ndarray:
    weight = delta / np.maximum(np.abs(residual), delta)
    weighted = (jacobian * weight[:, :, None]).transpose(0, 2, 1)
    hessian = weighted @ jacobian
    gradient = (weighted @ residual[:, :, None])[:, :, 0]
    index = np.arange(hessian.shape[1])
    hessian[:, index, index] = hessian[:, index, index] * (1.0 + damping[:, None]) + 1e-12
    finite = np.isfinite(hessian).all(axis=(1, 2)) & np.isfinite(gradient).all(axis=1)
    step = np.zeros_like(gradient)
    if finite.any():
        step[finite] = np.linalg.solve(hessian[finite], gradient[finite][:, :, None])[:, :, 0]
    return np.clip(step, -3.0, 3.0)


def _distinct(theta: np.ndarray, value: np.ndarray) -> list[int]:
    """Return the best few ends that are not copies of one another."""
    chosen: list[int] = []
    for i in np.argsort(value):
        if not np.isfinite(value[i]) or len(chosen) == _POLISHED:
            break
        if all(np.max(np.abs(theta[i] - theta[j])) > 1e-3 for j in chosen):
            chosen.append(int(i))
    return chosen


def polish(law: Law, log_loss: np.ndarray, start: np.ndarray, *, delta: float = HUBER_DELTA) -> RobustFit:
    """Descend from a single start, as a bootstrap replicate needs."""
    theta, _ = _descend(law, log_loss, start[None, :], delta)
    return _polish(law, log_loss, theta[0], delta, 1)


def _polish(law: Law, log_loss: np.ndarray, start: np.ndarray, delta: float, starts: int) -> RobustFit:
    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        prediction, jacobian = law(theta[None, :])
        residual = log_loss - prediction[0]
        slope = np.clip(residual, -delta, delta)
        return float(huber_objective(residual, delta)) / delta, -(slope @ jacobian[0]) / delta

    with np.errstate(all="ignore"):
        # In units of delta the sum is of order n, so no tolerance is met before the minimum.
        optimum = scipy.optimize.minimize(
            objective, start, jac=True, method="L-BFGS-B",
            options={"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-9, "maxfun": 20000},
        )  # fmt: skip
    _, gradient = objective(optimum.x)
    return RobustFit(optimum.x, float(optimum.fun) * delta, float(np.max(np.abs(gradient))) * delta, starts)
