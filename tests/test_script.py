"""The package in a plain script, that does its work at its top level and asks for several processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="the script trains models: install toposcope[train]")

SCRIPT = """
from dataclasses import dataclass

import toposcope as ts
from toposcope.subjects.base import Measured
from toposcope.subjects.labels import Label

print("begun")
few = {"steps": 2, "checkpoint_every": 1, "models": ["tiny-3k", "small-7k"]}
runs = ts.train("demo", "runs", overrides=few, jobs=2, quiet=True)
print([run.status for run in runs])


ROWS = ts.Feature("row_count", label="rows", description="rows of a matrix")


@dataclass(frozen=True)
class Rows(ts.Probe):
    name: str = "rows"
    features: tuple[ts.Feature, ...] = (ROWS,)

    def measure(self, snapshot):
        found = Measured()
        for matrix in snapshot.matrices():
            label = Label.of(matrix)
            found.rows += label.rows(snapshot.checkpoint, self.name, {"row_count": float(len(matrix.values))})
        return found


store = ts.measure("runs", "store", features=[Rows()], jobs=2, quiet=True)
print(store.features()["status"].unique().tolist(), store.features()["value"].min() > 1)
"""


@pytest.mark.slow
def test_a_script_without_a_guard_may_use_several_processes(tmp_path):
    (tmp_path / "mine.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "mine.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    begun, statuses, rows = done.stdout.splitlines()
    assert begun == "begun"
    assert statuses == "['trained', 'trained']"
    assert rows == "['ok'] True"
