"""Someone with a folder of their own and the README types five commands: each says what `matrix.py` says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.trainers.conftest import need, quiet_trainer
from tests.trainers.matrix import COMMANDS, STRANGERS, Answer, Stranger
from toposcope.cli.main import main

pytestmark = pytest.mark.slow
_NUMBER = r"[-−]?\d[\d.,]*(?:e[-−+]?\d+)?"
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
        return int(ended.value.code or 0), " ".join(re.split(r"\n\n|\n(?=[a-z0-9┏])", text)[0].split())

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
