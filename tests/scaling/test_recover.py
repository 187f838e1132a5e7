from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from toposcope.study import from_frame
from toposcope.study.recover import exponent_recovery, recover_exponents
from toposcope.synthetic import Spectrum, SyntheticRecipe, simulate
from toposcope.topology import neural_persistence, rips, summaries


def measured_family(a, b):
    recipe = SyntheticRecipe(Spectrum(a, b, 64), steps=200, batch=0, outputs=24, checkpoints=3)
    run = simulate(recipe, width=32)
    weights = run.weights[200]["function.weight"]
    bars = summaries(rips(weights.astype(float), maxdim=0)[0])
    half = run.metrics["loss"].iloc[100]
    return {
        "a": a, "b": b, "neural_persistence": neural_persistence(weights), "h0_total": np.log(bars["total"]),
        "h0_entropy": bars["entropy"], "norm": np.log(np.linalg.norm(weights)), "noise": 0.0,
        "loss": np.log(run.metrics["loss"].iloc[-1]), "loss_half": np.log(half),
    }  # fmt: skip


@pytest.mark.calibration
def test_topology_of_synthetic_runs_recovers_their_exponents_and_noise_does_not():
    random = np.random.default_rng(0)
    table = pd.DataFrame([measured_family(*random.uniform([1.3, 1.0], [2.2, 2.0])) for _ in range(24)])
    table["noise"] = random.normal(size=len(table))
    sets = {
        "topology": ("neural_persistence", "h0_total", "h0_entropy"),
        "norm": ("norm",),
        "loss": ("loss", "loss_half"),
        "noise": ("noise",),
    }
    rows = recover_exponents(table, sets).set_index(["features", "target"])
    assert rows.loc[("topology", "b"), "high"] < 0
    assert rows.loc[("topology", "b"), "null_p"] == 0.01
    assert rows.loc[("noise", "b"), "null_p"] > 0.05
    assert rows.loc[("noise", "a"), "high"] > 0
    assert rows.loc[("noise", "b"), "high"] > 0


def test_missing_columns_and_too_few_families_are_failed_rows():
    table = pd.DataFrame({"a": [1.0, 2.0], "x": [0.0, 1.0]})
    rows = recover_exponents(table, {"x": ("x",), "y": ("y",)}, targets=("a",))
    assert list(rows.status) == ["failed", "failed"]
    assert "2 usable families" in rows.reason[0]
    assert "no column 'y'" in rows.reason[1]


def series(known: bool):
    step, parts, runs = np.arange(0, 2001, 100), [], []
    for i, a in enumerate(np.linspace(1.3, 2.3, 8)):
        loss = 1.0 + (step + 1.0) ** (1 - a)
        parts.append(
            pd.DataFrame({"run": f"r{i}", "step": step, "loss": loss, "h0_total": a * np.log(step + 2.0)})
        )
        config = json.dumps({"a": a, "b": 3 - a, "time_exponent": 1 - a}) if known else "{}"
        runs.append({"run": f"r{i}", "family": f"f{i}", "parameters": 1000, "config": config})
    return from_frame(pd.concat(parts), features=["h0_total"], runs=pd.DataFrame(runs))


def test_exponents_come_from_the_recipe_where_known_and_from_the_loss_elsewhere():
    rows = exponent_recovery(series(known=True)).set_index(["target", "features"])
    assert set(rows.index) == {(t, f) for t in "ab" for f in ("topology", "loss", "size")}
    assert rows.loc[("a", "topology"), "mae"] < 0.2 * rows.loc[("a", "topology"), "mean_mae"]
    assert rows.loc[("b", "topology"), "null_p"] == 0.01
    fitted = exponent_recovery(series(known=False)).set_index(["target", "features"])
    assert set(fitted.index) == {("time_exponent", f) for f in ("topology", "loss", "size")}
    assert fitted.loc[("time_exponent", "topology"), "high"] < 0
    assert fitted.loc[("time_exponent", "size"), "high"] >= 0
