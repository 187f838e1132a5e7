"""The true hub client against a loopback server."""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from toposcope.core.errors import SourceError
from toposcope.sources import open_series
from toposcope.sources.audit import audit

pytest.importorskip("huggingface_hub")


def _load():
    spec = importlib.util.spec_from_file_location("hub_server", Path(__file__).with_name("hub_server.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules["hub_server"] = module
    spec.loader.exec_module(module)
    return module


hub_server = _load()

STEPS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 2000, 3000)
CONFIG = {"model_type": "gpt_neox", "num_attention_heads": 2, "hidden_size": 8, "num_hidden_layers": 1}


def neox(seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    shapes = {
        "gpt_neox.embed_in.weight": (30, 8),
        "gpt_neox.layers.0.attention.query_key_value.weight": (24, 8),
        "gpt_neox.layers.0.attention.dense.weight": (8, 8),
        "gpt_neox.layers.0.mlp.dense_h_to_4h.weight": (32, 8),
        "gpt_neox.layers.0.mlp.dense_4h_to_h.weight": (8, 32),
        "gpt_neox.final_layer_norm.weight": (8,),
        "embed_out.weight": (30, 8),
    }
    return save({name: rng.normal(size=shape).astype(np.float16) for name, shape in shapes.items()})


def files(seed: int) -> dict[str, bytes]:
    return {
        "config.json": json.dumps(CONFIG).encode(),
        "model.safetensors": neox(seed),
        "README.md": b"# tiny",
    }


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    series = hub_server.Repository("tiny/neox", {"main": files(3000)} | {f"step{s}": files(s) for s in STEPS})
    olmo = hub_server.Repository(
        "tiny/olmo", {"main": files(9)} | {f"step{s}-tokens{s // 1000}B": files(s) for s in (1000, 2000)}
    )
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    with hub_server.serving(hub_server.Hub(series, olmo)) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield server


def left_over(tmp_path: Path) -> list[Path]:
    return list(tmp_path.glob("toposcope-hub-*"))


def test_revisions_are_steps_and_nothing_is_fetched_to_list_them(hub):
    series = open_series("hf://tiny/neox")
    assert [c.step for c in series] == sorted(STEPS)
    assert list(series)[3].revision == "step4"
    assert hub.downloads() == []


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"revisions": "step1*"}, [1, 16, 128, 1000]),
        ({"revisions": ["step8", "step2"]}, [2, 8]),
        ({"revisions": "step*", "steps": "0:4"}, [0, 1, 2, 4]),
        ({"steps": "last"}, [3000]),
    ],
)
def test_revisions_are_filtered(hub, options: dict, steps: list[int]):
    assert [c.step for c in open_series("hf://tiny/neox", **options)] == steps


def test_tokens_come_from_the_revisions_names(hub):
    assert [(c.step, c.tokens) for c in open_series("hf://tiny/olmo")] == [(1000, 10**9), (2000, 2 * 10**9)]


def test_one_revision_can_be_named_in_the_address(hub):
    (checkpoint,) = open_series("hf://tiny/neox@step16")
    assert checkpoint.step == 16


def test_weights_are_those_that_were_served_and_are_removed_after_use(hub, tmp_path: Path):
    series = open_series("hf://tiny/neox", revisions=["step4", "step8"])
    from safetensors.numpy import load

    for checkpoint in series:
        expected = load(neox(checkpoint.step))
        seen = 0
        for matrix in series.matrices(checkpoint):
            assert len(left_over(tmp_path)) == 1
            if "[" not in matrix.name:
                np.testing.assert_array_equal(matrix.values, expected[matrix.name])
            seen += 1
        assert seen == 8  # the fused matrix in three
        assert left_over(tmp_path) == []
    assert len(hub.downloads()) == 2


def test_runs_are_described_without_fetching_weights(hub, tmp_path: Path):
    (run,) = open_series("hf://tiny/neox").runs
    assert (run.run, run.family, run.config["num_attention_heads"]) == ("neox", "gpt_neox", 2)
    assert hub.downloads() == []
    assert left_over(tmp_path) == []


def test_content_hashes_need_no_fetching_and_follow_the_content(hub):
    hub.repositories["tiny/neox"].revisions["step8"] = files(4)
    series = open_series("hf://tiny/neox", revisions=["step4", "step8", "step16"])
    hashes = [series.content_hash(c) for c in series]
    assert hashes[0] == hashes[1] != hashes[2]
    assert hub.downloads() == []


def test_the_cheap_audit_finds_wrongly_served_revisions_without_fetching(hub):
    revisions = hub.repositories["tiny/neox"].revisions
    for step in (128, 256):
        revisions[f"step{step}"] = files(3000)
    revisions["step1"] = files(0)
    del revisions["step32"]["model.safetensors"]
    made = audit(open_series("hf://tiny/neox"), cheap=True)
    found = {(step, f.fault) for f in made for step in f.steps or (f.step,)}
    assert {(128, "equals-final"), (256, "equals-final"), (1, "identical"), (32, "missing-tensor")} <= found
    assert hub.downloads() == []


def test_a_busy_hub_is_asked_again(hub):
    hub.faults.busy["model.safetensors"] = 1
    hub.faults.busy_listing = 0
    series = open_series("hf://tiny/neox@step4")
    assert len(list(series.matrices(next(iter(series))))) == 8


def test_a_body_cut_short_is_fetched_again(hub):
    hub.faults.truncated["model.safetensors"] = 1
    series = open_series("hf://tiny/neox@step4")
    assert len(list(series.matrices(next(iter(series))))) == 8
    assert len(hub.downloads()) == 2


def test_a_large_body_cut_short_is_completed_by_range(hub):
    values = (np.arange(3000 * 4096) % 1000).reshape(3000, 4096).astype(np.float16)
    hub.repositories["tiny/neox"].revisions["step4"]["model.safetensors"] = save({"big.weight": values})
    hub.faults.truncated["model.safetensors"] = 1
    series = open_series("hf://tiny/neox@step4")
    ((_, got),) = series.tensors(next(iter(series)))
    np.testing.assert_array_equal(got, values)
    ranges = [text for _, path, text in hub.log if path.startswith("/cdn/")]
    assert ranges[0] is None
    assert ranges[1].startswith("bytes=")


def test_a_wrong_hash_is_refused(hub, tmp_path: Path):
    hub.faults.wrong.add("model.safetensors")
    series = open_series("hf://tiny/neox@step4")
    with pytest.raises(SourceError, match="does not have the hash that the hub states"):
        list(series.matrices(next(iter(series))))
    assert left_over(tmp_path) == []


@pytest.mark.parametrize(
    ("uri", "options", "message"),
    [
        ("hf://tiny/none", {}, "there is no such repository"),
        ("hf://tiny/neox", {"revisions": "epoch*"}, "no revision fits epoch\\*"),
        ("hf://../..", {}, "is not a hub address"),
    ],
)
def test_what_is_not_there_is_one_clear_line(hub, uri: str, options: dict, message: str):
    with pytest.raises(SourceError, match=message):
        open_series(uri, **options)


def test_a_missing_revision_and_a_revision_without_weights(hub):
    series = open_series("hf://tiny/neox@step5")
    with pytest.raises(SourceError, match="there is no such revision"):
        list(series.matrices(next(iter(series))))
    hub.repositories["tiny/neox"].revisions["step4"] = {"config.json": b"{}"}
    series = open_series("hf://tiny/neox@step4")
    with pytest.raises(SourceError, match="contains no weights"):
        list(series.matrices(next(iter(series))))


def test_the_disk_cap_is_kept(hub, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TOPOSCOPE_HUB_DISK_GB", "0.000001")
    series = open_series("hf://tiny/neox@step4")
    with pytest.raises(SourceError, match="the limit is 1e-06 GB; raise TOPOSCOPE_HUB_DISK_GB"):
        list(series.matrices(next(iter(series))))


def test_an_unreachable_hub_names_the_way_around(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(SourceError, match="without a network, open a local folder with the files"):
        open_series("hf://tiny/neox")


def test_model_folders_bring_configuration_and_go_away(hub, tmp_path: Path):
    from toposcope.sources.hub import model_folder

    (checkpoint,) = open_series("hf://tiny/neox@step4")
    with model_folder(checkpoint) as folder:
        assert {"config.json", "model.safetensors"} <= {path.name for path in folder.iterdir()}
    assert left_over(tmp_path) == []


def test_a_step_that_is_held_is_fetched_once(hub, tmp_path: Path):
    series = open_series("hf://tiny/neox@step4")
    (checkpoint,) = series
    with series.reading(checkpoint):
        for _ in range(3):
            assert len(list(series.matrices(checkpoint))) == 8
    assert len(hub.downloads()) == 1
    assert left_over(tmp_path) == []


@pytest.fixture
def path_of_steps(hub):
    """Return what serves a run of ten steps on a straight noisy path, as `order` names its revisions."""

    def drifted(at: int) -> bytes:
        start, way = np.random.default_rng(0), np.random.default_rng(1)
        shapes = {"gpt_neox.embed_in.weight": (30, 8), "gpt_neox.layers.0.mlp.dense_h_to_4h.weight": (32, 8)}
        return save(
            {
                name: (start.normal(size=shape) + 0.1 * at * way.normal(size=shape)).astype(np.float32)
                for name, shape in shapes.items()
            }
        )

    def serve(order: list[int]) -> str:
        served = {
            f"step{step}": {"config.json": json.dumps(CONFIG).encode(), "model.safetensors": drifted(at)}
            for step, at in enumerate(order)
        }
        hub.repositories["tiny/path"] = hub_server.Repository("tiny/path", served)
        return "hf://tiny/path"

    return serve


@pytest.mark.slow
@pytest.mark.parametrize("small", [True, False])
def test_swapped_revisions_are_seen_while_they_are_measured(
    path_of_steps, hub, tmp_path: Path, monkeypatch, small
):
    from toposcope.store import Store
    from toposcope.subjects.registry import weight_probes
    from toposcope.subjects.weights.options import WeightOptions
    from toposcope.sweep import Execution, expect, sweep

    if not small:
        monkeypatch.setattr(expect, "CACHE_BYTES", 1)
        monkeypatch.setattr("toposcope.subjects.snapshot.CACHE_BYTES", 1)
    options = WeightOptions(nulls=0)
    probes = weight_probes(["baselines"], options)

    def found(order: list[int], name: str) -> list[tuple[object, object]]:
        series = open_series(path_of_steps(order))
        store = Store.create(tmp_path / name, recipe=options.recipe())
        report = sweep(series, probes, store, execution=Execution(quiet=True))
        assert report.failures == []
        kept = store.audit()
        assert kept["message"].tolist() == [finding.message for finding in report.findings]
        return [(finding.step, finding.fault) for finding in report.findings]

    assert found(list(range(10)), "sound") == []
    before = len(hub.downloads())
    assert found([0, 1, 2, 3, 5, 4, 6, 7, 8, 9], "swapped") == [(4, "out-of-order")]
    assert len([name for name in hub.downloads()[before:] if name.endswith(".safetensors")]) <= 11
    before = len(hub.downloads())
    assert found([0, 1, 2, 3, 5, 4, 6, 7, 8, 9], "swapped") == [(4, "out-of-order")]  # measured before
    assert len(hub.downloads()) <= before + 1
    assert left_over(tmp_path) == []


def test_a_sweep_fetches_each_step_once_for_all_its_probes(hub, tmp_path: Path, monkeypatch):
    from toposcope.store import Store
    from toposcope.subjects.registry import weight_probes
    from toposcope.subjects.weights.options import WeightOptions
    from toposcope.sweep import Execution, expect, sweep

    monkeypatch.setattr(expect, "CACHE_BYTES", 1)  # as if no checkpoint fitted into memory
    monkeypatch.setattr("toposcope.subjects.snapshot.CACHE_BYTES", 1)
    series = open_series("hf://tiny/neox", steps="0,4")
    options = WeightOptions(nulls=0)
    store = Store.create(tmp_path / "store", recipe=options.recipe())
    probes = weight_probes(["neural_persistence", "baselines", "rips"], options)
    before = len(hub.downloads())
    report = sweep(series, probes, store, execution=Execution(audit=False, quiet=True))
    assert (report.done, report.failures) == (6, [])
    fetched = [name for name in hub.downloads()[before:] if name.endswith(".safetensors")]
    assert 2 <= len(fetched) <= 3  # each step once; one more to see how large a step is
    assert left_over(tmp_path) == []
