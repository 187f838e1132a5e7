"""The probe on real (tiny) series: transformers folders and the project's own runs."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tests.representations.conftest import TEXTS, write_causal_model
from toposcope.core.errors import InputError, SourceError
from toposcope.models.loading import ModelLoader
from toposcope.models.texts import Texts
from toposcope.sources import open_series
from toposcope.store import Store
from toposcope.subjects.representations.options import RepresentationOptions
from toposcope.subjects.representations.presets import preset
from toposcope.subjects.representations.probes.probe import Representations
from toposcope.subjects.representations.source import StateSource
from toposcope.sweep.loop import sweep

MANY = Texts("words", tuple(f"{text} {i}" for i in range(4) for text in TEXTS))


@pytest.fixture(scope="module")
def neox_series(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny-neox")
    for seed, step in enumerate((0, 1, 8)):
        write_causal_model(folder / f"step{step}", seed)
    return open_series(str(folder))


@pytest.fixture(scope="module")
def own_run(tmp_path_factory):
    from toposcope.training import train

    text = tmp_path_factory.mktemp("corpus") / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 200)
    folder = tmp_path_factory.mktemp("own")
    changes = {"steps": 4, "checkpoint_every": 2, "models": ["tiny-3k"], "batch_size": 4, "warmup_steps": 1}
    return train("demo", folder, corpus=str(text), overrides=changes)[0].folder


def _measure(series, tmp_path, texts=MANY, **options):
    chosen = RepresentationOptions(**options)
    store = Store.create(tmp_path / "store", recipe=chosen.recipe(texts.digest))
    report = sweep(series, [Representations(chosen, StateSource(texts, ModelLoader()))], store)
    return report, store


def test_every_layer_of_every_checkpoint_is_measured(neox_series, tmp_path):
    report, store = _measure(neox_series, tmp_path, layers="all")
    assert (report.done, report.failures) == (3, [])
    rows = store.features()
    totals = rows[rows.feature == "h0_total"]
    assert sorted(set(totals.layer)) == [0, 1, 2, 3]
    assert sorted(set(totals.step)) == [0, 1, 8]
    assert set(rows[rows.feature == "wasserstein1_h1"].step) == {1, 8}
    assert set(rows[rows.feature == "cka"].layer) == {0, 1, 2}
    assert len(rows[rows.feature == "perplexity"]) == 3


def test_its_cost_is_announced_and_follows_the_model_the_texts_and_the_device(neox_series, tmp_path, capsys):
    def cost(shapes=((64, 64),) * 8, device="cpu", **options):
        source = StateSource(MANY, ModelLoader(device=device))
        return Representations(RepresentationOptions(**options), source).expected_seconds(shapes)

    assert cost() < cost(layers="0,1,2") == cost(layers="1,2,3") < cost(layers="all", nulls=20)
    large = ((4096, 4096),) * 100
    ratio = (cost(large) - cost(())) / (cost(((4096, 4096),)) - cost(()))
    assert ratio == pytest.approx(100)
    assert cost(large, device="cuda") < cost(large) / 100
    kept = Representations(RepresentationOptions(), StateSource(MANY, None)).expected_seconds(large)
    assert kept == cost(())
    _measure(neox_series, tmp_path)
    said = capsys.readouterr().err
    assert "expecting" in said
    assert "whose cost is not known" not in said


@pytest.mark.slow
def test_no_unit_loads_what_is_loaded_once_in_a_process():
    code = (
        "import sys; from pathlib import Path\n"
        "from toposcope.subjects.representations.probes.probe import Representations\n"
        "from toposcope.subjects.representations.options import RepresentationOptions\n"
        "from toposcope.subjects.representations.source import StateSource\n"
        "from toposcope.models.loading import ModelLoader\n"
        "Representations(RepresentationOptions(), StateSource(None, ModelLoader())).warm_up()\n"
        "from toposcope.kernels import rips_h1\n"
        "loaded = [n for n, f in vars(rips_h1).items() if getattr(f, 'signatures', None)]\n"
        "print('torch' in sys.modules, bool(loaded))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


def test_the_rows_are_those_of_the_plain_route(neox_series, tmp_path):
    from sklearn.decomposition import PCA
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from toposcope.topology import rips, summaries

    _, store = _measure(neox_series, tmp_path, components=5)
    folder = next(iter(neox_series)).uri
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    states = []
    for text in MANY.items:
        ids = tokenizer(text, return_tensors="pt", truncation=True, max_length=48)["input_ids"]
        hidden = model.base_model(ids, output_hidden_states=True).hidden_states[-1]
        states.append(hidden[0].detach().mean(0).numpy())
    points = PCA(5, svd_solver="full").fit_transform(np.stack(states).astype(np.float64))
    expected = summaries(rips(points)[1])["total"]
    rows = store.features()
    found = rows[(rows.step == 0) & (rows.feature == "h1_total")].value.item()
    assert found == pytest.approx(expected, abs=1e-4)


def test_a_large_cloud_is_drawn_and_says_so(neox_series, tmp_path):
    _, store = _measure(neox_series, tmp_path, points=10, draws=3)
    rows = store.features()
    totals = rows[(rows.feature == "h0_total") & (rows.step == 0)]
    assert list(totals.draw) == [0, 1, 2]
    assert set(totals.status) == {"subsampled"}
    assert totals.value.nunique() == 3


def test_the_sweep_split_in_two_gives_the_same_rows(neox_series, tmp_path):
    from toposcope.sweep.loop import Execution
    from toposcope.sweep.plan import Shard

    _, whole = _measure(neox_series, tmp_path / "a")
    chosen = RepresentationOptions()
    parts = Store.create(tmp_path / "b", recipe=chosen.recipe(MANY.digest))
    for index in (2, 1):
        probe = Representations(chosen, StateSource(MANY, ModelLoader()))
        sweep(neox_series, [probe], parts, execution=Execution(shard=Shard(index, 2)))
    keys = ["step", "layer", "feature", "draw"]
    columns = [*keys, "value", "status"]
    one, two = (store.features()[columns].sort_values(keys, ignore_index=True) for store in (whole, parts))
    np.testing.assert_array_equal(one.value, two.value)
    assert one.drop(columns="value").equals(two.drop(columns="value"))


def test_attention_has_one_row_per_head(neox_series, tmp_path):
    _, store = _measure(neox_series, tmp_path, attention=True, attention_texts=3)
    rows = store.features()
    heads = rows[(rows.feature == "attention_h0") & (rows.step == 0)]
    assert sorted(zip(heads.layer, heads["head"], strict=True)) == [
        (i, j) for i in range(3) for j in range(4)
    ]
    assert heads.value.between(0, 1).all()


def test_own_runs_are_read_through_their_recipe(own_run, tmp_path):
    report, store = _measure(open_series(str(own_run)), tmp_path, attention=True, attention_texts=2)
    assert report.failures == []
    rows = store.features()
    losses = rows[rows.feature == "loss"].sort_values("step").value
    assert losses.iloc[0] == pytest.approx(np.log(128), abs=0.1)
    assert (rows[rows.feature == "attention_h0"].groupby("step").size() == 1).all()


def test_weights_without_a_model_fail_by_name(tmp_path):
    folder = tmp_path / "bare"
    folder.mkdir()
    np.savez(folder / "step_1.npz", w=np.ones((3, 3), np.float32))
    from toposcope.core.types import Checkpoint

    checkpoint = Checkpoint("bare", 1, uri=str(folder / "step_1.npz"))
    with pytest.raises(SourceError, match="contains weights but no model"), ModelLoader().open(checkpoint):
        pass


def test_the_presets_and_their_limits():
    assert preset("seed003").components == 50
    assert preset("seed003", layers="all", draws=None).layers == "all"
    with pytest.raises(InputError, match="preset 'x': unknown"):
        preset("x")
    with pytest.raises(InputError, match="maxdim 3: it must be"):
        RepresentationOptions(maxdim=3)
    with pytest.raises(InputError, match="points 1: it must be at least"):
        RepresentationOptions(points=1)
