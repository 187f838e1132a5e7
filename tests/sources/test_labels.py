"""Steps in names, tensors that are no matrices, and what an adapter says that it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from toposcope.cli.main import main
from toposcope.core.errors import SourceError
from toposcope.core.types import Role
from toposcope.files.labels import step_of, step_of_file, step_pattern, tokens_of
from toposcope.sources import open_series
from toposcope.sources.opening import hint

W = {"w": np.arange(12, dtype=np.float32).reshape(3, 4)}


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("model_0", 0),
        ("model-12", 12),
        ("weights-7", 7),
        ("weights_7", 7),
        ("gpt_250", 250),
        ("epoch_3", 3),
        ("epoch=4", 4),
        ("checkpoint_epoch_5", 5),
        ("epoch=1-step=20", 20),
        ("step_100", 100),
        ("gpt2", None),
        ("model", None),
        ("model-00001-of-00002", None),
        ("step-100k", 100_000),
        ("ckpt_1.2M", 1_200_000),
        ("100k", 100_000),
        ("model_100k", 100_000),
        ("ckpt-4B", 4_000_000_000),
        ("ckpt_2.5B", 2_500_000_000),
        ("tokens4B", 4_000_000_000),
        ("step-50k-105b", 50_000),
        ("12epoch", 12),
        ("100steps", 100),
        ("checkpoint_3_1000", 1000),
        ("ep3-ba1000-rank0", 1000),
        ("0000100_adapters", 100),
        ("7B", None),
        ("1.2M", None),
        ("llama-1.1B", None),
        ("batch-32", None),
        ("sft-100steps", None),
        ("gpt2-124M", None),
        ("lora-000002", 2),
        ("style_shard-000002", None),
        ("expert_000001", None),
        ("data-seed_000001", None),
    ],
)
def test_files_state_their_steps(name: str, step: int | None) -> None:
    assert step_of_file(name) == step


@pytest.mark.parametrize("name", ["gpt-2", "model_1"])
def test_a_folder_with_a_number_is_no_step(name: str) -> None:
    assert step_of(name) is None


@pytest.mark.parametrize("stem", ["model_{}", "model-{}", "weights-{}", "gpt_{}", "epoch_{}"])
def test_a_folder_of_such_files_is_a_series(tmp_path: Path, stem: str) -> None:
    for step in (0, 5, 10):
        save_file(W, tmp_path / f"{stem.format(step)}.safetensors")
    assert [at.step for at in open_series(tmp_path)] == [0, 5, 10]


def _numbered_folders(root: Path, names: tuple[str, ...]) -> None:
    for index, name in enumerate(names):
        (root / name).mkdir(parents=True)
        save_file({"w": W["w"] + index}, root / name / "model.safetensors")


@pytest.mark.parametrize("stem", ["model-{}", "model_{}", "weights-{}", "gpt_{}"])
def test_numbered_folders_are_runs_with_a_hint_that_works(
    tmp_path: Path, stem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _numbered_folders(tmp_path, tuple(stem.format(step) for step in (0, 10, 20)))
    assert len(open_series(tmp_path).runs) == 3
    with pytest.raises(SystemExit):
        main(["audit", str(tmp_path)])
    (said,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
    pattern = said.partition("--step-pattern '")[2].rstrip("'")
    assert "are read as 3 runs of one checkpoint, each at step 0" in said
    series = open_series(tmp_path, step_pattern=pattern)
    assert ([at.step for at in series], len(series.runs), hint(series)) == ([0, 10, 20], 1, "")
    with pytest.raises(SystemExit):
        main(["weights", str(tmp_path), "--out", str(tmp_path / "store"), "--features", "baselines"])
    assert said in capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(
    "names", [("gpt-2", "model-1"), ("model-1",), ("small", "large"), ("step_0", "step_5")]
)
def test_no_hint_where_folders_are_no_numbered_siblings(tmp_path: Path, names: tuple[str, ...]) -> None:
    _numbered_folders(tmp_path, names)
    assert hint(open_series(tmp_path)) == ""


def test_a_pattern_of_ones_own(tmp_path: Path) -> None:
    for step in (3, 30):
        save_file(W, tmp_path / f"snap_at_{step}_lr0.1.safetensors")
    with pytest.raises(SourceError, match="step_pattern"):
        open_series(tmp_path)
    series = open_series(tmp_path, step_pattern=r"at_(\d+)")
    assert [at.step for at in series] == [3, 30]
    assert step_of("step_4") == 4  # the pattern is gone again


@pytest.mark.parametrize(("pattern", "match"), [("(", "not a regular expression"), ("a", "0 groups")])
def test_a_bad_pattern(pattern: str, match: str) -> None:
    with pytest.raises(SourceError, match=match), step_pattern(pattern):
        pass


def test_columns_of_a_log_are_renamed(series_of_files: Callable[[str], Path], tmp_path: Path) -> None:
    series = series_of_files("step_{}.safetensors")
    log = tmp_path / "log.csv"
    pd.DataFrame({"it": [0, 1, 2], "nll": [3.0, 2.0, 1.0]}).to_csv(log, index=False)
    with pytest.raises(SourceError, match=r"rename=\{'THEIRS': 'step'\}"):
        open_series(series, losses=log)
    found = open_series(series, losses=log, rename={"it": "step", "nll": "loss"})
    assert found.metrics(found.names[0])["loss"].tolist() == [3.0, 2.0, 1.0]
    with pytest.raises(SourceError, match=r"'nl': '\.\.\.'\}`: no such column.*did you mean 'nll'"):
        open_series(series, losses=log, rename={"nl": "loss"})


def test_attention_in_three_dimensions_is_taken_apart_and_buffers_are_left_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shapes = {
        "embed.W_E": (8, 11),
        "blocks.0.attn.W_Q": (4, 8, 2),
        "blocks.0.attn.W_O": (8, 8),
        "blocks.0.attn.mask": (3, 3),
        "blocks.0.mlp.W_in": (8, 32),
        "rotary.inv_freq": (2, 2),
        "conv": (2, 3, 4),
        "ln.weight": (8,),
    }
    tensors = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    save_file(tensors, tmp_path / "step_1.safetensors")
    series = open_series(tmp_path)
    at = next(iter(series))
    found = {matrix.name: matrix for matrix in series.matrices(at)}
    heads = [f"blocks.0.attn.W_Q[head {k}]" for k in range(4)]
    assert set(found) == {"embed.W_E", *heads, "blocks.0.attn.W_O", "blocks.0.mlp.W_in"}
    for k, name in enumerate(heads):
        assert (found[name].head, found[name].layer, found[name].role) == (k, 0, Role.ATTENTION)
        # x W_Q: the inputs come first, and a row of what is measured is an output unit
        np.testing.assert_array_equal(found[name].values, tensors["blocks.0.attn.W_Q"][k].T)
    assert found["blocks.0.mlp.W_in"].values.shape == (32, 8)
    assert series.skipped(at) == {
        "blocks.0.attn.mask": "a buffer, not a weight",
        "rotary.inv_freq": "a buffer, not a weight",
        "conv": "3 dimensions, neither a stack of experts nor of attention heads",
    }
    assert "and 1 more: a buffer, not a weight" in series.left_out()


def test_an_adapter_says_its_base(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_{}.weight"
    tensors = {
        name.format("A"): rng.standard_normal((2, 8)).astype(np.float32),
        name.format("B"): rng.standard_normal((8, 2)).astype(np.float32),
    }
    save_file(tensors, tmp_path / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "base_model_name_or_path": "org/base"}
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    assert open_series(tmp_path).runs[0].family == "LoRA r=2 on org/base"


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?:a+)+(\d+)$", r"(\d+)(?:a|ab)*x", r".*.*.*.*(\d+)x", r"(?:(?:a*)*)*(\d+)",
        r"(?=(?:a+)+$)(\d+)", r"(\d+)" + "a?" * 30 + "a" * 30, "(?:" * 3000 + r"(\d+)" + ")" * 3000,
        r"(?:\w+-?)*(\d+)", r"(?:[a-z]+){2,9}(\d+)", r"(?:a?){40}(\d+)",
    ],
)  # fmt: skip
def test_a_pattern_whose_search_may_not_end_is_refused(pattern):
    with (
        pytest.raises(SourceError, match=r"may search without end|not a regular expression"),
        step_pattern(pattern),
    ):
        pass


@pytest.mark.parametrize("pattern", [r".*run_(\d+).*", r"e\d+_s(\d+)", r"[a-z]+-(\d{1,9})", r"(\d+)k?"])
def test_a_plain_pattern_is_taken_and_ends_soon(pattern):
    with step_pattern(pattern):
        step_of("a" * 255)
        step_of("0" * 255)


@pytest.mark.parametrize("digits", ["٣", "३", "３", "1٢", "²", "٣1"])
@pytest.mark.parametrize(
    "name", ["step_{}", "checkpoint-{}", "{}", "epoch={}", "{}_steps", "model-{}", "{}B-tokens"]
)
def test_digits_of_other_scripts_are_no_step(name, digits):
    assert step_of_file(name.format(digits)) is None
    assert tokens_of(name.format(digits)) is None
    with step_pattern(r"(\w+)$"):
        assert step_of(name.format(digits)) is None


@pytest.mark.parametrize("number", ["1e3", "1e400", "1e+3", "1,000", "0x10"])
def test_a_number_in_another_form_is_not_its_first_digits(number):
    assert step_of_file(f"step_{number}") is None
    assert step_of_file(f"checkpoint-{number}.pt") is None
