import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.check.written import falling, jsonl, spiked
from tests.patience import PATIENCE
from toposcope.cli.main import main
from toposcope.core.wording import typed_options
from toposcope.logs.metrics import empty
from toposcope.store import Store
from toposcope.watch import coverage, watching
from toposcope.watch.journal import Event, Journal
from toposcope.watch.losses import LossFile
from toposcope.watch.watch_answer import lines_of_visit

NAMES = [f"layers.{i}.mlp.fc{j}.weight" for i in range(3) for j in (1, 2)]


def _save(run, step, fault=False):
    path = run / f"checkpoint-{step}"
    path.mkdir(parents=True)
    random = np.random.default_rng(0)
    state = {name: random.normal(size=(12, 10)) for name in NAMES}
    for _ in range(step // 10):
        state = {name: value + 0.01 * random.normal(size=value.shape) for name, value in state.items()}
    if fault:
        state[NAMES[3]][0] = np.nan
    save_file({name: value.astype(np.float32) for name, value in state.items()}, path / "model.safetensors")


def _watch(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(["watch", *map(str, words)])
    return ended.value.code, capsys.readouterr()


def _options(tmp_path):
    return ["--out", tmp_path / "store", "--once", "--rest", "0", "--features", "updates"]


def test_one_long_look_says_that_it_goes_on(tmp_path, capsys, monkeypatch):
    from toposcope.core import progress

    monkeypatch.setattr(progress, "_PLAIN_EVERY_SECONDS", 0.001)
    _save(tmp_path / "run", 10)
    code, printed = _watch(capsys, tmp_path / "run", *_options(tmp_path))
    assert code == 0
    assert "reading the checkpoints: " in printed.err


def test_a_watch_within_a_test_leaves_the_test_its_priority(tmp_path, capsys):
    before = os.getpriority(os.PRIO_PROCESS, 0)
    _save(tmp_path / "run", 10)
    _watch(capsys, tmp_path / "run", *_options(tmp_path))
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_once_answers_first_and_goes_on_from_the_store(tmp_path, capsys):
    for step in (10, 20):
        _save(tmp_path / "run", step)
    code, printed = _watch(capsys, tmp_path / "run", *_options(tmp_path))
    assert code == 0
    assert printed.out.splitlines()[0] == "no alarm in 2 checkpoints of 1 run"
    assert "run step 20 measured (" in printed.out
    assert printed.out.splitlines()[-1] == f"store: {tmp_path / 'store'}"
    _save(tmp_path / "run", 30)
    code, printed = _watch(
        capsys, tmp_path / "store", "--once", "--rest", 0, "--json", "--features", "updates"
    )
    told = json.loads(printed.out)
    assert (code, told["answer"], told["alarms"]) == (0, "no alarm in 3 checkpoints of 1 run", [])
    assert [event["step"] for event in told["events"] if event["kind"] == "measured"] == [30]


def test_one_look_at_a_file_is_what_check_is_for(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.log").write_text(jsonl(falling()))
    code, printed = _watch(capsys, "train.log", "--once")
    assert code == 2
    assert printed.err.endswith("for one look at a file: toposcope check train.log\n")
    assert [path.name for path in tmp_path.iterdir()] == ["train.log"]


@pytest.mark.parametrize(("share", "nice"), [((), [10]), (("--cpu-share", "1"), [])])
def test_one_look_never_sleeps_and_gives_way_unless_it_has_a_whole_core(
    tmp_path, capsys, monkeypatch, share, nice
):
    asked, slept = [], []
    monkeypatch.setattr(watching.os, "nice", asked.append)
    monkeypatch.setattr(watching.time, "sleep", slept.append)
    _save(tmp_path / "run", 10)
    code, _ = _watch(capsys, tmp_path / "run", *_options(tmp_path), *share)
    assert (code, asked, [seconds for seconds in slept if seconds > 0]) == (0, nice, [])


def test_a_checkpoint_without_a_finite_tensor_is_an_alarm(tmp_path, capsys):
    for step in (10, 20):
        _save(tmp_path / "run", step)
    assert _watch(capsys, tmp_path / "run", *_options(tmp_path))[0] == 0
    _save(tmp_path / "run", 30)
    path = tmp_path / "run" / "checkpoint-30" / "model.safetensors"
    save_file({name: np.full((12, 10), np.nan, np.float32) for name in NAMES}, path)
    code, printed = _watch(capsys, tmp_path / "run", *_options(tmp_path), "--json")
    told = json.loads(printed.out)
    assert code == 1
    assert told["answer"].startswith("alarm: layers.0.mlp.fc1.weight holds NaN or infinite weights")
    (alarm,) = told["alarms"]
    assert (alarm["run"], alarm["step"], alarm["last_good"]) == ("run", 30, 20)
    _, printed = _watch(capsys, tmp_path / "run", *_options(tmp_path), "--json")
    assert json.loads(printed.out)["alarms"] == told["alarms"]  # written once


def test_one_spoilt_tensor_is_named_and_no_other_is(tmp_path, capsys):
    for step in (10, 20):
        _save(tmp_path / "run", step, fault=step == 20)
    options = [*_options(tmp_path)[:-1], "neural_persistence,baselines", "--json"]
    code, printed = _watch(capsys, tmp_path / "run", *options)
    told = json.loads(printed.out)
    assert code == 1
    assert told["answer"].startswith(f"alarm: {NAMES[3]} holds NaN or infinite weights; ")
    assert [one["name"] for one in told["alarms"][0]["culprits"]] == [NAMES[3]]


def test_spoilt_tensors_of_a_watched_checkpoint_are_told_together(tmp_path, capsys):
    _save(tmp_path / "run", 10, fault=True)
    path = tmp_path / "run" / "checkpoint-10" / "model.safetensors"
    wide = {f"layers.{i}.mlp.fc1.weight": np.full((8, 6), np.nan, np.float32) for i in range(12)}
    save_file(wide | {"layers.12.mlp.fc1.weight": np.ones((8, 6), np.float32)}, path)
    code, printed = _watch(capsys, tmp_path / "run", *_options(tmp_path)[:-1], "baselines", "--json")
    (measured,) = [one for one in json.loads(printed.out)["events"] if one["kind"] == "measured"]
    assert code == 1
    (problem,) = measured["problems"]
    assert "tensor 'layers.0.mlp.fc1.weight' holds NaN" in problem
    assert problem.endswith(
        "; so in 12 tensors (layers.0.mlp.fc1.weight, layers.1.mlp.fc1.weight, "
        "layers.10.mlp.fc1.weight and 9 more)"
    )


def test_an_alarm_is_the_exit_code_and_names_its_culprit(tmp_path, capsys):
    for step in (10, 20, 30):
        _save(tmp_path / "run", step, fault=step == 30)
    code, printed = _watch(capsys, tmp_path / "run", *_options(tmp_path), "--json")
    told = json.loads(printed.out)
    assert code == 1
    assert told["alarms"][0]["culprits"][0]["name"] == NAMES[3]
    assert told["alarms"][0]["last_good"] == 20
    assert told["answer"].startswith(f"alarm: {NAMES[3]} holds NaN")


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--cpu-share", "2"], "--cpu-share 2: not a share of one core"),
        (["--every", "0"], "--every 0: too short"),
        (["--rest", "-1"], "--rest -1: it must be at least 0"),
        (["--out", "RUN/inside"], "lies inside the watched folder"),
        (["--features", "holes"], "no such probe"),
    ],
)
def test_bad_options_are_one_line(tmp_path, capsys, words, match):
    _save(tmp_path / "run", 10)
    words = [word.replace("RUN", str(tmp_path / "run")) for word in words]
    code, printed = _watch(capsys, tmp_path / "run", *words, "--once")
    assert code == 2
    assert match in printed.err
    assert len(printed.err.splitlines()) == 1


def test_a_file_is_no_folder_to_watch(tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    code, printed = _watch(capsys, tmp_path / "file", "--once")
    assert code == 2
    assert "is a file" in printed.err


@pytest.mark.slow
def test_killed_again_and_again_it_ends_with_the_same_store(tmp_path, capsys):
    run = tmp_path / "run"
    command = [
        sys.executable, "-c", "from toposcope.cli.main import main; main()",
        "watch", str(run), "--out", str(tmp_path / "store"), "--rest", "0",
        "--every", "0.01", "--cpu-share", "1", "--features", "updates",
    ]  # fmt: skip
    for step in (10, 20, 30):
        _save(run, step)
        process = subprocess.Popen(command, env=dict(os.environ), stderr=subprocess.DEVNULL)
        limit = time.monotonic() + PATIENCE
        journal = Journal.of(tmp_path / "store")
        while not any(event.kind == "measured" and event.step == step for event in journal.read()):
            assert process.poll() is None
            assert time.monotonic() < limit
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if step > 10:
            shutil.rmtree(run / f"checkpoint-{step - 10}")
    table = Store.open(tmp_path / "store").features("updates", "update_norm")
    model = table[table["scope"] == "model"]
    assert model["step"].tolist() == [20, 30]
    assert (table["status"] == "ok").all()
    code, _ = _watch(capsys, run, *_options(tmp_path))
    assert code == 0


def test_a_loss_file_that_grows_and_names_of_ones_own_are_followed(tmp_path, capsys):
    run, log = tmp_path / "run", tmp_path / "log.jsonl"
    for step in (10, 20):
        _save(run, step)
        (run / f"checkpoint-{step}").rename(run / f"at{step}of900")
    words = [
        *_options(tmp_path),
        "--losses",
        log,
        "--rename",
        "val=heldout_loss",
        "--step-pattern",
        r"at(\d+)of",
    ]
    code, _ = _watch(capsys, run, *words)  # the file may come later than the checkpoints
    store = Store.open(tmp_path / "store")
    assert (code, sorted(set(store.features()["step"]))) == (0, [10, 20])
    lines = [json.dumps({"step": step, "loss": 3.0, "val": 3.5}) for step in (10, 20)]
    log.write_text("\n".join(lines) + "\n")
    assert _watch(capsys, run, *words)[0] == 0
    table = store.metrics()
    assert table["heldout_loss"].tolist() == [3.5, 3.5]
    assert table["run"].unique().tolist() == ["run"]
    with log.open("a") as file:
        file.write('{"step": 30, "lo')  # the trainer is at it
    code, printed = _watch(capsys, run, *words)
    assert (code, len(store.metrics())) == (0, 2), printed.err  # the line counts once it is whole


def test_a_loss_file_is_read_again_only_when_it_is_whole(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text('{"step": 1, "loss": 3.0}\n')
    followed = LossFile(log)
    assert followed.joined(empty(), "r")["loss"].tolist() == [3.0]
    with log.open("a") as file:
        file.write('{"step": 2, "lo')
    assert followed.joined(empty(), "r")["loss"].tolist() == [3.0]
    with log.open("a") as file:
        file.write('ss": 2.5}\n')
    assert followed.joined(empty(), "r")["loss"].tolist() == [3.0, 2.5]


@pytest.mark.parametrize("begun", ["", "step,loss\n"])
def test_a_log_without_a_first_row_is_waited_for(tmp_path, begun):
    log = tmp_path / "log.csv"
    log.write_text(begun)
    followed = LossFile(log)
    assert followed.joined(empty(), "r").empty
    log.write_text("step,loss\n1,3.0\n")
    assert followed.joined(empty(), "r")["loss"].tolist() == [3.0]


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--rename", "val=loss"], "--losses, which is not given; give --losses FILE as well"),
        (["--losses", "LOG", "--rename", "other=loss"], "--rename other=...: no such column"),
        (["--step-pattern", "step"], "has 0 groups; put one around the step"),
    ],
)
def test_what_cannot_be_read_off_names_and_columns_is_one_line(tmp_path, capsys, words, match):
    _save(tmp_path / "run", 10)
    (tmp_path / "log.csv").write_text("step,val\n1,2\n")
    words = [word.replace("LOG", str(tmp_path / "log.csv")) for word in words]
    code, printed = _watch(capsys, tmp_path / "run", *_options(tmp_path), *words)
    assert code == 2
    assert match in printed.err
    assert len(printed.err.splitlines()) == 1
    assert not (tmp_path / "store").exists()


def test_a_page_that_cannot_be_served_is_refused_before_anything_is_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("toposcope.watch.page.serve.find_spec", lambda name: None)
    _save(tmp_path / "run", 10)
    code, printed = _watch(capsys, tmp_path / "run", "--out", tmp_path / "store", "--port", "0")
    assert (code, len(printed.err.splitlines())) == (2, 1)
    assert "uvicorn is not installed; install it with: " in printed.err
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("planned", [None, 400])
def test_a_target_that_no_forecast_is_held_against_is_named_as_not_judged(tmp_path, capsys, planned):
    loss = 2 + 5 * np.arange(1, 201) ** -0.5
    for last in (100, 200):
        _save(tmp_path / "run", last)
        rows = [{"step": step, "loss": loss[step - 1]} for step in range(1, last + 1)]
        state = {"global_step": last, "log_history": rows} | ({"max_steps": planned} if planned else {})
        (tmp_path / "run" / f"checkpoint-{last}" / "trainer_state.json").write_text(json.dumps(state))
    _, printed = _watch(capsys, tmp_path / "run", *_options(tmp_path), "--target-loss", "2.3", "--json")
    unjudged = [one for one in json.loads(printed.out)["not_judged"] if "target" in one]
    looks = [event for event in Journal.of(tmp_path / "store").read() if event.kind == "look"]
    assert (len(unjudged), len(looks)) == ((0, 1) if planned else (1, 0))


CLIMB = np.concatenate([falling()[:200], falling()[200:] + np.linspace(0, 1.2, 200)])


@pytest.mark.parametrize(
    ("loss", "code", "answer"),
    [
        (falling(), 0, "no alarm in 2 checkpoints of 1 run"),
        (spiked(), 0, "no alarm in 2 checkpoints of 1 run; 1 alarm has passed"),
        (CLIMB, 1, "no alarm in 2 checkpoints of 1 run, but 1 problem: run: diverging: the loss rose from"),
    ],
)
def test_one_look_says_of_the_losses_what_a_check_says(tmp_path, capsys, monkeypatch, loss, code, answer):
    monkeypatch.delenv("COLUMNS", raising=False)  # lines as long as they are, as in a file
    for step in (10, 20):
        _save(tmp_path / "run", step)
    (tmp_path / "log.jsonl").write_text(jsonl(loss))
    words = [*_options(tmp_path), "--losses", tmp_path / "log.jsonl"]
    ended, printed = _watch(capsys, tmp_path / "run", *words)
    assert (ended, printed.out.splitlines()[0][: len(answer)]) == (code, answer)
    assert "next:" not in printed.out
    with pytest.raises(SystemExit) as checked:
        main(["check", str(tmp_path / "log.jsonl")])
    assert ("stop" in capsys.readouterr().out.split(":")[0]) == (loss is CLIMB)
    assert bool(checked.value.code) == (loss is CLIMB)


def _recommended(printed):
    """Return the words of the commands under "not judged"."""
    lines = [line for line in printed.out.splitlines() if line.startswith("not judged: ")]
    found = [re.search("toposcope (weights .*?)(;|$)", line) for line in lines]
    return [shlex.split(one[1]) for one in found if one is not None]


@pytest.mark.parametrize("feature", ["updates", "baselines"])
def test_updates_are_asked_for_only_where_they_were_left_out(tmp_path, capsys, monkeypatch, feature):
    """The command that measures them is typed as it is printed; then nothing is missing."""
    monkeypatch.setenv("COLUMNS", "1000")
    asked, store = [], tmp_path / "the store"
    words = ["--out", store, "--once", "--rest", "0", "--features", feature]
    for step in (10, 20, None):
        if step is not None:
            _save(tmp_path / "my run", step)
        _, printed = _watch(capsys, tmp_path / "my run", *words)
        asked.append("updates were not measured" in printed.out)
        for typed in _recommended(printed):
            if "--losses" not in typed:
                assert typed[1:] == [str(tmp_path / "my run"), "--out", str(store), "--features", "updates"]
                with pytest.raises(SystemExit) as ended:
                    main(typed)
                assert ended.value.code == 0, capsys.readouterr().err
    assert asked == [False, feature == "baselines", False]


@pytest.mark.parametrize("settings", [(), ("--draws", "2"), ("--preset", "seed004", "--points", "30")])
def test_what_a_measured_store_lacks_is_added_by_the_commands_that_a_watch_prints(
    tmp_path, capsys, monkeypatch, settings
):
    monkeypatch.setenv("COLUMNS", "1000")
    for step in (10, 20):
        _save(tmp_path / "run", step)
    (tmp_path / "log.csv").write_text("step,loss\n10,3\n20,2\n")
    with pytest.raises(SystemExit):
        main(["weights", str(tmp_path / "run"), "--out", str(tmp_path / "store"), "--features", "baselines",
              *settings])  # fmt: skip
    _, printed = _watch(capsys, tmp_path / "store", "--once", "--rest", "0")
    real = {"SERIES": str(tmp_path / "run"), "FILE": str(tmp_path / "log.csv")}
    commands = _recommended(printed)
    assert [words[4:6] for words in commands] == [["--features", "updates"], ["--losses", "FILE"]]
    for words in commands:
        with pytest.raises(SystemExit) as ended:
            main([real.get(word, word) for word in words])
        assert ended.value.code == 0
    capsys.readouterr()
    _, printed = _watch(capsys, tmp_path / "store", "--once", "--rest", "0")
    assert "updates were not measured" not in printed.out
    assert "is known" not in printed.out
    for unread in (["--losses", tmp_path / "log.csv"], ["--features", "baselines"], ["--diagrams"],
                   ["--out", tmp_path / "other"]):  # fmt: skip
        code, printed = _watch(capsys, tmp_path / "store", "--once", *unread)
        assert (code, len(printed.err.splitlines())) == (2, 1)  # it would have been read by nobody
        assert unread[0] in printed.err


def test_a_log_that_is_not_there_yet_is_not_asked_for_again(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    _save(tmp_path / "run", 10)
    _, printed = _watch(capsys, tmp_path / "run", *_options(tmp_path), "--losses", tmp_path / "no.log")
    assert f"{tmp_path / 'no.log'} does not exist yet" in printed.out
    assert "--losses" not in printed.out


def test_python_names_no_option_of_the_command_line(tmp_path):
    for step in (10, 20):
        _save(tmp_path / "run", step)
    options = watching.WatchOptions(features=["baselines"], rest=0, out=tmp_path / "store")
    with watching.Watching(tmp_path / "run", options) as watch:
        said = " ".join(watch.once().not_judged)
    assert f"toposcope.measure({str(tmp_path / 'run')!r}, {str(tmp_path / 'store')!r}" in said
    assert "--" not in said


def test_heads_of_parts_are_no_reason_for_a_file(tmp_path, capsys, monkeypatch):
    """A reading of some matrices has no heads for lack of a matrix, not of a number."""
    monkeypatch.setenv("COLUMNS", "1000")
    rng = np.random.default_rng(0)
    for step in (10, 20, 30):
        path = tmp_path / "run" / f"checkpoint-{step}"
        path.mkdir(parents=True)
        names = [f"model.layers.0.self_attn.{part}_proj.weight" for part in "qkvo"]
        save_file({name: rng.normal(size=(8, 8)).astype(np.float32) for name in names},
                  path / "model.safetensors")  # fmt: skip
    _, printed = _watch(capsys, tmp_path / "run", *_options(tmp_path), "--bytes-per-step", "300")
    assert "only a part of the matrices was read" in printed.out
    assert "num_attention_heads" not in printed.out


def test_what_a_store_of_a_loss_surface_lacks_is_measured_beside_it(tmp_path):
    store = Store.create(tmp_path / "store", recipe={"probe": "landscape", "n": 2})
    with typed_options():
        said = coverage._no_updates(store, None)
        losses = coverage._no_losses(store, None, None)
    assert said.endswith(f"toposcope weights SERIES --out {tmp_path / 'store-weights'} --features updates")
    assert losses == "repeat the command that made the store, with --losses FILE"


def test_the_alarms_of_one_event_are_one_block_the_plainest_first(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    for step in range(10, 210, 10):
        _save(tmp_path / "run", step)
    path = tmp_path / "run" / "checkpoint-200" / "model.safetensors"
    state = load_file(path)
    save_file({**state, NAMES[3]: state[NAMES[3]] * np.float32(5)}, path)
    code, printed = _watch(capsys, tmp_path / "run", "--out", tmp_path / "store", "--once", "--rest", "0")
    lines = printed.out.splitlines()
    alarms = [line for line in lines if line.startswith("alarm: run ")]
    assert code == 1
    assert alarms == [f"alarm: run step 200: {NAMES[3]} was multiplied by 5"]
    assert sum(line.startswith("    next: ") for line in lines) == 1
    assert any(line.startswith("    also: ") for line in lines)
    assert sum(NAMES[3] in line and "was multiplied by 5" in line for line in lines[1:]) <= 2, (
        "with its audit"
    )


def test_a_visit_reports_one_event_as_one_block():
    """Each alarm had a block, the least readable first, with a remedy and the same culprit each."""
    told = {"name": "fc", "sentence": "was multiplied by 5"}
    moved, content = (
        Event(1, "alarm", "a", 20, {"test": test, "sentence": sentence, "next": "do", "culprits": [told]})
        for test, sentence in (("matrix or head", "fc moved by 9"), ("content", "fc was multiplied by 5"))
    )
    said = [line for line, _ in lines_of_visit([moved, content])]
    assert said == ["alarm: a step 20: fc was multiplied by 5", "next: do", "also: fc moved by 9"]
