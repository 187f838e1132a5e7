"""The audit of a folder that is watched: what lies there complete, again while the run grows."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import save_file

from toposcope.core.observations import AuditFinding
from toposcope.sources import open_series
from toposcope.sources.audit import Audited, audit
from toposcope.sources.coverage import Coverage
from toposcope.store import Store
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.weights.options import WeightOptions
from toposcope.watch import _audits as audits
from toposcope.watch._audits import REST, FolderAudit, _gone
from toposcope.watch._sidecar import Sidecar
from toposcope.watch.follow import Follower

OPTIONS = WeightOptions(points=20, draws=1, nulls=1)


def _save(run, step, *, dead=False):
    path = run / f"checkpoint-{step}"
    path.mkdir(parents=True)
    value = np.random.default_rng(step).normal(size=(8, 16)).astype(np.float32)
    second = np.zeros_like(value) if dead else value[::-1].copy()
    save_file(
        {"layers.0.mlp.fc1.weight": value, "layers.1.mlp.fc1.weight": second}, path / "model.safetensors"
    )
    (path / "trainer_state.json").write_text(json.dumps({"global_step": step, "log_history": []}))
    return path


def _sidecar(tmp_path, rest=0):
    store = Store.create(tmp_path / "store", recipe=OPTIONS.recipe())
    return Sidecar(Follower(tmp_path / "run", rest=rest), store, weight_probes(["baselines"], OPTIONS))


def _found(store):
    return [(line.step, line.fault, line.tensor) for line in store.audit().itertuples()]


@pytest.fixture
def at_once(monkeypatch):
    """Let an audit follow on the other without a rest."""
    monkeypatch.setattr(audits, "REST", 0.0)


@pytest.mark.usefixtures("at_once")
def test_a_watch_keeps_what_the_cheap_audit_of_its_folder_finds(tmp_path):
    sidecar = _sidecar(tmp_path)
    for step in (10, 20, 30):
        _save(tmp_path / "run", step, dead=step == 20)
        sidecar.visit()
    offline = audit(open_series(tmp_path / "run"), cheap=True)
    assert _found(sidecar.store) == [(one.step, one.fault, one.tensor) for one in offline]
    assert (20, "zero-tensor", "layers.1.mlp.fc1.weight") in _found(sidecar.store)


@pytest.mark.usefixtures("at_once")
def test_a_finding_outlives_the_checkpoint_that_is_rotated_away(tmp_path):
    sidecar = _sidecar(tmp_path)
    _save(tmp_path / "run", 10)
    _save(tmp_path / "run", 20, dead=True)
    sidecar.visit()
    shutil.rmtree(tmp_path / "run" / "checkpoint-20")
    _save(tmp_path / "run", 30)
    sidecar.visit()
    assert (20, "zero-tensor", "layers.1.mlp.fc1.weight") in _found(sidecar.store)
    again = Sidecar(Follower(tmp_path / "run", rest=0), sidecar.store, weight_probes(["baselines"], OPTIONS))
    again.visit()
    assert _found(sidecar.store).count((20, "zero-tensor", "layers.1.mlp.fc1.weight")) == 1


@pytest.mark.usefixtures("at_once")
def test_many_equal_findings_stay_one_line_while_their_checkpoints_are_rotated_away(tmp_path):
    sidecar = _sidecar(tmp_path)
    _save(tmp_path / "run", 10)
    for step in range(20, 240, 20):
        _save(tmp_path / "run", step, dead=True)
    sidecar.visit()
    for gone in (20, 40, 60):
        shutil.rmtree(tmp_path / "run" / f"checkpoint-{gone}")
    _save(tmp_path / "run", 240, dead=True)
    sidecar.visit()
    zero = [line for line in sidecar.store.audit().itertuples() if line.fault == "zero-tensor"]
    assert [list(line.steps) for line in zero] == [list(range(20, 260, 20))]
    assert zero[0].message.endswith("; so at 12 steps from 20 to 240")


@pytest.mark.usefixtures("at_once")
def test_a_checkpoint_that_is_still_written_is_no_finding(tmp_path):
    sidecar = _sidecar(tmp_path)
    _save(tmp_path / "run", 10)
    half = _save(tmp_path / "run", 20) / "model.safetensors"
    content = half.read_bytes()
    half.write_bytes(content[:100])
    sidecar.visit()
    assert not [line for line in _found(sidecar.store) if line[0] == 20]
    half.write_bytes(content[:-1] + b"\xff")
    sidecar.visit()
    assert len(sidecar.store.audit()) == 0


def test_an_audit_rests_as_many_times_as_long_as_it_took(tmp_path, monkeypatch):
    now, made = [0.0], []
    follower = Follower(tmp_path / "run", rest=0)
    looked = FolderAudit(follower, Store.create(tmp_path / "store", recipe={}), clock=lambda: now[0])

    def slow(series, *, cheap, arrived=()):
        now[0] += 2.0
        made.append((len(series), cheap))
        return Audited([], Coverage(()))

    monkeypatch.setattr(audits, "audited", slow)
    for step in (10, 20):
        _save(tmp_path / "run", step)
        looked.visit(follower.visit().complete)
    assert made == [(1, True)]
    now[0] = 2.0 + 2.0 * REST
    for _ in range(2):
        looked.visit(follower.visit().complete)
        now[0] += 3 * REST
    assert made == [(1, True), (2, True)]


def test_what_was_rotated_away_keeps_how_many_it_stands_for():
    many = AuditFinding("run", 10, "q", "is zero", count=20, steps=(10, 20), tensors=("q", "k"), fault="zero")
    assert _gone(many, {("run", 30)}) == many
    half = _gone(many, {("run", 20)})
    assert (half.count, half.steps, half.tensors) == (10, (10,), ("q", "k"))
    assert _gone(many, {("run", 10), ("run", 20)}) is None
