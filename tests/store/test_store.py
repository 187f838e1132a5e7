"""The store: what is written is read back, once, whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import toposcope
from toposcope.core.errors import InputError, StoreError
from toposcope.core.observations import AuditFinding
from toposcope.core.report_folder import MARK
from toposcope.core.types import Diagram, Feature, Kind, Role, Row, RunRecord, Scope, Status
from toposcope.store import KeptDiagram, Result, Store, Unit, part_faults, parts
from toposcope.study.merged_stores import difference_of_recipes
from toposcope.subjects.landscape.options import LandscapeOptions

RECIPE = {"points": 200, "draws": 5}


def unit(step: int, run: str = "a", probe: str = "rips", content: str = "c", version: int = 1) -> Unit:
    return Unit(run=run, step=step, probe=probe, version=version, content_hash=content, tokens=step * 10)


def rows(step: int, run: str = "a", probe: str = "rips", scale: float = 1.0) -> list[Row]:
    return [
        Row(run, step, probe, feature, scale * value, tokens=step * 10, name="pooled", draw=draw)
        for feature, value in (("h0_total", 2.0), ("h1_total", 0.5))
        for draw in range(2)
    ]


def diagram(death: float = 1.0) -> KeptDiagram:
    return KeptDiagram(
        Diagram(0, np.array([0.0, 0.0]), np.array([death, np.inf]), "euclidean", 2), name="pooled"
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(tmp_path / "store", recipe=RECIPE)


def fill(store: Store, steps: range = range(4), runs: tuple[str, ...] = ("a", "b")) -> None:
    for run in runs:
        for step in steps:
            store.write(unit(step, run), rows(step, run), [diagram(step + 1.0)], seconds=0.1)


def same(left: pd.DataFrame, right: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(left.reset_index(drop=True), right.reset_index(drop=True))


def test_rows_come_back_with_every_column(store: Store) -> None:
    row = Row(
        "a", 3, "rips", "h0_max", 1.5, 30, "w", Role.MLP, 2, 1, "euclidean", 4, Status.SUBSAMPLED, "why"
    )
    store.write(unit(3), [row], seconds=0.25)
    line = Store.open(store.path).features().iloc[0]
    assert line[["run", "step", "tokens", "name", "role"]].tolist() == ["a", 3, 30, "w", "mlp"]
    assert line[["layer", "head", "draw", "value", "status"]].tolist() == [2, 1, 4, 1.5, "subsampled"]
    assert line[["note", "seconds", "content_hash"]].tolist() == ["why", 0.25, "c"]
    assert line["recipe_hash"] == store.recipe_hash


def test_a_value_that_is_not_finite_is_null_and_no_draw_is_null(store: Store) -> None:
    store.write(unit(0), [Row("a", 0, "rips", "h0_max", float("inf"), status=Status.DEGENERATE)])
    line = store.features().iloc[0]
    assert np.isnan(line["value"])
    assert np.isnan(line["draw"])


def test_pandas_reads_the_folder(store: Store) -> None:
    fill(store)
    assert len(pd.read_parquet(store.path / "features")) == 32
    store.compact()
    assert len(pd.read_parquet(store.path / "features")) == 32


def test_both_forms_read_alike(store: Store) -> None:
    fill(store)
    before, kept = store.features(), store.diagrams()
    assert store.compact() == 16
    same(before, store.features())
    same(kept, store.diagrams())
    assert len(list((store.path / "features").iterdir())) == 2
    assert store.compact() == 0


def test_selection(store: Store) -> None:
    fill(store)
    for _ in range(2):
        assert set(store.features(feature="h0_total").feature) == {"h0_total"}
        assert len(store.features(probe="rips", feature=["h0_total", "h1_total"], run="b")) == 16
        assert store.features(probe="other").empty
        assert len(store.diagrams(run="a", name="pooled")) == 4
        store.compact()


def test_diagrams_keep_infinite_deaths(store: Store) -> None:
    store.write(unit(0), rows(0), [diagram(3.0)])
    line = store.diagrams().iloc[0]
    assert list(line.death) == [3.0, np.inf]
    assert line.n_vertices == 2


def test_a_present_key_is_known_in_every_form(store: Store) -> None:
    fill(store)
    for _ in range(2):
        again = Store.open(store.path)
        assert again.has(unit(2), diagrams=True)
        assert not again.has(unit(2, content="changed"))
        assert not again.has(unit(2, version=2))
        assert not again.has(unit(9))
        store.compact()


def test_a_unit_without_diagrams_lacks_them(store: Store) -> None:
    store.write(unit(0), rows(0))
    assert store.has(unit(0))
    assert not store.has(unit(0), diagrams=True)


def test_another_launcher_is_seen_at_once(store: Store) -> None:
    other = Store.open(store.path)
    assert not other.has(unit(0))
    store.write(unit(0), rows(0))
    assert other.has(unit(0))


def test_many_units_in_one_file(store: Store) -> None:
    results = [Result(unit(step), tuple(rows(step))) for step in range(5)]
    store.write_results(results, keep_diagrams=False)
    assert len(list((store.path / "features").iterdir())) == 1
    assert all(Store.open(store.path).has(unit(step)) for step in range(5))
    with pytest.raises(ValueError, match="share their run and probe"):
        store.write_results([results[0], Result(unit(0, run="b"), ())], keep_diagrams=False)


def test_units_written_twice_count_once(store: Store) -> None:
    store.write_results(
        [Result(unit(step), tuple(rows(step)), seconds=1.0) for step in (0, 1)], keep_diagrams=False
    )
    store.write_results(
        [Result(unit(step), tuple(rows(step)), seconds=2.0) for step in (1, 2)], keep_diagrams=False
    )
    store.write(unit(1), rows(1))
    assert len(store.features()) == 12
    store.compact()
    assert len(store.features()) == 12
    assert len(pd.read_parquet(store.path / "features")) == 12


@pytest.mark.parametrize("packed", [False, True])
def test_a_newer_unit_of_the_same_checkpoint_supersedes_the_older(store: Store, packed: bool) -> None:
    old, new = unit(3, content="0 before"), unit(3, content="512 before")
    store.write(unit(0), rows(0), [diagram()])
    store.write(old, [*rows(3), Row("a", 3, "rips", "only_old", 1.0)], [diagram(1.0)])
    if packed:
        store.compact()
    store.write(new, rows(3, scale=2.0))
    for again in (store, Store.open(store.path)):
        assert (again.has(old), again.has(new), again.has(unit(0))) == (False, True, True)
        table = again.features()
        assert not table.duplicated(["run", "step", "probe", "feature", "draw"]).any()
        assert set(table[table.step == 3].content_hash) == {"512 before"}
        assert again.features(feature="only_old").empty
        assert again.diagrams().step.tolist() == [0]  # the newer unit has none
        again.compact()
    assert len(pd.read_parquet(store.path / "features")) == 8
    store.write_results(
        [Result(unit(0), tuple(rows(0))), Result(old, tuple(rows(3)))], keep_diagrams=False
    )  # and back: the file has the name of one that a pack replaced
    store.compact()
    assert Store.open(store.path).has(old)
    assert set(store.features().query("step == 3").content_hash) == {"0 before"}


def test_a_unit_that_lost_its_rows_takes_those_of_the_older_with_it(store: Store) -> None:
    store.write(unit(3, content="with one before"), rows(3))
    store.write(unit(3, content="now the first"), [])
    assert store.features().empty
    store.compact()
    assert store.features().empty
    assert Store.open(store.path).has(unit(3, content="now the first"))


def test_files_that_are_full_stay_as_they_are_and_count_as_before(store: Store) -> None:
    fill(store, range(6))
    whole = store.features()
    store.compact(4)
    full = {path.name for path in (store.path / "features").glob("[!.]*.parquet")}
    assert len(full) == 2
    fill(store, range(6, 9))
    store.compact(4)
    both = {path.name for path in (store.path / "features").glob("[!.]*.parquet")}
    assert full < both
    assert len(both) == 4  # a run's full file, and one for the rest
    same(store.features().query("step < 6"), whole)
    store.write(unit(2, "a", content="new"), rows(2, "a", scale=3.0))
    store.compact(4)
    assert len(list((store.path / "features").glob("[!.]*.parquet"))) == 3  # what was superseded is rewritten
    assert store.features(run="a").query("step == 2")["value"].max() == 6.0
    same(Store.open(store.path).features(run="b"), store.features(run="b"))


def test_an_older_unit_compacted_late_does_not_come_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = unit(3, content="old"), unit(3, content="new")
    store.write(old, rows(3))
    read, written = parts.read, []

    def meanwhile(*args: object, **more: object) -> object:
        table = read(*args, **more)  # type: ignore[arg-type]
        if not written:
            written.append(Store.open(store.path).write(new, rows(3, scale=2.0)))
        return table

    with monkeypatch.context() as patch:
        patch.setattr(parts, "read", meanwhile)
        store.compact()
    assert len(list((store.path / "features").glob("*.parquet"))) == 2
    assert set(store.features().content_hash) == {"new"}


@pytest.mark.parametrize("when", ["after the rows were read", "before a file is removed"])
def test_a_unit_measured_again_during_a_compaction_is_kept(
    store: Store, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    fill(store, range(3), runs=("a",))
    again, renamed, read = [], Path.rename, parts.read

    def write_again() -> None:
        if not again:
            again.append(Store.open(store.path).write(unit(1, "a"), rows(1, "a"), [diagram(1.0)]))

    def read_first(*args: object, **more: object) -> object:
        table = read(*args, **more)  # type: ignore[arg-type]
        write_again()
        return table

    def rename(path: Path, target: Path) -> Path:
        if ".000000001." in path.name:
            write_again()
        return renamed(path, target)

    with monkeypatch.context() as patch:
        if when.startswith("after"):
            patch.setattr(parts, "read", read_first)
        else:
            patch.setattr(Path, "rename", rename)
        store.compact()
    assert again
    assert store.part_faults() == ()
    assert sorted(store.features().step.unique()) == [0, 1, 2]
    store.compact()
    assert store.part_faults() == ()
    assert not list(store.path.rglob(".*.tmp"))


def test_an_earlier_write_that_is_renamed_last_is_not_missed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    later, earlier = Store.open(store.path), Store.open(store.path)
    for writer, number in ((later, 12), (earlier, 10)):
        monkeypatch.setattr(writer, "_write_number", lambda number=number: number)
        writer.write(unit(1), rows(1), [diagram(1.0)])
    fill(store, range(2, 4), runs=("a",))
    store.compact()
    assert store.part_faults() == ()
    assert sorted(store.features().step.unique()) == [1, 2, 3]


def test_a_part_written_during_the_look_is_not_missed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(store, range(2), runs=("a",))
    listed, pending = os.listdir, [True]

    def listing(folder: object) -> list[str]:
        names = listed(folder)  # type: ignore[call-overload]
        if folder == store.path / "features" and pending:
            pending.clear()
            Store.open(store.path).write(unit(7), rows(7), [diagram(1.0)])
        return names

    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", listing)
        patch.setattr(time, "sleep", lambda _: pytest.fail("one look is enough"))
        assert part_faults.missing(store.path / "features") == []
    assert not pending


def test_a_part_that_stands_aside_for_a_moment_is_not_missed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, range(2), runs=("a",))
    part = next((store.path / "features").glob("*.parquet"))
    aside = part.rename(part.with_name(".moved.tmp"))
    monkeypatch.setattr(time, "sleep", lambda _: aside.exists() and aside.rename(part))
    assert part_faults.missing(store.path / "features") == []
    part.unlink()
    monkeypatch.setattr(time, "sleep", lambda _: None)
    assert part_faults.missing(store.path / "features") == [part.name]


def _touch(folder: Path, *, backwards: bool) -> None:
    """Give every file another time: all the same, or the newest the oldest."""
    files = sorted(folder.rglob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    for place, path in enumerate(files):
        at = 10**18 - place * 10**9 if backwards else 10**18
        os.utime(path, ns=(at, at))


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_a_store_reads_the_same_with_other_file_times(
    store: Store, tmp_path: Path, packed: bool, backwards: bool
) -> None:
    fill(store, range(2), runs=("a",))
    store.write(unit(3, content="old"), rows(3), [diagram(1.0)])
    if packed:
        store.compact()
    store.write(unit(3, content="new"), rows(3, scale=2.0), [diagram(2.0)])
    before, kept = store.features(), store.diagrams()
    assert set(before[before.step == 3].content_hash) == {"new"}
    copy = tmp_path / "copy"
    shutil.copytree(store.path, copy, copy_function=shutil.copyfile)
    _touch(copy, backwards=backwards)
    again = Store.open(copy)
    same(before, again.features())
    same(kept, again.diagrams())
    assert again.has(unit(3, content="new"), diagrams=True)
    assert not again.has(unit(3, content="old"))
    again.compact()
    _touch(copy, backwards=backwards)
    same(before, Store.open(copy).features())
    plain = pd.read_parquet(copy / "features")
    assert set(plain[plain.step == 3].content_hash) == {"new"}


def test_a_store_whose_removals_were_interrupted_reads_the_same_when_copied(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, runs=("a",))
    before = store.features()
    with monkeypatch.context() as patch:
        patch.setattr(parts, "remove", lambda *_: False)
        store.compact()
    assert len(list((store.path / "features").glob("*.parquet"))) == 5
    copy = tmp_path / "copy"
    shutil.copytree(store.path, copy, copy_function=shutil.copyfile)
    _touch(copy, backwards=True)
    same(before, Store.open(copy).features())
    assert Store.open(copy).compact() > 0
    assert len(list((copy / "features").glob("*.parquet"))) == 1
    same(before, Store.open(copy).features())


def test_a_clock_that_is_behind_does_not_bring_the_old_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(unit(3, content="old"), rows(3))
    with monkeypatch.context() as patch:
        patch.setattr(parts.time, "time_ns", lambda: 5)
        Store.open(store.path).write(unit(3, content="new"), rows(3, scale=2.0))
        Store.open(store.path).compact()
    assert set(store.features().content_hash) == {"new"}


def test_diagrams_that_a_newer_unit_superseded_go_with_the_compaction(store: Store) -> None:
    store.write(unit(0, content="old"), rows(0), [diagram()])
    store.compact()
    store.write(unit(0, content="new"), rows(0))
    store.compact()
    assert store.diagrams().empty
    assert pd.read_parquet(store.path / "diagrams").empty


def test_what_the_probes_declare_is_read_back(store: Store) -> None:
    total = Feature("h1_total", "H1 total", "weight", primary=True, scopes=(Scope.POOLED, Scope.MODEL))
    null = Feature("h1_total_null", "H1 total, null", kind=Kind.NULL, null_of=total)
    store.write_catalogue("mine", [total, null])
    store.write_catalogue("mine", [total, null])
    table = Store.open(store.path).catalogue()
    assert table["feature"].tolist() == ["h1_total", "h1_total_null"]
    assert table["null_of"].tolist() == ["", "h1_total"]
    assert table["primary"].tolist() == [True, False]
    assert list(table["scopes"][0]) == ["pooled", "model"]


def test_readers_are_safe_between_the_steps_of_a_compaction(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, runs=("a",))
    before = store.features()

    def killed(self: Path, target: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            store.compact()
    assert len(list((store.path / "features").glob("*.parquet"))) == 5
    same(before, store.features())
    assert Store.open(store.path).compact() > 0
    same(before, store.features())
    assert len(list((store.path / "features").glob("*.parquet"))) == 1


def test_what_a_pack_claims_stays_claimed_when_the_pack_is_joined_to_others(store: Store) -> None:
    fill(store, runs=("a",))
    spared = next((store.path / "features").iterdir())
    copy = store.path / spared.name
    shutil.copy(spared, copy)
    store.compact()
    shutil.move(copy, spared)  # the removal of this part was interrupted
    assert len(store.features()) == 16
    store.write(unit(9), rows(9))
    store.compact()
    assert len(store.features()) == 20
    assert not spared.exists()


def test_a_failure_is_shown_and_taken_back(store: Store) -> None:
    store.write_failure(unit(0, content=""), "w has a NaN")
    line = store.features().iloc[0]
    assert (line.status, line.note, line.feature) == ("failed", "w has a NaN", "failed")
    assert not Store.open(store.path).has(unit(0, content=""))
    store.compact()
    assert store.features().status.tolist() == ["failed"]
    store.write(unit(0), rows(0))
    assert set(store.features().status) == {"ok"}


def test_the_files_say_where_they_come_from(store: Store) -> None:
    fill(store, runs=("a",))
    store.compact()
    noted = parts.file_metadata(next((store.path / "features").iterdir()))
    assert noted["schema_version"] == 2
    assert noted["toposcope"] == toposcope.__version__
    assert noted["numpy"] == np.__version__
    assert noted["recipe"] == RECIPE
    assert {"numba", "machine", "seed"} <= set(noted)


def test_runs_and_metrics_replace_what_was_there(store: Store) -> None:
    store.write_runs([RunRecord("a", "gpt", 100, 1, config={"d": 8}), RunRecord("b")])
    store.write_runs([RunRecord("a", "gpt", 200, 1)])
    runs = store.runs().set_index("run")
    assert runs.parameters.to_dict() == {"a": 200, "b": 0}
    metrics = pd.DataFrame({"run": "a", "step": [0, 1], "loss": [3.0, 2.5]})
    store.write_metrics(metrics)
    store.write_metrics(metrics)
    assert store.metrics("a").loss.tolist() == [3.0, 2.5]
    assert store.metrics("nobody").empty


def test_audit_findings(store: Store) -> None:
    finding = AuditFinding("a", 3, "w", "equal to step 2", fault="identical")
    store.write_audit("x", [finding])
    store.write_audit("x", [finding])
    assert store.audit().fault.tolist() == ["identical"]


def test_runs_whose_names_look_alike_stay_apart(store: Store) -> None:
    store.write(unit(0, "a/b"), rows(0, "a/b"))
    store.write(unit(0, "a.b"), rows(0, "a.b"))
    store.compact()
    assert len(store.features(run="a/b")) == 4
    assert len(store.features()) == 8


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(
        StoreError, match=r"nothing does not exist; a store is made with: `toposcope\.measure\(SERIES, "
    ):
        Store.open(tmp_path / "nothing")


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(StoreError, match="holds files but is not a store"):
        Store.create(tmp_path, recipe=RECIPE)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_the_place_of_a_store(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(StoreError, match=r"thesis.tex is a file; a store is a folder"):
        Store.create(tmp_path / "thesis.tex", recipe=RECIPE)


def test_another_recipe(store: Store) -> None:
    with pytest.raises(
        StoreError, match=r"other settings \(points 200 there, 100 here\); choose another folder"
    ):
        Store.create(store.path, recipe={**RECIPE, "points": 100})
    assert Store.create(store.path, recipe=dict(reversed(RECIPE.items()))).recipe_hash == store.recipe_hash


def test_settings_of_another_recipe_have_the_names_of_their_options(tmp_path: Path) -> None:
    """The error called --draws seeds and --range reach, as recipes of stores do."""
    made = Store.create(tmp_path / "store", recipe=LandscapeOptions().recipe("texts"))
    with pytest.raises(StoreError, match=r"\(draws 2 there, 3 here, range None there, 0\.5 here\)"):
        Store.create(made.path, recipe=LandscapeOptions(draws=3, range=0.5).recipe("texts"))
    other = Store.create(tmp_path / "other", recipe=LandscapeOptions(draws=3).recipe("texts"))
    assert difference_of_recipes([made, other]) == "draws 2 there, 3 here"
    ours = Store.create(tmp_path / "ours", recipe={"probe": "mine", "seeds": 2})
    with pytest.raises(StoreError, match=r"\(seeds 2 there, 3 here\)"):
        Store.create(ours.path, recipe={"probe": "mine", "seeds": 3})


def test_another_schema_version(store: Store) -> None:
    manifest = store.path / "store.json"
    manifest.write_text(
        json.dumps(json.loads(manifest.read_text()) | {"schema_version": 99, "toposcope": "9.0"})
    )
    with pytest.raises(
        StoreError, match=r"schema version 99 \(written by toposcope 9.0\), this one reads version 2"
    ):
        Store.open(store.path)


@pytest.mark.parametrize("text", ["", "[]", '{"recipe": {}}', "{\x00"])
def test_a_damaged_manifest(store: Store, text: str) -> None:
    (store.path / "store.json").write_text(text)
    with pytest.raises(StoreError, match=r"store.json is damaged"):
        Store.open(store.path)


@pytest.mark.parametrize("keep", [0, 3, 200])
@pytest.mark.parametrize("packed", [False, True])
def test_a_truncated_part_is_named_and_measured_again(store: Store, keep: int, packed: bool) -> None:
    fill(store, runs=("a",))
    if packed:
        store.compact()
    part = sorted((store.path / "features").iterdir())[0]
    part.write_bytes(part.read_bytes()[:keep])
    with pytest.raises(StoreError, match=rf"{part.name} is truncated or damaged; repeat the sweep"):
        store.features()
    again = Store.open(store.path)
    assert again.set_broken_aside() == [part]
    assert not again.has(unit(0))
    assert len(again.features()) == (0 if packed else 12)


def test_a_part_damaged_inside_is_named(store: Store) -> None:
    fill(store, runs=("a",))
    part = sorted((store.path / "features").iterdir())[0]
    raw = bytearray(part.read_bytes())
    raw[4:400] = bytes(396)
    part.write_bytes(raw)
    with pytest.raises(StoreError, match=rf"{part.name} is truncated or damaged"):
        store.features()


def test_a_full_disk_leaves_nothing_half_written(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(store)
    before = store.features()

    def full(table: object, where: Path, **_: object) -> None:
        Path(where).write_bytes(b"PAR1 half of it")
        raise OSError(errno.ENOSPC, "No space left on device", str(where))

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(OSError, match="No space left"):
        store.write(unit(9), rows(9), [diagram()])
    with pytest.raises(OSError, match="No space left"):
        store.compact()
    assert not list(store.path.rglob("*.tmp"))
    same(before, Store.open(store.path).features())


_WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from test_store import *
store = Store.open(sys.argv[1])
print("ready", flush=True)
step = 0
while True:
    store.write(unit(step), rows(step), [diagram()])
    step += 1
    if step % 20 == 0:
        store.compact()
"""


def test_a_writer_killed_anywhere_leaves_whole_units(store: Store) -> None:
    for wait in (0.05, 0.2):
        command = [sys.executable, "-c", _WRITER, str(store.path), str(Path(__file__).parent)]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        while not any((store.path / "features").glob("[!.]*.parquet")):
            assert writer.poll() is None
            time.sleep(0.01)
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(wait)
        writer.kill()
        writer.wait()
        writer.stdout.close()
        table = Store.open(store.path).features()
        assert len(table) > 0
        assert (table.groupby("step").size() == 4).all()
        assert Store.open(store.path).has(unit(int(table.step.max())), diagrams=True)


def test_readers_during_compaction_by_another_process(store: Store) -> None:
    fill(store, range(30), runs=("a",))
    command = [sys.executable, "-c", _WRITER, str(store.path), str(Path(__file__).parent)]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    writer.stdout.readline()
    try:
        sizes = []
        for _ in range(30):
            table = Store.open(store.path).features()
            assert (table.groupby("step").size() == 4).all()
            sizes.append(len(table))
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()
    assert sizes == sorted(sizes)
    assert sizes[0] >= 120


def test_a_folder_of_logs_that_is_taken_for_a_store_leads_to_check(tmp_path):
    (tmp_path / "run.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    with pytest.raises(StoreError, match="seems to hold logs; judge them with"):
        Store.open(tmp_path)
    (tmp_path / "step_1.pt").write_bytes(b"")
    with pytest.raises(StoreError, match="one is made with"):
        Store.open(tmp_path)


@pytest.mark.parametrize("read", [toposcope.analyze, toposcope.check, toposcope.forecast])
def test_a_report_that_is_given_as_an_input_leads_to_its_page_and_to_no_command(tmp_path, read):
    (tmp_path / "index.html").write_text(f"<!DOCTYPE html>\n{MARK}\n")
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "families.csv").write_text("target,column,r\nloss,mine,0.5\n")
    with pytest.raises(InputError, match="written report; open") as caught:
        read(tmp_path)
    assert str(tmp_path / "index.html") in str(caught.value)
    assert "toposcope" not in str(caught.value)


def test_the_tables_of_a_report_beside_a_log_are_no_logs(tmp_path):
    (tmp_path / "report" / "tables").mkdir(parents=True)
    (tmp_path / "report" / "index.html").write_text(f"<!DOCTYPE html>\n{MARK}\n")
    (tmp_path / "report" / "tables" / "families.csv").write_text("target,column,r\nloss,mine,0.5\n")
    (tmp_path / "train.csv").write_text("step,loss\n" + "\n".join(f"{n},{2 + 1 / n}" for n in range(1, 60)))
    answer = toposcope.check(tmp_path)
    assert answer.problems == ()
    assert len(answer.runs) == 1
