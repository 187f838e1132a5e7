"""The log of a run in files of bounded length: what is added changes one file, and reads as one table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toposcope.store import Store, log


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "MOST_ROWS", 4)
    return Store.create(tmp_path / "store", recipe={})


def rows(steps, loss=1.0, run="a"):
    return pd.DataFrame({"run": run, "step": list(steps), "loss": loss})


def test_a_row_that_is_added_rewrites_the_last_file_alone(store):
    store.write_metrics(rows(range(6)))
    marks = []
    for step in range(6, 20):
        before = {path: path.stat().st_mtime_ns for path in log.files(store.path / "metrics", "a")}
        store.write_metrics(rows([step]), add=True)
        after = {path: path.stat().st_mtime_ns for path in log.files(store.path / "metrics", "a")}
        marks.append(sum(before.get(path) != at for path, at in after.items()))
    assert marks == [1] * 14
    lengths = [len(pd.read_parquet(path)) for path in log.files(store.path / "metrics", "a")]
    assert lengths == [6, 4, 4, 4, 2]
    assert store.metrics("a")["step"].tolist() == list(range(20))


def test_rows_at_steps_that_are_there_take_their_place_in_whatever_file(store):
    for step in range(0, 30, 3):
        store.write_metrics(rows([step]), add=True)
    store.write_metrics(rows([0, 6, 7, 27], loss=5.0), add=True)
    table = store.metrics("a")
    assert table["step"].tolist() == [0, 3, 6, 7, 9, 12, 15, 18, 21, 24, 27]
    assert table.loc[table["loss"] == 5.0, "step"].tolist() == [0, 6, 7, 27]


def test_a_stretch_of_steps_reads_only_the_files_that_have_some(store):
    for step in range(20):
        store.write_metrics(rows([step]), add=True)
    for path in log.files(store.path / "metrics", "a")[2:]:
        path.write_bytes(b"spoilt")
    assert store.metrics("a", first=2, last=5)["step"].tolist() == [2, 3, 4, 5]


def test_writing_a_run_anew_leaves_no_row_of_before(store):
    for step in range(10):
        store.write_metrics(rows([step]), add=True)
    store.write_metrics(rows([1, 8], loss=2.0))
    assert store.metrics("a")["step"].tolist() == [1, 8]
    store.write_metrics(rows([9]), add=True)
    assert store.metrics()["step"].tolist() == [1, 8, 9]


def test_runs_whose_names_begin_alike_stay_apart(store):
    for run in ("a", "a-b", "a.000000000004", "a*"):
        for step in range(9):
            store.write_metrics(rows([step], run=run), add=True)
    for run in ("a", "a-b", "a.000000000004", "a*"):
        assert store.metrics(run)["run"].unique().tolist() == [run]
        assert store.metrics(run)["step"].tolist() == list(range(9))


@settings(deadline=None, max_examples=40)
@given(
    written=st.lists(
        st.dictionaries(st.integers(0, 40), st.floats(0, 9), min_size=1, max_size=12), min_size=1, max_size=8
    ),
    first=st.integers(0, 40),
    length=st.integers(0, 20),
)
def test_any_order_of_writes_reads_as_the_newest_row_of_each_step(tmp_path_factory, written, first, length):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "MOST_ROWS", 4)
        store = Store.create(tmp_path_factory.mktemp("logs") / "store", recipe={})
        expected: dict[int, float] = {}
        for one in written:
            expected |= one
            steps = np.array(list(one))  # in no order
            store.write_metrics(rows(steps, [one[int(step)] for step in steps]), add=True)
    assert dict(zip(*(store.metrics("a")[n] for n in ("step", "loss")), strict=True)) == expected
    assert store.metrics("a")["step"].is_monotonic_increasing
    inside = [step for step in sorted(expected) if first <= step <= first + length]
    assert store.metrics("a", first=first, last=first + length)["step"].tolist() == inside
