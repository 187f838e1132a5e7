"""Folders as launchers, links, crashes and other programs leave them beside good runs."""

import json
import os

import numpy as np
import pytest
from safetensors.numpy import save_file

from toposcope.core.errors import SourceError
from toposcope.logs.metrics import tidy
from toposcope.sources import open_series
from toposcope.sources.audit import audit


def checkpoints(run, *steps):
    """Write a run of plain files."""
    run.mkdir(parents=True, exist_ok=True)
    for step in steps:
        matrix = np.random.default_rng(step).normal(size=(4, 3)).astype(np.float32)
        save_file({"layers.0.mlp.fc1.weight": matrix}, run / f"step_{step}.safetensors")


def linked_away(runs):
    checkpoints(runs.parent / "disk" / "far", 10)
    (runs / "far").symlink_to(runs.parent / "disk" / "far")


def circle(runs):
    (runs / "far").symlink_to("far")


def looping(runs):
    (runs / "far").symlink_to("..", target_is_directory=True)


def dangling(runs):
    (runs / "far").symlink_to(runs.parent / "gone")


def backslash(runs):
    checkpoints(runs / "a\\b", 10)


def not_text(runs):
    checkpoints(runs / os.fsdecode(b"far\xff"), 10)


def empty_run_file(runs):
    (runs / "far").mkdir()
    (runs / "far" / "run.json").touch()


def foreign_run_file(runs):
    (runs / "far").mkdir()
    (runs / "far" / "run.json").write_text('{"id": 3}')


def run_file_of_odd_fields(runs):
    (runs / "far").mkdir()
    (runs / "far" / "run.json").write_text('{"run": "\\ud800", "seed": 1e30}')


def no_steps(runs):
    (runs / "far").mkdir()
    for name in ("encoder", "decoder"):
        save_file({"w": np.ones((2, 2), np.float32)}, runs / "far" / f"{name}.safetensors")


ODD = (
    linked_away, circle, looping, dangling, backslash, not_text, empty_run_file, foreign_run_file,
    run_file_of_odd_fields, no_steps,
)  # fmt: skip
"""What cannot be read, each beside good runs."""


@pytest.mark.parametrize("make", ODD)
def test_an_odd_folder_is_named_and_hides_no_run_beside_it(tmp_path, make):
    runs = tmp_path / "runs"
    checkpoints(runs / "good", 10, 20)
    make(runs)
    series = open_series(runs)
    assert series.steps == {"good": [10, 20]}
    (finding,) = series.findings
    assert "far" in finding.run or "a\\b" in finding.run
    assert finding in audit(series, cheap=True)
    finding.message.encode()  # it can be written


@pytest.mark.parametrize("make", ODD)
def test_an_odd_folder_alone_is_an_error_that_names_it(tmp_path, make):
    runs = tmp_path / "runs"
    runs.mkdir()
    make(runs)
    with pytest.raises(SourceError, match=r"far|a\\"):
        open_series(runs)


def test_names_with_colons_are_names(tmp_path):
    checkpoints(tmp_path / "runs" / "2026-11-22T12:30:00", 10)
    checkpoints(tmp_path / "runs" / "b", 10)
    series = open_series(tmp_path / "runs")
    assert series.steps == {"2026-11-22T12:30:00": [10], "b": [10]}
    assert not series.findings


def test_a_link_to_a_run_beside_it_is_not_a_second_run(tmp_path):
    runs = tmp_path / "runs"
    (runs / "group").mkdir(parents=True)
    (runs / "group" / "again").symlink_to("../run-3")
    (runs / "latest-run").symlink_to("run-3")
    checkpoints(runs / "run-3", 10, 20)
    series = open_series(runs)
    assert series.steps == {"run-3": [10, 20]}
    assert not series.findings


def test_a_run_file_of_another_program_hides_no_checkpoints(tmp_path):
    checkpoints(tmp_path / "run", 10)
    (tmp_path / "run" / "run.json").write_text('{"id": 3}')
    assert open_series(tmp_path / "run").steps == {"run": [10]}


def test_what_is_no_file_among_checkpoints_is_named(tmp_path):
    checkpoints(tmp_path / "run", 10)
    os.mkfifo(tmp_path / "run" / "step_20.safetensors")
    os.mkfifo(tmp_path / "run" / "control")  # states no step
    series = open_series(tmp_path / "run")
    assert series.steps == {"run": [10]}
    (finding,) = series.findings
    assert "step_20.safetensors: is not a regular file" in finding.message


def test_a_step_of_too_many_digits_is_named(tmp_path):
    checkpoints(tmp_path / "run", 10)
    (tmp_path / "run" / f"step_{10**23}.safetensors").touch()
    series = open_series(tmp_path / "run", step_pattern=r"step_(\d+)")
    assert series.steps == {"run": [10]}
    (finding,) = series.findings
    assert "1e+23" in finding.message


def test_a_checkpoint_that_states_an_impossible_step_is_refused(tmp_path):
    save_file(
        {"w": np.ones((2, 2), np.float32)}, tmp_path / "model.safetensors", metadata={"step": str(10**17)}
    )
    with pytest.raises(SourceError, match="from 0 to"):
        open_series(tmp_path / "model.safetensors")


def test_numbers_that_no_store_holds_spoil_no_other_row_of_a_history():
    huge = int("9" * 400)
    rows = [
        {"step": 1, "loss": 2.0, "tokens": 5}, {"step": 2, "loss": huge, "tokens": huge},
        {"step": 1e23, "loss": 1.0}, {"step": huge, "loss": 1.0}, {"step": 3, "loss": "none"},
    ]  # fmt: skip
    table = tidy(rows, "a")
    assert table["step"].tolist() == [1, 2, 3]
    assert table["loss"].tolist()[:2] == [2.0, float("inf")]
    assert np.isnan(table["loss"].iloc[2])
    assert table["tokens"].isna().tolist() == [False, True, True]


def test_a_configuration_may_begin_with_a_byte_order_mark(tmp_path):
    run = tmp_path / "checkpoint-10"
    run.mkdir()
    save_file({"w": np.ones((2, 2), np.float32)}, run / "model.safetensors")
    (run / "config.json").write_bytes(b"\xef\xbb\xbf" + json.dumps({"model_type": "gpt2"}).encode())
    series = open_series(tmp_path)
    assert series.config(series.names[0])["model_type"] == "gpt2"
