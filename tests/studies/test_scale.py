"""The weight-space study on larger models: a tiny family trained, its rows kept, and rows judged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from toposcope.cli.reproduce import command as reproduce
from toposcope.core.errors import InputError
from toposcope.recipes import ModelShape, load_training_recipe
from toposcope.studies.claims import Standing
from toposcope.studies.scale import families
from toposcope.studies.scale.claims import claims
from toposcope.studies.scale.families import Clock, FinishedRun, fitting_steps, shortened, trained_families
from toposcope.studies.scale.measuring import DEEP, GROUPS, LAYERS, CheckpointMeasurer
from toposcope.studies.scale.page import sections
from toposcope.studies.scale.rows import COLUMNS, FILE, MATRICES, OF_MATRICES, read_runs, schema, write_rows
from toposcope.studies.scale.series import ScaleRuns
from toposcope.training import parameters_of

ROOT = Path(__file__).parents[2]
SIZES = {"1m": 10**6, "3m": 3 * 10**6, "10m": 10**7, "30m": 3 * 10**7, "124m": 124 * 10**6}
STEPS = np.arange(0, 2401, 60)


def _run(name: str, seed: int, layers: int, *, deep: bool = True) -> FinishedRun:
    """Return a simulated run: the loss falls as a power of size and step, H0 rises with the step."""
    g = np.random.default_rng([seed, layers])
    run, size = f"{name}-seed{seed}", SIZES[name]
    noise = pd.DataFrame(0.01 * g.standard_normal((len(STEPS), 30)))
    loss = 20 * size**-0.1 * (STEPS + 60.0) ** -0.1 + noise[0]
    h0 = 10 * np.log(STEPS + 100.0) * size**0.1
    rows = pd.DataFrame({
        "corpus": "installed:0123456789ab", "tokenizer": "byte-bpe-8192", "device": "cuda", "model": name,
        "run": run, "parameters": size, "seed": seed, "steps": STEPS[-1], "step": STEPS,
        "tokens": STEPS * 16384, "loss": loss, "loss_smooth": loss, "heldout_loss": loss + 0.1,
        "learning_rate": 1e-3, "weight_norm": 10.0, "neural_persistence": 0.4 + 1e-4 * STEPS + noise[1],
        "neural_persistence_shuffled": 0.39 + 1e-4 * STEPS + noise[2], "spread": 0.2 + noise[3],
        "neural_persistence_network": 0.5 + noise[4], "h0_total": h0 + noise[5], "h0_total_sd": 0.1,
        "h0_total_free": h0 + noise[6], "h1_total": 1 + noise[7], "h1_total_sd": 0.1,
        "h1_total_free": 1 + noise[8], "mean_distance": h0 / 9 + noise[9],
        "deep": 0.6 + noise[10] if deep else np.nan, "deep_shuffled": 0.5 + noise[11] if deep else np.nan,
        "h0_total_layers": np.nan, "seconds": STEPS / 10,
    })  # fmt: skip
    parts = [
        pd.DataFrame({
            "run": run, "step": STEPS, "matrix": f"layers.{layer}.{role}", "role": role, "layer": layer,
            "rows": 8, "columns": 8, "neural_persistence": 0.4 + 1e-4 * STEPS + 0.01 * g.standard_normal(41),
            "shuffled": 0.36 + 1e-4 * STEPS, "spread": np.nan if role == "mlp" else 0.2 + 1e-4 * STEPS,
        })
        for layer in range(layers)
        for role in ("qkv", "proj", "fc1", "fc2", "mlp")
    ]  # fmt: skip
    return FinishedRun(run, rows.to_dict("records"), pd.concat(parts).to_dict("records"))


def simulated(*, seeds: int = 1, **settings: bool) -> list[FinishedRun]:
    return [
        _run(name, seed, 3 + layers, **settings)
        for seed in range(42, 42 + seeds)
        for layers, name in enumerate(SIZES)
        if seed == 42 or name != "124m"
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_rows(simulated(seeds=2), tmp_path / "rows")
    return tmp_path / "rows"


@pytest.fixture
def nano(tmp_path: Path):
    """A recipe of two sizes that train in seconds."""
    text = tmp_path / "text.txt"
    words = ["def", "return", "weights", "(x):\n    ", "bars\n"]
    text.write_text(" ".join(np.random.default_rng(0).choice(words, 6000)))
    recipe = load_training_recipe("scale", {
        "corpus": str(text), "vocabulary": 270, "context": 8, "batch_size": 4, "heldout_batches": 1,
        "steps": 4, "checkpoint_every": 2, "warmup_steps": 1,
    })  # fmt: skip
    return replace(recipe, models=(ModelShape("one", 8, 1, 1), ModelShape("two", 16, 2, 2)))


def test_the_sizes_are_what_their_names_say():
    recipe = load_training_recipe("scale")
    sizes = {one.name: parameters_of(recipe.of_run(one.name, 42)) for one in recipe.models}
    for name, size in SIZES.items():
        assert sizes[name] == pytest.approx(size, rel=0.05)
    assert len(recipe.checkpoint_steps()) == 41


def test_a_tiny_family_is_trained_measured_and_kept(nano, tmp_path):
    lines: list[str] = []
    found = list(trained_families(nano, Clock.of(None), device="cpu", say=lines.append))
    assert [run.run for run in found] == ["one-seed42", "two-seed42"]
    assert not any(run.problem for run in found)
    assert [row["step"] for row in found[1].rows] == [0, 2, 4]
    assert len(found[1].matrices) == 3 * 2 * 5
    write_rows(found, tmp_path / "out")
    assert [run.run for run in read_runs(tmp_path / "out")] == ["one-seed42", "two-seed42"]
    assert "training tokens" in lines[0]
    row = pd.DataFrame(found[1].rows).iloc[-1]
    assert row.drop(["corpus", "tokenizer", "device", "model", "run"]).notna().all()
    assert abs(row["neural_persistence"] - row["neural_persistence_shuffled"]) < 0.05
    assert not list(trained_families(nano, Clock.of(None), device="cpu", finished=[one.run for one in found]))


def test_the_numbers_of_a_checkpoint_are_those_of_the_toolbox():
    import torch

    import toposcope as ts

    weights = {
        f"layers.0.mlp.{name}.weight": torch.randn(shape, generator=torch.Generator().manual_seed(1))
        for name, shape in {"fc1": (32, 8), "fc2": (8, 32)}.items()
    }
    row, matrices = CheckpointMeasurer("run").measure({**weights, "token_emb.weight": torch.ones(9, 8)}, 0)
    up, down = (one.numpy() for one in weights.values())
    assert row["neural_persistence"] == pytest.approx(
        np.mean([ts.neural_persistence(one, "matrix") for one in (up, down)])
    )
    assert row["deep"] == pytest.approx(ts.topology.deep_graph_persistence([up, down]))
    assert row["spread"] == pytest.approx(
        np.mean([np.abs(one).std() / np.abs(one).max() for one in (up, down)])
    )
    points = np.concatenate([np.pad(up, ((0, 0), (0, 24))), down])
    h0, h1 = ts.rips(points)
    assert row["h0_total_free"] == pytest.approx(h0.death[:-1].sum(), rel=1e-5)
    assert row["h0_total"] == pytest.approx(h0.death[h0.death <= 2].sum())
    assert row["h1_total_free"] == pytest.approx((h1.death - h1.birth).sum(), rel=1e-5)
    assert [one["role"] for one in matrices] == ["fc1", "fc2", "mlp"]


def test_costly_parts_are_left_out_of_a_limited_time(nano):
    import torch

    weights = {"layers.0.mlp.fc1.weight": torch.randn(32, 8), "layers.0.mlp.fc2.weight": torch.randn(8, 32)}
    measurer = CheckpointMeasurer("run")
    assert measurer.plan(weights, 0.0) > 0
    assert measurer.groups == GROUPS[:2]
    assert "deep" not in measurer.measure(weights, 0)[0]
    free = CheckpointMeasurer("run")
    free.plan(weights, np.inf)
    assert free.groups == GROUPS
    assert {DEEP, LAYERS} < set(GROUPS)


def test_steps_that_do_not_fit_are_left_out_evenly():
    recipe = load_training_recipe("scale")
    assert fitting_steps(recipe, 0.01, 0.1, 1000.0) == 2400
    fewer = fitting_steps(recipe, 0.1, 1.0, 200.0)
    assert fewer == 1400
    assert fitting_steps(recipe, 0.1, 1.0, 20.0) == 0
    short = shortened(recipe, fewer)
    assert len(short.checkpoint_steps()) == 41
    assert short.checkpoint_steps()[-1] == 1400
    assert short.warmup_steps == 117


def test_a_time_that_is_over_ends_a_run_and_leaves_the_others_out(nano, monkeypatch):
    clock = Clock.of(None)
    monkeypatch.setattr(CheckpointMeasurer, "measure", lambda *_: ({}, []))
    monkeypatch.setattr(families, "_warm_up", lambda *_: None)
    left = iter([np.inf, np.inf, np.inf, 0.0, 0.0])
    monkeypatch.setattr(Clock, "left", property(lambda _: next(left)))
    one, other = trained_families(nano, clock, device="cpu", say=lambda _: None)
    assert one.problem == "the time was over at step 0"
    assert len(one.rows) == 1
    assert (other.problem, other.rows) == ("the time was over", [])


def test_a_run_that_fails_leaves_the_others(nano, monkeypatch):
    monkeypatch.setattr(families, "_warm_up", lambda *_: None)
    monkeypatch.setattr(
        CheckpointMeasurer, "measure", lambda *_: (_ for _ in ()).throw(RuntimeError("out of memory"))
    )
    found = list(trained_families(nano, Clock.of(None), device="cpu", say=lambda _: None))
    assert [run.problem for run in found] == ["failed: out of memory"] * 2


def test_rows_are_read_as_they_were_written_and_fit_their_schema(folder, tmp_path):
    write_rows(read_runs(folder), tmp_path / "again")
    described = json.loads((folder / "schema.json").read_text())
    for name, columns, form in (
        (FILE, COLUMNS, described),
        (MATRICES, OF_MATRICES, described["$defs"]["matrix"]),
    ):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()
        table = pd.read_csv(folder / name)
        assert list(table.columns) == [one.name for one in columns]
        for row in table.astype(object).where(table.notna(), None).head(50).to_dict("records"):
            jsonschema.validate(row, form)


def test_only_finished_runs_are_read(tmp_path):
    one, other = simulated()[:2]
    write_rows([one, FinishedRun(other.run, other.rows[:20], other.matrices[:20])], tmp_path)
    assert [run.run for run in read_runs(tmp_path)] == [one.run]
    assert read_runs(tmp_path / "none") == []


def test_every_claim_is_judged(folder):
    found = claims(ScaleRuns.of(read_runs(folder)))
    assert len(found) == 12
    by_text = {claim.text: claim for claim in found}
    assert by_text["The final loss scales as a power of the size"].judgement is Standing.HOLDS
    tracks = by_text["H0 total persistence is anticorrelated with the loss in every model"]
    assert tracks.judgement is Standing.DRIFT
    assert "in 9 runs" in tracks.here
    more = by_text["Deep graph persistence is more than that of the same factors shuffled"]
    assert more.judgement is Standing.DRIFT


def test_without_deep_graph_persistence_the_paper_is_judged_alone():
    assert len(claims(ScaleRuns.of(simulated(deep=False)))) == 10


def test_the_tables_have_a_row_for_each_size(folder):
    tables = {section.title.split(":")[0]: section for section in sections(read_runs(folder))}
    changes = tables["What changes with size"]
    assert [row[0] for row in changes.rows] == list(SIZES)
    r2 = changes.rows[0][changes.columns.index("R2 with std of |w| / max")]
    assert float(str(r2).split()[0]) > 0.9
    assert len(tables["The runs"].rows) == 9
    judged = next(one for title, one in tables.items() if "one size can answer" in title)
    assert judged.columns == ("claim", *SIZES)


def test_the_command_judges_a_folder(folder, tmp_path):
    result = CliRunner().invoke(reproduce, ["scale", "--rows", str(folder), "--out", str(tmp_path / "page")])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("Of 12 claims")
    assert (tmp_path / "page" / "scale.html").is_file()


def test_the_command_trains_what_is_missing(nano, folder, monkeypatch, tmp_path):
    from toposcope import recipes

    trained = []

    def families_of(recipe, clock, *, device, finished, say):
        trained.append(
            (recipe.seeds, tuple(one.name for one in recipe.models), recipe.steps, sorted(finished))
        )
        yield FinishedRun("three", [], [], "the time was over")

    monkeypatch.setattr(families, "trained_families", families_of)
    options = ["--sizes", "1m,3m", "--seeds", "2", "--steps", "400", "--seconds", "60", "--out", str(folder)]
    result = CliRunner().invoke(reproduce, ["scale", *options])
    assert result.exit_code == 0, result.output
    assert "three: the time was over" in result.stderr
    assert trained[0][:3] == ((42, 43), ("1m", "3m"), 400)
    assert len(trained[0][3]) == 9
    assert recipes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "without `rows` the models are trained first"),
        (["--rows", "NONE"], "has no rows of a finished run"),
        (["--out", "OUT", "--device", "gpu"], "device"),
        (["--out", "OUT", "--sizes", "2m"], "model '2m' is not in recipe scale"),
    ],
)
def test_what_cannot_be_done_is_refused(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(reproduce, ["scale", *options])
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)


def test_a_damaged_file_is_named(folder):
    rows = pd.read_csv(folder / FILE)
    rows.drop(columns="loss").to_csv(folder / FILE, index=False)
    with pytest.raises(InputError, match="has no column 'loss'"):
        read_runs(folder)
    rows.assign(loss=np.nan).to_csv(folder / FILE, index=False)
    with pytest.raises(InputError, match="column 'loss' is empty in row 1"):
        read_runs(folder)
    rows.assign(loss="x").to_csv(folder / FILE, index=False)
    with pytest.raises(InputError, match="cells that are no numbers"):
        read_runs(folder)
    rows.to_csv(folder / FILE, index=False)
    (folder / MATRICES).write_bytes(b"no gzip")
    with pytest.raises(InputError, match="is not a table"):
        read_runs(folder)
    (folder / MATRICES).unlink()
    with pytest.raises(InputError, match="is not there"):
        read_runs(folder)


def test_the_schema_is_that_of_the_code(folder):
    assert json.loads((folder / "schema.json").read_text()) == schema()


def test_sizes_of_fewer_steps_do_not_judge_what_compares_sizes():
    runs = simulated()
    short = [run for run in runs if run.run.startswith("124m")]
    for run in short:
        for row in run.rows:
            row.update(steps=1200, step=row["step"] // 2, loss=row["loss"] + 1.0)
    alike = ScaleRuns.of(runs).of_equal_length
    assert list(alike.models.values()) == ["1m", "3m", "10m", "30m"]
    judged = {claim.text: claim for claim in claims(ScaleRuns.of(runs))}
    law = judged["The final loss scales as a power of the size"]
    assert law.judgement is Standing.HOLDS
    without = claims(ScaleRuns.of([run for run in runs if run not in short]))
    assert law.here == next(claim.here for claim in without if claim.text == law.text)


def test_one_seed_whose_sizes_are_on_no_line_cannot_tell():
    runs = [run for run in simulated() if run.run.endswith("seed42")]
    for run, more in zip(runs, (0.0, 3.0, -1.0, 3.0, 0.0), strict=True):
        for row in run.rows:
            row["loss"] += more
    law = claims(ScaleRuns.of(runs))[0]
    assert law.text == "The final loss scales as a power of the size"
    assert law.judgement is Standing.UNTESTED
    assert "over 5 sizes" in law.statistic


def _dictionary(columns):
    lines = ["| column | type | unit | meaning |", "| --- | --- | --- | --- |"]
    for column in columns:
        empty = "; may be empty" if column.empty else ""
        lines.append(f"| `{column.name}` | {column.kind} | {column.unit} | {column.meaning}{empty} |")
    return "\n".join(lines)


def test_the_committed_rows_are_those_of_the_code():
    folder = ROOT / "data" / "scale"
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert json.loads((folder / "schema.json").read_text()) == schema()
    assert _dictionary(COLUMNS) in card
    assert _dictionary(OF_MATRICES) in card
    runs = read_runs(folder)
    assert [len(run.rows) for run in runs] == [41] * len(SIZES)
    judged = {claim.text: claim for claim in claims(ScaleRuns.of(runs))}
    assert "over 4 sizes" in judged["The final loss scales as a power of the size"].statistic
    for name, form in ((FILE, schema()), (MATRICES, schema()["$defs"]["matrix"])):
        table = pd.read_csv(folder / name).iloc[::50]
        for row in table.astype(object).where(table.notna(), None).to_dict("records"):
            jsonschema.validate(row, form)
