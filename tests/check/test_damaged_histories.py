"""A loss history that its name shows and that cannot be read is a named problem, whatever its name."""

import os

import numpy as np
import pytest
from safetensors.numpy import save_file

from toposcope.cli.main import main
from toposcope.logs import read_log
from toposcope.logs.folder import log_files
from toposcope.sources import open_series
from toposcope.sources.audit import audit

NAMES = (
    "trainer_state.json", "checkpoint-20/trainer_state.json", "training_log.json", "log.json", "metrics.csv",
    "train.log", "log.jsonl", "trainer_log.jsonl", "run.wandb", "metrics.tsv", "events.out.tfevents.1.host",
)  # fmt: skip
NESTED = "[" * 100_000


def a_device(path):
    path.symlink_to("/dev/zero")


def random_bytes(path):
    path.write_bytes(np.random.default_rng(0).bytes(5000))


def nesting(path):
    path.write_text(NESTED)


def no_list(path):
    path.write_text('{"global_step": 20, "log_history": null}')


def text(path):
    path.write_text('{"global_step": 20, "log_history": "none"}')


def numbers(path):
    path.write_text('{"global_step": 20, "log_history": [1, 2]}')


def a_list(path):
    path.write_text("[1, 2]")


def records_without_steps(path):
    path.write_text('{"global_step": 20, "log_history": [{"step": "x", "loss": "y"}]}')


def nothing(path):
    path.write_text("")


def a_link_to_nothing(path):
    path.symlink_to("gone")


def a_link_to_itself(path):
    path.symlink_to(path.name)


def a_link_outside(path):
    outside = path.parents[2] / "outside.csv"
    outside.write_text("step,loss\n1,2\n2,1\n")
    path.symlink_to(outside)


OF_ALL = (os.mkfifo, a_device, random_bytes, a_link_to_nothing, a_link_to_itself, a_link_outside)
OF_JSON = (nesting,)
OF_STATE = (no_list, text, numbers, a_list, records_without_steps, nothing, os.mkdir)
CASES = [
    (name, damage)
    for name in NAMES
    for damage in (*OF_ALL, *(OF_JSON if "json" in name else ()), *(OF_STATE if "state" in name else ()))
]


def run_folder(tmp_path):
    run = tmp_path / "run"
    for step in (10, 20):
        folder = run / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        matrix = np.arange(12, dtype=np.float32).reshape(4, 3) + step / 100
        save_file({"layers.0.mlp.fc1.weight": matrix}, folder / "model.safetensors")
    return run


@pytest.mark.parametrize(("name", "damage"), CASES)
def test_a_damaged_history_is_named(tmp_path, name, damage):
    run = run_folder(tmp_path)
    damage(run / name)
    faults = {one.fault: one.message for one in audit(open_series(run), cheap=True)}
    # a state that leads out of its checkpoint is told of once, with the checkpoint that cannot be read for it
    message = faults.get("unreadable-metrics", faults.get("unreadable", ""))
    assert name.partition(".")[0] in message or str(run) in message


@pytest.mark.parametrize("name", NAMES)
def test_a_check_and_a_watch_name_it(tmp_path, name, capsys):
    run = run_folder(tmp_path)
    random_bytes(run / name)
    words = ["--out", str(tmp_path / "store"), "--once", "--rest", "0", "--features", "updates"]
    for command in (["check", str(run)], ["watch", str(run), *words]):
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert ended.value.code == 1, command
        assert name.partition(".")[0] in "".join(capsys.readouterr()), command


def test_a_history_without_losses_yet_is_no_fault(tmp_path):
    run = run_folder(tmp_path)
    (run / "trainer_state.json").write_text('{"global_step": 20, "log_history": []}')
    (run / "train.log").write_text("")
    (run / "notes.csv").write_text("a,b\n1,2\n")
    (run / "metrics.json").write_text('{"accuracy": 0.5}')
    assert audit(open_series(run), cheap=True) == []


def test_a_history_is_named_for_the_run_that_it_lies_with(tmp_path):
    for name in ("a", "b"):
        os.rename(run_folder(tmp_path), tmp_path / name)
    random_bytes(tmp_path / "a" / "train.log")
    assert [one.run for one in audit(open_series(tmp_path), cheap=True) if one.fault.endswith("metrics")] == [
        "a"
    ]


def test_a_pipe_in_the_place_of_a_log_is_read_by_nobody(tmp_path):
    os.mkfifo(tmp_path / "train.log")
    (path,) = log_files(tmp_path)
    with pytest.raises(ValueError, match="not a regular file"):
        read_log(path)
