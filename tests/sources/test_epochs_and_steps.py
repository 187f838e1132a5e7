"""Checkpoints that are named by epoch stand beside no loss of a log that counts steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import toposcope as ts
from toposcope.sources import open_series


def saved(folder: Path, pattern: str, log: str) -> Path:
    folder.mkdir()
    (folder / "train.log").write_text(log)
    for n in range(4):
        values = np.random.default_rng(n).normal(size=(8, 8)).astype("f4")
        save_file({"w": values}, folder / f"{pattern.format(n)}.safetensors")
    return folder


STEPS = "".join(f"step {n} | loss {4 / (1 + n / 9):.4f}\n" for n in range(40))
EPOCHS = "epoch,loss\n" + "".join(f"{n},{4 / (1 + n):.4f}\n" for n in range(4))


@pytest.mark.parametrize(
    ("pattern", "log", "loss"),
    [
        ("epoch_{}", STEPS, False),
        ("model-epoch-{}", STEPS, False),
        ("epoch_{}", EPOCHS, True),
        ("step_{}", STEPS, True),
    ],
)
def test_a_loss_is_compared_where_both_count_the_same(
    tmp_path: Path, pattern: str, log: str, loss: bool
) -> None:
    folder = saved(tmp_path / "run", pattern, log)
    ts.measure(open_series(folder), tmp_path / "store", features="cheap")
    analysis = ts.analyze(tmp_path / "store")
    assert ("no loss or other target" in str(analysis)) is not loss
    assert any("counted in epochs" in note for note in analysis.problems) is not loss
