"""The commands over folders that real trainers wrote: nothing is accused, and a planted fault is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from tests.trainers import folders
from tests.trainers.conftest import need, pinned, quiet_trainer
from tests.trainers.layouts import GPT2, LAYOUTS, Layout

pytestmark = pytest.mark.slow
Call = Callable[..., tuple[int, str]]
Folder = Callable[[Layout], Path]
NAMED = {one.name: one for one in LAYOUTS}
PREFIXES = ("_orig_mod.", "module.")


def audited(call: Call, folder: Path, *options: str) -> tuple[int, list[dict[str, object]]]:
    code, out = call("audit", folder, "--json", *options)
    return code, json.loads(out)["findings"]


def test_the_versions_of_the_trainers_are_pinned() -> None:
    packages = {package for layout in LAYOUTS for package in layout.packages}
    assert [one for one in packages - {"trl", "datasets"} if not pinned(one)] == []


def test_nothing_is_accused_and_the_coverage_is_said(layout: Layout, written: Folder, call: Call) -> None:
    folder = written(layout)
    for options, checkpoints in (((), "3 checkpoints"), (("--newest",), "1 checkpoint")):
        code, out = call("audit", folder, *options)
        assert code == 0
        assert out.startswith(f"{checkpoints} of 1 run read: nothing found ")
        assert f"checked {layout.tensors} of {layout.tensors} tensors, 0 skipped" in out
        assert "can be resumed from step 30: weights, moments" in out
        assert "not checked" not in out
        assert "0 matrices" not in out


def test_check_reads_losses_plan_and_checkpoints(layout: Layout, written: Folder, call: Call) -> None:
    code, out = call("check", written(layout), "--json")
    (run,) = json.loads(out)["runs"]
    assert (run["losses"], run["checkpoints"]) == (layout.losses, 3)
    assert layout.ends in run["answer"]
    level = "all right" if layout.losses > 10 else "look" if layout.losses else "not judged"
    assert (run["level"], code) == (level, int(level != "all right"))
    assert bool(run["read"]) == bool(layout.losses)


def of_weights(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows without those of the optimiser's state, which splits no matrix into q, k and v."""
    return rows[rows["probe"] != "moments"]


def test_every_matrix_is_measured_under_its_name_and_role(
    layout: Layout, written: Folder, call: Call, tmp_path: Path
) -> None:
    code, out = call("weights", written(layout), "--out", tmp_path / "store", "--points", 12)
    assert code == 0
    assert "0 failed" in out
    rows = of_weights(pd.read_parquet(tmp_path / "store" / "features"))
    assert sorted(set(rows["step"])) == list(folders.STEPS)
    matrices = rows[rows["scope"] == "matrix"].drop_duplicates("name").set_index("name")
    ends = {end: matrices[matrices.index.str.endswith(end)] for end in layout.matrices}
    assert {end: list(found["role"]) for end, found in ends.items()} == {
        end: [role] for end, role in layout.matrices.items()
    }
    assert len(matrices) == len(layout.matrices)
    assert set(matrices["layer"].dropna()) == {0, 1}


def test_a_tensor_that_was_scaled_is_named(layout: Layout, copied: Folder, call: Call) -> None:
    folder = copied(layout)
    folders.rewrite(folder / layout.places[-1], folders.scaled(layout.hit))
    tensor = layout.hit.replace(".lora_B", "")
    for options in ((), ("--newest",)):
        code, (found,) = audited(call, folder, *options)
        assert (code, found["fault"], found["step"]) == (1, "rescaled-tensor", 30)
        assert str(found["tensor"]).endswith(tensor)
    code, out = call("check", folder)
    assert code == 1
    assert f"{tensor} was multiplied by " in out.partition(" Also: ")[0]  # the fault is what comes first


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_names_of_a_wrapper_do_not_matter(
    layout: Layout, prefix: str, copied: Folder, call: Call, tmp_path: Path
) -> None:
    folder = copied(layout)
    for place in layout.places[1:]:
        folders.rewrite(folder / place, folders.wrapped(prefix, layout.wrapped_after))
    assert audited(call, folder) == (0, [])
    code, out = call("audit", folder)
    assert f"checked {layout.tensors} of {layout.tensors} tensors, 0 skipped" in out
    assert "0 matrices" not in out
    call("weights", folder, "--out", tmp_path / "store", "--points", 12)
    rows = of_weights(pd.read_parquet(tmp_path / "store" / "features"))
    matrices = rows[rows["scope"] == "matrix"]
    assert matrices.groupby("name")["step"].nunique().tolist() == [3] * len(layout.matrices)
    folders.rewrite(folder / layout.places[-1], folders.scaled(layout.hit))
    code, (found,) = audited(call, folder)
    assert (code, found["fault"]) == (1, "rescaled-tensor")


@pytest.mark.parametrize(
    ("name", "matrix"),
    [
        pytest.param("lora-gpt2", "transformer.h.1.attn.c_attn.weight", marks=pytest.mark.sample),
        ("lora-llama", "model.layers.1.self_attn.q_proj.weight"),
    ],
)
def test_an_adapter_is_measured_beside_its_base(name: str, matrix: str, written: Folder, call: Call) -> None:
    run = written(NAMED[name])
    for adapter in (run, run / "checkpoint-30"):
        code, out = call("compare", run.parent / "base", adapter, "--json")
        found = json.loads(out)
        assert (code, found["problems"], found["unread"]) == (0, [], [])
        changes = {one["name"]: one["change"] for one in found["changes"]}
        assert len(changes) == 2
        (change,) = (change for name, change in changes.items() if name.endswith(matrix))
        assert 0 < change < 2


def test_a_head_that_one_writer_leaves_out_is_no_difference(written: Folder, call: Call) -> None:
    code, out = call("compare", written(NAMED["transformers"]), written(NAMED["loop"]), "--points", 12)
    assert code == 0
    assert "all 14 matrices changed" in out
    assert "not in both" not in out


@pytest.mark.sample
def test_two_runs_of_one_trainer_are_two_runs(written: Folder, call: Call, tmp_path: Path) -> None:
    first = written(NAMED["transformers"])
    with quiet_trainer():
        other = folders.by_trainer(tmp_path / "other", folders.gpt2(seed=1))
    code, out = call("compare", first, other, "--points", 12)
    assert code == 0
    assert f"Same run? no: the weights differ from step 10 on, the first common one, in {GPT2} of" in out


@pytest.mark.sample
def test_a_lone_checkpoint_of_a_loop_states_its_plan_and_its_loss(call: Call, tmp_path: Path) -> None:
    need("torch", "transformers")
    with quiet_trainer():
        folders.by_loop(tmp_path / "out", "ckpt.pt")
    code, out = call("check", tmp_path / "out", "--json")
    (run,) = json.loads(out)["runs"]
    assert (code, run["step"], run["planned_steps"], run["losses"]) == (1, 30, 30, 1)
    assert "one checkpoint of out was read" in call("audit", tmp_path / "out")[1]


@pytest.mark.parametrize("name", [pytest.param("lora-gpt2", marks=pytest.mark.sample), "accelerate"])
def test_a_folder_without_a_log_is_not_judged(name: str, copied: Folder, call: Call) -> None:
    folder = copied(NAMED[name]) / NAMED[name].places[-1]
    (folder / "trainer_state.json").unlink(missing_ok=True)
    code, out = call("check", folder)
    assert code == 1
    assert out.startswith("not judged: no log of ")
