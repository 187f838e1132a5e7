"""A check of one text log loads nothing that measures, and nothing that opens checkpoints or stores."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.check.written import falling, modded

PROGRAM = """
import json, sys
from toposcope.cli.main import main
try:
    main(["check", sys.argv[1]])
except SystemExit:
    pass
ours = [one for name, one in sys.modules.items() if name.split(".")[0] == "toposcope"]
files = {one.__name__: one.__file__ for one in ours if getattr(one, "__file__", None)}
others = [name for name in ("matplotlib", "numba", "torch", "rich") if name in sys.modules]
print(json.dumps([files, others]))
"""
MODULES, LINES = 110, 15_000
"""The most modules and lines of ours that a check of one log may load."""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], list[str]]:
    log = tmp_path_factory.mktemp("loads") / "train.log"
    log.write_text(modded(falling()))
    words = [sys.executable, "-c", PROGRAM, str(log)]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    files, others = json.loads(said.splitlines()[-1])
    return files, others


def test_a_check_of_a_log_loads_no_format_no_store_and_no_subject(loaded):
    files, others = loaded
    rooms = {"api", "cli", "core", "files", "forecasting", "logs", "rules", "runs", "statistics", "store"}
    assert {name.split(".")[1] for name in files if "." in name} <= {*rooms, "__main__"}
    assert "toposcope.files.formats.registry" not in files
    assert "toposcope.store.store" not in files
    assert others == []


def test_a_check_of_a_log_loads_little(loaded):
    files, _ = loaded
    lines = sum(len(Path(file).read_text(encoding="utf-8").splitlines()) for file in files.values())
    assert (len(files) <= MODULES, lines <= LINES) == (True, True)


def test_the_rules_of_a_policy_are_loaded_for_a_policy(tmp_path):
    rows = [f'{{"step": {n}, "loss": 0.01, "reward": 0.5, "entropy": 1.0}}' for n in range(1, 60)]
    log = tmp_path / "policy.jsonl"
    log.write_text("\n".join(rows))
    words = [sys.executable, "-c", PROGRAM, str(log)]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    files, _ = json.loads(printed.splitlines()[-1])
    assert "toposcope.rules.entropy_collapse" in files
    assert "toposcope.logs.dialects.json_files" in files
    assert "toposcope.logs.dialects.wandb" not in files
