"""The residuals of a series: numpy's numbers to the last bit, whether the rows come one by one or at once."""

import numpy as np
import pandas as pd
import pytest

from toposcope.logs.metrics import tidy
from toposcope.statistics.alarms.residuals import (
    FEWEST,
    HISTORY,
    LEVEL_WINDOW,
    OneStepAhead,
    tail_degrees,
    upper_tail,
)
from toposcope.watch.run_watch import RunWatch

FLOOR, QUARTILE = 0.1, 0.67449


def _series(kind):
    random = np.random.default_rng(3)
    return {
        "normal": random.standard_normal(400),
        "heavy": random.standard_t(2, 400),
        "ties": np.round(random.standard_normal(400), 1),
        "stands still": np.repeat(random.standard_normal(40), 10),
        "walk": random.standard_normal(400).cumsum(),
    }[kind].tolist()


def _by_numpy(value, values, residuals):
    """Return prediction, p and number of a value's past residuals, by numpy's median and quantile."""
    predicted, past = float(np.median(values[-LEVEL_WINDOW:])), np.abs(residuals)
    n, middle = len(past), float(np.median(past))
    if middle == 0:
        return predicted, 1.0, n
    far = np.quantile(past, min(1.0, 0.95 + 2.0 * np.sqrt(0.95 * (1.0 - 0.95) / n)))
    degrees = max(1.0, tail_degrees(np.full(n, far), middle))
    return predicted, upper_tail(value - predicted, float(np.hypot(middle, FLOOR * QUARTILE)), degrees), n


@pytest.mark.parametrize("kind", ["normal", "heavy", "ties", "stands still", "walk"])
def test_a_residual_has_the_medians_and_quantiles_of_numpy(kind):
    series, values, residuals, forgotten = OneStepAhead(floor=FLOOR, least_degrees=1.0), [], [], 0
    for value in _series(kind):
        found = series.update(value)
        assert (found is None) == (len(values) < LEVEL_WINDOW or len(residuals) < FEWEST)
        if found is not None:
            assert (found.predicted, found.p, found.n) == _by_numpy(value, values, residuals)
        if found is not None and found.p < 0.01:  # an alarm leaves the history, without what it pushed out
            series.forget()
            values, residuals = values[1 - LEVEL_WINDOW :], residuals[1 - HISTORY :]
            forgotten += 1
            continue
        if len(values) >= LEVEL_WINDOW:
            residuals = [*residuals, value - float(np.median(values[-LEVEL_WINDOW:]))][-HISTORY:]
        values = [*values, value]
    assert forgotten or kind in ("stands still", "walk")


def _broken_log(seed):
    random, n = np.random.default_rng(seed), 600
    step = np.arange(1, n + 1)
    loss = 2 + 5 / np.sqrt(step) + 0.02 * random.standard_normal(n)
    norm = np.exp(0.3 * random.standard_normal(n))
    for at in random.integers(40, n, 6):
        fault, length = int(random.integers(0, 6)), int(random.integers(1, 40))
        if fault == 0:
            loss[at : at + length] *= 3
        elif fault == 1:
            loss[at:] += 0.01 * np.arange(n - at)
        elif fault == 2:
            loss[at : at + length] = np.nan
        elif fault == 3:
            loss[at] = np.inf
        elif fault == 4:
            norm[at : at + length] *= 1e3
        else:
            norm[at : at + length] = np.nan
    return pd.DataFrame({"step": step, "loss": loss, "grad_norm": norm, "learning_rate": 1e-3})


@pytest.mark.parametrize("seed", range(8))
def test_a_watch_row_by_row_says_what_a_replay_of_all_rows_says(seed):
    rows = tidy(_broken_log(seed), "run")
    watch = RunWatch("run")
    one_by_one = [
        alert for place in range(len(rows)) for alert in watch.metrics(rows.iloc[place : place + 1])
    ]
    at_once = RunWatch("run").metrics(rows)
    assert at_once
    assert one_by_one == at_once
