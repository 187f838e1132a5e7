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


@pytest.mark.xfail(reason="the rooms of the log, its rules and its forecasts are larger still", strict=True)
def test_a_check_of_a_log_loads_little(loaded):
    files, _ = loaded
    lines = sum(len(Path(file).read_text(encoding="utf-8").splitlines()) for file in files.values())
    assert (len(files) <= MODULES, lines <= LINES) == (True, True)
