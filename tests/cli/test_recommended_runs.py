"""Commands that small real runs and their errors print are run as they were printed."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from tests.cli.test_recommended import NAMED
from tests.sweep.conftest import write_run_folder
from toposcope.cli.main import main

QUICK = ("--features", "baselines", "--no-audit")


def call(line: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run a command; return its exit code and all that it printed."""
    with pytest.raises(SystemExit) as ended:
        main(line)
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out + printed.err


def recommended_in(text: str) -> list[list[str]]:
    """Return the commands in what was printed: each from its name to the end of the line or a semicolon."""
    found = []
    for line in text.splitlines():
        if (at := NAMED.search(line)) is not None and line[at.start() - 1 : at.start()] != "`":
            found.append(shlex.split(line[at.start() :].split(";")[0])[1:])
    return found


def filled(line: list[str], **words: str) -> list[str]:
    """Put real names in the place of words in capitals."""
    return [words.get(word, word) for word in line]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a space in its name, with two runs and a store of the first."""
    folder = tmp_path / "my work"
    for name in ("one", "two"):
        write_run_folder(folder / "all runs" / name, range(0, 40, 10))
    monkeypatch.chdir(folder)
    return folder


def begun(*, known: bool) -> pd.DataFrame:
    """Return a table of a run in the middle of its schedule, and of one that is finished."""
    rng = np.random.default_rng(5)
    rows = []
    for run, count in (("done", 40), ("going", 24)):
        step = np.arange(1, count + 1) * 25
        rows.append(
            pd.DataFrame(
                {
                    "run": run,
                    "step": step,
                    "loss": 2 + 8 / np.sqrt(step + 20) + 0.01 * rng.standard_normal(count),
                    "lr": 1e-3 * (0.51 + 0.49 * np.cos(np.pi * step / 1000)),
                    "mine": np.cumsum(rng.standard_normal(count)),
                }
            )
        )
    table = pd.concat(rows)
    return table.assign(parameters=3000, tokens=table["step"] * 64) if known else table


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
def test_what_an_analysis_recommends_for_a_run_that_goes_on(
    known: bool, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun(known=known).rename(columns={"loss": "my loss"}).to_csv(place / "the log.csv", index=False)
    _, text = call(["analyze", "the log.csv", "--rename", "my loss=loss"], capsys)
    (line,) = recommended_in(text)
    assert ("--advise" in line) == known
    assert "9 in 10" in text or "no interval" in text  # never a number alone
    code, text = call(line, capsys)
    assert code in (0, 1), text
    assert "going" in text
    assert known or "last value" in text  # every method, as the sentence before the command says


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
def test_what_an_analysis_recommends_in_python(known: bool, place: Path) -> None:
    begun(known=known).rename(columns={"loss": "my loss"}).to_csv("the log.csv", index=False)
    said = repr(ts.analyze("the log.csv", rename={"my loss": "loss"}))
    assert "--" not in said.replace("--  ", "")  # the mark of a check that could not be made
    (line,) = [line for line in said.splitlines() if line.startswith("    toposcope.")]
    answer = eval(line, {"toposcope": ts})
    assert "going" in repr(answer)
    assert known == (".advise(" in line)
    assert known or "methods='all'" in line


@pytest.mark.parametrize("name", ["my log.txt", "my log.csv"])
def test_a_log_without_a_column_to_test(name: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    losses = [2 + 5 / step**0.5 for step in range(1, 201)]
    rows = {
        ".txt": [f"step:{step}/400 train_loss:{loss:.4f}" for step, loss in enumerate(losses, 1)],
        ".csv": ["step,mine", *(f"{step},{loss:.4f}" for step, loss in enumerate(losses, 1))],
    }
    (place / name).write_text("\n".join(rows[Path(name).suffix]))
    renamed = ["--rename", "mine=loss"] if name.endswith("csv") else []
    assert call(["analyze", name, *renamed], capsys)[0] == 0  # what its losses say
    code, text = call(["analyze", name, *renamed, "--table", "families"], capsys)
    assert code == 2
    (line,) = recommended_in(text)
    code, text = call(line, capsys)
    assert (code, text.startswith("all right: my log")) == (0, True), text


def test_what_a_check_of_a_store_without_losses_recommends(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log in the folder of a store is read by nobody: the measurement takes it in."""
    monkeypatch.setenv("COLUMNS", "1000")
    for metrics in Path("all runs").glob("*/metrics*"):
        shutil.rmtree(metrics) if metrics.is_dir() else metrics.unlink()
    measure = ["weights", "all runs/one", "--out", "the store", *QUICK]
    assert call(measure, capsys)[0] == 0
    code, text = call(["check", "the store"], capsys)
    assert (code, "to add it: toposcope weights SERIES --out 'the store'" in text) == (1, True)
    assert "--losses FILE" in text
    assert "into the folder" not in text
    Path("a log.csv").write_text("step,loss\n" + "".join(f"{step},{3 - step / 40}\n" for step in range(40)))
    assert call([*measure, "--losses", "a log.csv"], capsys)[0] == 0
    assert call(["check", "the store"], capsys)[0] == 0
    code, text = call(["check", "the store", "--column", "nosuch"], capsys)
    assert (code, "--column 'nosuch': no log has such a column; name one of loss" in text) == (2, True)


def test_a_log_without_a_plan_in_python(place: Path) -> None:
    losses = [2 + 5 / step**0.5 for step in range(1, 201)]
    Path("a.log").write_text("\n".join(f"step {n} loss {loss:.4f}" for n, loss in enumerate(losses, 1)))
    said = repr(ts.forecast("a.log"))
    assert "every run has ended" not in said
    assert "give `horizon` STEP for a forecast" in said
    assert repr(ts.forecast("a.log", horizon=400)).startswith("a may end ")


def test_a_folder_of_runs_that_was_meant_as_a_store(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = call(["analyze", "all runs"], capsys)
    assert code == 2
    (line,) = recommended_in(text)
    code, text = call([*line, *QUICK], capsys)
    assert code == 0, text
    assert Path(line[line.index("--out") + 1], "store.json").is_file()


def test_a_folder_that_holds_a_store(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["weights", "all runs", "--out", "demo/store", *QUICK], capsys)[0] == 0
    code, text = call(["forecast", "demo"], capsys)
    code, text = call(["analyze", "demo"], capsys)
    assert (code, "demo/store" in text) == (2, True)


@pytest.mark.parametrize("name", ["nothing", "nothing yet"])
def test_a_store_that_does_not_exist(name: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = call(["report", name, "--out", "page"], capsys)
    assert code == 2
    (line,) = recommended_in(text)
    assert call([*filled(line, SERIES="all runs"), *QUICK], capsys)[0] == 0


def test_a_table_that_does_not_exist_is_not_called_a_store(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = call(["analyze", "nothing.csv"], capsys)
    assert (code, recommended_in(text)) == (2, [])
    assert "nothing.csv: no such file or folder" in text


def test_one_store_to_merge(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for run in ("one", "two"):
        assert call(["weights", f"all runs/{run}", "--out", f"of {run}", *QUICK], capsys)[0] == 0
    code, text = call(["merge", "of one", "--out", "both"], capsys)
    assert code == 2
    (line,) = recommended_in(text)
    assert line[-2:] == ["--out", "both"]  # as it was typed
    code, text = call(filled(line, OTHER="of two"), capsys)
    assert code == 0, text


@pytest.mark.parametrize(
    "line",
    [
        "analyze", "audit", "weights runs", "report", "merge", "export store", "forecast --nosuch",
        "train --nosuch", "watch", "compare a", "synth", "landscape", "reproduce nosuch",
    ],
)  # fmt: skip
def test_a_usage_error_names_a_help_that_there_is(
    line: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = call(line.split(), capsys)
    assert code == 2
    for further in recommended_in(text):
        if "--help" in further:
            assert call(further, capsys)[0] == 0


@pytest.mark.parametrize("words", [[], ["--once"], ["--port", "0"], ["--out", "store"]])
def test_a_watch_of_nothing_ends_at_once(
    words: list[str], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "--port" in words:
        pytest.importorskip("uvicorn")
    code, text = call(["watch", "nosuch", *words], capsys)
    assert (code, len(text.splitlines())) == (2, 1)
    assert "nosuch" in text
    assert "--wait" in text
    assert not (place / "nosuch-watch").exists()


def test_a_watch_may_wait_for_its_folder(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = call(["watch", "later", "--wait", "--once", "--rest", "0"], capsys)
    assert code == 1  # nothing was checked, and no alarm is spoken of
    write_run_folder(place / "later" / "one", range(0, 20, 10))
    code, text = call(["watch", "later-watch", "--once", "--rest", "0", "--json"], capsys)
    assert code == 0
    assert '"measured"' in text


@pytest.mark.parametrize(
    ("steps", "named"),
    [("1:2", "0, 10, 20, 30"), ("100:", "0, 10, 20, 30"), ("1:9:3", "0, 10, 20, 30"), ("5", "0 to 30")],
)
def test_steps_where_there_is_no_checkpoint(
    steps: str, named: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = call(["weights", "all runs", "--steps", steps, "--out", "store", *QUICK], capsys)
    assert (code, len(text.splitlines())) == (2, 1)
    assert named in text
    assert not (place / "store").exists()


@pytest.mark.parametrize(
    ("steps", "kept"), [("10:20", 2), ("0:30:20", 2), (":10", 2), ("20:", 2), ("last", 1), ("0,30", 2)]
)
def test_steps_mean_what_the_help_says(
    steps: str, kept: int, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, text = call(["audit", "all runs", "--steps", steps], capsys)
    assert re.search(rf"\b{2 * kept} checkpoints", text), text


@pytest.mark.parametrize("command", ["audit", "analyze", "forecast", "export", "merge", "report", "weights"])
def test_a_path_that_does_not_exist_is_one_line(
    command: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = [] if command in ("audit", "analyze", "forecast") else ["--out", "out"]
    code, text = call([command, "no such place", *out], capsys)
    assert (code, len(text.splitlines())) == (2, 1)
    assert "no such place" in text
    assert not (place / "out").exists()
