"""The step before is compared with, however the trainer writes and wherever the store lies."""

import contextlib
import errno
import json
import os

import numpy as np
import pytest
from safetensors.numpy import save_file

from toposcope.cli.main import main
from toposcope.store import Store
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.weights.options import WeightOptions
from toposcope.watch import _retained as retained
from toposcope.watch._sidecar import Sidecar
from toposcope.watch.follow import Follower

torch = pytest.importorskip("torch")

OPTIONS = WeightOptions(points=20, draws=1, nulls=1)
PROBES = weight_probes(["updates"], OPTIONS)
NAMES = tuple(f"layers.{i}.mlp.fc1.weight" for i in range(3))


def _state(step, *, permuted=False):
    random = np.random.default_rng(0)
    state = {name: random.normal(size=(16, 8)) for name in NAMES}
    for _ in range(step // 10):
        state = {name: value + 0.01 * random.normal(size=value.shape) for name, value in state.items()}
    if permuted:
        state[NAMES[1]] = state[NAMES[1]][::-1].copy()
    return {name: value.astype(np.float32) for name, value in state.items()}


def _in_place(folder, step, **options):
    """Write what nanoGPT does: torch.save over the one ckpt.pt, beside a log that grows."""
    folder.mkdir(parents=True, exist_ok=True)
    model = {name: torch.from_numpy(value) for name, value in _state(step, **options).items()}
    torch.save({"model": model, "iter_num": step}, folder / "ckpt.pt")
    with (folder / "train.log").open("a") as file:
        file.write(f"{step}\n")


def _numbered(folder, step):
    folder.mkdir(parents=True, exist_ok=True)
    save_file(_state(step), folder / f"step_{step}.safetensors")


def _sidecar(tmp_path, store="store"):
    made = Store.create(tmp_path / store, recipe=OPTIONS.recipe())
    return Sidecar(Follower(tmp_path / "out", rest=0), made, PROBES)


def _compared(store):
    table = store.features("updates", "update_norm")
    return table.loc[(table["scope"] == "model") & (table["status"] == "ok"), "step"].tolist()


def _problems(events):
    return [why for event in events if event.kind == "measured" for why in event.data["problems"]]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_trainer_that_writes_in_place_is_compared_with_the_step_before(tmp_path, restarted):
    sidecar = _sidecar(tmp_path)
    for step in (10, 20, 30, 40):
        _in_place(tmp_path / "out", step)
        sidecar = _sidecar(tmp_path) if restarted else sidecar
        (measured,) = [event for event in sidecar.visit() if event.kind == "measured"]
        assert (measured.step, measured.data["problems"]) == (step, [])
    assert _compared(sidecar.store) == [20, 30, 40]
    assert len(list((tmp_path / "store" / "watch" / "held").iterdir())) == 1


def test_permuted_rows_of_a_file_that_is_written_in_place_are_an_alarm(tmp_path, capsys):
    words = ["watch", tmp_path / "out", "--out", tmp_path / "store", "--once", "--rest", 0, "--json"]
    words += ["--features", "updates"]
    for step in (10, 20, 30, 40, 50):
        _in_place(tmp_path / "out", step, permuted=step == 50)
        with pytest.raises(SystemExit) as ended:
            main([*map(str, words)])
        told = json.loads(capsys.readouterr().out)
        assert (ended.value.code, bool(told["alarms"])) == ((1, True) if step == 50 else (0, False))
    assert told["alarms"][0]["culprits"][0]["name"].startswith(NAMES[1].removesuffix(".weight"))


def _no_links(*_, **__):
    raise OSError(errno.EXDEV, "Invalid cross-device link")


@pytest.mark.parametrize("rotated", [False, True])
def test_a_store_on_another_file_system_keeps_a_copy(tmp_path, monkeypatch, rotated):
    monkeypatch.setattr(retained, "_link", _no_links)
    for step in (10, 20, 30):
        _numbered(tmp_path / "out", step)
        sidecar = _sidecar(tmp_path)  # a start for every look, as by --once
        assert not _problems(sidecar.visit())
        if rotated:
            (tmp_path / "out" / f"step_{step}.safetensors").unlink()
            _numbered(tmp_path / "out", step + 10)
    assert _compared(sidecar.store) == [20, 30]


@pytest.mark.parametrize("rotated", [False, True])
def test_where_nothing_can_be_kept_the_trainers_file_is_taken_while_it_is_the_same(
    tmp_path, monkeypatch, rotated
):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(retained, "_link", full)
    monkeypatch.setattr(retained, "_copy", full)
    _numbered(tmp_path / "out", 10)
    assert not _problems(_sidecar(tmp_path).visit())
    _numbered(tmp_path / "out", 20)
    if rotated:
        (tmp_path / "out" / "step_10.safetensors").unlink()
    sidecar = _sidecar(tmp_path)
    problems = _problems(sidecar.visit())
    assert _compared(sidecar.store) == ([] if rotated else [20])
    assert [why.startswith("not compared with step 10") for why in problems] == [True] * rotated


def test_files_that_were_touched_are_still_the_same(tmp_path):
    _numbered(tmp_path / "out", 10)
    _sidecar(tmp_path).visit()
    os.utime(tmp_path / "out" / "step_10.safetensors", (1e9, 1e9))
    _numbered(tmp_path / "out", 20)
    sidecar = _sidecar(tmp_path)
    assert not _problems(sidecar.visit())
    assert _compared(sidecar.store) == [20]


def test_a_numbered_file_that_was_written_over_is_not_taken_for_what_it_was(tmp_path):
    _numbered(tmp_path / "out", 10)
    sidecar = _sidecar(tmp_path)
    sidecar.visit()
    with (tmp_path / "out" / "step_10.safetensors").open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\0\0\0\0")
    (tmp_path / "out" / "step_10.safetensors").unlink()  # the link that is held has the other bytes
    _numbered(tmp_path / "out", 20)
    (problem, *_) = _problems(sidecar.visit())
    assert problem.startswith("not compared with step 10")


@pytest.mark.faults
def test_a_store_on_a_full_and_other_file_system_loses_no_comparison(tmp_path, mount):
    disk = mount("size=4m")
    store = f"{disk.name}/store"
    for step in (10, 20):
        _numbered(tmp_path / "out", step)
        _sidecar(tmp_path, store).visit()
    _numbered(tmp_path / "out", 30)
    filler = disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    with pytest.raises(OSError, match="No space"):
        _sidecar(tmp_path, store).visit()
    filler.unlink()
    sidecar = _sidecar(tmp_path, store)
    sidecar.visit()
    assert _compared(sidecar.store) == [20, 30]
