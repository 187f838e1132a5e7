"""What a watch cannot look at is a problem by name; "no alarm" is said of what was looked at alone."""

import json
import os
import shutil
import time

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.sources.test_odd_folders import ODD, checkpoints
from toposcope.cli.main import main
from toposcope.store import Store
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.weights.options import WeightOptions
from toposcope.watch._sidecar import Sidecar
from toposcope.watch.follow import Follower, tracker_step
from toposcope.watch.journal import Journal

OPTIONS = WeightOptions(points=20, draws=1, nulls=1)
PROBES = weight_probes(["updates"], OPTIONS)


def _sidecar(tmp_path, **options):
    store = Store.create(tmp_path / "store", recipe=OPTIONS.recipe())
    return Sidecar(Follower(tmp_path / "runs", rest=0, **options), store, PROBES)


def _once(capsys, tmp_path, *words):
    options = ["--out", tmp_path / "store", "--once", "--rest", "0", "--features", "updates", "--json"]
    with pytest.raises(SystemExit) as ended:
        main(["watch", *map(str, [tmp_path / "runs", *options, *words])])
    return ended.value.code, json.loads(capsys.readouterr().out)


def _age(path, seconds):
    for file in [path, *path.rglob("*")]:
        os.utime(file, (time.time() - seconds,) * 2)


@pytest.mark.parametrize("make", ODD)
def test_beside_an_odd_folder_the_good_ones_are_measured_and_it_is_named(tmp_path, make):
    runs = tmp_path / "runs"
    checkpoints(runs / "good", 10, 20)
    sidecar = _sidecar(tmp_path)
    sidecar.visit()
    make(runs)  # it appears while the watch goes on
    checkpoints(runs / "good", 30)
    events = sidecar.visit()
    assert [event.step for event in events if event.kind == "measured"] == [30]
    (unseen,) = [event for event in events if event.kind == "unseen"]
    assert "far" in unseen.data["place"] or "a\\b" in unseen.data["place"]
    assert len(sidecar.checked.problems) == 1
    assert not [event for event in sidecar.visit() if event.kind == "unseen"]  # told once
    assert len(sidecar.checked.problems) == 1  # and known as long as it lies there


def test_the_answer_the_json_and_the_exit_code_say_what_was_looked_at(tmp_path, capsys):
    checkpoints(tmp_path / "runs" / "2026-11-22T12:30:00", 10, 20)
    code, told = _once(capsys, tmp_path)
    assert code == 0
    assert told["answer"] == "no alarm in 2 checkpoints of 1 run"
    assert told["examined"]["2026-11-22T12:30:00"]["steps"] == [10, 20]
    assert told["not_examined"] == []
    (tmp_path / "runs" / "bad").mkdir()
    (tmp_path / "runs" / "bad" / "run.json").touch()
    for _ in range(2):  # it is a problem for as long as it lies there
        code, told = _once(capsys, tmp_path)
        assert code == 1
        assert told["answer"].startswith("no alarm in 2 checkpoints of 1 run, but 1 problem: ")
        (unseen,) = told["not_examined"]
        assert unseen["place"].endswith("/bad")
        assert unseen["problem"]


@pytest.mark.parametrize("there", [True, False])
def test_where_nothing_was_looked_at_nothing_is_said_of_alarms(tmp_path, capsys, there):
    if there:
        (tmp_path / "runs").mkdir()
    code, told = _once(capsys, tmp_path, *([] if there else ["--wait"]))
    assert (code, told["examined"]) == (1, {})
    assert told["answer"].startswith("nothing was checked")


def test_a_damaged_checkpoint_is_waited_for_and_is_a_problem_once_it_is_old(tmp_path, capsys):
    run = tmp_path / "runs"
    checkpoints(run, 10, 20)
    bad = run / "step_30.safetensors"
    bad.write_bytes((run / "step_20.safetensors").read_bytes()[:-9])
    code, told = _once(capsys, tmp_path)
    assert (code, told["problems"]) == (0, [])
    assert told["answer"] == "no alarm in 2 checkpoints of 1 run; 1 not complete yet"
    _age(run, 3600)
    for _ in range(2):
        code, told = _once(capsys, tmp_path)
        assert code == 1
        assert "step_30.safetensors" in told["answer"]
    checkpoints(run, 30)  # it is completed after all
    code, told = _once(capsys, tmp_path)
    assert (code, told["not_examined"]) == (0, [])
    assert told["examined"]["runs"]["steps"] == [10, 20, 30]


def test_a_checkpoint_whose_data_cannot_be_read_stays_a_problem_until_it_is_replaced(tmp_path, monkeypatch):
    checkpoints(tmp_path / "runs", 10)
    sidecar = _sidecar(tmp_path)

    def broken(*_, **__):
        raise OverflowError("a number that nothing holds")

    monkeypatch.setattr(sidecar, "_take", broken)
    (skipped,) = [event for event in sidecar.visit() if event.kind == "skipped"]
    assert "a number that nothing holds" in skipped.data["why"]
    again = _sidecar(tmp_path)
    again.visit()
    assert len(again.checked.problems) == 1
    time.sleep(0.01)
    checkpoints(tmp_path / "runs", 10)
    again.visit()
    assert not again.checked.problems
    assert again.checked.measured == {"runs": [10]}


def test_a_folder_of_other_files_that_states_a_step_is_no_checkpoint_in_trouble(tmp_path, capsys):
    for step in (10, 20):
        path = tmp_path / "runs" / f"checkpoint-{step}"
        path.mkdir(parents=True)
        save_file({"layers.0.mlp.fc1.weight": np.eye(4, dtype=np.float32) * step}, path / "model.safetensors")
    samples = tmp_path / "runs" / "samples_step_20"
    samples.mkdir()
    (samples / "0.png").write_bytes(b"png")
    _age(tmp_path / "runs", 3600)
    code, told = _once(capsys, tmp_path)
    assert code == 0
    assert [one["problem"] for one in told["not_examined"]] == [False]


@pytest.mark.parametrize("name", ["latest", "latest.txt"])
def test_a_tracker_that_is_no_file_is_never_read(tmp_path, name):
    os.mkfifo(tmp_path / name)
    assert tracker_step(tmp_path) is None
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    assert tracker_step(tmp_path) is None


def test_a_loss_history_that_cannot_be_read_is_named(tmp_path, capsys):
    checkpoints(tmp_path / "runs", 10)
    (tmp_path / "runs" / "training_log.json").write_text('{"a": ')
    code, told = _once(capsys, tmp_path)
    assert code == 1
    assert "training_log.json" in told["answer"]
    huge = "9" * 400
    (tmp_path / "runs" / "training_log.json").write_text(
        f'[{{"step": 1e23, "loss": 1}}, {{"step": 5, "loss": {huge}}}, {{"step": 6, "loss": 2.5}}]'
    )
    code, told = _once(capsys, tmp_path)
    assert told["problems"] == told["audit"]  # which has the loss that is not finite, too
    assert [(one["step"], one["sentence"]) for one in told["alarms"]] == [(5, "loss is not finite")]
    assert Store.open(tmp_path / "store").metrics()["step"].tolist() == [5, 6]


def test_a_name_by_which_a_trainer_writes_aside_is_neither_measured_nor_lost(tmp_path):
    sidecar = _sidecar(tmp_path)
    aside = tmp_path / "runs" / "tmp-checkpoint-10"
    aside.mkdir(parents=True)
    save_file({"layers.0.mlp.fc1.weight": np.eye(4, dtype=np.float32)}, aside / "model.safetensors")
    assert not [event for event in sidecar.visit() if event.kind in ("measured", "vanished")]
    aside.rename(tmp_path / "runs" / "checkpoint-10")
    assert [event.kind for event in sidecar.visit()] == ["measured"]


def test_a_measured_checkpoint_that_is_removed_file_by_file_is_not_lost(tmp_path):
    sidecar = _sidecar(tmp_path)
    for step in (10, 20):
        path = tmp_path / "runs" / f"checkpoint-{step}"
        path.mkdir(parents=True)
        save_file({"layers.0.mlp.fc1.weight": np.eye(4, dtype=np.float32) * step}, path / "model.safetensors")
        (path / "config.json").write_text("{}")
    sidecar.visit()
    old = tmp_path / "runs" / "checkpoint-10"
    (old / "model.safetensors").unlink()
    sidecar.visit()
    shutil.rmtree(old)
    assert not [event for event in sidecar.visit() if event.kind == "vanished"]
    assert not sidecar.checked.problems


@pytest.mark.parametrize("measured", [False, True])
def test_what_one_look_waits_for_and_the_next_does_not_find_is_named_once_over_restarts(tmp_path, measured):
    path = tmp_path / "runs" / "checkpoint-10"
    path.mkdir(parents=True)
    (path / "model.safetensors").write_bytes(b"\x10" + bytes(7) + b"{")
    assert [event.kind for event in _sidecar(tmp_path).visit()] == ["waiting"]
    if measured:
        weights = {"layers.0.mlp.fc1.weight": np.eye(4, dtype=np.float32)}
        save_file(weights, path / "model.safetensors")
        assert "measured" in [event.kind for event in _sidecar(tmp_path).visit()]
    shutil.rmtree(path)
    lost = [event for event in _sidecar(tmp_path).visit() if event.kind == "vanished"]
    assert [(event.run, event.step) for event in lost] == ([] if measured else [("runs", 10)])
    assert not [event for event in _sidecar(tmp_path).visit() if event.kind == "vanished"]


def test_a_run_that_cannot_be_read_for_a_while_loses_no_checkpoint(tmp_path):
    sidecar = _sidecar(tmp_path)
    run = tmp_path / "runs" / "a"
    checkpoints(tmp_path / "runs" / "b", 10)
    checkpoints(run, 10)
    sidecar.visit()
    (run / "step_20.safetensors").write_bytes(b"")
    sidecar.visit()
    (run / "run.json").touch()
    events = sidecar.visit()
    assert [event.kind for event in events] == ["unseen"]
    (run / "run.json").unlink()
    checkpoints(run, 20)
    told = [(event.kind, event.step, event.data.get("why")) for event in sidecar.visit()]
    assert told == [("measured", 20, None), ("unseen", None, "")]


def test_a_line_that_a_full_disk_cut_short_spoils_no_other(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "events.jsonl")
    journal.append("measured", "a", 1)
    write = os.write
    monkeypatch.setattr("toposcope.watch.journal.os.write", lambda fd, line: write(fd, line[:9]))
    with pytest.raises(OSError, match="No space left"):
        journal.append("measured", "a", 2)
    monkeypatch.setattr("toposcope.watch.journal.os.write", write)
    journal.append("measured", "a", 3)
    assert [event.step for event in Journal(journal.path).read()] == [1, 3]


def test_a_journal_that_is_gone_is_told(tmp_path, capsys):
    checkpoints(tmp_path / "runs" / "good", 10, 20)
    assert _once(capsys, tmp_path)[1]["problems"] == []
    (tmp_path / "store" / "watch" / "events.jsonl").unlink()
    code, answer = _once(capsys, tmp_path)
    (problem,) = answer["problems"]
    assert (code, "events.jsonl: the journal of an earlier watch is gone" in problem) == (1, True)


@pytest.mark.parametrize("line", ["lost", "[" * 5000, '{"number": 1}', "{}"])
def test_lines_of_a_journal_that_are_no_events_are_counted(tmp_path, capsys, line):
    checkpoints(tmp_path / "runs" / "good", 10, 20)
    _once(capsys, tmp_path)
    with (tmp_path / "store" / "watch" / "events.jsonl").open("a") as journal:
        journal.write(f"{line}\n")
    code, answer = _once(capsys, tmp_path)
    (problem,) = answer["problems"]
    assert (code, "1 line is no event and left out" in problem) == (1, True)


@pytest.mark.parametrize("cut", [3, 12, 60, -2])
def test_a_line_that_a_kill_left_incomplete_is_no_fault(tmp_path, capsys, cut):
    checkpoints(tmp_path / "runs" / "good", 10, 20)
    _once(capsys, tmp_path)
    journal = tmp_path / "store" / "watch" / "events.jsonl"
    with journal.open("a") as torn:
        torn.write(journal.read_text().splitlines()[-1][:cut])
    assert _once(capsys, tmp_path)[1]["problems"] == []


@pytest.mark.parametrize("links", [True, False])
def test_the_revisions_of_a_local_cache_of_the_hub_are_measured(tmp_path, links):
    cache = tmp_path / "runs" / "models--org--small"
    checkpoints(tmp_path / "made", 10, 20)
    for step, file in ((10, "step_10.safetensors"), (20, "step_20.safetensors")):
        blob, place = f"{step:064x}", cache / "snapshots" / f"{step:040x}" / "model.safetensors"
        for folder in (cache / "blobs", cache / "refs", place.parent):
            folder.mkdir(parents=True, exist_ok=True)
        (tmp_path / "made" / file).rename(cache / "blobs" / blob)
        (cache / "refs" / f"step{step}").write_text(f"{step:040x}")
        if links:
            place.symlink_to(f"../../blobs/{blob}")
        else:  # as git writes a link where the system has none
            place.write_text(f"../../blobs/{blob}")
    sidecar = _sidecar(tmp_path)
    assert [event.step for event in sidecar.visit() if event.kind == "measured"] == [10, 20]
    assert not sidecar.checked.problems


def test_the_answer_names_the_tensor_of_a_finding(tmp_path, capsys):
    for step in (10, 20):
        values = np.random.default_rng(1).normal(size=(8, 16)).astype(np.float32)
        (tmp_path / "runs").mkdir(exist_ok=True)
        save_file(
            {"layers.0.mlp.fc1.weight": values * step, "layers.0.mlp.fc2.weight": np.zeros_like(values)},
            tmp_path / "runs" / f"step_{step}.safetensors",
        )
    code, answer = _once(capsys, tmp_path)
    assert code == 1
    assert "zero-tensor: layers.0.mlp.fc2.weight" in answer["answer"]
