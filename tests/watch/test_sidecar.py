import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import save_file

from toposcope.core.errors import InputError
from toposcope.sources import open_series
from toposcope.store import Store
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.weights.options import WeightOptions
from toposcope.sweep import Execution, sweep
from toposcope.watch._sidecar import Sidecar
from toposcope.watch.budget import Budget
from toposcope.watch.follow import Follower
from toposcope.watch.growing import take_turn
from toposcope.watch.journal import Journal
from toposcope.watch.lock import locked
from toposcope.watch.session import LiveStore

OPTIONS = WeightOptions(points=20, draws=1, nulls=1)
PROBES = weight_probes(["baselines", "distances"], OPTIONS)


def _save(run, step, *, seed=None, loss=2.0):
    path = run / f"checkpoint-{step}"
    path.mkdir(parents=True)
    random = np.random.default_rng(step if seed is None else seed)
    names = ("layers.0.mlp.fc1.weight", "layers.1.mlp.fc1.weight")
    save_file(
        {name: random.normal(size=(8, 6)).astype(np.float32) for name in names}, path / "model.safetensors"
    )
    history = [{"step": one, "loss": loss} for one in range(0, step + 1, 5)]
    (path / "trainer_state.json").write_text(json.dumps({"global_step": step, "log_history": history}))
    return path


def _sidecar(tmp_path, **options):
    store = Store.create(tmp_path / "store", recipe=OPTIONS.recipe())
    return Sidecar(Follower(tmp_path / "run", rest=0), store, PROBES, **options)


def _kinds(events):
    return [(event.kind, event.run, event.step) for event in events]


def _values(store):
    table = store.features()
    columns = ["run", "step", "probe", "name", "feature", "draw", "value", "status", "note", "content_hash"]
    return table[columns].sort_values(columns[:6]).reset_index(drop=True)


def test_the_sidecar_measures_what_an_offline_sweep_measures(tmp_path):
    sidecar = _sidecar(tmp_path)
    for step in (10, 20, 30):
        _save(tmp_path / "run", step)
        assert _kinds(sidecar.visit())[0] == ("measured", "run", step)
    offline = Store.create(tmp_path / "offline", recipe=OPTIONS.recipe())
    sweep(open_series(tmp_path / "run"), PROBES, offline, execution=Execution(quiet=True))
    live, swept = _values(sidecar.store), _values(offline)
    assert len(live)
    assert live.equals(swept)
    assert sidecar.store.runs()["parameters"].tolist() == offline.runs()["parameters"].tolist()


def test_the_history_travels_and_the_trainers_files_stay(tmp_path):
    sidecar = _sidecar(tmp_path)
    path = _save(tmp_path / "run", 10)
    before = {file: file.read_bytes() for file in path.iterdir()}
    sidecar.visit()
    assert sidecar.store.metrics()["step"].tolist() == [0, 5, 10]
    assert {file: file.read_bytes() for file in path.iterdir()} == before


def test_the_losses_of_a_run_are_there_before_its_checkpoints_are_measured(tmp_path, monkeypatch):
    sidecar = _sidecar(tmp_path)
    _save(tmp_path / "run", 10)
    monkeypatch.setattr(sidecar, "_take", lambda *_: pytest.fail("interrupted"))
    with pytest.raises(BaseException, match="interrupted"):
        sidecar.visit()
    assert sidecar.store.metrics()["step"].tolist() == [0, 5, 10]


def test_a_killed_sidecar_goes_on_where_it_was(tmp_path):
    first = _sidecar(tmp_path)
    _save(tmp_path / "run", 10)
    first.visit()
    shutil.rmtree(tmp_path / "run" / "checkpoint-10")  # rotated away, but held for the next one
    _save(tmp_path / "run", 20)
    with first.journal.path.open("ab") as file:
        file.write(b'{"number": 1, "kind": "mea')  # killed in the middle of a line
    second = _sidecar(tmp_path)
    assert _kinds(second.visit()) == [("measured", "run", 20), ("metrics", "run", None)]
    table = second.store.features("distances")
    assert table["step"].unique().tolist() == [20]
    assert (table["status"] == "ok").all()
    third = _sidecar(tmp_path)
    assert not third.visit()
    assert [event.kind for event in third.journal.read()].count("measured") == 2


def test_what_a_killed_sidecar_measured_but_did_not_journal_is_not_measured_twice(tmp_path):
    _save(tmp_path / "run", 10)
    first = _sidecar(tmp_path)
    first.visit()
    first.journal.path.unlink()
    event = _sidecar(tmp_path).visit()[0]
    assert (event.kind, event.data["units"]) == ("measured", 0)


def test_a_rollback_becomes_a_segment_and_nothing_is_overwritten(tmp_path):
    sidecar = _sidecar(tmp_path)
    for step in (10, 20, 30):
        _save(tmp_path / "run", step)
        sidecar.visit()
    for step in (20, 30):
        shutil.rmtree(tmp_path / "run" / f"checkpoint-{step}")
    _save(tmp_path / "run", 20, seed=99, loss=3.0)
    kinds = _kinds(sidecar.visit())
    assert kinds[:2] == [("segment", "run~2", 20), ("measured", "run~2", 20)]
    losses = sidecar.store.metrics().set_index(["run", "step"])["loss"]
    assert losses["run"].index.tolist() == [0, 5, 10, 15, 20, 25, 30]
    assert losses["run"].unique().tolist() == [2.0]
    assert losses["run~2"].to_dict() == {15: 3.0, 20: 3.0}
    table = sidecar.store.features("baselines", "weight_norm")
    assert table[["run", "step"]].apply(tuple, axis=1).tolist() == [
        ("run", 10), ("run", 20), ("run", 30), ("run~2", 20),
    ]  # fmt: skip


def test_a_folder_that_was_copied_in_any_order_is_one_run(tmp_path):
    import os

    for step, written in ((10, 5), (20, 3), (30, 9), (40, 1)):
        path = _save(tmp_path / "run", step)
        for file in path.iterdir():
            os.utime(file, (1e9 + written, 1e9 + written))
    sidecar = _sidecar(tmp_path)
    assert _kinds(sidecar.visit())[:4] == [("measured", "run", step) for step in (10, 20, 30, 40)]
    _save(tmp_path / "run", 50)
    assert _kinds(_sidecar(tmp_path).visit())[0] == ("measured", "run", 50)
    shutil.rmtree(tmp_path / "run" / "checkpoint-50")
    _save(tmp_path / "run", 50, seed=99)
    assert _kinds(_sidecar(tmp_path).visit())[0] == ("segment", "run~2", 50)


def test_a_damaged_checkpoint_is_a_problem_and_the_next_is_measured(tmp_path):
    sidecar = _sidecar(tmp_path)
    path = _save(tmp_path / "run", 10)
    save_file({"layers.0.mlp.fc1.weight": np.full((8, 6), np.nan, np.float32)}, path / "model.safetensors")
    event = sidecar.visit()[0]
    assert "NaN" in event.data["problems"][0]
    _save(tmp_path / "run", 20)
    assert sidecar.visit()[0].data["units"] == 2


def test_above_the_budget_of_bytes_tensors_take_turns(tmp_path):
    sidecar = _sidecar(tmp_path, budget=Budget(bytes_per_step=200))
    for step in (10, 20):
        _save(tmp_path / "run", step)
        sidecar.visit()
    table = sidecar.store.features("baselines", "frobenius_norm")
    assert table[["step", "name"]].apply(tuple, axis=1).tolist() == [
        (10, "layers.0.mlp.fc1.weight"), (20, "layers.1.mlp.fc1.weight"),
    ]  # fmt: skip
    assert set(table["scope"]) == {"matrix"}


def test_a_tensor_above_the_budget_still_gets_its_turn():
    assert take_turn([("a", 100), ("b", 1)], 10).names == ("a",)


def test_the_links_of_measured_checkpoints_go(tmp_path):
    sidecar = _sidecar(tmp_path)
    for step in (10, 20, 30):
        _save(tmp_path / "run", step)
        sidecar.visit()
    assert len(list((tmp_path / "store" / "watch" / "held").iterdir())) == 1
    assert (tmp_path / "run" / "checkpoint-10" / "model.safetensors").stat().st_nlink == 1


def test_two_sidecars_do_not_share_a_store(tmp_path):
    with locked(tmp_path), pytest.raises(InputError, match="another watch writes"), locked(tmp_path):
        pass


@pytest.mark.parametrize(
    ("options", "match"), [({"cpu_share": 0}, "above 0"), ({"bytes_per_step": 0}, "at least 1")]
)
def test_impossible_budgets_are_refused(options, match):
    with pytest.raises(InputError, match=match):
        Budget(**options)


def test_a_reader_gets_only_what_is_new(tmp_path):
    sidecar = _sidecar(tmp_path)
    live = LiveStore(sidecar.store.path)
    _save(tmp_path / "run", 10)
    sidecar.visit()
    first = live.snapshot()
    assert first.features["step"].unique().tolist() == [10]
    assert first.metrics["step"].tolist() == [0, 5, 10]
    _save(tmp_path / "run", 20)
    sidecar.visit()
    second = live.snapshot(first.number)
    assert second.features["step"].unique().tolist() == [20]
    assert second.metrics["step"].tolist() == [15, 20]
    assert [event.kind for event in second.events] == ["measured", "metrics"]
    sidecar.store.compact()
    again = live.snapshot(first.number)
    assert again.features["step"].unique().tolist() == [20]
    assert live.snapshot(second.number).features.empty


def test_a_journal_numbers_rise_and_torn_lines_are_skipped(tmp_path):
    journal = Journal(tmp_path / "events.jsonl")
    one = journal.append("measured", "a", 1, value=float("nan"))
    with journal.path.open("ab") as file:
        file.write(b'{"number": 9')
    assert [event.number for event in journal.read()] == [one.number]
    two = Journal(journal.path).append("measured", "a", 2)
    assert two.number > one.number
    assert [event.step for event in journal.read()] == [1, 2]
    assert journal.read()[0].data == {"value": None}
    with pytest.raises(ValueError, match="event kind 'odd' is unknown"):
        journal.append("odd")
