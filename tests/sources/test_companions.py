"""What a policy's run is judged by is read from a folder of checkpoints as from its log."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

import toposcope as ts
from toposcope.sources import open_series
from toposcope.store import Store

STEPS = (10, 20, 30)


@pytest.fixture
def collapsed(tmp_path: Path) -> Path:
    """A GRPO run as transformers saves it, whose reward falls to 0 halfway."""
    draw = np.random.default_rng(0)
    steady = {"entropy": 3.8, "grad_norm": 1.0, "learning_rate": 1e-5}
    records = [
        {"step": n, "loss": draw.normal(0, 0.02), "reward": 4.0 * (n <= 60) + draw.normal(0, 0.1), **steady}
        for n in range(1, 121)
    ]
    for step in (40, 80, 120):
        place = tmp_path / "grpo" / f"checkpoint-{step}"
        place.mkdir(parents=True)
        save_file({"w": draw.normal(size=(8, 8)).astype("f4")}, place / "model.safetensors")
        state = {"global_step": step, "max_steps": 120, "log_history": records[:step]}
        (place / "trainer_state.json").write_text(json.dumps(state))
    return tmp_path / "grpo"


def test_a_folder_is_judged_as_its_log_is(collapsed: Path) -> None:
    of_folder, of_log = (
        ts.check(one).runs[0] for one in (collapsed, collapsed / "checkpoint-120" / "trainer_state.json")
    )
    assert of_folder.level == of_log.level != "all right"
    assert "reward" in of_folder.judgement.grounds[0].sentence
    assert of_folder.judgement.grounds[0].sentence == of_log.judgement.grounds[0].sentence


def test_a_store_keeps_them(collapsed: Path, tmp_path: Path) -> None:
    ts.measure(open_series(collapsed), tmp_path / "store", features="cheap")
    assert Store.open(tmp_path / "store").companions("grpo") is not None
    assert ts.check(tmp_path / "store").level == ts.check(collapsed).level


def test_lightning_names_them_in_its_table(tmp_path: Path) -> None:
    folder = tmp_path / "lightning_logs" / "version_0"
    (folder / "checkpoints").mkdir(parents=True)
    rows = pd.DataFrame({"step": range(1, 31), "train_loss": 0.1, "reward": 1.0, "epoch": 0})
    rows.to_csv(folder / "metrics.csv", index=False)
    for step in STEPS:
        save_file({"w": np.ones((4, 4), "f4") * step}, folder / "checkpoints" / f"step={step}.safetensors")
    (run,) = (series := open_series(tmp_path)).runs
    beside = series.companions(run.run)
    assert beside is not None
    assert beside["reward"].tolist() == [1.0] * 30
