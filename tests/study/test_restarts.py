"""Rows that a restart replaced are kept in a store, so that every answer from it can say the restart."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from toposcope.api import analyze, check
from toposcope.sources import open_series
from toposcope.store import Store
from toposcope.store.merge import merge
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.weights.options import WeightOptions
from toposcope.sweep import Execution, sweep

OPTIONS = WeightOptions(points=20, draws=1, nulls=1)


def _log(path: Path, lift: float = 0.4) -> None:
    """Write a log of 300 steps that was restarted at step 200 after it had reached step 240."""
    generator = np.random.default_rng(0)
    loss = 2 + 3 / np.sqrt(np.arange(1, 301)) + generator.normal(0, 0.02, 300)
    rows = [{"step": n, "loss": float(loss[n - 1])} for n in range(1, 241)]
    rows += [{"step": n, "loss": float(loss[n - 1]) + lift} for n in range(201, 301)]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("restarted") / "run"
    place.mkdir()
    _log(place / "train.jsonl")
    weights = np.random.default_rng(0).normal(size=(8, 8)).astype("float32")
    for step in (100, 200, 300):
        (place / f"checkpoint-{step}").mkdir()
        save_file(
            {"layers.0.mlp.fc1.weight": weights * step}, place / f"checkpoint-{step}" / "model.safetensors"
        )
    return place


def _stored(run: Path, out: Path, losses: str | pd.DataFrame | None = None) -> Store:
    store = Store.create(out, recipe=OPTIONS.recipe())
    series = open_series(run, losses=losses)
    sweep(series, weight_probes(["baselines"], OPTIONS), store, execution=Execution(quiet=True))
    return store


@pytest.mark.parametrize("given", [False, True])
def test_a_check_of_the_store_says_what_a_check_of_the_log_says(run, tmp_path, given):
    log = run / "train.jsonl"
    store = _stored(run, tmp_path / "store", str(log) if given else None)
    (said,) = [one for one in check(str(log)).runs[0].judgement.grounds if one.kind == "restart"]
    (stored,) = [one for one in check(str(store.path)).runs[0].judgement.grounds if one.kind == "restart"]
    assert said.sentence.startswith("restarted at step 201: the loss is 0.4 higher than the first time")
    assert stored == said


def test_an_analysis_of_the_store_says_it_and_a_merged_store_keeps_it(run, tmp_path):
    store = _stored(run, tmp_path / "store")
    assert "restarted at step 201: the loss is 0.4 higher" in str(analyze(str(store.path)))
    other = _stored(run, tmp_path / "other")
    merged, _ = merge([store, other], tmp_path / "both")
    kept = merged.replaced(merged.runs()["run"].iloc[0])
    assert kept is not None
    assert kept["step"].tolist() == list(range(201, 241))


def test_a_store_without_a_restart_has_no_such_rows(tmp_path):
    store = Store.create(tmp_path, recipe={})
    assert store.replaced("run") is None
