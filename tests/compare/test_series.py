"""Two series of checkpoints: whether they are one run, and otherwise where they part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import toposcope as ts
from toposcope.api import Comparison

NAMES = ("layers.0.attn.q.weight", "layers.0.mlp.fc1.weight", "layers.0.norm.weight")
STEPS = (0, 100, 200, 300)


def write_run(folder: Path, moved: dict[int, str] | None = None) -> Path:
    """Write a run that grows by a tenth a checkpoint; from a step on one tensor is another."""
    g = np.random.default_rng(0)
    folder.mkdir()
    start = {name: g.normal(size=(12, 8)).astype(np.float32) for name in NAMES[:2]}
    start[NAMES[2]] = np.ones(8, np.float32)
    for i, step in enumerate(STEPS):
        now = {name: value * np.float32(1 + 0.1 * i) for name, value in start.items()}
        for since, name in (moved or {}).items():
            if step >= since:
                now[name] = now[name] + np.float32(0.5)
        save_file(now, folder / f"step_{step}.safetensors")
    return folder


def compared(first: Path, second: Path) -> Comparison:
    made = ts.compare(first, second)
    assert isinstance(made, Comparison)
    return made


def test_equal_series_are_one_run_and_that_is_no_fault(tmp_path: Path) -> None:
    made = compared(write_run(tmp_path / "a"), write_run(tmp_path / "b"))
    assert made.ok
    assert made.line == "no matrix changed"
    assert "yes: the weights are equal bit for bit at all 4 common steps" in str(made)


@pytest.mark.parametrize("name", NAMES)
def test_a_fork_names_the_step_and_the_tensor(tmp_path: Path, name: str) -> None:
    made = compared(write_run(tmp_path / "a"), write_run(tmp_path / "b", {200: name}))
    parting = made.parting
    assert parting is not None
    assert (parting.last_equal, parting.first_apart, parting.tensor) == (100, 200, name)
    assert (parting.differing, parting.tensors) == (1, 3)
    assert "equal bit for bit up to step 100 and differ from step 200 on, in 1 of 3 tensors there" in str(
        made
    )


def test_of_two_tensors_the_one_that_is_further_apart_is_named(tmp_path: Path) -> None:
    far = {100: NAMES[1], 101: NAMES[0]}
    made = compared(write_run(tmp_path / "a"), write_run(tmp_path / "b", far))
    assert made.parting is not None
    assert (made.parting.first_apart, made.parting.tensor) == (100, NAMES[1])


def test_series_without_a_common_step_have_no_such_line(tmp_path: Path) -> None:
    first, second = write_run(tmp_path / "a"), write_run(tmp_path / "b")
    for step in STEPS:
        (second / f"step_{step}.safetensors").rename(second / f"step_{step + 7}.safetensors")
    made = compared(first, second)
    assert made.parting is None
    assert made.same_run == ""


def test_the_very_weights_of_one_checkpoint_are_a_fault_of_a_fine_tune(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a")
    made = compared(folder / "step_100.safetensors", write_run(tmp_path / "b") / "step_100.safetensors")
    assert not made.ok
    assert made.line.startswith("a fault of b: holds exactly the weights of the first")
