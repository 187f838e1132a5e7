"""Gradients as a series: the same numbers as training kept, and as autograd on a plain model gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.representations.conftest import TEXTS, write_causal_model
from toposcope.core.errors import InputError
from toposcope.models.texts import Texts
from toposcope.sources import open_series
from toposcope.sources.layout import RunFolder
from toposcope.store import Store
from toposcope.subjects.gradients.probe import GradientBatch, gradient_probes, gradient_series
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.weights.options import WeightOptions
from toposcope.sweep.loop import sweep


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    from toposcope.training import train

    text = tmp_path_factory.mktemp("corpus") / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 200)
    changes = {
        "steps": 4, "checkpoint_every": 2, "models": ["tiny-3k"], "batch_size": 4, "warmup_steps": 1,
        "gradients": True,
    }  # fmt: skip
    return train("demo", tmp_path_factory.mktemp("own"), corpus=str(text), overrides=changes)[0].folder


def test_kept_and_recomputed_gradients_agree(run_folder):
    series = gradient_series(open_series(str(run_folder)))
    last = list(series)[-1]
    kept = {matrix.name: matrix.values for matrix in series.matrices(last)}
    RunFolder(run_folder).gradients(last.step).rename(run_folder / "aside")
    again = {matrix.name: matrix.values for matrix in series.matrices(last)}
    (run_folder / "aside").rename(RunFolder(run_folder).gradients(last.step))
    assert set(again) <= set(kept)
    for name, values in again.items():
        np.testing.assert_allclose(values, kept[name], atol=1e-6)


def test_a_transformers_models_gradients_are_autograds(tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    write_causal_model(tmp_path / "step0")
    texts = Texts("words", tuple(TEXTS[:3]))
    series = gradient_series(open_series(str(tmp_path)), GradientBatch(texts=texts, length=10))
    found = {matrix.name: matrix.values for matrix in series.matrices(next(iter(series)))}
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "step0")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "step0")
    rows = [torch.tensor([tokenizer(text)["input_ids"][:10]]) for text in texts.items]
    tokens = sum(row.shape[1] - 1 for row in rows)
    loss = sum(model(row, labels=row).loss * (row.shape[1] - 1) for row in rows) / tokens
    loss.backward()
    expected = model.gpt_neox.layers[1].mlp.dense_h_to_4h.weight.grad.numpy()
    np.testing.assert_allclose(found["gpt_neox.layers.1.mlp.dense_h_to_4h.weight"], expected, atol=1e-6)


def test_probes_measure_gradients_under_their_own_names(run_folder, tmp_path):
    options = WeightOptions(nulls=1)
    store = Store.create(tmp_path / "store", recipe=options.recipe())
    probes = gradient_probes(weight_probes(["neural_persistence", "baselines"], options))
    report = sweep(gradient_series(open_series(str(run_folder))), probes, store)
    assert report.failures == []
    rows = store.features()
    assert set(rows.probe) == {"gradient_neural_persistence", "gradient_baselines"}
    assert set(rows.step) == {0, 2, 4}


def test_a_model_folder_without_texts_says_what_it_needs(tmp_path):
    write_causal_model(tmp_path / "step0")
    series = gradient_series(open_series(str(tmp_path)))
    with pytest.raises(InputError, match="give `texts` FILE"):
        list(series.matrices(next(iter(series))))


def test_the_weights_command_measures_gradients(run_folder, tmp_path, capsys):
    from toposcope.cli.main import main

    call = [
        "weights",
        str(run_folder),
        "--gradients",
        "--features",
        "baselines",
        "--out",
        str(tmp_path / "s"),
    ]
    with pytest.raises(SystemExit) as ended:
        main([*call, "--json"])
    assert ended.value.code == 0, capsys.readouterr().err
    rows = Store.open(tmp_path / "s").features()
    assert set(rows.probe) == {"gradient_baselines"}
    first = rows[rows.step == rows.step.min()]
    norms = first[(first.feature == "frobenius_norm") & ~first.name.isin(("layers", "role"))].value
    whole = first[first.name == "layers"].set_index("feature").value
    assert whole["frobenius_norm"] == pytest.approx(norms.mean())
    assert whole["frobenius_norm_sd"] == pytest.approx(norms.std(ddof=0))
