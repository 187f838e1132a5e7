"""The fading of the annealing law, chosen on many finished runs of one size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toposcope.forecasting.annealing import DEFAULT, Runs, Shape, drive, fit_multi_power
from toposcope.logs.curve import Binned

SHAPES = tuple(Shape(kappa=kappa) for kappa in (0.0, 0.05, 0.1, 0.2))
"""The candidates of `choose_shape`: the published shape and three strengths of fading."""


def choose_shape(runs: Runs, shapes: Sequence[Shape] = SHAPES) -> Shape:
    """Return the shape that best predicts each of `runs` from the others (mean absolute error of log L).

    `runs` are finished runs of one size under different schedules, without the run to be forecast. The
    choice is noisy: with fewer than six runs, `DEFAULT` is returned.
    """
    if len(runs) < 6:
        return DEFAULT
    runs = [(_thinned(losses), schedule) for losses, schedule in runs]
    return min(shapes, key=lambda shape: _held_out_error(runs, shape))


def _thinned(losses: Binned, points: int = 80) -> Binned:
    stride = max(1, len(losses.step) // points)
    return Binned(losses.step[::stride], losses.loss[::stride], losses.count[::stride])


def _held_out_error(runs: Runs, shape: Shape) -> float:
    errors = []
    together = fit_multi_power(runs, shape=shape).theta
    for i, (losses, schedule) in enumerate(runs):
        fit = fit_multi_power([run for j, run in enumerate(runs) if j != i], shape=shape, start=together)
        predicted = np.maximum(fit.losses(drive(schedule, losses.step)), 1e-3)
        errors.append(float(np.mean(np.abs(np.log(predicted / losses.loss)))))
    return float(np.mean(errors))
