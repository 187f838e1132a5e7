"""The band of a fitted law is that of the regression it is, for every law of one quantity."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import curve_fit
from scipy.stats import t

from toposcope.scaling.band import law_band
from toposcope.scaling.table import law_points, law_table, predicted

SIZE = np.geomspace(3e3, 1e5, 7)


def _frame(floor: float, seed: int, noise: float = 0.004) -> pd.DataFrame:
    loss = floor + 40.0 * SIZE**-0.4
    return pd.DataFrame(
        {"parameters": SIZE, "loss": loss * np.exp(noise * np.random.default_rng(seed).standard_normal(7))}
    )


def _made(law: str, frame: pd.DataFrame, at: np.ndarray) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    fitted = law_table(frame, law)
    return fitted, *law_band(law, fitted, law_points(frame, law), pd.DataFrame({"size": at}))


@pytest.mark.parametrize("seed", [0, 1])
def test_a_law_without_floor_has_the_band_of_a_line(seed):
    frame, at = _frame(0.0, seed), np.geomspace(1e3, 1e6, 9)
    _, low, high = _made("power", frame, at)
    u, v, x = np.log(SIZE), np.log(frame["loss"]), np.log(at)
    slope, intercept = np.polyfit(u, v, 1)
    s = np.sqrt(np.sum((v - intercept - slope * u) ** 2) / 5)
    half = t.ppf(0.975, 5) * s * np.sqrt(1 / 7 + (x - u.mean()) ** 2 / np.sum((u - u.mean()) ** 2))
    assert np.log(high) == pytest.approx(intercept + slope * x + half, rel=1e-5)
    assert np.log(low) == pytest.approx(intercept + slope * x - half, rel=1e-5)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_law_with_a_floor_has_the_band_of_nonlinear_regression(seed):
    frame, at = _frame(1.5, seed), np.geomspace(2e3, 2e5, 9)
    fitted, low, high = _made("offset", frame, at)
    a, b, c = fitted.set_index("parameter")["value"][["scale", "exponent", "offset"]].to_numpy()

    def gradient(n):
        return np.column_stack([n**b, a * n**b * np.log(n), np.ones_like(n)])

    left = frame["loss"].to_numpy() - a * SIZE**b - c
    covariance = left @ left / 4 * np.linalg.inv(gradient(SIZE).T @ gradient(SIZE))
    half = t.ppf(0.975, 4) * np.sqrt(np.einsum("ij,jk,ik->i", gradient(at), covariance, gradient(at)))
    assert (high - low) / 2 == pytest.approx(half, rel=1e-4)
    free = curve_fit(lambda n, *p: p[0] * n ** p[1] + p[2], SIZE, frame["loss"], p0=(a, b, c), maxfev=20_000)
    assert free[0] == pytest.approx([a, b, c], rel=5e-2)
    assert (low + high) / 2 == pytest.approx(predicted("offset", fitted, pd.DataFrame({"size": at})))


def test_a_band_that_would_reach_0_stays_above_it():
    frame = _frame(1.5, 0)
    points, fitted = law_points(frame, "offset"), law_table(frame, "offset")
    at = pd.DataFrame({"size": np.geomspace(10, 1e9, 20)})
    low, high = law_band("offset", fitted, points, at, sigma=2.0)
    middle = predicted("offset", fitted, at)
    assert (low > 0).all()
    assert low * high == pytest.approx(middle**2)


def test_nothing_is_drawn_where_no_freedom_is_left_or_no_law_was_fitted():
    frame = _frame(0.0, 0).iloc[:2]
    fitted = pd.DataFrame({"parameter": ["scale", "exponent"], "value": [40.0, -0.4]})
    at = pd.DataFrame({"size": [1e4]})
    points = law_points(frame, "power")
    assert np.isnan(law_band("power", fitted, points, at)).all()
    failed = law_table(frame, "power")
    assert np.isnan(law_band("power", failed, points, at)).all()


def test_a_law_of_two_stages_and_one_of_two_losses_have_a_band():
    rng = np.random.default_rng(3)
    compute = np.geomspace(1e15, 1e19, 12)
    loss = 1.8 + 900.0 * compute**-0.18
    score = 1 / (1 + np.exp(4.0 * (loss - 2.4))) + 0.004 * rng.standard_normal(12)
    frame = pd.DataFrame({"flop": compute, "loss": loss * np.exp(0.002 * rng.standard_normal(12)),
                          "score": score, "heldout_loss": 0.3 + 1.1 * (loss - 1.0) ** 0.9})  # fmt: skip
    for law, name, gives in (("two-stage", "compute", "score"), ("loss-to-loss", "loss", "other")):
        fitted, points = law_table(frame, law, draws=5), law_points(frame, law)
        low, high = law_band(law, fitted, points, points[[name]])
        inside = (low <= points[gives]) & (points[gives] <= high)
        assert np.isfinite(low).all(), law
        assert (high > low).all()
        assert inside.mean() > 0.5, law
