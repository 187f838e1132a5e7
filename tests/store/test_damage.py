"""A bit that flips, a part that is deleted, a merge that is killed: none of it passes unnoticed."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from toposcope.core.errors import StoreError
from toposcope.core.types import Row, RunRecord
from toposcope.store import Result, Store, Unit, ledger
from toposcope.store.export import export
from toposcope.store.merge import merge


def _filled(path, steps=range(3), run="a"):
    store = Store.create(path, recipe={"points": 10})
    store.write_runs([RunRecord(run, family="gpt", parameters=10)])
    store.write_metrics(pd.DataFrame({"run": run, "step": list(steps), "loss": 2.0}))
    for step in steps:
        rows = [
            Row(run=run, step=step, probe="p", feature=f"f{i}", value=float(i + step), name="model")
            for i in range(20)
        ]
        store.write(Unit(run, step, "p", 1, f"{step}"), rows)
    return store


def _parts(store, table="features"):
    return sorted((store.path / table).glob("*.parquet"))


@pytest.mark.parametrize("table", ["features", "metrics", "runs"])
@pytest.mark.parametrize("packed", [False, True])
def test_no_flipped_bit_is_taken_as_a_number(tmp_path, table, packed):
    store = _filled(tmp_path / "s")
    if packed:
        store.compact()
    read = getattr(Store.open(store.path), table)
    before = read()
    path = _parts(store, table)[0]
    whole = path.read_bytes()
    for at in np.random.default_rng(0).integers(0, len(whole) - 1, size=60).tolist():
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        with contextlib.suppress(StoreError):  # refused, or as it was
            pd.testing.assert_frame_equal(read(), before)
    path.write_bytes(whole)
    pd.testing.assert_frame_equal(read(), before)


def test_a_damaged_footer_is_set_aside_and_measured_again(tmp_path):
    store = _filled(tmp_path / "s")
    path = _parts(store)[0]
    content = bytearray(path.read_bytes())
    content[-40] ^= 4
    path.write_bytes(bytes(content))
    assert Store.open(store.path).set_broken_aside() == [path]


def test_a_part_that_is_deleted_is_named_and_one_that_was_joined_is_not(tmp_path):
    store = _filled(tmp_path / "s")
    assert not store.findings
    first = _parts(store)[0]
    first.unlink()
    (found,) = Store.open(store.path).findings
    assert first.name in found.message
    assert "1 files gone" in repr(Store.open(store.path))
    rows = [Row(run="a", step=0, probe="p", feature="f0", value=1.0, name="model")]
    store = Store.open(store.path)
    store.write(Unit("a", 0, "p", 1, "0"), rows)  # measured again
    assert not store.findings
    store.compact()
    store.write(Unit("a", 7, "p", 1, "7"), [Row("a", 7, "p", "f0", 1.0)])
    store.compact()
    assert not Store.open(store.path).findings
    (pack,) = _parts(store)
    pack.unlink()
    (found,) = Store.open(store.path).findings
    assert pack.name in found.message


def test_a_store_copied_without_its_ledger_is_read_and_says_so(tmp_path):
    import shutil

    store = _filled(tmp_path / "s")
    shutil.rmtree(store.path / ledger.FOLDER)
    shutil.copytree(store.path, tmp_path / "old")
    old = Store.open(tmp_path / "old")
    assert len(old.features()) == 60
    (found,) = old.findings
    assert (found.fault, "hidden folders too" in found.message) == ("no-ledger", True)


def test_a_store_that_took_the_place_of_another_misses_nothing_of_it(tmp_path):
    import shutil

    assert not _filled(tmp_path / "s").findings
    shutil.rmtree(tmp_path / "s")
    again = _filled(tmp_path / "s", [7])
    assert not again.findings
    assert again.features()["step"].unique().tolist() == [7]


def test_a_process_reads_what_it_wrote_where_another_began_the_new_store(tmp_path):
    import shutil

    unit = Unit("a", 0, "p", 1, "")
    assert len(_filled(tmp_path / "s", []).features()) == 0
    Store.open(tmp_path / "s").write_failure(unit, "the first")
    assert Store.open(tmp_path / "s").features().note.tolist() == ["the first"]
    shutil.rmtree(tmp_path / "s")
    began = (
        "import sys; from toposcope.store import Store, Unit; "
        "store = Store.create(sys.argv[1], recipe={'points': 10}); "
        "store.write_failure(Unit('a', 1, 'p', 1, ''), 'elsewhere')"
    )
    subprocess.run([sys.executable, "-c", began, tmp_path / "s"], check=True)
    store = Store.open(tmp_path / "s")
    store.write_failure(unit, "the second, no shorter")
    assert store.features().note.tolist() == [
        "the second, no shorter",
        "elsewhere",
    ]


def test_files_of_lines_do_not_grow_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "_ENDED", -1.0)
    for step in range(80):
        ledger._own.clear()  # another process
        _filled(tmp_path / "s", [step])
    assert len(list(ledger.place_of(tmp_path / "s" / "features").iterdir())) <= 40
    store = Store.open(tmp_path / "s")
    assert not store.findings
    _parts(store)[5].unlink()
    assert len(store.findings) == 1


def test_what_a_killed_merge_left_goes_with_the_next(tmp_path):
    one, two = _filled(tmp_path / "a"), _filled(tmp_path / "b", run="b")
    stores = f"[Store.open({str(one.path)!r}), Store.open({str(two.path)!r})]"
    lines = (
        "import os, signal, sys", "from toposcope.store import Store", "from toposcope.store import merge",
        "merge._write_rest = lambda *_: os.kill(os.getpid(), signal.SIGKILL)",
        f"merge.merge({stores}, {str(tmp_path / 'ab')!r})",
    )  # fmt: skip
    ended = subprocess.run([sys.executable, "-c", "\n".join(lines)], timeout=120)
    assert ended.returncode == -9
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".ab.")]
    made, _ = merge([one, two], tmp_path / "ab")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "ab", "b"]
    assert len(made.features()) == 120
    assert not made.findings


def test_cells_that_begin_like_formulas_are_guarded_and_numbers_stay(tmp_path):
    evil = '=HYPERLINK("http://x","y")'
    store = Store.create(tmp_path / "s", recipe={})
    store.write_results(
        [Result(Unit(evil, 0, "p", 1, "0"), (Row(evil, 0, "p", "f", -1.5, name="@model"),))],
        keep_diagrams=False,
    )
    for shape in ("long", "wide"):
        export(store, tmp_path / shape, kind="csv", shape=shape)
        table = pd.read_csv(tmp_path / shape / "features.csv")
        assert table["run"].tolist() == [f"'{evil}"]
        assert -1.5 in table.to_numpy().tolist()[0]
        for line in Path(tmp_path / shape / "features.csv").read_text().splitlines():
            assert not [cell for cell in line.split(",") if cell.strip('"').startswith(("=", "@"))]


def test_a_manifest_of_brackets_and_a_name_that_is_no_text_are_one_line(tmp_path):
    store = _filled(tmp_path / "s")
    (store.path / "store.json").write_text("[" * 100_000)
    with pytest.raises(StoreError, match="is damaged"):
        Store.open(store.path)
    (store.path / "store.json").write_text(json.dumps({"schema_version": 2, "recipe": 3}))
    with pytest.raises(StoreError, match="is damaged"):
        Store.open(store.path)
    with pytest.raises(StoreError, match="not UTF-8"):
        Store.create(tmp_path / "far\udcff", recipe={})
