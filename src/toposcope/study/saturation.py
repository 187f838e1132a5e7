"""Fits saturating curves to features over training: rate, knee and asymptote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from toposcope.core.errors import InputError
from toposcope.core.forms import too_few_checkpoints
from toposcope.core.seeding import rng
from toposcope.study.table import SeriesTable
from toposcope.study.trends.verdicts import default_columns

FORMS = ("exponential", "hyperbolic")
GRID = 121
"""Time constants that are tried; the best is refined by a parabola between its neighbours."""
LEAST_POINTS = 8
"""Checkpoints of a fit of three parameters."""
QUANTITIES = ("start", "asymptote", "rate", "knee_step")
COLUMNS = (
    "run", "column", "form", *(f"{name}{end}" for name in QUANTITIES for end in ("", "_low", "_high")),
    "r2", "status", "reason",
)  # fmt: skip


def saturation_table(
    table: SeriesTable,
    *,
    columns: Sequence[str] | None = None,
    seen: float = 1.0,
    resamples: int = 400,
    level: float = 0.95,
) -> pd.DataFrame:
    """Fit v(s) = asymptote + (start - asymptote) g(s / tau) to every feature of every run.

    g(u) = exp(-u) or 1 / (1 + u), whichever leaves the smaller residual. `rate` = 1 / tau per step,
    `knee_step` is where nine tenths of the change are done (2.30 tau or 9 tau). Intervals: percentiles
    over a moving-block bootstrap of the residuals. A knee beyond the last step seen is reported as it is,
    with the status "extrapolated": the asymptote is then a guess about the future.

    Parameters
    ----------
    seen
        Share of each run's steps that is used: below 1 the fit can serve as a predictor.

    Examples
    --------
    >>> from toposcope.study.table import from_frame
    >>> step = np.arange(51) * 100.0
    >>> frame = pd.DataFrame({"step": step, "loss": 1.0, "f": 2.0 - np.exp(-step / 800)})
    >>> row = saturation_table(from_frame(frame)).iloc[0]
    >>> row["form"], round(1 / row["rate"]), round(float(row["asymptote"]), 2)
    ('exponential', 800, 2.0)
    """
    columns = default_columns(table) if columns is None else list(columns)
    rows: list[tuple[object, ...]] = []
    for run in table.run_names:
        frame = table.of_run(run)
        frame = frame[frame["step"] <= seen * frame["step"].max()]
        steps = frame["step"].to_numpy(float)
        for column in columns:
            rows.append((run, column, *_fit_series(steps, frame[column].to_numpy(float), resamples, level)))
    return pd.DataFrame(rows, columns=list(COLUMNS))


@dataclass(frozen=True, slots=True)
class Saturation:
    """A saturating curve: value at its first step, asymptote, rate per step, step of nine tenths done."""

    form: str
    start: float
    asymptote: float
    rate: float
    knee_step: float


def fit_saturation(steps: np.ndarray, values: np.ndarray) -> Saturation:
    """Fit v(s) = asymptote + (start - asymptote) g(s / tau) to one series, without intervals.

    `steps` (n,) ascends, `values` (n,) is finite; the forms are those of `saturation_table`. A constant
    series has the rate 0.

    Raises
    ------
    InputError
        With fewer than eight values.

    Examples
    --------
    >>> step = np.arange(51) * 100.0
    >>> fit = fit_saturation(step, 2.0 - np.exp(-step / 800))
    >>> fit.form, round(fit.asymptote, 2), round(1 / fit.rate)
    ('exponential', 2.0, 800)
    """
    if len(values) < LEAST_POINTS:
        raise InputError(
            f"values: {len(values):,} checkpoints; a saturating fit needs at least {LEAST_POINTS}"
        )
    if np.ptp(values) == 0:
        return Saturation("exponential", float(values[0]), float(values[0]), 0.0, float(steps[0]))
    span = float(steps[-1] - steps[0])
    form, start, asymptote, tau, _ = _better_form((steps - steps[0]) / span, values)
    return Saturation(form, *map(float, _quantities(form, start, asymptote, tau, span, steps[0])))


def _better_form(u: np.ndarray, values: np.ndarray) -> tuple[str, float, float, float, float]:
    """Return form, start, asymptote, tau and cost of the form with the smaller residual."""
    fits = [_best(form, u, values[:, None]) for form in FORMS]
    best = int(np.argmin([fit[3][0] for fit in fits]))
    start, asymptote, tau, cost = (float(part[0]) for part in fits[best])
    return FORMS[best], start, asymptote, tau, cost


def _fit_series(steps: np.ndarray, values: np.ndarray, resamples: int, level: float) -> tuple[object, ...]:
    keep = np.isfinite(values)
    steps, values = steps[keep], values[keep]
    if len(values) < LEAST_POINTS:
        return _nothing("failed", too_few_checkpoints(len(values), LEAST_POINTS))
    if np.ptp(values) == 0:
        return _nothing("degenerate", "the feature is constant")
    u = (steps - steps[0]) / (steps[-1] - steps[0])
    form, start, asymptote, tau, cost = _better_form(u, values)
    design = _shape(form, u, np.array([tau]))[:, 0]
    fitted = asymptote + (start - asymptote) * design
    samples = fitted[:, None] + _resampled(values - fitted, resamples)
    again = _best(form, u, samples)
    span = steps[-1] - steps[0]
    point = _quantities(form, start, asymptote, tau, span, steps[0])
    spread = _quantities(form, again[0], again[1], again[2], span, steps[0])
    cells: list[object] = []
    for value, draws in zip(point, spread, strict=True):
        cells += [float(value), *np.percentile(draws, [50 * (1 - level), 50 * (1 + level)])]
    r2 = 1.0 - cost / float(np.sum((values - values.mean()) ** 2))
    late = point[3] > steps[-1]
    reason = "nine tenths of the change lie beyond the last step seen" if late else ""
    return (form, *cells, r2, "extrapolated" if late else "ok", reason)


def _quantities(form, start, asymptote, tau, span, first):  # type: ignore[no-untyped-def]
    knee = np.log(10.0) if form == "exponential" else 9.0
    return start, asymptote, 1.0 / (tau * span), first + knee * tau * span


def _shape(form: str, u: np.ndarray, tau: np.ndarray) -> np.ndarray:
    scaled = u[:, None] / tau[None, :]
    return np.exp(-scaled) if form == "exponential" else 1.0 / (1.0 + scaled)


def _best(form: str, u: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return start, asymptote, tau and cost of each column of `values` (n, series).

    For a given tau the fit is linear; tau runs over a grid that is refined around each minimum by a
    parabola in log tau.
    """
    log_tau = np.linspace(np.log(0.5 / len(u)), np.log(5.0), GRID)
    level, rest = values.mean(axis=0), values - values.mean(axis=0)
    cost = np.stack([_linear(_shape(form, u, np.exp([t])), level, rest)[2] for t in log_tau])
    at = np.clip(cost.argmin(axis=0), 1, GRID - 2)
    pick = np.arange(values.shape[1])
    left, middle, right = cost[at - 1, pick], cost[at, pick], cost[at + 1, pick]
    bend = left - 2 * middle + right
    shift = np.where(bend > 0, 0.5 * (left - right) / np.where(bend > 0, bend, 1.0), 0.0)
    tau = np.exp(log_tau[at] + np.clip(shift, -1, 1) * (log_tau[1] - log_tau[0]))
    shapes = _shape(form, u, tau)
    slope, level, left = _linear(shapes, level, rest)
    return level + slope, level, tau, left


def _linear(
    shape: np.ndarray, mean: np.ndarray, rest: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Regress columns, as mean and rest, on shapes; return slope, intercept and sum of squared residuals."""
    middle = shape.mean(axis=0)
    centred = shape - middle
    slope = np.sum(centred * rest, axis=0) / np.sum(centred**2, axis=0)
    return slope, mean - slope * middle, np.sum((rest - slope * centred) ** 2, axis=0)


def _resampled(residual: np.ndarray, resamples: int) -> np.ndarray:
    from toposcope.statistics.trends.resampling import block_length  # compiled; forecasts do not need it

    n = len(residual)
    length = block_length(n)
    blocks = -(-n // length)
    starts = rng(name="saturation", n=n, draw=resamples).integers(0, n - length + 1, (blocks, resamples))
    index = (starts[:, None, :] + np.arange(length)[None, :, None]).reshape(-1, resamples)[:n]
    return residual[index] * np.sqrt(n / (n - 3.0))


def _nothing(status: str, reason: str) -> tuple[object, ...]:
    return ("", *(np.nan,) * (3 * len(QUANTITIES) + 1), status, reason)
