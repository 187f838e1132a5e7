from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file, save_file

from toposcope.core.errors import SourceError
from toposcope.core.types import Role, RunRecord
from toposcope.files.labels import select, step_of, step_pattern, tokens_of
from toposcope.sources import open_series
from toposcope.sources.layout import RunFolder, write_run
from toposcope.store.schema import METRICS

PARAMETERS = 20 * 8 + 6 * 8 + 8 + 24 * 8 + 24 + 64 + 256 + 256 + 8


def test_a_folder_of_steps_is_a_series(series_of_files):
    series = open_series(series_of_files())
    assert [(c.run, c.step) for c in series] == [("run", 0), ("run", 100), ("run", 200)]
    assert len(series) == 3
    (run,) = series.runs
    assert (run.run, run.family, run.parameters) == ("run", "gpt", PARAMETERS)


def test_matrices_have_names_roles_and_layers(series_of_files):
    series = open_series(series_of_files())
    checkpoint = list(series)[1]
    found = {m.name: (m.role, m.layer) for m in series.matrices(checkpoint)}
    assert found == {
        "token_emb.weight": (Role.EMBEDDING, None),
        "pos_emb.weight": (Role.EMBEDDING, None),
        "layers.0.attn.qkv.weight": (Role.ATTENTION, 0),
        "layers.0.attn.proj.weight": (Role.ATTENTION, 0),
        "layers.0.mlp.fc1.weight": (Role.MLP, 0),
        "layers.0.mlp.fc2.weight": (Role.MLP, 0),
        "head.weight": (Role.HEAD, None),
    }
    stored = load_file(checkpoint.uri)
    for matrix in series.matrices(checkpoint):
        assert matrix.values.dtype == np.float32
        np.testing.assert_array_equal(matrix.values, stored[matrix.name])
    for name, values in series.tensors(checkpoint):
        np.testing.assert_array_equal(values, stored[name])


@pytest.mark.parametrize("legacy", [False, True])
def test_torch_files_read_without_torch_equal_torch_load(tmp_path: Path, legacy: bool):
    generator = torch.Generator().manual_seed(0)
    weights = {
        "a.weight": torch.randn(5, 7, generator=generator),
        "b.weight": torch.randn(4, 6, generator=generator).to(torch.bfloat16),
        "c.weight": torch.randn(4, 6, generator=generator).to(torch.float16),
        "t.weight": torch.randn(6, 4, generator=generator).t(),
        "part.weight": torch.randn(10, 4, generator=generator)[2:7],
        "d": torch.arange(4),
        "e": torch.tensor(True),
        "p": torch.nn.Parameter(torch.randn(3, 3, generator=generator)),
        "empty": torch.zeros(0, 3),
    }
    content = {
        "model_state_dict": weights,
        "step": 7,
        "n_params": 12,
        "optimizer": {"state": {0: torch.ones(3)}},
    }
    path = tmp_path / "model.pt"
    torch.save(content, path, _use_new_zipfile_serialization=not legacy)
    expected = torch.load(path, weights_only=True, map_location="cpu")["model_state_dict"]
    series = open_series(path)
    (checkpoint,) = series
    assert checkpoint.step == 7
    assert series.runs[0].parameters == 12
    got = dict(series.tensors(checkpoint))
    assert set(got) == set(expected)
    for name, tensor in expected.items():
        values = got[name].astype(np.float32) if got[name].dtype.name == "bfloat16" else got[name]
        np.testing.assert_array_equal(
            values, tensor.detach().float().numpy() if "weight" in name else tensor.detach().numpy()
        )
        assert got[name].shape == tuple(tensor.shape)


def test_reading_weights_imports_neither_torch_nor_transformers(tmp_path: Path):
    torch.save({"a.weight": torch.ones(3, 3)}, tmp_path / "step_1.pt")
    code = (
        "import sys; from toposcope import open_series; s = open_series(sys.argv[1]);"
        "[list(s.matrices(c)) for c in s]; bad = {'torch', 'transformers', 'matplotlib', 'ray'} & "
        "set(sys.modules);"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


def test_training_log_becomes_the_metrics_table(series_of_files):
    folder = series_of_files()
    log = [
        {"step": s, "loss": 5.0 - s, "lr": 0.1, "grad_norm": 1.0, "weight_norm_total": 9.0} for s in (0, 1, 2)
    ]
    (folder / "training_log.json").write_text(json.dumps(log))
    table = open_series(folder).metrics("run")
    assert list(table.columns) == METRICS.names
    assert table["loss"].tolist() == [5.0, 4.0, 3.0]
    assert table["learning_rate"].tolist() == [0.1] * 3
    assert table["weight_norm"].tolist() == [9.0] * 3
    assert table["heldout_loss"].isna().all()


def test_no_log_gives_an_empty_metrics_table(series_of_files):
    table = open_series(series_of_files()).metrics("run")
    assert len(table) == 0
    assert list(table.columns) == METRICS.names


def test_a_folder_of_folders_is_one_series_of_several_runs(tmp_path: Path, series_of_files):
    series_of_files("small")
    series_of_files("large")
    (tmp_path / "notes").mkdir()
    series = open_series(tmp_path)
    assert [run.run for run in series.runs] == ["large", "small"]
    assert len(series) == 6


def test_several_addresses_are_one_series(series_of_files):
    first, second = series_of_files("a"), series_of_files("b")
    series = open_series([first, second, first])
    assert [run.run for run in series.runs] == ["a", "a-2", "b"]


def test_a_toposcope_run_is_read_by_its_run_file(tmp_path: Path, tensors):
    run = tmp_path / "tiny"
    (run / "checkpoints").mkdir(parents=True)
    (run / "metrics").mkdir()
    (run / "run.json").write_text(
        json.dumps(
            {
                "run": "tiny-3k",
                "family": "demo",
                "parameters": 5,
                "seed": 3,
                "config": {"d": 8},
                "versions": {},
            }
        )
    )
    for step in (0, 10):
        save_file(tensors, run / "checkpoints" / f"step_{step:06d}.safetensors", metadata={"step": str(step)})
    pd.DataFrame({"run": "tiny-3k", "step": [0, 1], "loss": [2.0, 1.0]}).to_parquet(
        run / "metrics" / "steps_000000_000002.parquet"
    )
    series = open_series(run)
    assert [c.step for c in series] == [0, 10]
    assert (series.runs[0].run, series.runs[0].parameters, series.runs[0].seed) == ("tiny-3k", 5, 3)
    assert series.metrics("tiny-3k")["loss"].tolist() == [2.0, 1.0]


def test_one_bad_checkpoint_does_not_stop_the_others(series_of_files):
    folder = series_of_files()
    path = folder / "step_000100.safetensors"
    path.write_bytes(path.read_bytes()[:-50])
    series = open_series(folder)
    good = []
    for checkpoint in series:
        if checkpoint.step == 100:
            with pytest.raises(SourceError, match=r"step_000100.*fetch it again"):
                list(series.matrices(checkpoint))
        else:
            good.append(len(list(series.matrices(checkpoint))))
    assert good == [7, 7]


@pytest.mark.parametrize(
    ("value", "dtype"), [(np.nan, np.float32), (np.inf, np.float32), (np.nan, np.float16)]
)
def test_a_weight_that_is_not_finite_is_named(series_of_files, value: float, dtype: type):
    folder = series_of_files()
    for step in (0, 100, 200):
        path = folder / f"step_{step:06d}.safetensors"
        content = {name: tensor.astype(dtype) for name, tensor in load_file(path).items()}
        if step == 100:
            content["layers.0.mlp.fc1.weight"][2, 3] = value
        save_file(content, path)
    series = open_series(folder)
    with pytest.raises(
        SourceError, match=r"step 100: tensor 'layers.0.mlp.fc1.weight' holds NaN or infinite"
    ):
        list(series.matrices(list(series)[1]))
    assert len(list(series.matrices(next(iter(series))))) == 7


@pytest.mark.parametrize(
    ("name", "what"),
    [("a.weight", "'a.weight' is in none of its neighbours"), ("z.weight", "is missing")],
)
def test_a_checkpoint_of_another_model_is_named(series_of_files, name: str, what: str):
    folder = series_of_files()
    save_file({name: np.ones((3, 3), np.float32)}, folder / "step_000100.safetensors")
    series = open_series(folder)
    with pytest.raises(SourceError, match=f"{what}; is step 100 from another run"):
        list(series.matrices(list(series)[1]))
    assert len(list(series.matrices(list(series)[2]))) == 7


def test_an_empty_folder_says_what_is_expected(tmp_path: Path):
    with pytest.raises(SourceError, match="contains no checkpoint; expected"):
        open_series(tmp_path)
    with pytest.raises(SourceError, match="no such file or folder"):
        open_series(tmp_path / "nothing")


def test_files_without_steps_are_refused(tmp_path: Path, tensors):
    save_file(tensors, tmp_path / "a.safetensors")
    save_file(tensors, tmp_path / "b.safetensors")
    with pytest.raises(SourceError, match="do not state a step"):
        open_series(tmp_path)
    looked = r"do not match `step_pattern` 'x\(\\d\+\)'"
    with pytest.raises(SourceError, match=looked), step_pattern(r"x(\d+)"):
        open_series(tmp_path)


def test_names_without_a_known_step_are_answered_with_a_pattern_that_fits(tmp_path: Path, tensors):
    for step in (0, 25):
        save_file(tensors, tmp_path / f"gpt-it{step}-loss4.75.safetensors")
    with pytest.raises(SourceError, match=r"give `step_pattern` 'it\(\\d\+\)' if that is the step"):
        open_series(tmp_path)
    with step_pattern(r"it(\d+)"):
        assert [one.step for one in open_series(tmp_path)] == [0, 25]


def test_content_hash_tells_weights_apart_and_ignores_the_format(tmp_path: Path, series_of_files):
    series = open_series(series_of_files())
    hashes = [series.content_hash(c) for c in series]
    assert len(set(hashes)) == 3
    path = tmp_path / "step_5.pt"
    torch.save({k: torch.from_numpy(v) for k, v in load_file(next(iter(series)).uri).items()}, path)
    other = open_series(path)
    assert other.content_hash(next(iter(other))) == hashes[0]


def test_the_small_runs_have_their_parameters(shared_data: Path):
    series = open_series(shared_data / "seed_runs")
    assert {run.run: run.parameters for run in series.runs} == {
        "tiny-3k": 2936,
        "small-7k": 7408,
        "med-21k": 20640,
        "large-46k": 46368,
        "xl-97k": 97200,
    }
    checkpoint = series.of_run("tiny-3k")[-1]
    expected = torch.load(checkpoint.uri, weights_only=True, map_location="cpu")["model_state_dict"]
    for name, values in series.tensors(checkpoint):
        np.testing.assert_array_equal(values, expected[name].numpy())
    assert series.metrics("tiny-3k")["loss"].iloc[-1] == pytest.approx(2.4662742614746094)


@pytest.mark.parametrize(
    ("name", "step", "tokens"),
    [
        ("step_000100", 100, None),
        ("step1000-tokens4B", 1000, 4 * 10**9),
        ("stage1-step5-tokens20M", 5, 20 * 10**6),
        ("checkpoint-500", 500, None),
        ("epoch=1-step=20", 20, None),
        ("iter_0001000", 1000, None),
        ("global_step7", 7, None),
        ("main", None, None),
        ("stories260K", None, None),
    ],
)
def test_step_labels(name: str, step: int | None, tokens: int | None):
    assert (step_of(name), tokens_of(name)) == (step, tokens)


def test_step_selections(series_of_files):
    have = range(0, 1001, 100)
    assert select(have, "last") == {1000}
    assert select(have, [0, 300]) == {0, 300}
    assert select(have, "200:600:200") == {200, 400, 600}
    assert [c.step for c in open_series(series_of_files(), steps="0,200")] == [0, 200]
    with pytest.raises(SourceError, match="no step 150; the nearest is"):
        select(have, "150")
    with pytest.raises(SourceError, match="not a choice of steps"):
        select(have, "some")


def test_duplicate_steps_are_kept_aside(series_of_files):
    folder = series_of_files()
    shutil.copy(folder / "step_000100.safetensors", folder / "step_100.safetensors")
    series = open_series(folder)
    assert len(series) == 3
    assert [c.step for c in series.duplicates] == [100]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "tfevents"])
def test_losses_from_a_file_are_joined(tmp_path: Path, series_of_files, kind: str):
    table = pd.DataFrame({"step": [0, 100, 200], "train_loss": [3.0, 2.0, 1.0]})
    path = tmp_path / f"losses.{kind}"
    if kind == "csv":
        table.to_csv(path, index=False)
    elif kind == "jsonl":
        table.to_json(path, orient="records", lines=True)
    elif kind == "parquet":
        table.to_parquet(path)
    else:
        path = _events(tmp_path / "events", table)
    series = open_series(series_of_files(), losses=path)
    assert series.metrics("run")["loss"].tolist() == [3.0, 2.0, 1.0]


def _events(folder: Path, table: pd.DataFrame) -> Path:
    import struct

    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    folder.mkdir()
    path = folder / "events.out.tfevents.1.host"
    with open(path, "wb") as file:
        for step, loss in zip(table["step"], table["train_loss"], strict=True):
            value = Summary.Value(tag="train_loss", simple_value=loss)
            data = Event(step=int(step), summary=Summary(value=[value])).SerializeToString()
            file.write(struct.pack("<QI", len(data), 0) + data + struct.pack("<I", 0))
    return path


def test_losses_without_a_known_column_are_refused(tmp_path: Path, series_of_files):
    (tmp_path / "losses.csv").write_text("step,foo\n1,2\n")
    with pytest.raises(SourceError, match="no column for loss or heldout_loss"):
        open_series(series_of_files(), losses=tmp_path / "losses.csv")


def test_symbolic_links_out_of_the_folder_are_refused(tmp_path: Path, series_of_files, tensors):
    folder = series_of_files()
    outside = tmp_path / "secret.safetensors"
    save_file(tensors, outside)
    (folder / "step_000300.safetensors").symlink_to(outside)
    series = open_series(folder)
    with pytest.raises(SourceError, match="outside the folder that was opened"):
        list(series.matrices(list(series)[-1]))


def test_links_inside_the_hubs_own_cache_are_followed(tmp_path: Path, tensors):
    blobs = tmp_path / "models--a--b" / "blobs"
    snapshot = tmp_path / "models--a--b" / "snapshots" / "abc"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    save_file(tensors, blobs / "0123")
    (snapshot / "model.safetensors").symlink_to(Path("../../blobs/0123"))
    series = open_series(snapshot)
    assert len(list(series.matrices(next(iter(series))))) == 7


def test_a_run_without_checkpoints_does_not_hide_its_neighbours(tmp_path: Path, series_of_files):
    series_of_files("ready")
    (tmp_path / "starting").mkdir()
    (tmp_path / "starting" / "run.json").write_text(json.dumps({"run": "starting"}))
    assert [run.run for run in open_series(tmp_path).runs] == ["ready"]
    with pytest.raises(SourceError, match="this run has no checkpoint yet"):
        open_series(tmp_path / "starting")


def test_one_bad_step_folder_does_not_stop_the_others(tmp_path: Path, tensors):
    folder = tmp_path / "run"
    for step in (1, 2, 3):
        (folder / f"step{step}").mkdir(parents=True)
        save_file(tensors, folder / f"step{step}" / "model.safetensors")
    (folder / "step3" / "config.json").write_text("{broken")
    (folder / "step4").symlink_to(tmp_path)
    series = open_series(folder)
    readable = []
    for checkpoint in series:
        try:
            readable.append((checkpoint.step, len(list(series.matrices(checkpoint)))))
        except SourceError:
            readable.append((checkpoint.step, 0))
    assert readable == [(1, 7), (2, 7), (3, 0), (4, 0)]


def test_tokens_come_from_the_loss_history(series_of_files):
    folder = series_of_files()
    rows = [{"step": step, "loss": 1.0, "tokens": 10 * step} for step in (0, 100, 200)]
    (folder / "training_log.json").write_text(json.dumps(rows))
    assert [c.tokens for c in open_series(folder)] == [0, 1000, 2000]


def test_a_file_that_is_rewritten_while_it_is_read_is_an_error_once(series_of_files, tensors):
    series = open_series(series_of_files())
    checkpoint = list(series)[1]
    with series.reading(checkpoint) as reader:
        save_file({**tensors, "more.weight": np.ones((3, 3), np.float32)}, checkpoint.uri)
        with pytest.raises(SourceError, match="changed while it was read"):
            reader.read("head.weight")
    with pytest.raises(SourceError, match="changed while it was read"):
        list(series.tensors(checkpoint))
    with pytest.raises(SourceError, match="from another run"):
        list(series.tensors(checkpoint))


def test_a_step_that_the_metrics_lack_has_the_tokens_that_its_file_states(tmp_path: Path) -> None:
    """A run that is being trained, or was killed: the lines of its last steps are not written yet."""
    layout = RunFolder(tmp_path / "run")
    write_run(layout, RunRecord("run", "gpt", 4, 1), extra={})
    for step in (0, 10, 20):
        path = layout.checkpoint(step)
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({"w": np.full((2, 2), step, np.float32)}, path, metadata={"tokens": str(8 * step)})
    part = layout.metrics_part(0, 11)
    part.parent.mkdir()
    lines = pd.DataFrame({"run": "run", "step": [0, 10], "tokens": [0, 81], "loss": [4.0, 3.0]})
    lines.to_parquet(part, index=False)
    series = open_series(tmp_path / "run")
    assert [(at.step, at.tokens) for at in series] == [(0, 0), (10, 81), (20, 160)]
    layout.checkpoint(20).write_bytes(b"no header")
    assert [at.tokens for at in open_series(tmp_path / "run")] == [0, 81, None]
