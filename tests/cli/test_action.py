"""The action for CI: its script runs here as a job runs it."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    screen = ROOT / "docs" / "screens" / "five_seeds.py"
    monkeypatch.setattr("sys.argv", [str(screen), str(tmp_path)])
    runpy.run_path(str(screen))
    return tmp_path


def job(folder: Path, **inputs: str) -> tuple[int, str, str, str]:
    """Run the action's script; return its exit code, outputs, summary and messages."""
    files = {name: folder / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, **inputs, **{name: str(file) for name, file in files.items()}}
    done = subprocess.run(
        [sys.executable, ROOT / "action" / "judge.py"], cwd=folder, env=env, capture_output=True, text=True
    )
    said = [file.read_text(encoding="utf-8") if file.exists() else "" for file in files.values()]
    return done.returncode, said[0], said[1], done.stderr


def test_a_job_gets_level_sentence_and_summary(seeds: Path) -> None:
    logs = " ".join(f"seed{seed}/train.log" for seed in range(11, 16))
    code, outputs, summary, _ = job(seeds, CHECK=logs, FAIL_ON="look")
    assert code == 1
    assert outputs.startswith("level=look\nsentence=look: 1 of 5 runs to look at (seed13)")
    assert "9e-3 at step 200" in summary
    assert job(seeds, CHECK=logs)[0] == 0  # only `stop` fails a job by default


def test_what_cannot_be_read_fails_the_job(seeds: Path) -> None:
    code, outputs, _, _ = job(seeds, CHECK="nothing.log")
    assert code == 2
    assert outputs.startswith("level=error\n")
    assert "nothing.log" in outputs


@pytest.mark.parametrize(("inputs", "problem"), [({}, "nothing to judge"), ({"FAIL_ON": "x"}, "fail-on 'x'")])
def test_a_wrong_call_is_named(seeds: Path, inputs: dict[str, str], problem: str) -> None:
    code, _, _, said = job(seeds, **inputs)
    assert code == 2
    assert problem in said


def test_the_action_names_its_script_and_its_inputs() -> None:
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    assert 'run: python "${{ github.action_path }}/action/judge.py"' in text
    script = (ROOT / "action" / "judge.py").read_text(encoding="utf-8")
    for variable in re.findall(r"^        ([A-Z_]+): \${{ inputs", text, re.MULTILINE):
        assert variable == "PACKAGE" or variable.lower() in script.lower()


def test_the_guide_for_agents_is_short_and_its_commands_exist() -> None:
    text = (ROOT / "SKILL.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    from toposcope.cli.main import COMMANDS

    assert set(re.findall(r"`toposcope (\w+)", text)) <= set(COMMANDS)
