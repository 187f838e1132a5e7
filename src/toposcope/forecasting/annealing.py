"""Losses as functions of the learning-rate schedule: the multi-power law and the Tissue law.

Both have the form L = L0 + A S1^-alpha - (gain from annealing), with S1 the sum of learning rates so far. The
multi-power law (Luo et al. 2025) reads

    L(t) = L0 + A (S1(t) + S_W)^-alpha - B sum_k (eta_(k-1) - eta_k) [1 - (1 + C eta_k^-gamma S_k(t))^-beta]

with S_W the sum during warm-up and S_k the sum from the k-th drop to t. Tissue et al. (2024) use

    L(t) = L0 + A S1^-alpha - C S2,   m_i = lambda m_(i-1) + (eta_(i-1) - eta_i),   S2 = sum m.

One cosine run and one drop do not identify beta and gamma, and the cost of noise may shrink during training.
So these constants form a `Shape`, which is fixed in a fit: `DEFAULT`, `PUBLISHED`, or one that was chosen on
many finished runs of another size, as `benchmarks/forecast_shapes.py` does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from toposcope.logs.curve import Binned
from toposcope.logs.schedule import Schedule

_DELTA = 1e-3
"""Huber threshold in log loss, as in scaling-law fits."""

_EVENTS = 160
"""Drops of the learning rate are merged into at most this many events per run."""

_PIECE = 0.02
"""A straight slope is split into events of at most this share of the peak."""

DECAYS = (0.99, 0.995, 0.998, 0.999)
"""Candidate momenta for the Tissue law; Tissue et al. (2024) state .99 to .999."""


@dataclass(frozen=True, slots=True)
class Drive:
    """The inputs of the law from one run: areas at the loss steps, and the rate drops before them.

    `area` (n,): sum of rates up to each loss step, warm-up included. `drop`, `after`, `at_area`, `at_step`
    (k,): size of each drop (negative when the rate rises), the rate after it, and when it happened.
    """

    step: np.ndarray
    area: np.ndarray
    drop: np.ndarray
    after: np.ndarray
    at_area: np.ndarray
    at_step: np.ndarray


def drive(schedule: Schedule, step: np.ndarray) -> Drive:
    """Return areas and drops of `schedule` for losses at `step`.

    The rise during warm-up counts as negative drops. So the cost of a high rate is part of the law from the
    start, and annealing removes it.
    """
    knots = _event_edges(schedule, float(step[-1]))
    rate = schedule.at(knots)
    drop = rate[:-1] - rate[1:]
    middle = (knots[:-1] + knots[1:]) / 2
    real = np.abs(drop) > 1e-12 * schedule.peak
    return Drive(
        np.asarray(step, dtype=float),
        schedule.area(step),
        drop[real],
        np.maximum(rate[1:][real], 1e-6 * schedule.peak),
        schedule.area(middle)[real],
        middle[real],
    )


def _event_edges(schedule: Schedule, end: float) -> np.ndarray:
    """Return the edges of the rate's events: long slopes are split, short ones merged."""
    knots = schedule.step[schedule.step < end]
    knots = np.append(knots, end)
    change = np.abs(np.diff(schedule.at(knots)))
    sloped = (change > _PIECE * schedule.peak) & (np.diff(knots) > 2)
    pieces = np.where(sloped, np.ceil(change / (_PIECE * schedule.peak)), 1).astype(int)
    inside = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    width = np.repeat(np.diff(knots) / pieces, pieces)
    edges = np.append(np.repeat(knots[:-1], pieces) + inside * width, knots[-1])
    if len(edges) <= _EVENTS:
        return edges
    # A dense log: keep the edges at equal shares of the total variation; jumps stay whole.
    variation = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(schedule.at(edges))))])
    share = np.floor(variation / max(variation[-1], 1e-300) * _EVENTS / 2)
    keep = np.concatenate([[True], np.diff(share) > 0]) | np.concatenate([np.diff(share) > 0, [True]])
    return edges[keep]


def _annealed(run: Drive, log_c: float, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """Return sum drop * [1 - (1 + C eta^-gamma S)^-beta] at each loss step (n,), and its slope in log C."""
    since = np.maximum(run.area[:, None] - run.at_area, 0.0)  # a future drop gains nothing yet
    x = np.exp(log_c - shape.gamma * np.log(run.after)) * since
    remaining = np.exp(-shape.beta * np.log1p(x))
    return (1.0 - remaining) @ run.drop, shape.beta * (remaining * x / (1.0 + x)) @ run.drop


@dataclass(frozen=True, slots=True)
class Shape:
    """How annealing pays off: saturation exponent beta, rate exponent gamma, and fading kappa.

    The sum over drops is multiplied by (S1 + S_W)^-kappa; kappa = 0 is the published law. beta and gamma are
    the published values for a 25M-parameter model.
    """

    beta: float = 0.583
    gamma: float = 0.641
    kappa: float = 0.0


PUBLISHED = Shape()

DEFAULT = Shape(kappa=0.1)
"""The fading that `choose_shape` (`benchmarks/forecast_shapes.py`) found on nine schedules at 25M parameters,
and again on nine at 100M."""


def multi_power(theta: np.ndarray, run: Drive, shape: Shape = DEFAULT) -> tuple[np.ndarray, np.ndarray]:
    """Return the law's losses (n,) and Jacobian (n, 5); theta = (L0, log A, alpha, log B, log C)."""
    floor, log_a, alpha, log_b, log_c = theta
    out, d_c = _annealed(run, float(log_c), shape)
    log_area = np.log(np.maximum(run.area, 1e-12))
    power = np.exp(log_a - alpha * log_area)
    b = np.exp(log_b - shape.kappa * log_area)
    columns = [np.ones(len(out)), power, -power * log_area, -b * out, -b * d_c]
    return floor + power - b * out, np.stack(columns, axis=1)


def momentum(run: Drive, decay: float) -> np.ndarray:
    """Return the Tissue law's annealing area S2 (n,) at each loss step."""
    age = np.maximum(run.step[:, None] - run.at_step[None, :], 0.0)
    return np.asarray(((1.0 - decay**age) / (1.0 - decay)) @ run.drop)


def tissue(theta: np.ndarray, run: Drive, s2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the Tissue law's losses (n,) and Jacobian (n, 4); theta = (L0, log A, alpha, log C)."""
    floor, log_a, alpha, log_c = theta
    log_area = np.log(np.maximum(run.area, 1e-12))
    power = np.exp(log_a - alpha * log_area)
    c = np.exp(log_c)
    columns = [np.ones(len(s2)), power, -power * log_area, -c * s2]
    return floor + power - c * s2, np.stack(columns, axis=1)


MULTI_POWER_LOW = np.array([0.0, -12.0, 0.02, -5.0, -12.0])
MULTI_POWER_HIGH = np.array([20.0, 8.0, 2.0, 14.0, 12.0])
"""Bounds of (L0, log A, alpha, log B, log C) in the search."""
TISSUE_LOW = np.array([0.0, -12.0, 0.02, -20.0])
TISSUE_HIGH = np.array([20.0, 8.0, 2.0, 8.0])
"""Bounds of (L0, log A, alpha, log C) in the search."""


@dataclass(frozen=True, slots=True)
class LawFit:
    """Fitted parameters, the summed Huber cost, and the law as a function of a `Drive`."""

    name: str
    theta: np.ndarray
    cost: float
    shape: Shape = DEFAULT
    decay: float = 0.0

    def losses(self, run: Drive) -> np.ndarray:
        """Return the law's loss at each of the drive's steps."""
        if self.name == "tissue":
            return tissue(self.theta, run, momentum(run, self.decay))[0]
        return multi_power(self.theta, run, self.shape)[0]

    def along(self, schedule: Schedule, step: np.ndarray) -> np.ndarray:
        """Return the law's loss (n,) at ascending `step` (n,) of a run that follows `schedule`."""
        return self.losses(drive(schedule, step))


Runs = Sequence[tuple[Binned, Schedule]]

_REMEMBERED = 4096
"""Fits that are kept. Leaving out runs in turn fits the same runs again and again: of five finished runs each
is forecast from four, and each of these from three, so that 20 of 105 fits of a cut are different ones."""


@dataclass(frozen=True, eq=False)
class _Fitted:
    """The data of a fit, equal where all their numbers are."""

    runs: Runs
    prior: tuple[np.ndarray, np.ndarray] | None = None
    start: np.ndarray | None = None
    digest: bytes = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.blake2b()
        curves = [(losses.step, losses.loss, plan.step, plan.rate) for losses, plan in self.runs]
        others = (*(self.prior or ()), *(() if self.start is None else (self.start,)))
        kinds = f"{len(curves)} {self.prior is not None} {self.start is not None}"
        digest.update(kinds.encode())
        for array in (*(array for curve in curves for array in curve), *others):
            digest.update(f"{len(array)} ".encode() + np.asarray(array, float).tobytes())
        object.__setattr__(self, "digest", digest.digest())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Fitted) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def fit_multi_power(
    runs: Runs, *, shape: Shape = DEFAULT, prior: tuple[np.ndarray, np.ndarray] | None = None,
    start: np.ndarray | None = None,
) -> LawFit:  # fmt: skip
    """Fit one multi-power law to all `runs` together, by Huber loss (delta 1e-3) on log L summed over points.

    Parameters
    ----------
    runs : sequence of (losses, schedule)
        Runs of one model size under different schedules.
    shape : Shape
        Held fixed.
    prior : (centre (5,), inverse scale (5,)), optional
        A quadratic pull of theta towards that of its siblings. A run that is cut before its annealing cannot
        identify alpha, B and C; they then come from finished runs.
    start : (5,), optional
        Where the search begins, instead of at four guesses: the fit to nearly the same runs.
    """
    return _multi_power_of(_Fitted(runs, prior, start), shape)


@lru_cache(maxsize=_REMEMBERED)
def _multi_power_of(data: _Fitted, shape: Shape) -> LawFit:
    runs, prior, start = data.runs, data.prior, data.start
    drives, target, peak, lowest, last_area = _ingredients(runs)
    law = lambda theta, run: multi_power(theta, run, shape)  # noqa: E731
    starts = [vector for vector in (start, prior[0] if prior is not None else None) if vector is not None][:1]
    for alpha in () if starts else (0.3, 0.6):
        for reach in (0.03, 0.3):  # share of the run's area after which half of a drop's gain has come
            log_a = np.log(0.08 * lowest) + alpha * np.log(last_area)
            log_c = shape.gamma * np.log(peak / 3) - np.log(reach * last_area)
            log_b = np.log(0.05 * lowest / peak) + shape.kappa * np.log(last_area)
            starts.append(np.array([0.9 * lowest, log_a, alpha, log_b, log_c]))
    bounds = (MULTI_POWER_LOW, MULTI_POWER_HIGH)
    theta, cost = min((_huber_fit(law, drives, target, s, bounds, prior) for s in starts), key=lambda f: f[1])
    return LawFit("multi_power", theta, cost, shape)


def fit_tissue(runs: Runs) -> LawFit:
    """Fit one Tissue law to all `runs`; the momentum lambda is the best of `DECAYS`."""
    return _tissue_of(_Fitted(runs))


@lru_cache(maxsize=_REMEMBERED)
def _tissue_of(data: _Fitted) -> LawFit:
    drives, target, peak, lowest, last_area = _ingredients(data.runs)
    best: LawFit | None = None
    for decay in DECAYS:
        areas = {id(run): momentum(run, decay) for run in drives}  # independent of the fit's parameters
        law = lambda theta, run, areas=areas: tissue(theta, run, areas[id(run)])  # noqa: E731
        for alpha in (0.3, 0.6):
            log_a = np.log(0.08 * lowest) + alpha * np.log(last_area)
            start = np.array([0.9 * lowest, log_a, alpha, np.log(0.03 * lowest / peak * (1 - decay))])
            theta, cost = _huber_fit(law, drives, target, start, (TISSUE_LOW, TISSUE_HIGH), None)
            if best is None or cost < best.cost:
                best = LawFit("tissue", theta, cost, decay=decay)
    assert best is not None
    return best


def _ingredients(runs: Runs) -> tuple[list[Drive], list[np.ndarray], float, float, float]:
    drives = [drive(schedule, losses.step) for losses, schedule in runs]
    target = [np.log(losses.loss) for losses, _ in runs]
    peak = max(schedule.peak for _, schedule in runs)
    lowest = float(np.exp(min(t.min() for t in target)))
    return drives, target, peak, lowest, max(float(d.area[-1]) for d in drives)


def _huber_fit(law, drives, target, start, bounds, prior):  # type: ignore[no-untyped-def]
    """Minimise the summed Huber loss of log residuals within bounds; returns (theta, cost)."""

    def evaluate(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        residuals, jacobians = [], []
        for run, goal in zip(drives, target, strict=True):
            value, jacobian = law(theta, run)
            safe = np.maximum(value, 1e-3)
            residuals.append(np.log(safe) - goal)
            jacobians.append(jacobian / safe[:, None])
        if prior is not None:
            residuals.append((theta - prior[0]) * prior[1])
            jacobians.append(np.diag(prior[1]))
        return np.concatenate(residuals), np.concatenate(jacobians)

    last: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}

    def once(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        key = theta.tobytes()
        if key not in last:
            last.clear()
            last[key] = evaluate(theta)
        return last[key]

    low, high = bounds
    from scipy.optimize import least_squares  # loading it takes .1 s

    solution = least_squares(
        lambda t: once(t)[0], np.clip(start, low + 1e-6, high - 1e-6), jac=lambda t: once(t)[1],
        bounds=bounds, loss="huber", f_scale=_DELTA, x_scale="jac", max_nfev=150, xtol=1e-8, ftol=1e-8,
        gtol=1e-12,
    )  # fmt: skip
    return solution.x, float(solution.cost)
