"""What is there and was not looked at is named: weights that belong to no checkpoint of a run."""

import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from toposcope.cli.main import main
from toposcope.core.observations import NOT_LOOKED_AT
from toposcope.sources import open_series, search, unseen
from toposcope.sources.audit import audit, audited


def saved(path, *, broken=False):
    """Write a file of weights; a broken one has NaN."""
    path.parent.mkdir(parents=True, exist_ok=True)
    matrix = (
        np.arange(12, dtype=np.float32).reshape(4, 3) + len(path.name) / 100 + sum(map(ord, path.name)) / 1e5
    )
    save_file({"layers.0.mlp.fc1.weight": matrix * (np.nan if broken else 1)}, path)


def steps(run, *numbers, broken=False):
    for number in numbers:
        saved(run / f"step_{number}.safetensors", broken=broken)


def not_looked_at(folder):
    return [one.message for one in open_series(folder).findings if one.fault == NOT_LOOKED_AT]


@pytest.mark.parametrize(
    "place",
    ["outputs/2026-01-01/12-00-00/checkpoints", "project/id/lightning_logs/version_0/checkpoints",
     "/".join("abcdefghijklmnopqrstuvwxyz")],
)  # fmt: skip
def test_runs_are_found_as_deep_as_they_are(tmp_path, place):
    steps(tmp_path / "runs" / "good", 10, 20)
    steps(tmp_path / "runs" / place, 10, 20, broken=True)
    series = open_series(tmp_path / "runs")
    assert len(series) == 4
    assert "non-finite" in {one.fault for one in audit(series, cheap=True)}


def test_a_search_that_ends_says_where(tmp_path, monkeypatch):
    monkeypatch.setattr(search, "MOST_FOLDERS", 5)
    steps(tmp_path / "runs" / "good", 10)
    for number in range(9):
        steps(tmp_path / "runs" / "a" / "b" / "c" / f"d{number}" / "e", 10, broken=True)
    messages = not_looked_at(tmp_path / "runs")
    assert any("more than 5 folders" in message for message in messages)
    assert any("e/step_10.safetensors" in message for message in messages)


def test_a_search_for_weights_that_ends_says_where(tmp_path, monkeypatch):
    monkeypatch.setattr(unseen, "MOST_FOLDERS", 5)
    steps(tmp_path / "run", 10)
    for number in range(9):
        (tmp_path / "run" / f"data{number}").mkdir()
    (message,) = not_looked_at(tmp_path / "run")
    assert "more than 5" in message


def test_a_folder_too_deep_is_named(tmp_path):
    steps(tmp_path / "runs" / "good", 10)
    steps(tmp_path.joinpath("runs", *["d"] * (search.DEEPEST + 1)), 10, broken=True)
    messages = not_looked_at(tmp_path / "runs")
    assert any(f"{search.DEEPEST + 1} folders deep" in message for message in messages)


def test_links_that_lead_to_each_other_end_no_search(tmp_path):
    runs = tmp_path / "runs"
    steps(runs / "good", 10)
    for here, there in (("a", "b"), ("b", "a")):
        (runs / here).mkdir()
        (runs / here / "other").symlink_to(f"../{there}", target_is_directory=True)
    series = open_series(runs)
    assert series.steps == {"good": [10]}
    assert all("contains the link" in one.message for one in series.findings)


def in_the_folder_beside(run):
    steps(run / "checkpoints", 400, broken=True)


def a_run_inside(run):
    steps(run / "again" / "deep", 10, broken=True)


def a_step_too_large(run):
    saved(run / f"step_{10**23}.safetensors", broken=True)


def a_step_below_zero(run):
    saved(run / "step_-5.safetensors", broken=True)


def a_name_that_is_not_utf8(run):
    saved(run / "x.safetensors", broken=True)
    os.rename(run / "x.safetensors", os.fsdecode(os.fsencode(run) + b"/last\xff.safetensors"))


def a_folder_of_another_name(run):
    saved(run / "_old" / "model.safetensors", broken=True)


def a_distributed_checkpoint(run):
    (run / "last").mkdir()
    (run / "last" / "__0_0.distcp").write_bytes(b"1")


def a_pipe(run):
    os.mkfifo(run / "final.safetensors")


def a_link_to_nothing(run):
    (run / "final.safetensors").symlink_to("gone")


def a_folder_with_names_in_upper_case(run):
    saved(run / "Final" / "MODEL.SAFETENSORS", broken=True)


BESIDE = (
    in_the_folder_beside, a_run_inside, a_step_too_large, a_step_below_zero,
    a_name_that_is_not_utf8, a_distributed_checkpoint, a_pipe, a_link_to_nothing,
)  # fmt: skip


@pytest.mark.parametrize("make", BESIDE)
@pytest.mark.parametrize("inside", [True, False])
def test_weights_beside_a_series_are_named(tmp_path, make, inside):
    run = tmp_path / "runs" / "run"
    steps(run, 0, 10)
    make(run)
    (message,) = not_looked_at(run if inside else run.parent)
    message.encode()
    assert str(run) in message


def test_a_copy_without_a_step_beside_a_series_is_looked_at(tmp_path, capsys):
    run = tmp_path / "run"
    steps(run, 0, 10)
    for name in ("best.safetensors", "model.safetensors", "ave_10best.safetensors"):
        saved(run / name)
    series = open_series(run)
    assert (series.steps, audit(series, cheap=True)) == ({"run": [0, 10]}, [])
    saved(run / "best.safetensors", broken=True)
    assert {(one.run, one.fault) for one in audit(open_series(run))} == {
        ("run/best.safetensors", "non-finite")
    }
    words = ["--out", str(tmp_path / "store"), "--once", "--rest", "0", "--features", "updates"]
    with pytest.raises(SystemExit) as ended:
        main(["watch", str(run), *words])
    assert ended.value.code == 1
    assert "best.safetensors" in capsys.readouterr().out
    saved(run / "best.safetensors")
    with pytest.raises(SystemExit) as ended:
        main(["watch", str(run), *words])
    assert ended.value.code == 0, capsys.readouterr()


EXPORTS = {
    "small-q4_k_m.gguf": "gguf_file", "model.onnx": "onnx.load", "onnx/model.onnx": "onnx.load",
    "flax_model.msgpack": "msgpack_restore", "tf_model.h5": "h5py", "64.tflite": "it was made from",
    "rust_model.ot": "it was made from", "model.mlmodel": "it was made from", "model.nemo": "tar xf",
    "model.pdparams": "paddle.load", "model.keras": "keras.saving", "step_10.gguf": "gguf_file",
}  # fmt: skip


def test_exports_beside_a_series_are_named_with_what_converts_them(tmp_path):
    run = tmp_path / "run"
    steps(run, 0, 10)
    (run / "onnx").mkdir()
    for name in EXPORTS:
        (run / name).write_bytes(b"1")
    answer = audited(open_series(run))
    assert answer.findings == []
    for name, remedy in EXPORTS.items():
        (one,) = [one for one in answer.coverage.beside.to_dict()["not_read"] if one["file"] == name]
        assert remedy in one["remedy"]
        format_line = [line for line in answer.coverage.lines if one["format"] in line]
        assert len(format_line) == 1
        assert format_line[0].startswith("not read: ")


def test_exports_in_the_folder_of_a_model_are_named(tmp_path):
    saved(tmp_path / "m" / "model.safetensors")
    (tmp_path / "m" / "tf_model.h5").write_bytes(b"1")
    answer = audited(open_series(tmp_path / "m"))
    assert answer.findings == []
    assert any(line.startswith("not read: tf_model.h5: HDF5") for line in answer.coverage.lines)


def test_a_step_that_only_a_foreign_file_has_is_a_finding(tmp_path):
    run = tmp_path / "run"
    steps(run, 0, 10)
    (run / "step_20.msgpack").write_bytes(b"1")
    (message,) = not_looked_at(run)
    assert "step_20.msgpack" in message


@pytest.mark.parametrize("make", [a_folder_of_another_name, a_folder_with_names_in_upper_case])
def test_a_folder_without_a_step_beside_a_series_is_looked_at(tmp_path, make):
    steps(tmp_path / "run", 0, 10)
    make(tmp_path / "run")
    assert {one.fault for one in audit(open_series(tmp_path / "run"))} == {"non-finite"}


def test_a_copy_that_cannot_be_read_is_named(tmp_path):
    run = tmp_path / "run"
    steps(run, 0, 10)
    (run / "best.safetensors").write_bytes(b"cut")
    (finding,) = audit(open_series(run), cheap=True)
    assert (finding.run, finding.fault) == ("run/best.safetensors", "unreadable")


def test_what_no_run_has_fails_a_check_an_audit_and_a_watch(tmp_path, capsys):
    run = tmp_path / "run"
    steps(run, 0, 10)
    rows = "".join(f"{step},{3 - step / 100}\n" for step in range(1, 31))
    (run / "log.csv").write_text("step,loss\n" + rows)
    in_the_folder_beside(run)
    words = ["--out", str(tmp_path / "store"), "--once", "--rest", "0", "--features", "updates"]
    for command in (["check", str(run)], ["audit", str(run)], ["watch", str(run), *words]):
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert ended.value.code == 1, command
        assert "step_400" in capsys.readouterr().out, command


def test_a_suffix_in_upper_case_is_a_suffix(tmp_path):
    steps(tmp_path / "run", 10)
    saved(tmp_path / "run" / "step_20.SafeTensors")
    series = open_series(tmp_path / "run")
    assert series.steps == {"run": [10, 20]}
    assert audit(series, cheap=True) == []


def optimizer(run):
    for name in ("optimizer.safetensors", "Scheduler.pt", "rng_state_0.pth", "training_args.bin"):
        (run / name).write_bytes(b"P")


def tokens(run):
    (run / "data").mkdir()
    (run / "data" / "val.bin").write_bytes(np.arange(100, dtype=np.uint16).tobytes())


def hidden(run):
    saved(run / ".cache" / "model.safetensors")


def a_store(run):
    saved(run / "store" / "watch" / "held" / "x" / "model.safetensors")
    (run / "store" / "store.json").write_text("{}")


def a_link_to_a_checkpoint(run):
    (run / "latest.safetensors").symlink_to("step_10.safetensors")


def states_of_deepspeed(run):
    saved(run / "checkpoint-20" / "model.safetensors")
    (run / "checkpoint-20" / "global_step20").mkdir()
    (run / "checkpoint-20" / "global_step20" / "mp_rank_00_model_states.pt").write_bytes(b"P")


def shards(run):
    for part in (1, 2):
        save_file({f"part{part}": np.ones((2, 2), np.float32)}, run / f"step_20_rank{part}.safetensors")


@pytest.mark.parametrize(
    "make", [optimizer, tokens, hidden, a_store, a_link_to_a_checkpoint, states_of_deepspeed, shards]
)
def test_what_trainers_save_beside_weights_is_not_named(tmp_path, make):
    steps(tmp_path / "run", 0, 10)
    make(tmp_path / "run")
    assert not_looked_at(tmp_path / "run") == []


def test_a_checkpoint_folder_is_one_thing_unless_a_name_states_another_step(tmp_path):
    run = tmp_path / "run"
    saved(run / "checkpoint-10" / "model.safetensors")
    saved(run / "checkpoint-10" / "ema" / "weights.safetensors")
    assert not_looked_at(run) == []
    steps(run / "checkpoint-10" / "more", 30)
    (message,) = not_looked_at(run)
    assert "step_30.safetensors" in message


def test_a_model_in_the_folder_of_a_model_is_named(tmp_path):
    saved(tmp_path / "m" / "model.safetensors")
    saved(tmp_path / "m" / "other" / "model.safetensors", broken=True)
    (message,) = not_looked_at(tmp_path / "m")
    assert str(Path("m") / "other") in message


@pytest.mark.parametrize(
    "name",
    ["step_30.safetensors.bak", "step_30.pt.gz", "step_30.zip", "step_30.safetensors.1", "step_30",
     "final.npy", "model.bin", "last.pkl", "CKPT.tar"],
)  # fmt: skip
def test_weights_that_are_packed_or_set_aside_are_named(tmp_path, name):
    steps(tmp_path / "run", 0, 10)
    (tmp_path / "run" / name).write_bytes(b"\1\0\0\0" * 2000)
    (finding,) = audit(open_series(tmp_path / "run"), cheap=True)
    assert name in finding.message


@pytest.mark.parametrize(
    "name",
    [
        "step_30.json",
        "step_30.png",
        "samples_step_30.txt",
        "step_30.pt.sha256",
        "step_30.pt.tmp",
        "vocab.pkl",
        "latest",
        "step_31",
    ],
)
def test_what_belongs_to_a_step_and_is_no_weights_is_not_named(tmp_path, name):
    steps(tmp_path / "run", 0, 10)
    (tmp_path / "run" / name).write_bytes(b"\1\0\0\0")
    assert open_series(tmp_path / "run").findings == ()


def test_weights_beside_the_tables_of_a_store_are_named(tmp_path):
    steps(tmp_path / "runs" / "good", 0, 10)
    steps(tmp_path / "runs" / "store", 10, broken=True)
    (tmp_path / "runs" / "store" / "store.json").write_text("{}")
    (message,) = not_looked_at(tmp_path / "runs")
    assert "step_10.safetensors" in message


@pytest.mark.parametrize("name", ["step_30", "step_30.safetensors", "checkpoint-30"])
def test_an_empty_folder_of_a_step_beside_files_of_steps_is_named(tmp_path, name):
    steps(tmp_path / "run", 10, 20)
    (tmp_path / "run" / name).mkdir()
    (message,) = not_looked_at(tmp_path / "run")
    assert name in message
    assert "empty" in message


def test_an_empty_folder_that_states_no_step_is_no_finding(tmp_path):
    steps(tmp_path / "run", 10, 20)
    (tmp_path / "run" / "plots").mkdir()
    assert not not_looked_at(tmp_path / "run")


def lightning(folder):
    steps(folder / "version_0" / "checkpoints", 10, 20)
    (folder / "version_0" / "hparams.yaml").write_text("lr: 0.1\n")


def folder_of_runs(folder):
    steps(folder / "a", 10, 20)
    steps(folder / "b" / "c", 10, 20)


def with_copy(folder):
    steps(folder, 10, 20)
    saved(folder / "best.safetensors")


def with_empty_step(folder):
    steps(folder, 10, 20)
    (folder / "step_30").mkdir()


def with_an_odd_one(folder):
    steps(folder / "a", 10, 20)
    saved(folder / "misc" / "one.safetensors")
    saved(folder / "loose.safetensors")


@pytest.mark.parametrize("make", [lightning, folder_of_runs, with_copy, with_empty_step, with_an_odd_one])
def test_the_folder_that_one_is_in_is_read_like_any_other(make, tmp_path, monkeypatch):
    make(tmp_path / "runs")
    outside = open_series(tmp_path / "runs")
    monkeypatch.chdir(tmp_path / "runs")
    inside = open_series(".")
    assert [(one.run, one.step) for one in inside] == [(one.run, one.step) for one in outside]
    assert [one.run.run for one in inside.beside.copies] == [one.run.run for one in outside.beside.copies]
    place = str(tmp_path / "runs")
    messages = [one.message.replace(f"{place}/", "").replace(place, ".") for one in outside.findings]
    assert [one.message for one in inside.findings] == messages
