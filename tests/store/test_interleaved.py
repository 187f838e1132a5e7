"""Another process writes and compacts a store between any two file operations of a call."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from toposcope.core.types import Diagram, Row, RunRecord
from toposcope.store import KeptDiagram, Result, Store, Unit
from toposcope.store.export import export
from toposcope.store.merge import merge

_WATCHED = {"open", "os.listdir", "os.scandir", "os.rename", "os.remove"}
_STEPS = 4


class Interleaver:
    """Runs `other` before the operation number `at` on a file of `folder`; counts the operations."""

    folder, at, count, other = "", -1, 0, staticmethod(lambda: None)
    running = False

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self.folder or self.running or event not in _WATCHED or not arguments:
            return
        if not str(arguments[0]).startswith(self.folder):
            return
        self.count += 1
        if self.count - 1 == self.at:
            self.running = True
            try:
                self.other()
            finally:
                self.running = False


_between = Interleaver()
sys.addaudithook(_between)  # a hook stays for ever: without a folder it does nothing


def _result(step: int, value: float) -> Result:
    row = Row(run="a", step=step, probe="p", feature="f", value=value, name="model")
    bars = Diagram(0, np.array([0.0]), np.array([1.0 + value]))
    return Result(Unit("a", step, "p", 1, f"{step}"), (row,), (KeptDiagram(bars),))


def _write(path: Path) -> None:
    store = Store.open(path)
    for step in range(_STEPS):
        store.write_results([_result(step, step)], keep_diagrams=True)


def _rewrite(path: Path) -> None:
    """Measure the first half again, as one pack."""
    Store.open(path).write_results([_result(step, step) for step in range(_STEPS // 2)], keep_diagrams=True)


def _compact(path: Path) -> None:
    Store.open(path).compact()


def _rewrite_and_compact(path: Path) -> None:
    _rewrite(path)
    _compact(path)


def _merge(path: Path) -> None:
    other = Store.create(path.parent / "other", recipe={"points": 1})
    other.write_runs([RunRecord("b")])
    merged, _ = merge([Store.open(path), other], path.parent / "merged")
    assert merged.features()["value"].tolist() == list(range(_STEPS))


CALLS: dict[str, Callable[[Path], object]] = {
    "features": lambda path: Store.open(path).features(),
    "diagrams": lambda path: Store.open(path).diagrams(),
    "findings": lambda path: Store.open(path).findings,
    "faults": lambda path: Store.open(path).part_faults(),
    "printed": lambda path: repr(Store.open(path)),
    "steps": lambda path: Store.open(path).measured_steps(),
    "has": lambda path: Store.open(path).has(_result(0, 0).unit, diagrams=True),
    "set aside": lambda path: Store.open(path).set_broken_aside(),
    "written": _rewrite,
    "compacted": _compact,
    "merged": _merge,
    "exported": lambda path: export(Store.open(path), path.parent / "out", kind="csv", shape="wide"),
}


@pytest.mark.slow
@pytest.mark.parametrize("other", [_compact, _rewrite_and_compact])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_gives_the_same_whenever_another_process_acts(
    tmp_path: Path, call: str, other: Callable[[Path], None]
) -> None:
    first = Store.create(tmp_path / "first", recipe={"points": 1})
    first.write_runs([RunRecord("a")])
    _write(first.path)
    _rewrite(first.path)
    wanted, answer = first.features(), None
    done, at = False, -1
    while not done:
        place = tmp_path / f"{at}"
        shutil.copytree(first.path, place / "store")
        _between.other = lambda path=place / "store": other(path)
        _between.folder, _between.at, _between.count = str(place / "store"), at, 0
        try:
            result = CALLS[call](place / "store")
        finally:
            _between.folder = ""
        if call not in ("compacted", "merged", "exported"):  # which return what they did
            answer = result if answer is None else answer
            assert str(result) == str(answer).replace(str(tmp_path / "-1"), str(place)), f"operation {at}"
        store = Store.open(place / "store")
        pd.testing.assert_frame_equal(store.features()[["step", "value"]], wanted[["step", "value"]])
        assert not store.findings, f"operation {at}"
        done, at = at >= _between.count - 1, at + 1
        shutil.rmtree(place)
    assert at > 3  # there was something to interleave
