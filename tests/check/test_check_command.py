"""`toposcope check` as it is typed: exit codes, JSON, bad input, and a log that grows."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import toposcope as ts
from tests.check.written import diverging, falling, lost, modded, table, write
from tests.patience import PATIENCE, hears_ctrl_c
from toposcope.cli.main import main


def typed(*words) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["check", *map(str, words)])
    return ended.value.code


def test_exit_codes_say_how_it_went(tmp_path, capsys):
    good = write(tmp_path / "good.log", modded(falling()))
    ill = write(tmp_path / "ill.log", modded(diverging()))
    bad = write(tmp_path / "bad.log", "nothing\n")
    assert typed(good) == 0
    assert capsys.readouterr().out.startswith("all right: good.log at step 400 of 1,000 (loss ")
    assert typed(ill) == 1
    assert capsys.readouterr().out.startswith("stop: ill.log at step 400 of 1,000 (loss ")
    assert typed(bad) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"toposcope: error: {bad}: neither a store nor a log")
    assert captured.err.count("\n") == 1
    assert typed(good, bad) == 1
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0].endswith("; 1 problem with the input, listed below")
    assert captured.err.startswith(f"problem: {bad}: neither")


def logs_of(tmp_path, names: str, ill: str) -> list[Path]:
    return [write(tmp_path / f"{n}.log", modded(diverging() if n in ill else falling())) for n in names]


def test_many_runs_have_a_table_worst_first(tmp_path, capsys):
    assert typed(*logs_of(tmp_path, "abcd", "bd")) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "stop: 2 of 4 runs to stop (b.log, d.log), 2 all right"
    rows = [line for line in lines if line.startswith("│")]
    assert [name for row in rows if (name := row.split("│")[1].strip())] == [
        "b.log",
        "d.log",
        "a.log",
        "c.log",
    ]
    assert "where it ends" in next(line for line in lines if "answer" in line)
    assert sum(line.startswith("stop: b.log at step") for line in lines) == 1


@pytest.mark.parametrize(("names", "ill"), [("ab", "b"), ("ab", "ab"), ("abc", "")])
def test_a_few_runs_are_a_sentence_each_and_no_table(tmp_path, capsys, monkeypatch, names, ill):
    monkeypatch.setenv("COLUMNS", "80")
    typed(*logs_of(tmp_path, names, ill))
    out = capsys.readouterr().out
    assert "│" not in out
    for name in names:
        assert out.count(f": {name}.log at step 400") == 1
    assert max(map(len, out.splitlines())) <= 80


def test_runs_whose_table_does_not_fit_are_sentences(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    long = ["a-name-that-leaves-no-room-for-columns-" + n for n in "abcd"]
    typed(*(write(tmp_path / f"{name}.log", modded(falling())) for name in long))
    out = " ".join(capsys.readouterr().out.split())
    assert "│" not in out
    assert [out.count(f"{name}.log at step 400") for name in long] == [1] * 4
    assert "answer all right" not in out


@pytest.mark.parametrize("make", [falling, diverging, lost])
def test_json_text_and_python_agree(make, tmp_path, capsys):
    file = write(tmp_path / "a.log", modded(make()))
    found = ts.check(file)
    code = typed(file, "--json")
    told = json.loads(capsys.readouterr().out)
    assert typed(file) == code == (0 if found.ok else 1)
    text = capsys.readouterr().out
    assert text.splitlines()[0] == told["answer"] == told["runs"][0]["answer"] == found.line
    (run,), (mine,) = told["runs"], found.runs
    assert (run["level"], run["step"], run["planned_steps"]) == (mine.level, mine.step, mine.horizon)
    assert run["loss"] == (None if math.isnan(mine.loss) else mine.loss)
    assert [one["sentence"] for one in run["grounds"]] == [one.sentence for one in mine.judgement.grounds]
    assert (run["forecast"]["final_loss"], run["forecast"]["low"]) == (mine.forecast.final, mine.forecast.low)
    assert all(part in text for part in run["not_examined"])
    assert run["read"] in text


def test_options_reach_the_answer(tmp_path, capsys):
    file = write(tmp_path / "a.csv", table(falling()).replace("loss", "mine", 1))
    assert typed(file) == 2
    assert "--rename COLUMN=loss" in capsys.readouterr().err
    assert typed(file, "--rename", "mine=loss") == 0
    assert "give --horizon STEP for a forecast" in capsys.readouterr().out
    assert typed(file, "--rename", "mine=loss", "--horizon", 1000) == 0
    assert "at step 400 of 1,000" in capsys.readouterr().out
    assert typed(file, "--rename", "mine=loss", "--horizon", 100) == 1
    assert "horizon 100 is before its last logged step 400" in capsys.readouterr().out
    assert typed(file, "--rename", "mine") == 2
    assert typed(file, "--every", 0) == 2
    assert "--every 0: too short; give seconds above 0" in capsys.readouterr().err


def _line(process: subprocess.Popen) -> str:
    return process.stdout.readline()


def _put(file: Path, text: str) -> None:
    """Put a text in the place of a file at once: no look finds half of it."""
    os.replace(write(file.with_name("aside"), text), file)


@pytest.mark.parametrize("as_json", [False, True])
def test_follow_prints_a_line_when_the_answer_changes(as_json, tmp_path):
    file = write(tmp_path / "a.log", modded(falling(300)))
    command = [
        sys.executable, "-c", "from toposcope.cli.main import main; main()", "check", str(file), "--follow",
        "--every", "0.05", *(["--json"] if as_json else []),
    ]  # fmt: skip
    answer = (lambda line: json.loads(line)["answer"]) if as_json else str.strip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=hears_ctrl_c
    )
    try:
        assert answer(_line(process)).startswith("all right: a.log at step 300 of 1,000")
        _put(file, modded(np.concatenate([falling(300), falling(301)[300:]])))
        time.sleep(0.2)  # the answer is as it was, so that nothing is printed
        _put(file, modded(lost(since=301)))
        assert answer(_line(process)).startswith("stop: a.log at step 400 of 1,000 (loss nan)")
        _put(file, "torn")  # while it is written anew it is no log: nothing is said
        time.sleep(0.2)
        _put(file, modded(falling(400)))
        assert answer(_line(process)).startswith("all right: a.log at step 400 of 1,000")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, out, err) == (0, "", "")


def test_follow_refuses_what_is_no_log_at_the_first_look(tmp_path, capsys):
    assert typed(tmp_path / "none.log", "--follow") == 2
    assert "no such file or folder" in capsys.readouterr().err
