"""Small tables with known values, as the store and the analysis give them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

STEPS = (0, 100, 200, 400)
PARAMETERS = {"small": 1_000, "large": 10_000}


@pytest.fixture
def runs():
    return pd.DataFrame(
        {"run": list(PARAMETERS), "family": "gpt", "parameters": list(PARAMETERS.values()), "seed": 1}
    )


def _row(run, step, probe, feature, value, **more):
    base = {
        "scope": "model",
        "name": "model",
        "role": "model",
        "layer": None,
        "filtration": "",
        "draw": None,
        "status": "ok",
    }
    return {"run": run, "step": step, "probe": probe, "feature": feature, "value": value, **base, **more}


def _neural_persistence(run, step, bump):
    at = {"filtration": "seed004"}
    value = 0.4 + step / 4000 + bump
    yield _row(run, step, "neural_persistence", "neural_persistence", value, **at)
    for draw in range(5):
        shuffled = 0.3 + 0.01 * (draw - 2)
        yield _row(run, step, "neural_persistence", "neural_persistence_shuffled", shuffled, draw=draw, **at)
    yield _row(run, step, "neural_persistence", "neural_persistence_excess", value - 0.3, **at)
    for layer in (0, 1):
        matrix = {
            **at,
            "name": f"layers.{layer}.mlp.fc1.weight",
            "role": "mlp",
            "layer": layer,
            "scope": "matrix",
        }
        yield _row(run, step, "neural_persistence", "neural_persistence", value + layer, **matrix)
        yield _row(run, step, "neural_persistence", "neural_persistence_shuffled", 0.25, draw=0, **matrix)
    head = {**at, "name": "head.weight", "role": "head", "scope": "matrix"}
    yield _row(run, step, "neural_persistence", "neural_persistence", value + 2, **head)


@pytest.fixture
def features():
    rows = []
    for bump, run in enumerate(PARAMETERS):
        for step in STEPS:
            rows += _neural_persistence(run, step, 0.1 * bump)
            for draw in (0, 1, 2):
                for feature, factor in (("h0_total", 1.0), ("h1_total", 0.1), ("h0_total_scaled", 0.5)):
                    value = factor * (10 * (bump + 1) + step / 100 + draw - 1)
                    cloud = {
                        "name": "pooled",
                        "scope": "pooled",
                        "filtration": "euclidean",
                        "draw": draw,
                        "status": "subsampled",
                    }
                    rows.append(_row(run, step, "rips", feature, value, **cloud))
    return pd.DataFrame(rows)


@pytest.fixture
def metrics():
    rows = [
        {
            "run": run,
            "step": step,
            "loss": 5.0 - 0.005 * step - bump,
            "heldout_loss": 5.1 - 0.005 * step - bump if step in STEPS else np.nan,
        }
        for bump, run in enumerate(PARAMETERS)
        for step in range(401)
    ]
    return pd.DataFrame(rows)
