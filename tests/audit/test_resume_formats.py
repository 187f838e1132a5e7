"""The optimiser's state in the forms of DeepSpeed, Megatron-LM, nanotron, Orbax, and files beside weights."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toposcope.api import audit, check
from toposcope.core.errors import SourceError
from toposcope.files.blobs import LocalFolder
from toposcope.files.formats import orbax
from toposcope.files.training_state.places import training_state
from toposcope.sources import open_series
from toposcope.sources.audit import Audited, audited
from toposcope.sources.optimizer.resumption import Resumption

torch = pytest.importorskip("torch")

from benchmarks import state_writers  # noqa: E402 - it needs torch
from benchmarks.state_writers import Training  # noqa: E402

STEPS = (10, 20, 30)
PLACES = {
    "deepspeed": "global_step{}",
    "megatron": "iter_{:07d}",
    "torch_dist": "iter_{:07d}",
    "dp_reshardable": "iter_{:07d}",
    "nanotron": "{}",
    "orbax": "{}",
    "zero3": "checkpoint-{}",
}
WRITERS = {"deepspeed": "DeepSpeed", "megatron": "Megatron-LM", "torch_dist": "Megatron-LM",
           "nanotron": "nanotron"}  # fmt: skip


def _experts() -> Any:
    """Return a network with four experts of one shape, and matrices and vectors beside them."""
    parts = {f"experts_{at}": torch.nn.Linear(32, 32) for at in range(4)}
    return torch.nn.ModuleDict({"fc": torch.nn.Linear(16, 32), **parts, "head": torch.nn.Linear(32, 5)})


def _forward(model: Any, rows: Any) -> Any:
    hidden = model["fc"](rows)
    for at in range(4):
        hidden = torch.tanh(model[f"experts_{at}"](hidden))
    return model["head"](hidden)


def _names(text: str) -> str:
    return text.replace("experts_", "experts.")


@pytest.fixture(scope="module")
def trained() -> list[Training]:
    """Train a small network, and return weights and AdamW's state at three steps."""
    torch.manual_seed(0)
    model = _experts()
    params = dict(model.named_parameters())
    groups = [[name for name, one in params.items() if (one.ndim > 1) == matrix] for matrix in (True, False)]
    optimizer = torch.optim.AdamW([{"params": [params[name] for name in group]} for group in groups], lr=1e-2)
    kept = []
    for step in range(1, STEPS[-1] + 1):
        rows = torch.randn(8, 16)
        optimizer.zero_grad()
        (_forward(model, rows) - rows[:, :5]).square().mean().backward()
        optimizer.step()
        if step in STEPS:
            weights = {_names(name): one.detach().clone() for name, one in params.items()}
            state = {_names(name): {field: value.clone() for field, value in optimizer.state[one].items()}
                     for name, one in params.items()}  # fmt: skip
            named = [[_names(name) for name in group] for group in groups]
            kept.append(Training(step, weights, state, named, (0.9, 0.999), 1e-2, step, 8 * step))
    return kept


def _write(form: str, folder: Path, one: Training) -> Path:
    place = folder / PLACES[form].format(one.step)
    if form == "zero3":  # as transformers' Trainer saves it: whole weights beside the parts of ranks
        from safetensors.torch import save_file

        state_writers.deepspeed(place / f"global_step{one.step}", one, stage=3)
        save_file(one.weights, place / "model.safetensors")
        return place
    if form == "dp_reshardable":
        state_writers.torch_dist(place, one, named=False)
    else:
        getattr(state_writers, form)(place, one)
    return place


def _copy(one: Training) -> Training:
    state = {name: {field: value.clone() for field, value in fields.items()}
             for name, fields in one.state.items()}  # fmt: skip
    weights = {name: value.clone() for name, value in one.weights.items()}
    return Training(one.step, weights, state, one.groups, one.betas, one.rate, one.schedule, one.samples)


def _audited(folder: Path) -> Audited:
    return audited(open_series(str(folder), logs=False))


def _answer(
    form: str,
    folder: Path,
    trained: list[Training],
    change: Callable[[Training, Training], object] | None = None,
) -> Resumption:
    now = _copy(trained[-1])
    if change is not None:
        change(now, trained[-2])
    for one in (*trained[:-1], now):
        _write(form, folder, one)
    (answer,) = _audited(folder).resume
    return answer


def _nan(now: Training, before: Training) -> None:
    now.state["experts.2.weight"]["exp_avg_sq"][3, 4] = float("nan")


def _zero(now: Training, before: Training) -> None:
    for fields in now.state.values():
        fields["exp_avg"].zero_()
        fields["exp_avg_sq"].zero_()


def _without_expert(now: Training, before: Training) -> None:
    for name in ("experts.2.weight", "experts.2.bias"):
        del now.state[name]


def _masters(now: Training, before: Training) -> None:
    now.state["fc.weight"]["master_param"] = before.weights["fc.weight"] * 2


@pytest.mark.parametrize("form", WRITERS)
def test_a_sound_state_of_each_writer_can_be_resumed(form, tmp_path, trained):
    answer = _answer(form, tmp_path / "run", trained)
    assert (answer.verdict, answer.writer) == ("resumable", WRITERS[form])
    assert answer.line.startswith("can be resumed from step 30: weights, moments, step, schedule")


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize(
    ("change", "fault", "words"),
    [
        (_nan, "moments-not-finite", "second moments of experts.2.weight are NaN"),
        (_zero, "moments-zero", "moments of all 12 tensors are zero"),
        (_masters, "masters-unlike-weights", "the master copies of fc.weight are not the weights"),
        (_without_expert, "moments-missing", ""),
    ],
)
def test_a_broken_state_of_each_writer_is_named(form, change, fault, words, tmp_path, trained):
    answer = _answer(form, tmp_path / "run", trained, change)
    assert answer.faults[0].fault == fault
    assert words in answer.line
    assert answer.earlier == 20
    assert "no problem was found" not in str(check(str(tmp_path / "run")))


@pytest.mark.parametrize(("form", "file"), [
    ("deepspeed", "global_step30/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"),
    ("nanotron", "30/optimizer/optimizer_pp-0-of-1_dp-1-of-2_tp-0-of-1_exp-0-of-1.pt"),
])  # fmt: skip
def test_a_rank_whose_file_is_missing_or_damaged_is_a_fault(form, file, tmp_path, trained):
    assert _answer(form, tmp_path / "run", trained).verdict == "resumable"
    whole = (tmp_path / "run" / file).read_bytes()
    (tmp_path / "run" / file).write_bytes(whole[: len(whole) // 2])
    (answer,) = _audited(tmp_path / "run").resume
    assert answer.faults[0].fault == "unreadable-state"
    (tmp_path / "run" / file).unlink()
    (answer,) = _audited(tmp_path / "run").resume
    assert answer.faults[0].fault == "unreadable-state"
    assert "of rank 1 of 2 is missing" in answer.line
    assert not audit(str(tmp_path / "run")).ok


@pytest.mark.parametrize("form", ["zero3", "dp_reshardable"])
def test_a_state_without_names_is_judged_by_its_values_and_its_count(form, tmp_path, trained):
    assert _answer(form, tmp_path / "sound", trained).verdict == "resumable"
    assert _answer(form, tmp_path / "zero", trained, _zero).faults[0].fault == "moments-zero"
    assert _answer(form, tmp_path / "nan", trained, _nan).faults[0].fault == "moments-not-finite"
    lost = _answer(form, tmp_path / "lost", trained, _without_expert)
    assert lost.faults[0].fault == "moments-missing"
    assert ", as many as 1 of 4 experts hold" in lost.line


def test_experts_that_never_had_moments_are_named_when_their_weights_move(tmp_path, trained):
    for one in trained:
        now = _copy(one)
        _without_expert(now, one)
        _write("deepspeed", tmp_path / "run", now)
    (answer,) = _audited(tmp_path / "run").resume
    assert answer.faults[0].fault == "moments-missing"
    assert "weights without moments: 2 (experts.2.bias and experts.2.weight)" in answer.line.replace(
        "experts.2.weight and experts.2.bias", "experts.2.bias and experts.2.weight"
    )


def test_a_shard_of_another_step_in_a_rank_is_no_frozen_layer(tmp_path, trained):
    _answer("deepspeed", tmp_path / "run", trained)
    file = "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"
    shutil.copy(tmp_path / f"run/global_step20/{file}", tmp_path / f"run/global_step30/{file}")
    (answer,) = _audited(tmp_path / "run").resume
    assert answer.faults[0].fault == "shard-of-another-step"


def test_a_layer_frozen_since_the_last_checkpoint_is_no_fault(tmp_path):
    torch.manual_seed(0)
    model = _experts()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(1, 41):
        optimizer.zero_grad()
        rows = torch.randn(8, 16)
        (_forward(model, rows) - rows[:, :5]).square().mean().backward()
        if step > 30:
            for one in model["fc"].parameters():
                one.grad = None
        optimizer.step()
        if step % 10 == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "iter_num": step}
            torch.save(state, tmp_path / f"ckpt_{step}.pt")
    found = _audited(tmp_path)
    assert found.findings == []
    (answer,) = found.resume
    assert (answer.verdict, answer.still) == ("resumable", ("fc.bias", "fc.weight"))
    assert "2 tensors (fc.weight and fc.bias) stood still since step 30" in answer.line
    state = torch.load(tmp_path / "ckpt_40.pt", weights_only=False)
    state["model"]["fc.weight"] += 1e-3  # then the moments are those of another step
    torch.save(state, tmp_path / "ckpt_40.pt")
    (answer,) = _audited(tmp_path).resume
    assert answer.faults[0].fault == "shard-of-another-step"


def test_a_state_in_a_numbered_file_beside_the_weights_is_read(tmp_path):
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(1, 31):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        if step in STEPS:
            torch.save(model.state_dict(), tmp_path / f"model_{step:06d}.pt")
            torch.save(optimizer.state_dict(), tmp_path / f"optim_{step:06d}.pt")
    (answer,) = _audited(tmp_path).resume
    assert answer.line.startswith("can be resumed from step 30: weights, moments and step")
    state = optimizer.state_dict()
    state["state"][0]["exp_avg"].fill_(float("inf"))
    torch.save(state, tmp_path / "optim_000030.pt")
    (answer,) = _audited(tmp_path).resume
    assert answer.faults[0].why == "first moments of weight are NaN or infinite"


def test_moments_of_equal_shape_are_told_apart_by_the_last_change_of_the_weights(tmp_path, trained):
    """safetensors sorts names, so the order of the optimiser's places is not known."""
    from safetensors.torch import save_file

    order = ["experts.3", "experts.1", "experts.0", "experts.2"]
    for one in trained:
        place = tmp_path / f"checkpoint-{one.step}"
        place.mkdir()
        save_file(one.weights, place / "model.safetensors")
        names = [f"{name}.weight" for name in ("fc", *order, "head")]
        state = {at: dict(one.state[name]) for at, name in enumerate(names)}
        if one.step == STEPS[-1]:
            state[2] = {**state[2], "exp_avg": state[2]["exp_avg"] * float("nan")}
        groups = [{**one.settings(0), "params": list(range(len(names)))}]
        torch.save({"state": state, "param_groups": groups}, place / "optimizer.pt")
        (place / "trainer_state.json").write_text(json.dumps({"global_step": one.step}))
    (answer,) = _audited(tmp_path).resume
    assert answer.faults[0].why == "first moments of experts.1.weight are NaN or infinite"


@pytest.mark.parametrize("value", [0.0, float("nan")])
def test_the_factors_of_adafactor_are_read(tmp_path, value):
    model = torch.nn.Linear(8, 6)
    optimizer = torch.optim.Adafactor(model.parameters(), lr=1e-2)
    for step in range(1, 21):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        if step % 10 == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, tmp_path / f"step_{step}.pt")
    read = training_state(str(tmp_path / "step_20.pt"))
    assert read is not None
    second = read.optimizers[0].parameters["0"].second
    rows, columns = (
        optimizer.state[model.weight][name].numpy().astype(float) for name in ("row_var", "col_var")
    )
    assert second is not None
    assert np.allclose(second.values(), (rows @ columns / rows.mean()).reshape(-1), rtol=1e-6)
    assert np.array_equal(second.values((2, 4)), second.values()[16:32])
    assert _audited(tmp_path).resume[0].verdict == "resumable"
    state["optimizer"]["state"][0]["row_var"].fill_(value)
    torch.save(state, tmp_path / "step_20.pt")
    fault = "moments-zero" if value == 0 else "moments-not-finite"
    assert _audited(tmp_path).resume[0].faults[0].fault == fault


def test_a_schedule_and_count_that_left_out_updates_agree(tmp_path, trained):
    """DeepSpeed counts steps whose gradient overflowed, and the optimiser does not."""

    def four_behind(one: Training) -> Training:
        copy = _copy(one)
        for fields in copy.state.values():
            fields["step"] -= 4
        return copy

    assert (
        _answer("deepspeed", tmp_path / "run", [four_behind(one) for one in trained]).verdict == "resumable"
    )


def test_the_parts_of_a_tree_in_items_of_their_own_are_told_apart(tmp_path):
    place = _orbax_run(tmp_path, {"a": _entry("w")})
    (place / "default").rename(place / "opt_state")
    (one,) = orbax.arrays_of(LocalFolder(place))
    assert (one.keys, one.path) == (("opt_state", "w"), "w")


def _orbax_run(folder: Path, tree: dict[str, Any], **checkpoint: Any) -> Path:
    item = folder / "10/default"
    item.mkdir(parents=True)
    (item / "_METADATA").write_text(json.dumps({"tree_metadata": tree, "use_ocdbt": True}))
    (item / "manifest.ocdbt").write_bytes(b"")
    stated = {"init_timestamp_nsecs": 1, "commit_timestamp_nsecs": 2} | checkpoint
    (folder / "10/_CHECKPOINT_METADATA").write_text(json.dumps(stated))
    return folder / "10"


def _entry(*keys: str) -> dict[str, Any]:
    return {"key_metadata": [{"key": key, "key_type": 2} for key in keys],
            "value_metadata": {"value_type": "jax.Array", "write_shape": [2, 2]}}  # fmt: skip


@pytest.mark.parametrize("key", ["../../etc", "/etc/passwd", "..", "a\\b", "", "x" * 500])
def test_a_key_path_of_orbax_that_leads_out_of_the_folder_is_refused(tmp_path, key):
    place = _orbax_run(tmp_path, {"a": _entry("params", key)})
    with pytest.raises(SourceError, match="a key path of its _METADATA is not one of names"):
        orbax.arrays_of(LocalFolder(place))


def test_a_checkpoint_of_orbax_without_a_time_of_commit_is_unfinished(tmp_path):
    place = _orbax_run(tmp_path, {"a": _entry("params", "w")}, commit_timestamp_nsecs=None)
    with pytest.raises(SourceError, match="its saving was not finished"):
        orbax.arrays_of(LocalFolder(place))


def test_without_what_reads_orbax_the_answer_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(orbax, "is_installed", lambda: False)
    _orbax_run(tmp_path, {"a": _entry("params", "w")})
    with pytest.raises(SourceError, match=r"pip install 'toposcope\[orbax\]'"):
        open_series(str(tmp_path))


def test_the_state_that_orbax_writes_is_read(tmp_path, trained):
    pytest.importorskip("tensorstore", reason="tensorstore, which reads Orbax's arrays, is not installed")
    pytest.importorskip("orbax.checkpoint", reason="orbax-checkpoint, the writer, is not installed")
    answer = _answer("orbax", tmp_path / "run", trained)
    assert answer.line.startswith("can be resumed from step 30: weights, moments, step and schedule")
    assert _answer("orbax", tmp_path / "nan", trained, _nan).faults[0].fault == "moments-not-finite"
    assert _answer("orbax", tmp_path / "lost", trained, _without_expert).faults[0].fault == "moments-missing"


_DEEPSPEED = """
import os, sys, torch, torch.multiprocessing as mp

def main(rank, stage, out):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(29600 + os.getppid() % 300), DS_ACCELERATOR="cpu")
    import deepspeed
    torch.manual_seed(0)
    deepspeed.init_distributed("gloo")
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 5))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    settings = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": stage},
                "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False,
                "bf16": {"enabled": True}}
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
    for step in range(1, 21):
        rows = torch.randn(4, 16).bfloat16()
        engine.backward((engine(rows) - rows[:, :5]).float().square().mean())
        engine.step()
        if step % 10 == 0:
            engine.save_checkpoint(out, tag=f"global_step{step}")

if __name__ == "__main__":
    mp.spawn(main, (int(sys.argv[1]), sys.argv[2]), nprocs=2)
"""


@pytest.mark.slow
@pytest.mark.parametrize("stage", [1, 2])
def test_the_state_that_deepspeed_writes_is_read(tmp_path, stage):
    pytest.importorskip("deepspeed", reason="deepspeed, the writer, is not installed")
    (tmp_path / "train.py").write_text(_DEEPSPEED)
    subprocess.run([sys.executable, tmp_path / "train.py", str(stage), tmp_path / "run"], check=True)
    (answer,) = _audited(tmp_path / "run").resume
    assert (answer.verdict, answer.writer) == ("resumable", "DeepSpeed")
    read = training_state(str(tmp_path / "run/global_step20"))
    assert read is not None
    shapes = {key: one.shape for key, one in read.optimizers[0].parameters.items()}
    assert shapes["0.weight"] == (16, 16)
    assert len(shapes) == 6
