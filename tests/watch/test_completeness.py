"""Checkpoints as trainers write them, slowly: at no moment before the last does one count as complete."""

import argparse
import json
import shutil
import warnings

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.nanotron_files import nanotron_parameter, nanotron_rest
from toposcope.sources import open_series
from toposcope.watch.follow import Follower

torch = pytest.importorskip("torch")

NAMES = ("layers.0.mlp.fc1.weight", "layers.1.mlp.fc1.weight")
STATE = {
    name: np.random.default_rng(i).normal(size=(64, 48)).astype(np.float32) for i, name in enumerate(NAMES)
}
LONG = 1000.0
"""Seconds after which nothing counts any more that only waits."""


def _tensors():
    return {name: torch.from_numpy(value) for name, value in STATE.items()}


def _transformers(run):
    path = run / "checkpoint-10"
    path.mkdir(parents=True)
    files = [f"model-0000{k}-of-00002.safetensors" for k in (1, 2)]
    for file, (name, value) in zip(files, STATE.items(), strict=True):
        save_file({name: value}, path / file)
    index = {"weight_map": dict(zip(NAMES, files, strict=True))}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    return ["checkpoint-10/model.safetensors.index.json", *(f"checkpoint-10/{file}" for file in files)]


def _transformers_without_index(run):
    files = _transformers(run)
    (run / files[0]).unlink()
    return files[1:]


def _lightning(run):
    run.mkdir(parents=True)
    torch.save({"state_dict": _tensors(), "global_step": 10}, run / "epoch=0-step=10.ckpt")
    return ["epoch=0-step=10.ckpt"]


def _torchtitan(run):
    import torch.distributed.checkpoint as dcp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(_tensors(), checkpoint_id=run / "step-10", no_dist=True)
    return ["step-10/.metadata", "step-10/__0_0.distcp"]


def _olmo_core(run):
    import torch.distributed.checkpoint as dcp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = {"model": _tensors(), "optim": {"exp_avg": torch.ones(4, 4)}}
        dcp.save(state, checkpoint_id=run / "step10" / "model_and_optim", no_dist=True)
    return ["step10/model_and_optim/.metadata", "step10/model_and_optim/__0_0.distcp"]


def _megatron(run):
    files = []
    for rank in (0, 1):
        path = run / "iter_0000010" / f"mp_rank_0{rank}"
        path.mkdir(parents=True)
        names = ("decoder.layers.0.mlp.linear_fc1.weight", "decoder.layers.1.mlp.linear_fc1.weight")
        halves = {
            name: torch.from_numpy(np.split(value, 2)[rank].copy())
            for name, value in zip(names, STATE.values(), strict=True)
        }
        content = {
            "model": halves,
            "args": argparse.Namespace(num_attention_heads=2, tensor_model_parallel_size=2),
            "iteration": 10,
        }
        torch.save(content, path / "model_optim_rng.pt")
        files.append(f"iter_0000010/mp_rank_0{rank}/model_optim_rng.pt")
    return files


def _neox(run):
    files = []
    for rank in (0, 1):
        path = run / "global_step10"
        path.mkdir(parents=True, exist_ok=True)
        for layer, value in enumerate(STATE.values(), 2):
            file = f"layer_{layer:02d}-model_{rank:02d}-model_states.pt"
            half = torch.from_numpy(np.split(value, 2)[rank].copy())
            torch.save({"mlp.dense_h_to_4h.weight": half}, path / file)
            files.append(f"global_step10/{file}")
    return files


def _nanotron(run):
    made = []
    for i, value in enumerate(STATE.values()):
        name = f"model.decoder.{i}.pp_block.mlp.down_proj.weight"
        made += nanotron_parameter(run / "10", name, value, ranks=2)
    made += nanotron_rest(run / "10", layers=len(STATE))
    return [str(path.relative_to(run)) for path in made]


def _own(run):
    run.mkdir(parents=True)
    save_file(STATE, run / "step_10.safetensors")
    return ["step_10.safetensors"]


FORMATS = {
    made.__name__.strip("_"): made
    for made in (
        _transformers, _transformers_without_index, _lightning, _torchtitan, _olmo_core, _megatron, _neox,
        _nanotron, _own,
    )
}  # fmt: skip


def _ready(follower, clock, seconds):
    follower.visit()
    clock[0] += seconds
    return follower.visit().ready


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kept", [0, 1, 0.5, 0.98])
@pytest.mark.parametrize("last", [0, -1])
def test_a_file_that_is_cut_is_waited_for_however_long_it_rests(tmp_path, form, kept, last):
    files = FORMATS[form](tmp_path / "whole")
    cut = files[last]
    run = tmp_path / "run"
    shutil.copytree(tmp_path / "whole", run)
    content = (run / cut).read_bytes()
    (run / cut).write_bytes(content[: int(kept * len(content)) if kept < 1 else 1])
    clock = [0.0]
    follower = Follower(run, rest=5.0, patience=60.0, clock=lambda: clock[0])
    assert not _ready(follower, clock, LONG)
    (run / cut).write_bytes(content)
    assert not _ready(follower, clock, 4.0)
    clock[0] += LONG
    (sighting,) = follower.visit().ready
    assert sighting.checkpoint.step == 10


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "neox"])
def test_files_that_come_one_by_one_in_any_order_count_when_the_last_is_there(tmp_path, form):
    files = FORMATS[form](tmp_path / "whole")
    index = (
        files[:1] if form == "transformers" else []
    )  # without it, all numbered shards are a checkpoint too
    for number, order in enumerate((files, index + files[len(index) :][::-1])):
        run = tmp_path / f"run{number}"
        clock = [0.0]
        follower = Follower(run, rest=5.0, patience=60.0, clock=lambda clock=clock: clock[0])
        for file in order:
            assert not _ready(follower, clock, LONG)
            (run / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(tmp_path / "whole" / file, run / file)
        (sighting,) = _ready(follower, clock, LONG)
        series = open_series(str(sighting.path))
        assert len(dict(series.tensors(next(iter(series))))) == len(NAMES)


def test_a_rank_of_a_distributed_checkpoint_that_grows_is_waited_for_by_name(tmp_path):
    pytest.importorskip("torch.distributed.checkpoint")
    _torchtitan(tmp_path / "run")
    part = tmp_path / "run" / "step-10" / "__0_0.distcp"
    content = part.read_bytes()
    part.write_bytes(content[:100])
    clock = [0.0]
    follower = Follower(tmp_path / "run", rest=5.0, clock=lambda: clock[0])
    _ready(follower, clock, LONG)
    (why,) = follower.visit().waiting.values()
    assert why.startswith("__0_0.distcp has 100 of ")


def test_the_ranks_that_megatron_was_saved_by_are_counted(tmp_path):
    first, _ = _megatron(tmp_path / "run")
    shutil.rmtree((tmp_path / "run" / first).parents[0].with_name("mp_rank_01"))
    clock = [0.0]
    follower = Follower(tmp_path / "run", rest=5.0, clock=lambda: clock[0])
    assert not _ready(follower, clock, LONG)
    (why,) = follower.visit().waiting.values()
    assert "contains 1 of the 2 ranks that saved it" in why


def test_ranks_that_nothing_counts_wait_for_a_tracker_but_not_for_ever(tmp_path):
    files = _neox(tmp_path / "whole")
    run = tmp_path / "run"
    clock = [0.0]
    follower = Follower(run, rest=5.0, patience=60.0, lag=600.0, clock=lambda: clock[0])
    (run / "global_step10").mkdir(parents=True)
    for file in sorted(files, key=lambda name: "model_01" in name)[:2]:  # all that rank 0 writes
        shutil.copy(tmp_path / "whole" / file, run / file)
    assert not _ready(follower, clock, 590.0)
    assert "no tracker file says that it is complete" in follower.visit().waiting.values()
    shutil.copytree(tmp_path / "whole", run, dirs_exist_ok=True)
    assert not _ready(follower, clock, 590.0)
    assert len(_ready(follower, clock, 10.0)) == 1  # converted checkpoints have no tracker


def test_a_rank_that_earlier_checkpoints_have_is_waited_for(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    _neox(run)
    (run / "latest").write_text("global_step30")
    clock = [0.0]
    follower = Follower(run, rest=5.0, patience=60.0, clock=lambda: clock[0])
    assert len(_ready(follower, clock, 5.0)) == 1
    shutil.copytree(run / "global_step10", run / "global_step20")
    for part in (run / "global_step20").glob("*model_01*"):
        part.unlink()
    assert not _ready(follower, clock, 50.0)
    (why,) = follower.visit().waiting.values()
    assert why == "lacks layer_#-model_#-model_states.pt, which earlier checkpoints have"


@pytest.mark.parametrize(
    ("form", "tracker", "before", "after"),
    [
        ("megatron", "latest_checkpointed_iteration.txt", "0", "10"),
        ("neox", "latest", "global_step0", "global_step10"),
        ("nanotron", "latest.txt", "0", "10"),
        ("own", "latest.txt", "0", "10"),
    ],
)
def test_a_checkpoint_that_is_whole_waits_for_its_tracker(tmp_path, form, tracker, before, after):
    run = tmp_path / "run"
    FORMATS[form](run)
    (run / tracker).write_text(before)
    clock = [0.0]
    follower = Follower(run, rest=5.0, patience=60.0, clock=lambda: clock[0])
    assert not _ready(follower, clock, LONG)
    (run / tracker).write_text(after)
    assert len(follower.visit().ready) == 1
