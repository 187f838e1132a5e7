"""The README: the lines for a shell run as they stand there, and it is short before its section "More"."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest

from toposcope.cli.main import main

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_it_has_at_most_two_screens_before_more() -> None:
    before = README.split("\n## More")[0].splitlines()
    assert len(before) <= 100
    assert max(map(len, before)) <= 200


def test_the_first_screen_is_what_the_command_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    block = re.search(r"```console\n\$ toposcope check seed\*/train.log\n(.*?)```", README, re.S)
    assert block is not None
    screen = Path(__file__).parents[1] / "docs" / "screens" / "five_seeds.py"
    monkeypatch.setattr("sys.argv", [str(screen), str(tmp_path)])
    runpy.run_path(str(screen))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    with pytest.raises(SystemExit) as ended:
        main(["check", *(f"seed{seed}/train.log" for seed in range(11, 16))])
    assert ended.value.code == 1
    assert capsys.readouterr().out == block[1]


@pytest.mark.slow
def test_the_lines_for_a_shell_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    few = [word for one in ("steps=12", "checkpoint_every=2", "warmup_steps=2") for word in ("--set", one)]
    train = ["train", "--recipe", "demo", "--models", "tiny-3k,small-7k,med-21k", "--jobs", "1", *few]
    (tmp_path / "train.log").write_text("".join(f"step {n} loss {5 / (n + 2):.4f}\n" for n in range(200)))
    block = re.search(r"## From a shell\n\n```sh\n(.*?)```", README, re.S)
    assert block is not None
    lines = [shlex.split(line, comments=True)[1:] for line in block[1].splitlines()]
    assert len(lines) == 5
    for words in ([*train, "--out", "runs"], *lines, ["check", "train.log"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0, (words, capsys.readouterr())
    assert (tmp_path / "report" / "index.html").is_file()
