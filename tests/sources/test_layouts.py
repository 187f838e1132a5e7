"""The layouts that trainers write: each is read, or refused in one line that says what converts it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from toposcope.api.checking import check
from toposcope.core.errors import InputError, SourceError
from toposcope.core.types import Role
from toposcope.sources import open_series
from toposcope.sources.audit import audit, audited

sys.path.insert(0, str(Path(__file__).parent))
from further_layouts import FURTHER
from layouts import LAYOUTS, llama, put, put_safe, tensors
from more_layouts import MORE

MORE = {**MORE, **FURTHER}
LAYOUTS = {**LAYOUTS, **MORE}
READ = [name for name, layout in LAYOUTS.items() if layout.steps]
REFUSED = [name for name, layout in LAYOUTS.items() if layout.words]


@pytest.mark.parametrize("name", READ)
def test_a_layout_is_read_as_one_run_with_its_steps(tmp_path: Path, name: str):
    folder = tmp_path / "run"
    folder.mkdir()
    LAYOUTS[name].write(folder)
    series = open_series(folder)
    assert [tuple(steps) for steps in series.steps.values()] == [LAYOUTS[name].steps]
    assert audit(series) == []
    matrices = [list(series.matrices(checkpoint)) for checkpoint in series]
    assert len({tuple(matrix.name for matrix in one) for one in matrices}) == 1
    assert matrices[0]


@pytest.mark.parametrize("name", [name for name in READ if name in MORE])
def test_a_layout_without_losses_is_checked(tmp_path: Path, name: str):
    folder = tmp_path / "run"
    folder.mkdir()
    LAYOUTS[name].write(folder)
    (run,) = check(str(folder)).to_dict()["runs"]
    assert run["checkpoints"] == len(LAYOUTS[name].steps)
    assert run["level"] == ("all right" if run["losses"] else "not judged")


@pytest.mark.parametrize(
    ("name", "beside"),
    [
        ("axolotl", "model.safetensors"),
        ("trainer_with_best", "checkpoint-best"),
        ("litgpt_with_final", "final"),
        ("lightning_with_last", "last-v1.ckpt and last.ckpt"),
        ("nemo_megatron", "megatron_gpt--val_loss=2.12-step=200-consumed_samples=1600.0-last.ckpt"),
        ("mmdetection", "best_coco_bbox_mAP_epoch_11.pth"),
        ("timm_last_and_best", "model_best.pth.tar"),
    ],
)
def test_weights_beside_the_checkpoints_are_looked_at_alone(tmp_path: Path, name: str, beside: str):
    LAYOUTS[name].write(tmp_path)
    lines = audited(open_series(tmp_path)).coverage.lines
    assert f"looked at alone, not compared with a step: {beside} beside the checkpoints" in lines
    assert not any(line.startswith("not checked") and beside in line for line in lines)
    lines = audited(open_series(tmp_path), newest=True).coverage.lines
    assert f"not checked: {beside} beside the checkpoints; audit each by its own path" in lines


@pytest.mark.parametrize("name", ["nanochat", "guided_diffusion"])
def test_the_optimizer_beside_a_file_of_weights_is_read(tmp_path: Path, name: str):
    LAYOUTS[name].write(tmp_path)
    found = audited(open_series(tmp_path))
    assert all(answer.moments_read for answer in found.resume)
    assert not any("state of the optimiser" in line for line in found.coverage.lines)


def test_a_file_beside_the_weights_with_an_optimizer_alone_is_no_finding(tmp_path: Path):
    for step in (100, 200):
        put(tmp_path / f"model_{step}.pt", tensors(llama(step)))
        put(tmp_path / f"adam_{step}.pt", {"state": {}, "param_groups": [{"lr": 0.1}]})
    made = audited(open_series(tmp_path))
    assert made.findings == []
    assert made.coverage.lines == ["not checked: the state of the optimiser (adam_100.pt and adam_200.pt)"]
    assert made.coverage.to_dict()["beside"]["optimizer"] == ["adam_100.pt", "adam_200.pt"]


def test_several_runs_with_one_checkpoint_each_are_said_in_one_line(tmp_path: Path):
    for run in "ab":
        put_safe(tmp_path / run / "step_100" / "model.safetensors", llama(100))
    (line,) = audited(open_series(tmp_path)).coverage.lines
    assert line.startswith("one checkpoint of a and b each was read: only what")


def test_an_average_in_the_same_files_is_said_not_to_be_checked(tmp_path: Path):
    for step in (100, 200):
        weights = tensors(llama(step))
        put(tmp_path / f"ckpt_{step}.pt", {"model": weights, "model_ema": tensors(llama(step)), "step": step})
    coverage = audited(open_series(tmp_path)).coverage
    assert coverage.lines == ["not checked: more weights in the same files, under model_ema"]


def test_an_archive_of_stable_baselines_is_named_as_a_file_as_well(tmp_path: Path):
    LAYOUTS["stable_baselines"].write(tmp_path)
    with pytest.raises(SourceError, match="Stable-Baselines3"):
        open_series(tmp_path / "rl_model_100_steps.zip")


def test_a_generator_and_a_discriminator_are_told_apart_by_the_pattern_that_is_named(tmp_path: Path):
    for step in (1000, 2000):
        for name in "GD":
            put(tmp_path / f"{name}_{step}.pth", {"model": tensors(llama(step // 10)), "iteration": step})
    with pytest.raises(SourceError, match=r"'D_\(\\d\+\)' if that is the step"):
        open_series(tmp_path)
    assert list(open_series(tmp_path, step_pattern=r"G_(\d+)").steps.values()) == [[1000, 2000]]


@pytest.mark.parametrize("name", REFUSED)
def test_a_foreign_layout_is_named_in_one_line(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toposcope.files.formats.orbax.is_installed", lambda: False)  # an extra reads Orbax
    folder = tmp_path / "run"
    folder.mkdir()
    LAYOUTS[name].write(folder)
    for refuse in (open_series, check):
        with pytest.raises(InputError) as error:
            refuse(str(folder))
        said = str(error.value).replace(str(tmp_path), "")
        assert not any(word in said for word in ("\n", "step_pattern", "contains no"))
        assert all(word in said for word in LAYOUTS[name].words)


@pytest.mark.parametrize("name", ["log.csv", "trainer_state.json"])
def test_a_log_beside_a_foreign_layout_is_checked_and_the_layout_is_named(tmp_path: Path, name: str):
    LAYOUTS["deepspeed_zero3"].write(tmp_path)
    losses = [(10 * i, 2 + 4 / np.sqrt(i + 3)) for i in range(60)]
    if name == "log.csv":
        put(tmp_path / name, "step,loss\n" + "".join(f"{step},{loss:.4f}\n" for step, loss in losses))
    else:
        history = [{"step": step, "loss": loss} for step, loss in losses]
        put(tmp_path / name, json.dumps({"global_step": 590, "log_history": history}))
    assert "zero_to_fp32.py" in json.dumps(check(str(tmp_path)).to_dict())


def test_the_states_of_a_trainer_in_foreign_checkpoints_are_one_log(tmp_path: Path):
    LAYOUTS["trainer_zero3"].write(tmp_path)
    for end in (100, 200, 300):
        history = [{"step": step, "loss": 2 + 4 / np.sqrt(step)} for step in range(1, end + 1, 5)]
        state = {"global_step": end, "max_steps": 300, "log_history": history}
        put(tmp_path / f"checkpoint-{end}" / "trainer_state.json", json.dumps(state))
    made = check(str(tmp_path))
    (run,) = made.to_dict()["runs"]
    assert (run["losses"], run["planned_steps"]) == (60, 300)
    assert "zero_to_fp32.py" in str(made)


# --- names ------------------------------


def roles(folder: Path) -> dict[str, tuple[Role, int | None]]:
    series = open_series(folder)
    assert audit(series) == []
    at = next(iter(series))
    return {matrix.name: (matrix.role, matrix.layer) for matrix in series.matrices(at)}


LLAMA = {
    "model.embed_tokens.weight": (Role.EMBEDDING, None),
    **{f"model.layers.0.self_attn.{part}_proj.weight": (Role.ATTENTION, 0) for part in "qkvo"},
    **{f"model.layers.0.mlp.{part}_proj.weight": (Role.MLP, 0) for part in ("gate", "up", "down")},
    "lm_head.weight": (Role.HEAD, None),
}


@pytest.mark.parametrize(
    ("front", "block"),
    [
        ("_orig_mod.", ""),
        ("module.", ""),
        ("module._orig_mod.", ""),
        ("_forward_module.", ""),
        ("_forward_module.module.", "_orig_mod."),
        ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module."),
        ("_fsdp_wrapped_module.", "_fsdp_wrapped_module._checkpoint_wrapped_module."),
        ("", "_orig_mod."),
    ],
)
def test_wrappers_do_not_matter(tmp_path: Path, front: str, block: str):
    for step in (100, 200, 300):
        state = {
            front + name.replace("layers.0.", f"layers.0.{block}"): value
            for name, value in tensors(llama(step)).items()
        }
        put(tmp_path / f"step_{step}.pt", {"model_state_dict": state, "step": step})
    assert roles(tmp_path) == LLAMA


def test_slashes_do_not_matter(tmp_path: Path):
    for step in (100, 200, 300):
        arrays = {name.replace(".", "/"): value for name, value in llama(step).items()}
        np.savez(tmp_path / f"params_{step}.npz", **arrays)
    assert roles(tmp_path) == LLAMA


def test_flax_kernels_are_transposed_weights(tmp_path: Path):
    for step in (100, 200, 300):
        arrays = {}
        for name, value in llama(step).items():
            front = name.replace("layers.0", "layers_0").replace(".", "/").removesuffix("/weight")
            end = "embedding" if "embed" in name else "scale" if value.ndim == 1 else "kernel"
            arrays[f"params/{front}/{end}"] = value.T if end == "kernel" else value
        np.savez(tmp_path / f"params_{step}.npz", **arrays)
    assert list(roles(tmp_path).values()) == list(LLAMA.values())
    series = open_series(tmp_path)
    shapes = [matrix.values.shape for matrix in series.matrices(next(iter(series)))]
    assert shapes == [value.shape for value in llama(100).values() if value.ndim == 2]


@pytest.mark.parametrize("front", ["_orig_mod.", "module.", "model.", "_orig_mod.model."])
@pytest.mark.parametrize("wrapped", [(200, 300), (100,), (300,)])
def test_a_wrapper_in_part_of_a_series_does_not_matter(tmp_path: Path, front: str, wrapped: tuple[int, ...]):
    for step in (100, 200, 300):
        state = tensors(llama(step, prefix=front if step in wrapped else ""))
        put(tmp_path / f"ckpt_{step}.pt", {"model": state, "iter_num": step})
    names = roles(tmp_path)
    assert list(names.values()) == list(LLAMA.values())
    series = open_series(tmp_path)
    assert [len(list(series.matrices(at))) for at in series] == [9, 9, 9]
    same = [{matrix.name for matrix in series.matrices(at)} for at in series]
    assert same[0] == same[1] == same[2] == set(names)


def test_in_memory_wrappers_do_not_matter():
    states = {step: llama(step, prefix="_orig_mod." if step > 100 else "") for step in (100, 200, 300)}
    assert audit(open_series(states)) == []


def test_tensors_that_would_share_a_name_keep_their_own(tmp_path: Path):
    own, ema = llama(100), llama(200, prefix="module.")
    put_safe(tmp_path / "step_100.safetensors", {**own, **ema})
    series = open_series(tmp_path)
    (at,) = series
    assert set(series.weight_names(at)) == {*own, *ema}
    values = dict(series.tensors(at))
    np.testing.assert_array_equal(values["module.lm_head.weight"], ema["module.lm_head.weight"])


def test_a_tensor_that_is_missing_is_still_found_beside_wrappers(tmp_path: Path):
    for step in (100, 200, 300):
        state = llama(step, prefix="_orig_mod." if step > 100 else "")
        if step == 200:
            del state["_orig_mod.lm_head.weight"]
        put(tmp_path / f"ckpt_{step}.pt", {"model": tensors(state)})
    faults = [(one.step, one.tensor, one.fault) for one in audit(open_series(tmp_path))]
    assert faults == [(200, "lm_head.weight", "missing-tensor")]


# --- ranks ------------------------------


def test_files_of_ranks_that_hold_parts_are_one_checkpoint_in_one_line(tmp_path: Path):
    for step in (100, 200, 300):
        for rank in (0, 1):
            part = {
                name: value[rank * len(value) // 2 : (rank + 1) * len(value) // 2]
                for name, value in tensors(llama(step)).items()
            }
            part = {name: value.clone() for name, value in part.items()}
            put(tmp_path / f"ckpt_{step:06d}_rank{rank}.pt", {"model": part, "step": step})
    with pytest.raises(SourceError, match="one of 2 ranks of one checkpoint, each has half of every tensor"):
        open_series(tmp_path)


@pytest.mark.parametrize("inside", ["", "step_100"])
def test_folders_of_ranks_that_hold_parts_are_one_checkpoint_in_one_line(tmp_path: Path, inside: str):
    for step in (100, 200):
        for rank in (0, 1):
            halves = {name: values[rank::2] for name, values in tensors(llama(step)).items()}
            put(tmp_path / f"step_{step}" / f"rank_{rank}" / "model.pt", halves)
    with pytest.raises(SourceError, match=r"step_100/rank_0: is one of 2 ranks .* half of every tensor"):
        open_series(tmp_path / inside)


def test_runs_that_are_named_after_the_rank_of_an_adapter_stay_runs(tmp_path: Path):
    for rank in (1, 2):
        put(tmp_path / f"rank_{rank}" / "step_100" / "model.pt", tensors(llama(rank * 100)))
    assert open_series(tmp_path).steps == {"rank_1": [100], "rank_2": [100]}


def test_files_of_ranks_that_hold_copies_are_read_once(tmp_path: Path):
    for step in (100, 200, 300):
        for rank in (0, 1):
            put(tmp_path / f"ckpt_{step:06d}_rank{rank}.pt", {"model": tensors(llama(step)), "step": step})
    series = open_series(tmp_path)
    assert [at.step for at in series] == [100, 200, 300]
    assert audit(series) == []


# --- the hub's cache ------------------------------


@pytest.mark.parametrize("links", [True, False])
def test_a_local_cache_of_the_hub_gives_revisions_their_steps(tmp_path: Path, links: bool):
    cache = tmp_path / "hub" / "models--org--small"
    for index, step in enumerate((1000, 2000, 3000)):
        commit, blob = f"{index + 1:040x}", f"{index + 1:064x}"
        put_safe(cache / "blobs" / blob, llama(step // 10))
        place = cache / "snapshots" / commit / "model.safetensors"
        place.parent.mkdir(parents=True)
        if links:
            place.symlink_to(f"../../blobs/{blob}")
        else:  # as git writes a link where the system has none
            place.write_text(f"../../blobs/{blob}")
        put(cache / "refs" / f"step{step}", commit)
    put(cache / "refs" / "main", f"{3:040x}")
    for place in (tmp_path / "hub", cache):
        series = open_series(place)
        assert series.steps == {"small": [1000, 2000, 3000]}
        assert [at.revision for at in series] == ["step1000", "step2000", "step3000"]
        assert audit(series) == []


@pytest.mark.parametrize("links", [True, False])
def test_another_revision_in_a_cache_is_looked_at_alone_under_its_name(tmp_path: Path, links: bool):
    cache = tmp_path / "models--org--small"
    for index, name in enumerate(("step1000", "step2000", "main")):
        commit, blob = f"{index + 1:040x}", f"{index + 1:064x}"
        put_safe(cache / "blobs" / blob, llama(100 * (index + 1)))
        place = cache / "snapshots" / commit / "model.safetensors"
        place.parent.mkdir(parents=True)
        if links:
            place.symlink_to(f"../../blobs/{blob}")
        else:
            place.write_text(f"../../blobs/{blob}")
        put(cache / "refs" / name, commit)
    made = audited(open_series(cache))
    assert made.findings == []
    assert made.coverage.lines == ["looked at alone, not compared with a step: main beside the checkpoints"]


def test_a_cache_with_one_revision_is_one_checkpoint(tmp_path: Path):
    cache = tmp_path / "models--org--small"
    put_safe(cache / "snapshots" / f"{1:040x}" / "model.safetensors", llama(100))
    put(cache / "refs" / "main", f"{1:040x}")
    assert open_series(cache).steps == {"small": [0]}


# --- what a pickle names ------------------------------


class Settings:
    """A configuration's class, as in a training script."""

    def __init__(self) -> None:
        self.n_layer, self.max_iters = 1, 500


class Model(torch.nn.Module):
    """A model's class, as in a training script."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)


def test_a_configuration_of_a_class_of_its_own_is_read_as_its_fields(tmp_path: Path):
    put(tmp_path / "model_00100.pt", {"model": tensors(llama(100)), "config": Settings(), "step": 100})
    series = open_series(tmp_path)
    assert series.runs[0].config["n_layer"] == 1
    assert roles(tmp_path) == LLAMA


@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: {"model": model, "step": 100}])
def test_a_pickled_module_of_a_class_of_its_own_is_named(tmp_path: Path, wrap: object):
    put(tmp_path / "model_step100.pt", wrap(Model()))  # type: ignore[operator]
    with pytest.raises(SourceError, match=r"whole module was pickled.*state_dict\(\)"):
        open_series(tmp_path)


def test_one_pickled_module_among_state_dicts_is_a_finding(tmp_path: Path):
    for step in (100, 200, 300):
        put(tmp_path / f"step_{step}.pt", tensors(llama(step)) if step != 200 else Model())
    found = [(one.step, one.fault) for one in audit(open_series(tmp_path))]
    assert (200, "unreadable") in found


def test_an_optimizer_alone_is_named_as_a_file_as_well(tmp_path: Path):
    for content in (
        {"state": {0: {"exp_avg": torch.ones(2, 2)}}, "param_groups": []},
        {"optimizer": {"state": {}, "param_groups": []}, "step": 5},
    ):
        put(tmp_path / "last.pt", content)
        with pytest.raises(SourceError, match="only an optimizer's state"):
            open_series(tmp_path / "last.pt")


# --- what a checkpoint says of its run ------------------------------


def nanogpt(folder: Path, steps: range, name: str = "ckpt_{step}.pt") -> None:
    for step in steps:
        rate = 6e-4 * 0.5 * (1 + np.cos(np.pi * (step - 100) / 4900))
        content = {
            "model": tensors(llama(step)),
            "optimizer": {"state": {}, "param_groups": [{"lr": float(rate), "params": [0]}]},
            "model_args": {"n_layer": 1},
            "iter_num": step,
            "best_val_loss": torch.tensor(2 + 40 / np.sqrt(step)),
            "config": {
                "max_iters": 5000, "learning_rate": 6e-4, "decay_lr": True, "warmup_iters": 100,
                "batch_size": 12, "block_size": 64,
            },
        }  # fmt: skip
        put(folder / name.format(step=step), content)


def test_nanogpt_checkpoints_are_a_plan_and_a_curve(tmp_path: Path):
    nanogpt(tmp_path, range(200, 2001, 200))
    series = open_series(tmp_path)
    table = series.metrics(tmp_path.name)
    assert table["step"].tolist() == list(range(200, 2001, 200))
    np.testing.assert_allclose(table["heldout_loss"], 2 + 40 / np.sqrt(table["step"]), rtol=1e-6)
    config = series.runs[0].config
    assert (config["planned_steps"], config["trained_steps"]) == (5000, 2000)
    answer = check(str(tmp_path))
    run = answer.to_dict()["runs"][0]
    assert (run["planned_steps"], run["losses"], run["step"]) == (5000, 10, 2000)


def test_one_nanogpt_checkpoint_has_a_plan_and_a_loss(tmp_path: Path):
    nanogpt(tmp_path, range(600, 601), "ckpt.pt")
    run = check(str(tmp_path)).to_dict()["runs"][0]
    assert (run["planned_steps"], run["losses"], run["step"]) == (5000, 1, 600)


def test_a_log_beside_the_checkpoints_comes_before_what_they_state(tmp_path: Path):
    nanogpt(tmp_path, range(200, 2001, 200))
    rows = "\n".join(f"{10 * i},{2 + 4 / np.sqrt(i + 3):.4f}" for i in range(60))
    put(tmp_path / "log.csv", f"step,loss\n{rows}\n")
    run = check(str(tmp_path)).to_dict()["runs"][0]
    assert run["losses"] == 60


def test_the_state_of_transformers_inside_the_last_checkpoint_is_read(tmp_path: Path):
    history = [{"step": 10 * i, "loss": 2 + 4 / np.sqrt(i + 3), "learning_rate": 1e-3} for i in range(1, 31)]
    for step in (100, 200, 300):
        put_safe(tmp_path / f"checkpoint-{step}/model.safetensors", llama(step))
    state = {"global_step": 300, "max_steps": 1000, "log_history": history}
    put(tmp_path / "checkpoint-300/trainer_state.json", json.dumps(state))
    for place in (tmp_path, tmp_path / "checkpoint-300"):
        run = check(str(place)).to_dict()["runs"][0]
        assert (run["planned_steps"], run["losses"]) == (1000, 30)


def test_what_lightning_monitors_is_a_curve(tmp_path: Path):
    scores: dict[str, torch.Tensor] = {}
    for epoch, step in enumerate((100, 200, 300)):
        name = f"epoch={epoch}-step={step}.ckpt"
        scores[f"/elsewhere/{name}"] = torch.tensor(3.0 - epoch / 2)
        monitor = {
            "monitor": "val_loss",
            "current_score": torch.tensor(3.0 - epoch / 2),
            "best_model_score": torch.tensor(3.0 - epoch / 2),
            "best_model_path": f"/elsewhere/{name}",
            "best_k_models": dict(scores),
        }
        content = {
            "state_dict": tensors(llama(step)), "global_step": step, "epoch": epoch,
            "callbacks": {"ModelCheckpoint{'monitor': 'val_loss'}": monitor}, "optimizer_states": [],
        }  # fmt: skip
        put(tmp_path / name, content)
    for place in (tmp_path, tmp_path / "epoch=2-step=300.ckpt"):
        series = open_series(place)
        table = series.metrics(series.names[0])
        assert table["step"].tolist() == [100, 200, 300]
        assert table["heldout_loss"].tolist() == [3.0, 2.5, 2.0]


def test_an_accuracy_that_lightning_monitors_is_no_loss(tmp_path: Path):
    state = {"monitor": "val_acc", "current_score": torch.tensor(0.5), "best_k_models": {}}
    content = {"state_dict": tensors(llama(100)), "global_step": 100, "callbacks": {"ModelCheckpoint": state}}
    put(tmp_path / "step=100.ckpt", content)
    assert open_series(tmp_path).metrics(tmp_path.name).empty
