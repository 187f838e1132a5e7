"""A long unit says how far it is, from another process too, and counts for nothing until it is done."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import cloudpickle
import pytest

from tests.sweep.conftest import write_run_folder
from toposcope.core.progress import Progress, track
from toposcope.core.types import Feature, Row
from toposcope.sources import open_series
from toposcope.store import Store
from toposcope.subjects.base import Measured, Probe
from toposcope.subjects.snapshot import Snapshot
from toposcope.sweep import Execution, sweep, worker


@dataclass(frozen=True)
class InParts(Probe):
    """A probe whose unit has three parts."""

    name: str = "in_parts"
    features: tuple[Feature, ...] = (Feature("one", "one"),)

    def measure(self, snapshot: Snapshot) -> Measured:
        worker._SECONDS_BETWEEN_PARTS = 0.0  # in whichever process this runs
        for _ in track(range(3), "tiles", quiet=True):
            pass
        at = snapshot.checkpoint
        return Measured([Row(at.run, at.step, self.name, "one", 1.0)])


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_parts_are_told_and_not_counted(jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_SECONDS_BETWEEN_PARTS", 0.0)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # a process cannot import a test
    heard: list[tuple[str, int]] = []

    def inside(self: Progress, part: str) -> None:
        heard.append((part, self.done))

    monkeypatch.setattr(Progress, "inside", inside)
    for run in ("one", "two"):
        write_run_folder(tmp_path / "runs" / run, range(0, 20, 10))
    store = Store.create(tmp_path / "store", recipe={})
    how = Execution(quiet=True, audit=False, jobs=jobs)
    report = sweep(open_series(tmp_path / "runs"), [InParts()], store, execution=how)
    assert (report.done, len(report.failures)) == (4, 0)
    assert "one step 0, in_parts: tiles 1/3" in [part for part, _ in heard]
    assert any(part.startswith("two step ") and part.endswith("tiles 3/3") for part, _ in heard)
    assert max(done for _, done in heard) <= 3
