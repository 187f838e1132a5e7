"""The commands that measure, compare and export weights, from the command line's own entrance."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

import toposcope as ts
from tests.faults.injury import write_series
from toposcope.cli.main import main
from toposcope.core.seeding import rng
from toposcope.core.types import Diagram, Role, Row, RunRecord
from toposcope.sources.layout import RunFolder, write_run
from toposcope.store import KeptDiagram, Store, Unit

SHAPES = {"token_emb.weight": (16, 4), "layers.0.mlp.fc1.weight": (20, 4), "head.weight": (16, 4)}
Call = Callable[..., tuple[int, str, str]]


def moved(start: np.ndarray, run: str, step: int, name: str) -> np.ndarray:
    """Weights that have left their start by small moves: an audit takes fresh ones for replaced."""
    return (start + 0.05 * rng(run=run, step=step, name=name).standard_normal(start.shape)).astype(np.float32)


def write_run_folder(folder: Path, steps: range) -> None:
    write_run(RunFolder(folder), RunRecord(folder.name, "gpt", 192, 1), extra={})
    for step in steps:
        path = RunFolder(folder).checkpoint(step)
        path.parent.mkdir(parents=True, exist_ok=True)
        weights = {
            name: moved(rng(run=folder.name, name=name).standard_normal(shape), folder.name, step, name)
            for name, shape in SHAPES.items()
        }
        save_file(weights, path, metadata={"step": str(step), "tokens": str(8 * step)})


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name in ("one", "two"):
        write_run_folder(tmp_path / "runs" / name, range(0, 40, 10))
    return tmp_path / "runs"


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def run(*args: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit_:
            main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return int(exit_.value.code or 0), out, err

    return run


@pytest.fixture
def store(runs: Path, tmp_path: Path, call: Call) -> Path:
    assert call("weights", runs, "--out", tmp_path / "store", "--points", 12, "--diagrams")[0] == 0
    return tmp_path / "store"


def test_weights_says_first_what_it_will_do_and_then_what_it_did(
    runs: Path, tmp_path: Path, call: Call
) -> None:
    code, out, err = call("weights", runs, "--out", tmp_path / "s")
    assert code == 0
    assert err.startswith("8 checkpoints of 2 runs, ")
    assert "32 measurements; expecting" in err
    assert "of memory" in err
    assert f"{tmp_path / 's'}: 32 measurements made, 0 failed" in out
    assert "32 were there already" in call("weights", runs, "--out", tmp_path / "s")[1]


def test_the_first_line_says_what_the_audit_found(tmp_path: Path, call: Call) -> None:
    series = write_series(tmp_path / "series", runs=1, steps=4)
    same = series / "run0" / "step_10.safetensors"
    shutil.copy(series / "run0" / "step_20.safetensors", same)
    line = ["weights", series, "--out", tmp_path / "s", "--features", "baselines"]
    code, out, _ = call(*line)
    assert code == 1
    assert out.splitlines()[0].endswith("; look at this first: the audit found 1 fault")
    assert "audit" not in call(*line, "--no-audit")[1].splitlines()[0]


def test_weights_as_json(runs: Path, tmp_path: Path, call: Call) -> None:
    code, out, _ = call(
        "weights", runs, "--out", tmp_path / "s", "--features", "baselines,distances", "--json"
    )
    assert code == 0
    said = json.loads(out)
    assert (said["measured"], said["present"], said["failed"], said["problems"]) == (16, 0, [], [])
    assert set(Store.open(tmp_path / "s").features().probe) == {"baselines", "distances"}


def test_the_costly_features_are_named_in_the_help(call: Call) -> None:
    code, out, _ = call("weights", "--help")
    assert code == 0
    said = " ".join(out.split())
    assert "`all` adds distances to the previous checkpoint (Wasserstein and bottleneck) and " in said
    assert "such as the two of an MLP), which are slow" in said


def test_the_paper_preset(runs: Path, tmp_path: Path, call: Call) -> None:
    assert call("weights", runs, "--out", tmp_path / "s", "--preset", "seed004", "--draws", 1)[0] == 0
    store = Store.open(tmp_path / "s")
    assert store.recipe["thresh"] == 2.0
    table = store.features()
    assert "token_emb.weight" not in set(table.name)
    assert set(table[table.probe == "neural_persistence"].filtration) == {"seed004"}
    assert set(table[table.probe == "rips"].name) == {"pooled"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--features", "holes"], "--features 'holes': no such probe"),
        (["--preset", "seed9"], "--preset 'seed9': unknown; use one of default, seed004"),
        (["--shard", "3/2"], "--shard '3/2': there is no such part; use i/n"),
        (["--jobs", "0"], "--jobs 0: it must be at least 1"),
        (["--points", "1"], "--points 1: it must be at least 3"),
    ],
)
def test_bad_options_are_one_line_and_do_nothing(
    runs: Path, tmp_path: Path, call: Call, options: list[str], message: str
) -> None:
    code, out, err = call("weights", runs, "--out", tmp_path / "s", *options)
    assert (code, out) == (2, "")
    assert err.startswith(f"toposcope: error: {message}")
    assert err.count("\n") == 1
    assert not (tmp_path / "s").exists()


def test_a_store_of_another_recipe(runs: Path, store: Path, call: Call) -> None:
    code, _, err = call("weights", runs, "--out", store, "--points", 13)
    assert code == 2
    assert "other settings (points 12 there, 13 here)" in err


def test_an_empty_folder(tmp_path: Path, call: Call) -> None:
    (tmp_path / "empty").mkdir()
    code, _, err = call("weights", tmp_path / "empty", "--out", tmp_path / "s")
    assert code == 2
    assert err.count("\n") == 1
    assert not (tmp_path / "s").exists()


def test_a_failing_checkpoint_is_listed(runs: Path, tmp_path: Path, call: Call) -> None:
    path = RunFolder(runs / "one").checkpoint(20)
    path.write_bytes(path.read_bytes()[:200])
    code, out, _ = call(
        "weights", runs, "--out", tmp_path / "s", "--features", "baselines", "--json", "--no-audit"
    )
    assert code == 1
    said = json.loads(out)
    assert [(f["run"], f["step"], f["probe"]) for f in said["failed"]] == [("one", 20, "baselines")]
    assert said["measured"] == 7
    table = call("weights", runs, "--out", tmp_path / "s", "--features", "baselines", "--no-audit")[1]
    assert "Failed twice" in table


def test_compare_two_runs(runs: Path, tmp_path: Path, call: Call) -> None:
    figure = tmp_path / "figures" / "difference.png"
    options = ("--points", 12, "--draws", 3)
    code, out, _ = call("compare", runs / "one", runs / "two", "--out", figure, *options)
    assert code == 0
    assert out.startswith(
        "heads changed most, by 149% of their norm, mlp layers by 145%, embeddings by 142% "
    )
    assert "\n3 of 3 matrices differ beyond twice the noise of the draws: head, fc1, token_emb.\n" in out
    assert "Same run? no: the weights differ from step " in out
    assert "two step 30 minus one step 30" in out
    assert "±" in out
    assert figure.read_bytes().startswith(b"\x89PNG")
    code, out, _ = call("compare", runs / "one", runs / "two", "--json", "--step", 10, *options)
    table = pd.DataFrame(json.loads(out)["rows"])
    pooled = table[(table["name"] == "pooled") & (table["feature"] == "h0_total")].iloc[0]
    assert pooled["draws"] == 3
    assert pooled["difference"] == pytest.approx(pooled["second"] - pooled["first"])
    assert pooled["standard_error"] == pytest.approx(pooled["sd"] / 3**0.5)
    assert {"wasserstein1_np", "bottleneck_h0"} <= set(table["feature"])


def test_a_checkpoint_compared_with_itself_differs_nowhere(runs: Path, call: Call) -> None:
    out = call("compare", runs / "one", runs / "one", "--json", "--points", 12)[1]
    stated = json.loads(out)
    assert stated["answer"] == "no matrix changed"
    assert stated["parting"]["first_apart"] is None
    assert stated["beyond_noise"] == "0 of 3 matrices differ beyond twice the noise of the draws"
    assert stated["changed"] == []
    table = pd.DataFrame(stated["rows"])
    assert table["difference"].dropna().abs().max() < 1e-6
    assert len(table["difference"].dropna()) > 100


@pytest.mark.slow
def test_a_comparison_names_the_matrices_that_changed_and_no_others(tmp_path: Path, call: Call) -> None:
    """As after a fine-tuning of some: the largest weight of the network moves with them, and in no other."""
    generator = np.random.default_rng(0)
    shape = (24, 16)
    names = [f"model.layers.{layer}.self_attn.{kind}_proj.weight" for layer in range(6) for kind in "qkvo"]
    base = {name: generator.normal(size=shape).astype(np.float32) for name in names}
    tuned = [f"model.layers.{layer}.self_attn.{kind}_proj.weight" for layer in (1, 2, 5) for kind in "qv"]
    far = {name: base[name] * np.float32(3) for name in tuned}
    save_file(base, tmp_path / "base.safetensors")
    save_file(base | far, tmp_path / "tuned.safetensors")
    out = call("compare", tmp_path / "base.safetensors", tmp_path / "tuned.safetensors", "--json")[1]
    stated = json.loads(out)
    assert stated["changed"] == tuned
    said = "6 of 24 matrices differ beyond twice the noise of the draws: q_proj, v_proj"
    assert stated["beyond_noise"] == said
    assert stated["answer"].startswith("attention layers changed most, by 50% of their norm (means; 6 of 24")
    other = {name: generator.normal(size=shape) for name in tuned}
    rounded = {name: value + generator.normal(0, 1e-3, shape) for name, value in (base | other).items()}
    save_file(
        {name: value.astype(np.float32) for name, value in rounded.items()}, tmp_path / "rounded.safetensors"
    )
    printed = call("compare", tmp_path / "base.safetensors", tmp_path / "rounded.safetensors")[1]
    first = " ".join(" ".join(printed.splitlines()[:4]).split())
    assert first.partition("changed) ")[2].startswith(
        "24 of 24 matrices differ beyond twice the noise of the draws: k_proj, o_proj, q_proj, v_proj; "
        "6 of them moved over 5 times as far as the rest: q_proj, v_proj"
    )


def test_of_a_run_that_diverges_is_spoken_though_nothing_can_be_tested(
    runs: Path, tmp_path: Path, call: Call
) -> None:
    step = np.arange(40, 440)
    loss = 1.6 + 3 / np.sqrt(step)
    loss[300:] = np.linspace(1.7, 4.5, 100)
    log, store = tmp_path / "log.csv", tmp_path / "store"
    log.write_text("step,loss\n" + "".join(f"{s},{v}\n" for s, v in zip(step, loss, strict=True)))
    call("weights", runs / "one", "--losses", log, "--features", "baselines", "--out", store)
    code, out, err = call("analyze", store)
    assert code == 1, err
    assert out.startswith("Run one: diverging: the loss rose from ")


def test_an_adapter_that_states_no_rank_has_that_of_its_tensors(tmp_path: Path, call: Call) -> None:
    weights = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
    save_file({"model.layers.0.self_attn.q_proj.weight": weights}, tmp_path / "base.safetensors")
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_{}.weight"
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    pair = {name.format("A"): weights[:2].copy(), name.format("B"): weights[:, :2].copy()}
    save_file(pair, adapter / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "lora_alpha": 4, "base_model_name_or_path": "org/base"}
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    code, out, _ = call("compare", tmp_path / "base.safetensors", adapter)
    assert code == 0
    change = 2 * np.linalg.norm(pair[name.format("B")] @ pair[name.format("A")])  # lora_alpha 4 over rank 2
    assert f" {change:.1f} " in out
    assert "1 of 1 matrices is changed" in " ".join(out.split())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["runs", "runs/one"], r"runs contains 2 runs (one, two); name one of them"),
        (["runs/one", "runs/two", "--step", "7"], "has the steps 0 to 30"),
        (["runs/one", "runs/two", "--out", "x.gif"], "the figure can only be .png or .svg"),
    ],
)
def test_bad_comparisons(runs: Path, call: Call, args: list[str], message: str) -> None:
    places = [str(runs.parent / arg) if arg.startswith("runs") else arg for arg in args]
    code, _, err = call("compare", *places)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_models_without_a_common_matrix(runs: Path, tmp_path: Path, call: Call) -> None:
    save_file({"encoder.weight": np.ones((4, 4), np.float32)}, tmp_path / "other.safetensors")
    code, _, err = call("compare", runs / "one", tmp_path / "other.safetensors")
    assert code == 2
    assert "have no matrix name in common" in err


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "json"])
def test_export_long(store: Path, tmp_path: Path, call: Call, kind: str) -> None:
    code, out, _ = call("export", store, "--out", tmp_path / "x", "--format", kind)
    assert code == 0
    tables = ["audit", "catalogue", "diagrams", "features", "metrics", "runs"]
    assert sorted(Path(file).name for file in out.split()) == [f"{name}.{kind}" for name in tables]
    path = tmp_path / "x" / f"features.{kind}"
    table = pd.read_csv(path) if kind == "csv" else pd.DataFrame(json.loads(path.read_text()))
    features = Store.open(store).features()
    assert len(table) == len(features)
    np.testing.assert_allclose(table["value"].astype(float), features["value"], rtol=1e-12)
    if kind == "json":
        diagrams = json.loads((tmp_path / "x" / "diagrams.json").read_text())
        assert any("inf" in row["death"] for row in diagrams)


def test_export_wide(store: Path, tmp_path: Path, call: Call) -> None:
    assert call("export", store, "--out", tmp_path / "x", "--shape", "wide")[0] == 0
    table = pd.read_csv(tmp_path / "x" / "features.csv")
    assert len(table) == 8
    features = Store.open(store).features(probe="rips", feature="h0_total", run="one")
    draws = features[(features["name"] == "pooled") & (features["step"] == 20)]["value"]
    line = table[(table["run"] == "one") & (table["step"] == 20)].iloc[0]
    assert line["rips/pooled/euclidean/h0_total"] == pytest.approx(draws.mean())
    assert line["rips/pooled/euclidean/h0_total/sd"] == pytest.approx(draws.std())
    assert "neural_persistence/role mlp/rieck/neural_persistence" in table


@pytest.mark.slow
def test_export_netcdf(store: Path, tmp_path: Path, call: Call) -> None:
    xarray = pytest.importorskip("xarray")
    assert call("export", store, "--out", tmp_path / "x", "--format", "netcdf", "--json")[0] == 0
    with xarray.open_dataset(tmp_path / "x" / "features.nc") as root:
        assert "rips" in root.attrs["groups"].split()
        assert root.attrs["open"].startswith("xarray.open_dataset('features.nc', group=")
    printed = call("export", store, "--out", tmp_path / "x", "--format", "netcdf")[1]
    assert "open it by: xarray.open_dataset(" in " ".join(printed.split())
    with xarray.open_dataset(tmp_path / "x" / "features.nc", group="rips") as data:
        assert set(data["h0_total"].dims) == {"run", "step", "item", "draw"}
        found = data["h0_total"].sel(run="one", step=20, item="pooled|euclidean").to_numpy()
    features = Store.open(store).features(probe="rips", feature="h0_total", run="one")
    draws = features[(features["name"] == "pooled") & (features["step"] == 20)]["value"]
    np.testing.assert_allclose(np.sort(found[np.isfinite(found)]), np.sort(draws))


@pytest.mark.slow
def test_export_of_weights_as_the_embedding_reports_files(store: Path, tmp_path: Path, call: Call) -> None:
    code, _, err = call("export", store, "--out", tmp_path / "x", "--layout", "seed003")
    assert code == 2
    assert "contains no representations; measure some with: toposcope embeddings" in err


def test_the_embedding_reports_files(tmp_path: Path, call: Call) -> None:
    store = Store.create(tmp_path / "s", recipe={"texts": 200})
    deaths = np.array([1.0, 2.0, 4.0, np.inf])
    for step in (0, 1, 8, 64):
        rows = [Row("pythia-70m", step, "representations", "perplexity", 100.0 / (step + 1), name="model")]
        for layer in (0, 6):
            rows += [
                Row(
                    "pythia-70m",
                    step,
                    "representations",
                    "h1_count",
                    10.0 * layer + step,
                    name="hidden",
                    layer=layer,
                ),
                Row(
                    "pythia-70m",
                    step,
                    "representations",
                    "rankme_eigenvalues",
                    3.0,
                    name="hidden",
                    layer=layer,
                ),
            ]
        kept = KeptDiagram(Diagram(1, np.zeros(4), deaths), "hidden", Role.MODEL, 6)
        store.write(Unit("pythia-70m", step, "representations", 1, str(step)), rows, [kept])
    assert call("export", store.path, "--out", tmp_path / "x", "--layout", "seed003")[0] == 0
    names = {path.name for path in (tmp_path / "x").iterdir()}
    assert names == {"all_results.json", "pythia-70m_results.json", "statistics.json", "config.json"}
    lines = json.loads((tmp_path / "x" / "pythia-70m_results.json").read_text())
    assert [line["checkpoint"] for line in lines] == ["step0", "step1", "step8", "step64"]
    assert lines[2] == {
        "model": "pythia-70m", "checkpoint": "step8", "step": 8, "perplexity": pytest.approx(100 / 9),
        "h1_n_features": 68.0, "effective_rank": 3.0, "h1_n_significant": 1.0,
    }  # fmt: skip
    statistics = json.loads((tmp_path / "x" / "statistics.json").read_text())
    assert statistics["pythia-70m"]["h1_n_features"]["spearman"] == pytest.approx(-1)
    assert json.loads((tmp_path / "x" / "config.json").read_text())["recipe"] == {"texts": 200}


def test_export_of_no_store(tmp_path: Path, call: Call) -> None:
    code, _, err = call("export", tmp_path, "--out", tmp_path / "x")
    assert code == 2
    assert "is not a store" in err


def test_gradients_without_a_batch_are_one_line_and_no_store(tmp_path: Path, call: Call) -> None:
    save_file({"a.weight": np.eye(4, dtype=np.float32)}, tmp_path / "lone.safetensors")
    code, _, err = call("weights", tmp_path / "lone.safetensors", "--gradients", "--out", tmp_path / "store")
    assert (code, err.count("\n")) == (2, 1)
    assert (
        "--gradients: these checkpoints have neither saved gradients nor held-out texts; give --texts FILE"
        in err
    )
    assert not (tmp_path / "store").exists()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that makes every unit be expected to take so many seconds."""
    from toposcope.subjects.weights.probes.baselines import Baselines

    monkeypatch.setattr("toposcope.sweep.expect.cores", lambda: 1)  # the times are those of one process

    def say(seconds: float) -> None:
        monkeypatch.setattr(Baselines, "expected_seconds", lambda self, shapes: seconds)

    return say


def test_a_plan_above_an_hour_is_told_the_cheaper_way(
    runs: Path, tmp_path: Path, call: Call, slow: Callable[[float], None]
) -> None:
    slow(3600.0)
    out = tmp_path / "store"
    code, _, err = call("weights", runs, "--out", out, "--features", "baselines")
    assert code == 0
    assert "This takes 2.7 h to 24.0 h. Cheaper: toposcope weights" in err
    # of four steps powers of two leave none out, of twelve five
    assert f"{runs} --out {out} --features baselines --steps last (about 2.0 h)" in err
    write_run_folder(tmp_path / "long" / "one", range(0, 120, 10))
    _, _, err = call("weights", tmp_path / "long", "--out", tmp_path / "more", "--features", "baselines")
    assert "This takes 4.0 h to 36.0 h. Cheaper: toposcope weights" in err
    assert "--features baselines --steps log (about 7.0 h)" in err


def test_a_plan_above_a_day_needs_a_yes(
    runs: Path, tmp_path: Path, call: Call, slow: Callable[[float], None]
) -> None:
    slow(86400.0)
    out = tmp_path / "store"
    code, _, err = call("weights", runs, "--out", out, "--features", "baselines", "--steps", "0:30")
    assert code == 2
    assert "takes 2.7 days to 24.0 days: repeat it with --yes, or measure less:" in err
    assert "--steps last (about 2.0 days)" in err
    assert "0:30" not in err
    assert not out.exists()
    code, _, err = call("weights", runs, "--out", out, "--features", "baselines")
    assert code == 2
    assert "--features baselines --steps last (about 2.0 days)" in err  # powers of two take days, too
    code, _, _ = call("weights", runs, "--out", out, "--features", "baselines", "--yes")
    assert code == 0


def test_near_names_are_suggested(runs: Path, tmp_path: Path, call: Call) -> None:
    for arguments, near in [
        (("wieghts",), "did you mean 'weights'"),
        (("weights", runs, "--out", tmp_path / "s", "--features", "baseline"), "did you mean 'baselines'"),
        (("weights", runs, "--uot", "x"), "--out"),
    ]:
        code, _, err = call(*arguments)
        assert code == 2
        assert near.lower() in err.lower()


def test_a_rename_that_is_none(runs: Path, tmp_path: Path, call: Call) -> None:
    code, _, err = call("weights", runs, "--out", tmp_path / "s", "--rename", "loss")
    assert code == 2
    assert "--rename 'loss': not OLD=NEW" in err


@pytest.mark.parametrize("scale", [1.0, 1.2])
def test_two_unrelated_series_have_nothing_in_common_and_a_tuned_one_has(scale: float) -> None:
    g = np.random.default_rng(3)
    names = [f"model.layers.{layer}.self_attn.{kind}_proj.weight" for layer in range(3) for kind in "qk"]
    base, other = ({name: g.normal(size=(40, 40)) for name in names} for _ in range(2))
    found = ts.compare({0: base}, {0: {name: scale * other[name] for name in names}}, draws=1)
    assert found.line.startswith("the two have nothing in common: ")
    assert "changed most" not in found.line
    tuned = {name: value + scale * g.normal(size=value.shape) for name, value in base.items()}
    assert "nothing in common" not in ts.compare({0: base}, {0: tuned}, draws=1).line


def test_matrices_of_no_known_role_are_named() -> None:
    g = np.random.default_rng(4)
    base = {"lump.a": g.normal(size=(5, 6)), "lump.b": g.normal(size=(5, 6))}
    tuned = {"lump.a": 1.5 * base["lump.a"], "lump.b": 1.1 * base["lump.b"]}
    assert ts.compare({0: base}, {0: tuned}, draws=1).line.startswith("lump.a and 1 more changed most")
    alone = ts.compare({0: {"lump.a": base["lump.a"]}}, {0: {"lump.a": tuned["lump.a"]}}, draws=1)
    assert alone.line == "lump.a changed by 50% of its norm"
