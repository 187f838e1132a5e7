"""Laws of the loss in model size, data and steps: Chinchilla's, Kaplan's, and L(N, S), fitted robustly."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from toposcope.core.seeding import rng
from toposcope.scaling._robust import HUBER_DELTA, Law, RobustFit, fit_robust, polish


@dataclass(frozen=True, slots=True)
class ScalingFit:
    """A fitted law with bootstrap intervals.

    `parameters` maps names to values, `intervals` the same names to (low, high) at `level`, and `errors` to
    bootstrap standard deviations. `status` is "ok", "degenerate" (the optimiser did not stop at a stationary
    point, or no bootstrap was requested) or "failed"; `reason` says why.
    """

    law: str
    parameters: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    errors: Mapping[str, float]
    level: float
    n: int
    objective: float
    theta: np.ndarray
    status: str = "ok"
    reason: str = ""

    def predict(self, size: np.ndarray, data: np.ndarray) -> np.ndarray:
        """Return the loss at sizes N and data D (tokens, or steps for L(N, S)), shape of `size`."""
        return np.exp(
            _FORMS[self.law].log_loss(np.log(size).ravel(), np.log(data).ravel())(self.theta[None])[0][0]
        )


def fit_chinchilla(
    size: np.ndarray, data: np.ndarray, loss: np.ndarray, *, draws: int = 200, level: float = 0.95
) -> ScalingFit:
    """Fit L(N, D) = E + A / N^alpha + B / D^beta (Hoffmann et al. 2022).

    Huber loss (delta 1e-3) on log L, summed; log-sum-exp form log L = LSE(a - alpha log N, b - beta log D,
    e); starts on the grid alpha, beta in {0, .5, .., 2}, e in {-1, -.5, .., 1}, a, b in {0, 5, .., 25};
    intervals from resampling points (Besiroglu et al. 2024); points of one (N, D) stay together.

    Parameters
    ----------
    size, data, loss : arrays (n,)
        Parameters N (count the output head: see `flops_per_token`), tokens D, final loss in nats.
    draws : int
        Bootstrap replicates; 0 skips the intervals.
    """
    return _fit("chinchilla", size, data, loss, draws, level)


def fit_kaplan(
    size: np.ndarray, data: np.ndarray, loss: np.ndarray, *, draws: int = 200, level: float = 0.95
) -> ScalingFit:
    """Fit L(N, D) = [(N_c / N)^(alpha_N / alpha_D) + D_c / D]^alpha_D (Kaplan et al. 2020).

    The published values are alpha_N .076, N_c 8.8e13, alpha_D .095, D_c 5.4e13. Parameters and intervals as
    in `fit_chinchilla`.
    """
    return _fit("kaplan", size, data, loss, draws, level)


def fit_size_steps(
    size: np.ndarray, steps: np.ndarray, loss: np.ndarray, *, draws: int = 200, level: float = 0.95
) -> ScalingFit:
    """Fit L(N, S) = (N_c / N)^alpha_N + (S_c / S)^alpha_S (Kaplan et al. 2020), S in optimiser steps.

    Points of one run at several S are not independent, but resampling treats them as if they were: pass one
    point per run, or expect the intervals to be too narrow.
    """
    return _fit("size_steps", size, steps, loss, draws, level)


@dataclass(frozen=True, slots=True)
class _Form:
    log_loss: Callable[[np.ndarray, np.ndarray], Law]
    starts: Callable[[], np.ndarray]
    names: Callable[[np.ndarray], dict[str, np.ndarray]]


def _chinchilla(log_n: np.ndarray, log_d: np.ndarray) -> Law:
    def law(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        a, b, e, alpha, beta = (theta[:, i, None] for i in range(5))
        terms = np.stack([a - alpha * log_n, b - beta * log_d, np.broadcast_to(e, (len(theta), len(log_n)))])
        value, share = _log_sum_exp(terms)
        return value, np.stack([share[0], share[1], share[2], -share[0] * log_n, -share[1] * log_d], axis=-1)

    return law


def _kaplan(log_n: np.ndarray, log_d: np.ndarray) -> Law:
    def law(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        log_nc, log_dc, alpha_n, alpha_d = (theta[:, i, None] for i in range(4))
        ratio = alpha_n / alpha_d
        value, share = _log_sum_exp(np.stack([ratio * (log_nc - log_n), log_dc - log_d]))
        by_ratio = share[0] * (log_nc - log_n)
        columns = [
            alpha_d * share[0] * ratio,
            alpha_d * share[1],
            by_ratio,
            value - by_ratio * ratio,
        ]
        return alpha_d * value, np.stack(columns, axis=-1)

    return law


def _size_steps(log_n: np.ndarray, log_s: np.ndarray) -> Law:
    def law(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        a, b, alpha, beta = (theta[:, i, None] for i in range(4))
        value, share = _log_sum_exp(np.stack([a - alpha * log_n, b - beta * log_s]))
        return value, np.stack([share[0], share[1], -share[0] * log_n, -share[1] * log_s], axis=-1)

    return law


def _log_sum_exp(terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log sum exp over the first axis and the softmax shares."""
    top = terms.max(axis=0)
    share = np.exp(terms - top)
    total = share.sum(axis=0)
    return top + np.log(total), share / total


def _grid(*axes: np.ndarray | list[float]) -> np.ndarray:
    return np.array(list(itertools.product(*axes)), dtype=float)


_LOG_AMPLITUDE, _EXPONENT = np.arange(0, 26, 5), np.arange(0, 2.1, 0.5)

_FORMS = {
    "chinchilla": _Form(
        _chinchilla,
        lambda: _grid(_LOG_AMPLITUDE, _LOG_AMPLITUDE, np.arange(-1, 1.1, 0.5), _EXPONENT, _EXPONENT),
        lambda t: {
            "E": np.exp(t[:, 2]), "A": np.exp(t[:, 0]), "B": np.exp(t[:, 1]),
            "alpha": t[:, 3], "beta": t[:, 4],
        },
    ),
    "kaplan": _Form(
        _kaplan,
        lambda: _grid(np.arange(10, 41, 10), np.arange(10, 41, 10), [0.03, 0.1, 0.3], [0.03, 0.1, 0.3]),
        lambda t: {"N_c": np.exp(t[:, 0]), "D_c": np.exp(t[:, 1]), "alpha_N": t[:, 2], "alpha_D": t[:, 3]},
    ),
    "size_steps": _Form(
        _size_steps,
        lambda: _grid(_LOG_AMPLITUDE, _LOG_AMPLITUDE, [0.03, 0.1, 0.3, 1.0], [0.03, 0.1, 0.3, 1.0]),
        lambda t: {
            "N_c": np.exp(t[:, 0] / t[:, 2]), "S_c": np.exp(t[:, 1] / t[:, 3]),
            "alpha_N": t[:, 2], "alpha_S": t[:, 3],
        },
    ),
}  # fmt: skip


def _fit(
    name: str, size: np.ndarray, data: np.ndarray, loss: np.ndarray, draws: int, level: float
) -> ScalingFit:
    n_, d_, l_ = (np.asarray(v, dtype=float).ravel() for v in (size, data, loss))
    if not len(n_) == len(d_) == len(l_):
        return _failed(
            name, level, len(n_), f"lengths differ: {len(n_):,} sizes, {len(d_):,} data, {len(l_):,} losses"
        )
    keep = np.isfinite(n_) & np.isfinite(d_) & np.isfinite(l_) & (n_ > 0) & (d_ > 0) & (l_ > 0)
    n_, d_, l_ = n_[keep], d_[keep], np.log(l_[keep])
    form = _FORMS[name]
    starts = form.starts()
    if len(l_) <= starts.shape[1]:
        return _failed(name, level, len(l_), f"{len(l_):,} usable points for {starts.shape[1]} parameters")
    if min(len(np.unique(n_)), len(np.unique(d_))) < 3:
        return _failed(
            name, level, len(l_), "fewer than 3 distinct sizes or data amounts: exponents are not identified"
        )
    fit = fit_robust(form.log_loss(np.log(n_), np.log(d_)), l_, starts, delta=HUBER_DELTA)
    replicates = _bootstrap(form, np.log(n_), np.log(d_), l_, fit, draws)
    return _summary(name, form, fit, replicates, level, len(l_))


def _bootstrap(
    form: _Form, log_n: np.ndarray, log_d: np.ndarray, log_l: np.ndarray, fit: RobustFit, draws: int
) -> np.ndarray:
    """Refit on resampled models, starting from the optimum; seeds stay together; shape (draws, p)."""
    members = _models(log_n, log_d)
    thetas = []
    for draw in range(draws):
        drawn = rng(name="scaling-bootstrap", draw=draw).integers(0, len(members), len(members))
        index = np.concatenate([members[i] for i in drawn])
        law = form.log_loss(log_n[index], log_d[index])
        thetas.append(polish(law, log_l[index], fit.theta).theta)
    return np.array(thetas).reshape(draws, len(fit.theta))


def _models(log_n: np.ndarray, log_d: np.ndarray) -> list[np.ndarray]:
    """Return the points of every distinct (N, D), in order of first appearance."""
    groups: dict[tuple[float, float], list[int]] = {}
    for i, pair in enumerate(zip(log_n.tolist(), log_d.tolist(), strict=True)):
        groups.setdefault(pair, []).append(i)
    return [np.array(group) for group in groups.values()]


def _summary(
    name: str, form: _Form, fit: RobustFit, replicates: np.ndarray, level: float, n: int
) -> ScalingFit:
    values = {key: float(value[0]) for key, value in form.names(fit.theta[None]).items()}
    tail = (1 - level) / 2
    spread = form.names(replicates) if len(replicates) else {}
    intervals = {
        key: (float(np.quantile(v, tail)), float(np.quantile(v, 1 - tail))) for key, v in spread.items()
    }
    errors = {key: float(np.std(v, ddof=1)) for key, v in spread.items()}
    status, reason = "ok", ""
    if not fit.converged:
        status, reason = (
            "degenerate",
            f"gradient {fit.gradient:.1e} of the summed loss at the optimum is not zero",
        )
    elif not len(replicates):
        status, reason = "degenerate", "no bootstrap was requested, so there are no intervals"
    return ScalingFit(name, values, intervals, errors, level, n, fit.objective, fit.theta, status, reason)


def _failed(name: str, level: float, n: int, reason: str) -> ScalingFit:
    return ScalingFit(name, {}, {}, {}, level, n, np.nan, np.empty(0), "failed", reason)
