"""Whether a fine-tune did anything: planted faults are all named, and no sound adapter is accused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import toposcope as ts
from toposcope.api import AdapterComparison, Comparison
from toposcope.cli.main import main
from toposcope.sources.adapter_state import AdapterChange, AdapterState

KINDS = ("q_proj", "k_proj", "v_proj", "o_proj")
WIDTH, LAYERS = 24, 3
TIMES = 20
"""Adapters with each planted fault; twice as many are sound."""
Weights = dict[str, np.ndarray]


def base_of(g: np.random.Generator) -> Weights:
    """Return a small model in the names of the Llama family."""
    names = [f"model.layers.{i}.self_attn.{kind}.weight" for i in range(LAYERS) for kind in KINDS]
    made = {name: g.normal(0, 0.1, (WIDTH, WIDTH)).astype(np.float32) for name in names}
    return made | {
        f"model.layers.{i}.input_layernorm.weight": np.ones(WIDTH, np.float32) for i in range(LAYERS)
    }


def adapter_of(
    g: np.random.Generator, base: Mapping[str, np.ndarray], r: int, *, scale: float, trained: float = 1.0
) -> Weights:
    """Return a LoRA in PEFT's names, some of whose targets are trained: B of the others is zero."""
    made: Weights = {}
    matrices = [name.removesuffix(".weight") for name in base if "self_attn" in name]
    moved = max(round(trained * len(matrices)), 1)
    for place, name in enumerate(g.permutation(matrices)):
        b = scale * g.normal(size=(WIDTH, r)) if place < moved else np.zeros((WIDTH, r))
        made[f"base_model.model.{name}.lora_A.weight"] = g.uniform(-0.3, 0.3, (r, WIDTH)).astype(np.float32)
        made[f"base_model.model.{name}.lora_B.weight"] = b.astype(np.float32)
    return made


def write_adapter(folder: Path, weights: Weights, r: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": r, "lora_alpha": 2 * r, "base_model_name_or_path": "org/base"}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


def merged(base: Weights, adapter: Weights) -> Weights:
    out = dict(base)
    for name in base:
        pair = [adapter.get(f"base_model.model.{name.removesuffix('.weight')}.lora_{s}.weight") for s in "BA"]
        if pair[0] is not None and pair[1] is not None:
            out[name] = base[name] + 2 * pair[0] @ pair[1]
    return out


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*args: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return int(str(ended.value.code)), out, err

    return run


@pytest.mark.slow
def test_every_planted_fault_is_named_and_no_sound_adapter_is_accused(tmp_path: Path) -> None:
    """20 of each of four faults, and 40 sound adapters of many ranks and scales, alone and beside a base."""
    found = dict.fromkeys(("zero", "nan", "equal to the base", "equal across steps"), 0)
    accused = 0
    for i in range(TIMES):
        g = np.random.default_rng(i)
        base, r = base_of(g), int(2 ** g.integers(0, 4))
        save_file(base, tmp_path / f"base{i}.safetensors")
        scale = float(10.0 ** g.uniform(-5, 0))
        weights = adapter_of(g, base, r, scale=scale)
        zero = {name: 0 * value if "lora_B" in name else value for name, value in weights.items()}
        folder = write_adapter(tmp_path / f"zero{i}", zero, r)
        beside = ts.compare(tmp_path / f"base{i}.safetensors", folder)
        audited = {one.fault for one in ts.audit(folder).findings}
        found["zero"] += not beside.ok and "zero-adapter" in audited  # type: ignore[union-attr]

        broken = {name: value.copy() for name, value in weights.items()}
        broken[sorted(broken)[int(g.integers(len(broken)))]][0, 0] = np.nan
        folder = write_adapter(tmp_path / f"nan{i}", broken, r)
        beside = ts.compare(tmp_path / f"base{i}.safetensors", folder)
        audited = {one.fault for one in ts.audit(folder).findings}
        found["nan"] += not beside.ok and "non-finite" in audited  # type: ignore[union-attr]

        save_file(base, tmp_path / f"tuned{i}.safetensors")
        same = ts.compare(tmp_path / f"base{i}.safetensors", tmp_path / f"tuned{i}.safetensors")
        assert isinstance(same, Comparison)
        found["equal to the base"] += [one.fault for one in same.faults] == ["equals-base"]

        for step in (100, 200, 300):
            write_adapter(tmp_path / f"stuck{i}" / f"checkpoint-{step}", weights, r)
        audited = {one.fault for one in ts.audit(tmp_path / f"stuck{i}").findings}
        found["equal across steps"] += bool({"identical", "equals-final"} & audited)

        for part in (1.0, float(g.uniform(0.1, 0.9))):
            sound = adapter_of(g, base, r, scale=scale, trained=part)
            folder = write_adapter(tmp_path / f"sound{i}-{part}", sound, r)
            beside = ts.compare(tmp_path / f"base{i}.safetensors", folder)
            accused += not beside.ok or bool(ts.audit(folder).findings)
    assert found == dict.fromkeys(found, TIMES)
    assert accused == 0


def test_a_base_and_its_adapter_say_what_is_changed_with_what_rank(tmp_path: Path, call) -> None:
    g = np.random.default_rng(1)
    base = base_of(g)
    save_file(base, tmp_path / "base.safetensors")
    weights = adapter_of(g, base, 4, scale=0.01)
    for name in list(weights):  # of o_proj one direction alone is left
        if "o_proj.lora_B" in name:
            weights[name][:, 1:] = 0
    folder = write_adapter(tmp_path / "adapter", weights, 4)
    code, out, _ = call("compare", tmp_path / "base.safetensors", folder)
    assert code == 0
    assert out.startswith("the adapter changes base, by ")
    made = ts.compare(tmp_path / "base.safetensors", folder)
    assert isinstance(made, AdapterComparison)
    ranks = {row["name"].split(".")[-2]: row["rank"] for _, row in made.relative.iterrows()}
    assert ranks == {"q_proj": 4, "k_proj": 4, "v_proj": 4, "o_proj": 1}
    name = "model.layers.1.self_attn.q_proj.weight"
    pair = [weights[f"base_model.model.{name.removesuffix('.weight')}.lora_{s}.weight"] for s in "BA"]
    share = 2 * np.linalg.norm(pair[0] @ pair[1]) / np.linalg.norm(base[name])
    row = made.relative.set_index("name").loc[f"base_model.model.{name}"]
    assert row["change"] == pytest.approx(share, rel=1e-5)
    code, out, _ = call("audit", folder)
    assert code == 0
    assert "12 of 12 matrices are changed, with an effective rank of " in " ".join(out.split())
    code, out, _ = call("audit", folder, "--json")
    assert set(json.loads(out)["adapters"][0]["shares"]) == set(KINDS)


def test_a_lone_adapter_file_is_read_as_its_changes(tmp_path: Path) -> None:
    g = np.random.default_rng(2)
    base = base_of(g)
    save_file(base, tmp_path / "base.safetensors")
    save_file(adapter_of(g, base, 4, scale=0.01), tmp_path / "lora.safetensors")
    made = ts.compare(tmp_path / "base.safetensors", tmp_path / "lora.safetensors")
    assert isinstance(made, AdapterComparison)
    assert made.ok
    assert made.state.stated == "LoRA r=4 on an unnamed base"
    assert len(made.state.active) == 12


def test_an_adapter_of_another_base_is_a_fault(tmp_path: Path, call) -> None:
    g = np.random.default_rng(3)
    other = {name.replace("layers.", "blocks."): value for name, value in base_of(g).items()}
    save_file(other, tmp_path / "base.safetensors")
    folder = write_adapter(tmp_path / "adapter", adapter_of(g, base_of(g), 2, scale=0.01), 2)
    code, out, _ = call("compare", tmp_path / "base.safetensors", folder)
    assert code == 1
    assert "none of its 12 matrices is one of base: is it an adapter of another base?" in out
    wider = {name: np.concatenate([value, value]) for name, value in base_of(g).items()}
    save_file(wider, tmp_path / "wider.safetensors")
    code, out, _ = call("compare", tmp_path / "wider.safetensors", folder)
    assert code == 1
    assert "none of its 12 matrices fits wider: " in out
    assert f"{WIDTH} x {WIDTH} numbers and has {2 * WIDTH} x {WIDTH}; is it an adapter of another" in out


def test_a_merged_model_names_what_was_tuned_and_nan_in_it_is_a_fault(tmp_path: Path, call) -> None:
    g = np.random.default_rng(4)
    base = base_of(g)
    save_file(base, tmp_path / "base.safetensors")
    tuned = merged(base, adapter_of(g, base, 4, scale=0.01))
    save_file(tuned, tmp_path / "tuned.safetensors")
    code, out, _ = call("compare", tmp_path / "base.safetensors", tmp_path / "tuned.safetensors")
    assert code == 0
    assert out.startswith("attention layers changed most, by ")
    assert out.count("self_attn") == 8
    assert "4 more matrices moved less; --all prints every matrix" in out
    everything = call("compare", tmp_path / "base.safetensors", tmp_path / "tuned.safetensors", "--all")[1]
    assert everything.count("self_attn") >= 12
    name = "model.layers.0.input_layernorm.weight"
    save_file(tuned | {name: np.full(WIDTH, np.nan, np.float32)}, tmp_path / "tuned.safetensors")
    code, out, _ = call("compare", tmp_path / "base.safetensors", tmp_path / "tuned.safetensors")
    assert code == 1
    assert out.endswith(f": {name} holds NaN or infinite values\n")
    assert out.startswith("a fault of ")


def test_targets_that_stay_untrained_are_no_fault_of_a_series_of_adapters(tmp_path: Path) -> None:
    g = np.random.default_rng(5)
    weights = adapter_of(g, base_of(g), 4, scale=0.01, trained=0.5)
    for i, step in enumerate((100, 200, 300)):
        moved = {name: value * np.float32(1 + 0.1 * i) for name, value in weights.items()}
        write_adapter(tmp_path / "run" / f"checkpoint-{step}", moved, 4)
    assert ts.audit(tmp_path / "run").findings == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n", "run git lfs pull"),
        ("<!DOCTYPE html>\n<html><body>Sign in</body></html>", "is an HTML page"),
    ],
)
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "step_10.pt"])
def test_what_a_download_leaves_in_place_of_a_checkpoint_is_named(
    tmp_path: Path, call, name: str, text: str, said: str
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / name).write_text(text)
    (folder / "config.json").write_text("{}")
    save_file(base_of(np.random.default_rng(0)), tmp_path / "base.safetensors")
    for place in (folder / name, folder):
        code, out, err = call("compare", tmp_path / "base.safetensors", place)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert said in err


def test_matrices_that_only_one_has_are_counted(tmp_path: Path, call) -> None:
    g = np.random.default_rng(5)
    base = base_of(g)
    save_file(base, tmp_path / "base.safetensors")
    save_file(dict(list(base.items())[: len(base) // 2]), tmp_path / "half.safetensors")
    code, out, _ = call("compare", tmp_path / "base.safetensors", tmp_path / "half.safetensors")
    assert code == 1
    assert out.startswith("no common matrix changed; ")
    assert "matrices are not in both" in out


def test_an_adapter_of_a_compiled_model_is_read_under_its_plain_names(tmp_path: Path) -> None:
    g = np.random.default_rng(6)
    base = base_of(g)
    save_file(base, tmp_path / "base.safetensors")
    weights = adapter_of(g, base, 4, scale=0.01)
    start = "base_model.model."
    inside = {name.replace(start, f"{start}_orig_mod."): values for name, values in weights.items()}
    made = ts.compare(tmp_path / "base.safetensors", write_adapter(tmp_path / "compiled", inside, 4))
    plain = ts.compare(tmp_path / "base.safetensors", write_adapter(tmp_path / "plain", weights, 4))
    assert isinstance(made, AdapterComparison)
    assert made.ok
    assert made.relative.equals(plain.relative)


def test_a_tied_head_that_only_one_of_two_stores_is_no_difference(tmp_path: Path) -> None:
    g = np.random.default_rng(7)
    embedding = {"model.embed_tokens.weight": g.normal(size=(40, WIDTH)).astype(np.float32)}
    base = base_of(g) | embedding
    tied = {name: np.float32(1.1) * value for name, value in base.items()}
    tied["lm_head.weight"] = tied["model.embed_tokens.weight"].copy()
    save_file(base, tmp_path / "base.safetensors")
    save_file(tied, tmp_path / "tied.safetensors")
    sides = (tmp_path / "base.safetensors", tmp_path / "tied.safetensors")
    for first, second in (sides, sides[::-1]):
        assert ts.compare(first, second, points=12).ok
    save_file(tied | {"lm_head.weight": -tied["lm_head.weight"]}, tmp_path / "tied.safetensors")
    assert not ts.compare(*sides, points=12).ok


def test_an_audit_says_that_two_factors_of_an_adapter_count_as_one(tmp_path: Path) -> None:
    g = np.random.default_rng(3)
    adapter = write_adapter(tmp_path / "adapter", adapter_of(g, base_of(g), 4, scale=0.1), 4)
    lines = str(ts.audit(adapter)).splitlines()
    pairs = LAYERS * len(KINDS)
    assert lines[1] == f"checked {pairs} of {pairs} tensors, 0 skipped"
    assert lines[2] == f"an adapter's two factors count as one tensor, their product ({pairs} of them)"


def test_an_adapter_of_one_matrix_is_not_counted_as_all_of_them() -> None:
    zero = AdapterChange("q_proj", 0.0, 0, 0.0, True)
    one = AdapterState("a", 0, "LoRA r=2", 2, (zero,))
    assert one.faults[0].message.startswith("its only change B A is zero, so the adapter does nothing")
    assert one.sentence == "LoRA r=2: its only matrix has no finite, nonzero change"
    two = AdapterState("a", 0, "LoRA r=2", 2, (zero, zero))
    assert two.faults[0].message.startswith("all 2 changes B A are zero")
    assert two.sentence == "LoRA r=2: none of its 2 matrices has a finite, nonzero change"
