"""Stores that were measured apart become one, without measuring again and without mixing runs up."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import toposcope.store.merge as merging
from toposcope import analyze
from toposcope.core.errors import InputError, StoreError
from toposcope.core.observations import AuditFinding
from toposcope.core.types import Diagram, Feature, Kind, Row, RunRecord
from toposcope.store import Store
from toposcope.store.merge import merge
from toposcope.store.units import KeptDiagram, Unit

RECIPE = {"points": 200}
NORM = Feature("weight_norm", "weight norm", "weight", Kind.BASELINE)


def measured(
    path: Path, run: str, content: str, *, steps: range = range(12), uri: str = "", recipe: dict | None = None
) -> Store:
    store = Store.create(path, recipe=RECIPE if recipe is None else recipe)
    store.write_runs([RunRecord(run, uri=uri or f"/data/{content}")])
    losses = pd.DataFrame({"run": run, "step": list(steps), "loss": [5.0 / (s + 2) for s in steps]})
    store.write_metrics(losses)
    store.write_catalogue("baselines", [NORM])
    found = [AuditFinding(run, step, "w", "moved", fault="off-path") for step in (3, None)]
    store.write_audit(f"/data/{content}", found)
    for step in steps:
        unit = Unit(run, step, "baselines", 1, f"{content}-{step}")
        row = Row(run, step, "baselines", "weight_norm", float(len(content) + np.sqrt(step)))
        kept = [KeptDiagram(Diagram(0, np.zeros(2), np.array([1.0, np.inf])))]
        store.write(unit, [row], kept)
    return store


def frame(store: Store) -> pd.DataFrame:
    return store.features().drop(columns=["seconds"]).reset_index(drop=True)


def test_runs_of_two_stores_stand_side_by_side(tmp_path: Path) -> None:
    a, b = measured(tmp_path / "a", "small", "x"), measured(tmp_path / "b", "large", "y")
    before = frame(a)
    both, renamed = merge([a, b], tmp_path / "both")
    assert renamed == ()
    expected = pd.concat([frame(b), frame(a)], ignore_index=True)
    pd.testing.assert_frame_equal(frame(both), expected)
    assert sorted(both.runs()["run"]) == ["large", "small"]
    assert both.metrics().groupby("run").size().to_dict() == {"large": 12, "small": 12}
    assert len(both.diagrams()) == 24
    assert both.catalogue()["feature"].tolist() == ["weight_norm"]
    pd.testing.assert_frame_equal(frame(a), before)
    assert both.has(Unit("small", 3, "baselines", 1, "x-3"), diagrams=True)


def test_two_runs_of_one_name_are_called_by_their_stores(tmp_path: Path) -> None:
    a, b = measured(tmp_path / "a", "run", "x"), measured(tmp_path / "b", "run", "yyy")
    both, renamed = merge([a, b], tmp_path / "both")
    assert [(one.run, one.name) for one in renamed] == [("run", "a/run"), ("run", "b/run")]
    values = both.features().groupby("run")["value"].first()
    assert values.to_dict() == {"a/run": 1.0, "b/run": 3.0}
    assert sorted(both.runs()["run"]) == ["a/run", "b/run"]
    assert both.metrics().groupby("run").size().to_dict() == {"a/run": 12, "b/run": 12}
    assert sorted(both.diagrams()["run"].unique()) == ["a/run", "b/run"]
    found = both.audit()
    assert sorted(found["run"]) == ["a/run", "a/run", "b/run", "b/run"]
    assert sorted(found["step"].dropna()) == [3, 3]


def test_the_columns_beside_the_losses_go_with_their_run(tmp_path: Path) -> None:
    a, b = measured(tmp_path / "a", "run", "x"), measured(tmp_path / "b", "run", "yyy")
    for store, entropy in ((a, 0.5), (b, 0.25)):
        store.write_companions("run", pd.DataFrame({"step": [1, 2], "entropy": [entropy, entropy]}))
    both, _ = merge([a, b], tmp_path / "both")
    kept = {run: both.companions(run) for run in ("a/run", "b/run", "run")}
    assert kept["run"] is None
    assert [kept[run]["entropy"].iloc[0] for run in ("a/run", "b/run")] == [0.5, 0.25]


def test_parts_of_one_run_become_one_run(tmp_path: Path) -> None:
    whole = measured(tmp_path / "whole", "run", "x")
    early = measured(tmp_path / "early", "run", "x", steps=range(6))
    late = measured(tmp_path / "late", "run", "x", steps=range(6, 12))
    overlapping = measured(tmp_path / "over", "run", "x", steps=range(4, 8), uri="/elsewhere")
    both, renamed = merge([early, late, overlapping], tmp_path / "both")
    assert renamed == ()
    pd.testing.assert_frame_equal(frame(both), frame(whole))
    assert len(both.metrics()) == 12
    assert len(both.audit()) == 2


def test_a_failure_that_another_store_made_good_is_gone(tmp_path: Path) -> None:
    a, b = measured(tmp_path / "a", "run", "x"), measured(tmp_path / "b", "run", "x", steps=range(6))
    b.write_failure(Unit("run", 9, "baselines", 1, ""), "out of memory")
    b.write_failure(Unit("run", 40, "baselines", 1, ""), "damaged")
    both, _ = merge([a, b], tmp_path / "both")
    failed = both.features().query("status == 'failed'")
    assert failed["step"].tolist() == [40]


def test_what_is_kept_beside_the_tables_goes_along(tmp_path: Path) -> None:
    stores = [measured(tmp_path / name, "run", name) for name in "ab"]
    for store in stores:
        place = store.path / "landscapes" / "run" / "step_000000"
        place.mkdir(parents=True)
        (place / "full-0.npz").write_bytes(store.path.name.encode())
    both, _ = merge(stores, tmp_path / "both")
    kept = {path.relative_to(both.path).as_posix(): path.read_bytes() for path in both.path.rglob("*.npz")}
    assert kept == {f"landscapes/{name}/run/step_000000/full-0.npz": name.encode() for name in "ab"}


def test_other_recipes_are_refused(tmp_path: Path) -> None:
    a = measured(tmp_path / "a", "small", "x")
    b = measured(tmp_path / "b", "large", "y", recipe={"points": 500})
    with pytest.raises(StoreError, match=r"other settings than .*\(points 200 there, 500 here\)"):
        merge([a, b], tmp_path / "both")
    c = measured(tmp_path / "c", "large", "y", recipe={"probe": "representations"})
    with pytest.raises(StoreError, match=r"holds representations, .* weights; merge stores of one kind"):
        merge([a, c], tmp_path / "both")
    assert not (tmp_path / "both").exists()


@pytest.mark.parametrize("where", ["toposcope.store.merge.os.replace", "toposcope.store.merge._write_rest"])
@pytest.mark.parametrize("same", [True, False])
def test_another_process_that_is_faster_has_made_this_merge_or_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same: bool, where: str
) -> None:
    a, b = measured(tmp_path / "a", "small", "x"), measured(tmp_path / "b", "large", "y")
    out, usual = tmp_path / "both", os.replace if where.endswith("replace") else merging._write_rest

    def late(*arguments: object) -> object:
        if where.endswith("_write_rest") or arguments[1] == out:
            monkeypatch.undo()
            merge([a, b] if same else [a, measured(tmp_path / "c", "large", "z")], out)
        return usual(*arguments)

    monkeypatch.setattr(where, late)
    if same:
        assert sorted(merge([a, b], out)[0].features()["run"].unique()) == ["large", "small"]
    else:
        with pytest.raises(
            StoreError, match="both exists and is not an earlier run of this merge; name a new folder"
        ):
            merge([a, b], out)
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".partial")] == []


def test_one_store_or_a_place_that_is_taken_is_refused(tmp_path: Path) -> None:
    a, b = measured(tmp_path / "a", "small", "x"), measured(tmp_path / "b", "large", "y")
    with pytest.raises(StoreError, match="two stores or more"):
        merge([a], tmp_path / "both")
    with pytest.raises(StoreError, match="a is given twice; leave one out"):
        merge([a, b, Store.open(a.path)], tmp_path / "both")
    merge([a, b], tmp_path / "made")
    assert merge([a, b], tmp_path / "made")[0].path == tmp_path / "made"
    other = measured(tmp_path / "c", "large", "z")  # a run of the same name and steps, of other weights
    with pytest.raises(
        StoreError, match="made exists and is not an earlier run of this merge; name a new folder"
    ):
        merge([a, other], tmp_path / "made")
    with pytest.raises(StoreError, match="exists and is not an earlier run of this merge"):
        merge([a, b], b.path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c", "made"]


def test_a_merge_may_be_repeated(tmp_path: Path) -> None:
    stores = [measured(tmp_path / name, "run", name) for name in "ab"]
    made = [merge(stores, tmp_path / "both") for _ in range(2)]
    pd.testing.assert_frame_equal(frame(made[0][0]), frame(made[1][0]))
    assert made[0][1] == made[1][1]
    stores[1].write(Unit("run", 99, "baselines", 1, "new"), [Row("run", 99, "baselines", "weight_norm", 1.0)])
    with pytest.raises(StoreError, match="exists and is not an earlier run"):
        merge(stores, tmp_path / "both")


def test_an_analysis_reads_stores_of_one_recipe_as_one(tmp_path: Path) -> None:
    a, b = measured(tmp_path / "a", "run", "x"), measured(tmp_path / "b", "run", "yyy")
    study = analyze([a.path, b.path]).studies[0]
    assert sorted(study.runs["run"]) == ["a/run", "b/run"]
    assert study.series.values.groupby("run").size().to_dict() == {"a/run": 12, "b/run": 12}
    c = measured(tmp_path / "c", "other", "z", recipe={"points": 500})
    with pytest.raises(InputError, match=r"different settings \(points 200 there, 500 here\)"):
        analyze([a.path, c.path])
