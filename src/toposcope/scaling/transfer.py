"""From one loss to another, and from compute via loss to a downstream score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy  # optimize loads on first use: it costs a quarter of a second

from toposcope.core.seeding import rng
from toposcope.scaling.power_law import PowerLaw, fit_power_law


@dataclass(frozen=True, slots=True)
class LossToLoss:
    """L_y = scale * (L_x - floor_x)**power + floor_y, with bootstrap draws of the four numbers.

    `draws` has shape (replicates, 4) in the order scale, power, floor_x, floor_y.
    """

    scale: float
    power: float
    floor_x: float
    floor_y: float
    n: int
    rmse: float
    draws: np.ndarray = field(repr=False)
    status: str = "ok"
    reason: str = ""

    def predict(self, loss_x: np.ndarray) -> np.ndarray:
        """Return L_y at each L_x; NaN where L_x is below the fitted floor."""
        return _loss_map(
            np.array([self.scale, self.power, self.floor_x, self.floor_y]), np.asarray(loss_x, float)
        )

    def interval(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Return percentile intervals of the four numbers; empty without draws."""
        if not len(self.draws):
            return {}
        tail = (1 - level) / 2
        low, high = np.quantile(self.draws, [tail, 1 - tail], axis=0)
        names = ("scale", "power", "floor_x", "floor_y")
        return {name: (float(a), float(b)) for name, a, b in zip(names, low, high, strict=True)}


def fit_loss_to_loss(
    loss_x: np.ndarray,
    loss_y: np.ndarray,
    *,
    floor_x: float | None = None,
    floor_y: float | None = None,
    draws: int = 200,
) -> LossToLoss:
    """Fit L_y = K (L_x - E_x)^kappa + E_y by least squares on L_y.

    Parameters
    ----------
    loss_x, loss_y : arrays (n,)
        Losses of the same models on two sets (train and held-out, or two corpora).
    floor_x, floor_y : float, optional
        Irreducible losses known from a scaling fit; fitted by default.
    draws : int
        Bootstrap replicates over models.

    Examples
    --------
    >>> x = np.linspace(2.0, 4.0, 9)
    >>> fit = fit_loss_to_loss(x, 1.2 * (x - 1.5) ** 0.9 + 1.0, floor_x=1.5, floor_y=1.0, draws=0)
    >>> round(fit.scale, 3), round(fit.power, 3)
    (1.2, 0.9)
    """
    x, y = np.asarray(loss_x, float).ravel(), np.asarray(loss_y, float).ravel()
    if len(x) != len(y):
        return _no_map(len(x), f"{len(x):,} losses on one side but {len(y):,} on the other")
    keep = np.isfinite(x) & np.isfinite(y)
    x, y = x[keep], y[keep]
    free = 2 + (floor_x is None) + (floor_y is None)
    if len(np.unique(x)) <= free:
        return _no_map(len(x), f"{len(np.unique(x)):,} distinct losses for {free:,} parameters")
    if floor_x is not None and np.any(x <= floor_x):
        return _no_map(len(x), f"a loss is at or below the given floor {floor_x}")
    theta = _fit_map(x, y, floor_x, floor_y)
    replicates = []
    for draw in range(draws):
        index = rng(name="loss-to-loss", draw=draw).integers(0, len(x), len(x))
        if len(np.unique(x[index])) > free:
            replicates.append(_fit_map(x[index], y[index], floor_x, floor_y, start=theta))
    rmse = float(np.sqrt(np.mean((_loss_map(theta, x) - y) ** 2)))
    scale, power, e_x, e_y = (float(v) for v in theta)
    return LossToLoss(scale, power, e_x, e_y, len(x), rmse, np.array(replicates).reshape(-1, 4))


def _loss_map(theta: np.ndarray, x: np.ndarray) -> np.ndarray:
    above = x - theta[2]
    return np.where(above > 0, theta[0] * np.where(above > 0, above, 1.0) ** theta[1] + theta[3], np.nan)


def _fit_map(
    x: np.ndarray,
    y: np.ndarray,
    floor_x: float | None,
    floor_y: float | None,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Minimise over (log scale, power, gap below min x, floor_y), except for given values."""
    least = float(x.min())

    def unpack(p: np.ndarray) -> np.ndarray:
        rest = list(p[2:])
        e_x = floor_x if floor_x is not None else least - np.exp(rest.pop(0))
        e_y = floor_y if floor_y is not None else rest.pop(0)
        return np.array([np.exp(p[0]), p[1], e_x, e_y])

    def residual(p: np.ndarray) -> np.ndarray:
        return _loss_map(unpack(p), x) - y

    best = None
    gaps = [0.3, 1.0, 2.0] if start is None else [max(least - start[2], 1e-3)]
    for gap in gaps:
        scale = 1.0 if start is None else start[0]
        p0 = [np.log(scale), 1.0 if start is None else start[1]]
        if floor_x is None:
            p0.append(np.log(gap))
        if floor_y is None:
            p0.append(float(y.min()) - 0.5 if start is None else start[3])
        lower = (
            [-20.0, 0.01] + ([np.log(1e-4)] if floor_x is None else []) + ([-50.0] if floor_y is None else [])
        )
        upper = (
            [20.0, 10.0] + ([np.log(50.0)] if floor_x is None else []) + ([50.0] if floor_y is None else [])
        )
        fit = scipy.optimize.least_squares(
            residual,
            np.clip(p0, np.add(lower, 1e-9), np.subtract(upper, 1e-9)),
            bounds=(lower, upper),
            x_scale="jac",
        )
        if best is None or fit.cost < best.cost:
            best = fit
    assert best is not None
    return unpack(best.x)


def _no_map(n: int, reason: str) -> LossToLoss:
    nan = float("nan")
    return LossToLoss(nan, nan, nan, nan, n, nan, np.empty((0, 4)), "failed", reason)


@dataclass(frozen=True, slots=True)
class TwoStage:
    """Compute -> loss (power law with offset) -> downstream score (sigmoid between chance and ceiling).

    `bend` is (slope, midpoint) of the sigmoid in nats; `draws` holds bootstrap pairs of both stages.
    """

    loss_law: PowerLaw
    bend: tuple[float, float]
    chance: float
    ceiling: float
    n: int
    draws: tuple[tuple[PowerLaw, np.ndarray], ...] = field(repr=False)
    status: str = "ok"
    reason: str = ""

    def predict(self, compute: np.ndarray) -> np.ndarray:
        """Return the score expected at each compute (FLOP)."""
        return _sigmoid(np.array(self.bend), self.loss_law.predict(compute), self.chance, self.ceiling)

    def predict_interval(self, compute: np.ndarray, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Return the interval of the expected score, with both stages resampled together."""
        scores = np.array(
            [_sigmoid(b, law.predict(compute), self.chance, self.ceiling) for law, b in self.draws]
        )
        tail = (1 - level) / 2
        return np.quantile(scores, tail, axis=0), np.quantile(scores, 1 - tail, axis=0)


def fit_two_stage(
    compute: np.ndarray,
    loss: np.ndarray,
    score: np.ndarray,
    *,
    chance: float = 0.0,
    ceiling: float = 1.0,
    draws: int = 200,
) -> TwoStage:
    """Fit L(C) = a C^b + c, then score = chance + (ceiling - chance) / (1 + exp(k (L - m))).

    Parameters
    ----------
    compute, loss, score : arrays (n,)
        FLOP, final loss in nats, downstream score, one entry per model.
    chance, ceiling : float
        Score from guessing and the best possible score, both known and not fitted.
    """
    c, loss_, s = (np.asarray(v, float).ravel() for v in (compute, loss, score))
    if not len(c) == len(loss_) == len(s):
        return _no_stages(len(c), chance, ceiling, "compute, loss and score differ in length")
    keep = np.isfinite(c) & np.isfinite(loss_) & np.isfinite(s)
    c, loss_, s = c[keep], loss_[keep], s[keep]
    law = fit_power_law(c, loss_, offset=True)
    if law.status == "failed" or len(np.unique(loss_)) < 4:
        return _no_stages(len(c), chance, ceiling, law.reason or "fewer than 4 distinct losses")
    bend = _fit_bend(loss_, s, chance, ceiling)
    pairs = []
    for draw in range(draws):
        index = rng(name="two-stage", draw=draw).integers(0, len(c), len(c))
        replicate = fit_power_law(c[index], loss_[index], offset=True)
        if replicate.status != "failed" and len(np.unique(loss_[index])) >= 3:
            pairs.append((replicate, _fit_bend(loss_[index], s[index], chance, ceiling)))
    return TwoStage(
        law, (float(bend[0]), float(bend[1])), chance, ceiling, len(c), tuple(pairs), law.status, law.reason
    )


def _sigmoid(bend: np.ndarray, loss: np.ndarray, chance: float, ceiling: float) -> np.ndarray:
    return chance + (ceiling - chance) / (1.0 + np.exp(np.clip(bend[0] * (loss - bend[1]), -60, 60)))


def _fit_bend(loss: np.ndarray, score: np.ndarray, chance: float, ceiling: float) -> np.ndarray:
    residual: Callable[[np.ndarray], np.ndarray] = lambda p: _sigmoid(p, loss, chance, ceiling) - score  # noqa: E731
    fits = [
        scipy.optimize.least_squares(residual, [slope, middle], x_scale=[1.0, float(np.std(loss))])
        for slope in (1.0, 5.0)
        for middle in np.quantile(loss, [0.1, 0.5, 0.9])
    ]
    return min(fits, key=lambda fit: fit.cost).x


def _no_stages(n: int, chance: float, ceiling: float, reason: str) -> TwoStage:
    law = fit_power_law(np.empty(0), np.empty(0))
    return TwoStage(law, (np.nan, np.nan), chance, ceiling, n, (), "failed", reason)
