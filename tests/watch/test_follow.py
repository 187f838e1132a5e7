import json
import os
import shutil

import numpy as np
import pytest
from safetensors.numpy import save_file

from toposcope.core.errors import InputError
from toposcope.core.types import Checkpoint
from toposcope.watch._retained import retain
from toposcope.watch.follow import Follower, stamps, tracker_step
from toposcope.watch.segments import Segments


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def _weights(seed=0):
    return {"layer.0.weight": np.random.default_rng(seed).normal(size=(6, 4)).astype(np.float32)}


def _transformers(folder, step, *, state=True, seed=None):
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    save_file(_weights(step if seed is None else seed), path / "model.safetensors")
    (path / "config.json").write_text("{}")
    if state:
        (path / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    return path


def _follower(folder, **options):
    clock = Clock()
    return Follower(folder, clock=clock, **{"rest": 5.0, "patience": 60.0} | options), clock


def _steps(visit):
    return [sighting.checkpoint.step for sighting in visit.ready]


def test_a_folder_that_is_not_there_yet_is_waited_for(tmp_path):
    follower, clock = _follower(tmp_path / "run")
    assert not follower.visit().ready
    _transformers(tmp_path / "run", 10)
    assert "changed less than 5 s ago" in str(follower.visit().waiting)
    clock.now += 5
    assert _steps(follower.visit()) == [10]
    assert not follower.visit().ready


def test_a_file_that_grows_starts_the_rest_anew(tmp_path):
    path = _transformers(tmp_path / "run", 10)
    follower, clock = _follower(tmp_path / "run")
    follower.visit()
    clock.now += 4
    with open(path / "optimizer.pt", "wb") as file:
        file.write(b"x" * 100)
    assert not follower.visit().ready
    clock.now += 4
    assert not follower.visit().ready
    clock.now += 1
    assert _steps(follower.visit()) == [10]


def test_half_a_file_is_never_complete(tmp_path):
    path = _transformers(tmp_path / "run", 10)
    whole = (path / "model.safetensors").read_bytes()
    (path / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    follower, clock = _follower(tmp_path / "run")
    follower.visit()
    clock.now += 1000
    visit = follower.visit()
    assert not visit.ready
    assert "model.safetensors" in next(iter(visit.waiting.values()))
    (path / "model.safetensors").write_bytes(whole)
    follower.visit()
    clock.now += 5
    assert _steps(follower.visit()) == [10]


def test_a_missing_shard_is_waited_for(tmp_path):
    path = tmp_path / "run" / "checkpoint-10"
    path.mkdir(parents=True)
    shards = {f"model-0000{k}-of-00002.safetensors": {f"layer.{k}.weight": np.ones((3, 2))} for k in (1, 2)}
    index = {"weight_map": {name: shard for shard, tensors in shards.items() for name in tensors}}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    first, second = shards
    save_file(shards[first], path / first)
    follower, clock = _follower(tmp_path / "run")
    follower.visit()
    clock.now += 100
    assert second in next(iter(follower.visit().waiting.values()))
    save_file(shards[second], path / second)
    follower.visit()
    clock.now += 5
    assert _steps(follower.visit()) == [10]


def test_what_earlier_checkpoints_have_is_waited_for_but_not_for_ever(tmp_path):
    _transformers(tmp_path / "run", 10)
    follower, clock = _follower(tmp_path / "run")
    follower.visit()
    clock.now += 5
    assert _steps(follower.visit()) == [10]
    _transformers(tmp_path / "run", 20, state=False)
    follower.visit()
    clock.now += 10
    assert "lacks trainer_state.json" in next(iter(follower.visit().waiting.values()))
    clock.now += 60
    assert _steps(follower.visit()) == [20]


@pytest.mark.parametrize(
    ("name", "text"),
    [("latest_checkpointed_iteration.txt", "{}"), ("latest", "global_step{}"), ("latest.txt", "{}\n")],
)
def test_a_tracker_holds_back_what_it_has_not_reached(tmp_path, name, text):
    run = tmp_path / "run"
    _transformers(run, 20)
    (run / name).write_text(text.format(10))
    assert tracker_step(run) == 10
    follower, clock = _follower(run)
    follower.visit()
    clock.now += 100
    assert "tracker says step 10" in next(iter(follower.visit().waiting.values()))
    (run / name).write_text(text.format(20))
    assert _steps(follower.visit()) == [20]


def test_what_goes_before_it_was_complete_has_vanished(tmp_path):
    _transformers(tmp_path / "run", 10)
    path = _transformers(tmp_path / "run", 20)
    follower, _ = _follower(tmp_path / "run")
    follower.visit()
    shutil.rmtree(path)
    assert [one.step for one in follower.visit().vanished] == [20]
    assert not follower.visit().vanished


def test_new_files_under_an_old_name_are_reported_again(tmp_path):
    path = _transformers(tmp_path / "run", 10)
    follower, clock = _follower(tmp_path / "run", rest=0)
    assert _steps(follower.visit()) == [10]
    shutil.rmtree(path)
    _transformers(tmp_path / "run", 10, seed=99)
    clock.now += 1
    assert _steps(follower.visit()) == [10]


def test_impossible_waits_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"rest 10: it must be at least 0, and at most the patience \(1 s\)"):
        Follower(tmp_path, rest=10, patience=1)


def _sighting(tmp_path, step=10):
    follower, _ = _follower(tmp_path / "run", rest=0)
    return next(s for s in follower.visit().ready if s.checkpoint.step == step)


def test_a_held_checkpoint_survives_rotation(tmp_path):
    path = _transformers(tmp_path / "run", 10)
    sighting = _sighting(tmp_path)
    held = retain(sighting, tmp_path / "held")
    assert held is not None
    assert held.linked
    shutil.rmtree(path)
    assert stamps(held.path) == sighting.files
    held.release()
    assert not any((tmp_path / "held").iterdir())


def test_holding_costs_no_space_and_leaves_the_files_alone(tmp_path):
    path = _transformers(tmp_path / "run", 10)
    held = retain(_sighting(tmp_path), tmp_path / "held")
    assert (path / "model.safetensors").stat().st_nlink == 2
    held.release()
    assert (path / "model.safetensors").stat().st_nlink == 1


def test_where_links_fail_the_files_themselves_are_read(tmp_path, monkeypatch):
    path = _transformers(tmp_path / "run", 10)
    sighting = _sighting(tmp_path)

    def refuse(*_):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr("os.link", refuse)
    held = retain(sighting, tmp_path / "held")
    assert (held.path, held.linked) == (path, False)
    held.release()
    assert path.is_dir()


def test_what_is_gone_cannot_be_held(tmp_path):
    path = _transformers(tmp_path / "run", 10)
    sighting = _sighting(tmp_path)
    shutil.rmtree(path)
    assert retain(sighting, tmp_path / "held") is None


def _names(*seen):
    segments = Segments()
    found = [segments.name(Checkpoint("r", s), content=c, written=w) for s, c, w in seen]
    return [None if one is None else one.run for one in found]


def test_a_rollback_starts_a_segment_and_nothing_is_overwritten():
    assert _names((100, "a", 1), (200, "b", 2), (300, "c", 3), (200, "x", 4), (300, "y", 5)) == [
        "r", "r", "r", "r~2", "r~2",
    ]  # fmt: skip


def test_a_second_rollback_starts_a_third_segment():
    assert _names((100, "a", 1), (50, "b", 2), (100, "c", 3), (60, "d", 4))[-1] == "r~3"


def test_a_copy_of_a_known_checkpoint_is_no_rollback():
    assert _names((100, "a", 1), (200, "b", 2), (100, "a", 9))[-1] is None


def test_a_checkpoint_that_completes_late_belongs_where_it_was_written():
    assert _names((100, "a", 1), (300, "c", 3), (200, "b", 2)) == ["r", "r", "r"]
    assert _names((100, "a", 1), (50, "b", 5), (200, "c", 2)) == ["r", "r~2", "r"]


def test_what_a_follower_knows_does_not_grow_with_what_was_rotated_away(tmp_path):
    follower, _ = _follower(tmp_path / "run", rest=0)
    sizes = []
    for step in range(10, 400, 10):
        _transformers(tmp_path / "run", step, seed=1)
        shutil.rmtree(tmp_path / "run" / f"checkpoint-{step - 30}", ignore_errors=True)
        assert _steps(follower.visit()) == [step]
        sizes.append(sum(len(known) for known in vars(follower).values() if isinstance(known, dict)))
    assert max(sizes) == sizes[4]


def test_a_checkpoint_that_a_lost_folder_gives_back_is_not_new(tmp_path):
    _transformers(tmp_path / "run", 10)
    follower, _ = _follower(tmp_path / "run", rest=0)
    assert _steps(follower.visit()) == [10]
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    assert not follower.visit().ready
    (tmp_path / "elsewhere").rename(tmp_path / "run")
    assert not follower.visit().ready


def test_old_files_that_a_watch_sees_for_the_first_time_are_no_problem(tmp_path):
    """The live page of a finished folder was led by `52 not checked: changed less than 5 s ago`."""
    path = _transformers(tmp_path / "run", 10)
    old = path.stat().st_mtime - 3600
    for one in (*path.iterdir(), path):
        os.utime(one, (old, old))
    follower, clock = _follower(tmp_path / "run")
    first = follower.visit()
    assert first.resting
    assert not first.stuck
    clock.now += 5
    assert _steps(follower.visit()) == [10]
