"""Someone with a folder of their own and the README types five commands: each says what `matrix.py` says."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_action_steps import Job
from tests.conftest import ROOT
from tests.trainers.conftest import need, quiet_trainer
from tests.trainers.matrix import COMMANDS, STRANGERS, Answer, Stranger
from toposcope.cli.main import main

pytestmark = pytest.mark.slow
_NUMBER = r"[-−]?\d[\d.,]*(?:e[-−+]?\d+)?"
FIVE, NANO = (next(one for one in STRANGERS if one.name == name) for name in ("five-seeds", "nanogpt"))
Ask = Callable[[Stranger, str], tuple[int, str, Path]]


def cells() -> list[object]:
    return [
        pytest.param(one, command, id=f"{one.name}-{command}",
                     marks=[pytest.mark.sample] if command in one.sampled else [])
        for one in STRANGERS
        for command in COMMANDS
    ]  # fmt: skip


@pytest.fixture(scope="session")
def strangers_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Stranger], Path]:
    """Return a stranger's folder; it is trained at the first use."""
    known: dict[str, Path] = {}

    def folder(stranger: Stranger) -> Path:
        need("torch", "transformers", *stranger.packages)
        if stranger.name not in known:
            with quiet_trainer():
                known[stranger.name] = stranger.make(tmp_path_factory.mktemp(stranger.name) / "mine")
        return known[stranger.name]

    return folder


@pytest.fixture
def ask(
    strangers_folder: Callable[[Stranger], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Ask:
    """Run a command beside a stranger's folder; return its exit code, its first line and the folder."""

    def run(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        said = capsys.readouterr()
        text = said.out or said.err
        ends = r"\n\n" if words[0] == "report" else r"\n\n|\n(?=[a-z0-9┏])"  # a report's title is wrapped
        return int(ended.value.code or 0), " ".join(re.split(ends, text)[0].split())

    def answer(stranger: Stranger, command: str) -> tuple[int, str, Path]:
        folder = strangers_folder(stranger)
        if command != "check":
            need(*stranger.for_weights)
        capsys.readouterr()  # what the trainer printed
        monkeypatch.chdir(folder.parent)
        weights = ["weights", folder.name, "--out", "STORE"]
        if command == "report" and not Path("STORE").exists():
            run(*weights)
        code, line = run(*{
            "check": ["check", folder.name],
            "audit": ["audit", folder.name],
            "weights": weights,
            "report": ["report", "STORE", "--out", "page"],
            "watch": ["watch", folder.name, "--once", "--out", "watched"],
        }[command])  # fmt: skip
        return code, line, folder

    return answer


def first_lines(readme: str) -> list[str]:
    """Return the lines of Python of the README up to the check of a log."""
    lines = readme.split("## From Python\n\n```python\n")[1].split("```")[0].splitlines()
    return lines[: next(n for n, line in enumerate(lines) if line.startswith("ts.check(")) + 1]


def assert_said(found: tuple[int, str, Path], answer: Answer) -> None:
    code, line, folder = found
    parts = re.split(r"(#|FOLDER|\.\.\.)", answer.line)
    meant = {"#": _NUMBER, "FOLDER": rf"(?:{re.escape(str(folder.parent))}/)?{folder.name}", "...": ".*"}
    pattern = "".join(meant.get(part, re.escape(part)) for part in parts)
    assert re.match(pattern, line), line
    assert code == answer.code


@pytest.mark.parametrize(("stranger", "command"), cells())
def test_the_first_line_is_true(stranger: Stranger, command: str, ask: Ask) -> None:
    assert_said(ask(stranger, command), stranger.answers[command])


def test_every_row_has_every_command() -> None:
    assert {tuple(one.answers) for one in STRANGERS} == {COMMANDS}


@pytest.mark.filterwarnings("ignore")  # those of a kernel are its own
def test_a_notebook_says_the_same(
    strangers_folder: Callable[[Stranger], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    jupyter = pytest.importorskip("jupyter_client.manager")
    need("ipykernel")
    folder = strangers_folder(FIVE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(one for one in sys.path if one))
    cell = "\n".join(first_lines((ROOT / "README.md").read_text())).replace("train.log", str(folder))
    shown: list[str] = []

    def collect(message: dict[str, Any]) -> None:
        if message["msg_type"] == "execute_result":
            shown.append(message["content"]["data"]["text/plain"])

    manager, client = jupyter.start_new_kernel(kernel_name="python3", startup_timeout=120)
    try:
        answer = client.execute_interactive(cell, output_hook=collect, timeout=240)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert answer["content"]["status"] == "ok", answer["content"]
    assert_said((1, shown[0].splitlines()[0], folder), FIVE.answers["check"])


@pytest.mark.sample
def test_a_job_of_ci_says_the_same(strangers_folder: Callable[[Stranger], Path], tmp_path: Path) -> None:
    folder = strangers_folder(NANO)
    job = Job(tmp_path, {"check": folder.name, "audit": folder.name, "fail-on": "look"})
    assert job.run(folder.parent, PIP_CALLS=str(tmp_path / "pip")) == 0, job.printed
    outputs = job.outputs["judge"]
    assert outputs["level"] == "all right"
    assert_said((0, outputs["sentence"], folder), NANO.answers["check"])
    assert f"$ toposcope audit {folder.name}" in job.summary


def test_a_job_of_ci_names_the_wrong_seed(
    strangers_folder: Callable[[Stranger], Path], tmp_path: Path
) -> None:
    folder = strangers_folder(FIVE)
    job = Job(tmp_path, {"check": folder.name, "fail-on": "look"})
    assert job.run(folder.parent, PIP_CALLS=str(tmp_path / "pip")) == 1
    assert job.outputs["judge"]["level"] == "look"
    assert_said((1, job.outputs["judge"]["sentence"], folder), FIVE.answers["check"])
