"""`check --to`: the verdict on each run as one line in a tracker, and what happens if the tracker is down."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import toposcope as ts
from tests.check.written import falling, modded
from toposcope.cli.main import main
from toposcope.watch.sinks import Collected
from toposcope.watch.sinks.verdicts import LEVEL, send_verdicts


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    sound = falling()
    (folder / "sound.log").write_text(modded(sound))
    (folder / "lost.log").write_text(modded(np.where(np.arange(len(sound)) > 300, np.nan, sound)))
    return folder


def checked(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["check", *map(str, words)])
    return int(ended.value.code or 0)


def test_each_run_has_one_line_and_its_level_as_a_number(logs: Path) -> None:
    sink, answer = Collected(), ts.check(logs)
    assert send_verdicts(answer, sink) == ""
    assert [(one.run, one.values) for one in sink.sent] == [("lost", {LEVEL: 2.0}), ("sound", {LEVEL: 0.0})]
    assert [one.verdict for one in sink.sent] == [one.line for one in answer.runs]
    assert [bool(one.alarms) for one in sink.sent] == [True, False]  # a sound run raises no alert


def test_runs_of_one_name_are_told_apart(logs: Path) -> None:
    for name in ("a", "b"):
        (logs / name).mkdir()
        (logs / name / "train.log").write_text((logs / "sound.log").read_text())
    sink = Collected()
    send_verdicts(ts.check([logs / "a" / "train.log", logs / "b" / "train.log"]), sink)
    assert len({one.run for one in sink.sent}) == 2


def test_tensorboard_has_the_line_and_a_second_check_does_not_read_it(
    logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed: pip install tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert checked(logs, "--json", "--to", f"tensorboard:{logs / 'board'}") == 1
    first = json.loads(capsys.readouterr().out)
    lost = EventAccumulator(str(logs / "board" / "lost")).Reload()
    (line,) = lost.Tensors("toposcope/verdict")[0].tensor_proto.string_val
    assert line.decode() == first["runs"][0]["answer"]
    assert [one.value for one in lost.Scalars(LEVEL)] == [2.0]
    assert checked(logs, "--json") == 1
    again = json.loads(capsys.readouterr().out)
    assert again["answer"] == first["answer"]
    (event,) = (logs / "board" / "lost").iterdir()
    assert checked(event) == 2
    assert "holds only what toposcope has sent there" in capsys.readouterr().err


class Down(Collected):
    def send(self, summary: object) -> None:
        print("connecting")
        raise ConnectionError("refused\nby port 5000")


def test_a_tracker_that_is_down_is_one_line_after_the_answer(
    logs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("toposcope.watch.sinks.open_sink", lambda *_: Down())
    assert checked(logs / "sound.log", "--json", "--to", "wandb:project") == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["ok"] is True  # what the tracker prints does not mix with it
    wanted = "problem: the verdict on sound could not be sent to memory: ConnectionError: refused"
    assert printed.err.splitlines() == ["connecting", wanted]


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("wandb", "--to 'wandb': not KIND:WHERE"),
        ("holes:x", "--to 'holes:x': not KIND:WHERE"),
        ("wandb:x", "wandb is not installed"),
    ],
)
def test_a_tracker_that_cannot_be_opened_is_named_before_the_check(
    where: str, problem: str, logs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert checked(logs / "sound.log", "--to", where) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert problem in printed.err
