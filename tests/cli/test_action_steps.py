"""The composite action's own shell steps and the pre-commit hook's entry, as a runner calls them."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
EXPRESSION = re.compile(r"\$\{\{ *(.*?) *\}\}")
PYTHON = """#!/bin/sh
if [ "$1 $2" = "-m pip" ]; then echo "$@" >> "$PIP_CALLS"; exit "${PIP_FAILS:-0}"; fi
exec {python} "$@"
"""
TOPOSCOPE = '#!/bin/sh\nexec {python} -m toposcope "$@"\n'


@dataclass
class Job:
    """A job on a runner: a workspace, a checkout of this action beside it, and a PATH with its Python."""

    place: Path
    inputs: dict[str, str]
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    summary: str = ""
    printed: str = ""

    def __post_init__(self) -> None:
        self.checkout, self.bin = self.place / "my action", self.place / "bin"
        self.checkout.mkdir()
        self.bin.mkdir()
        shutil.copy(ROOT / "action.yml", self.checkout)
        shutil.copytree(ROOT / "action", self.checkout / "action", ignore=shutil.ignore_patterns("__py*"))
        for name, text in (("python", PYTHON), ("toposcope", TOPOSCOPE)):
            (self.bin / name).write_text(text.replace("{python}", shlex.quote(sys.executable)))
            (self.bin / name).chmod(0o755)

    def value(self, text: str) -> str:
        """Return a text of the action with its expressions replaced, as the runner does."""

        def one(found: re.Match[str]) -> str:
            return next(filter(None, map(self._named, found[1].split(" || "))), "")

        return EXPRESSION.sub(one, text)

    def _named(self, name: str) -> str:
        kind, _, rest = name.partition(".")
        if kind == "inputs":
            return self.inputs[rest]
        if kind == "steps":
            step, _, output = rest.partition(".outputs.")
            return self.outputs[step].get(output, "")
        assert name == "github.action_path"
        return str(self.checkout)

    def run(self, work: Path, **more: str) -> int:
        """Run the steps, up to the first that fails; return its exit code."""
        action = yaml.safe_load((self.checkout / "action.yml").read_text())
        self.inputs = {name: str(one["default"]) for name, one in action["inputs"].items()} | self.inputs
        for number, step in enumerate(action["runs"]["steps"]):
            assert step["shell"] == "bash"
            script, output, summary = (self.place / f"{number}.{end}" for end in ("sh", "out", "md"))
            script.write_text(self.value(step["run"]))
            output.touch()
            env = {
                **os.environ, "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}", **more,
                "GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary),
                **{name: self.value(text) for name, text in step["env"].items()},
            }  # fmt: skip
            shell = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)]
            done = subprocess.run(shell, cwd=work, env=env, capture_output=True, text=True)
            self.printed += done.stdout + done.stderr
            lines = [line.partition("=") for line in output.read_text().splitlines()]
            assert all(sep for _, sep, _ in lines)  # a line without "=" is an error of the runner
            self.outputs[step.get("id", str(number))] = {name: text for name, _, text in lines}
            self.summary += summary.read_text() if summary.exists() else ""
            if done.returncode:
                return done.returncode
        return 0


@pytest.fixture
def seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    screen = ROOT / "docs" / "screens" / "five_seeds.py"
    folder = tmp_path / "work space"
    monkeypatch.setattr("sys.argv", [str(screen), str(folder)])
    runpy.run_path(str(screen))
    return folder


def test_the_steps_install_the_checkout_and_set_the_outputs(seeds: Path, tmp_path: Path) -> None:
    logs = " ".join(f"seed{seed}/train.log" for seed in range(11, 16))
    job = Job(tmp_path, {"check": logs, "fail-on": "look"})
    code = job.run(seeds, PIP_CALLS=str(tmp_path / "pip"))
    assert code == 1, job.printed
    assert (tmp_path / "pip").read_text() == f"-m pip install --quiet {job.checkout}\n"
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    outputs = {name: job.value(one["value"]) for name, one in action["outputs"].items()}
    assert outputs["level"] == "look"
    assert outputs["sentence"].startswith("look: 1 of 5 runs to look at (seed13)")
    assert job.summary.startswith(
        f"**{outputs['sentence']}**\n\n```console\n$ toposcope check seed11/train.log"
    )


def test_a_package_that_is_named_is_installed_and_a_failed_install_ends_the_job(
    seeds: Path, tmp_path: Path
) -> None:
    job = Job(tmp_path, {"check": "seed11/train.log", "package": "toposcope==0.1.0"})
    assert job.run(seeds, PIP_CALLS=str(tmp_path / "pip"), PIP_FAILS="1") == 1
    assert (tmp_path / "pip").read_text() == "-m pip install --quiet toposcope==0.1.0\n"
    assert "judge" not in job.outputs


def test_the_hook_judges_the_logs_of_a_commit_together(seeds: Path, tmp_path: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    names = [*(f"seed{seed}/train.log" for seed in range(11, 16)), "train.py", "run/trainer_state.json",
             "metrics.csv", "README.md", "training_args.json"]  # fmt: skip
    files = [name for name in names if re.search(hook["files"], name)]
    assert files == [*names[:5], "run/trainer_state.json", "metrics.csv"]
    assert hook["require_serial"] is True  # in parts, no run has siblings
    job = Job(tmp_path, {})
    env = {**os.environ, "PATH": f"{job.bin}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [*shlex.split(hook["entry"]), *names[:5]], cwd=seeds, env=env, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stdout.startswith("look: 1 of 5 runs to look at (seed13)")
