"""One batched pass against the plain one: text by text, without padding."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.representations.conftest import TEXTS, write_causal_model
from toposcope.core.errors import InputError, SourceError
from toposcope.models._pretrained import TransformersModel
from toposcope.subjects.representations.forward import (
    StateReading,
    _batches,
    _chosen_tokens,
    read,
    resolve_layers,
)


def _plain_states(folder, layer, length, *, auto):
    from transformers import AutoTokenizer

    model = auto.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        for text in TEXTS:
            ids = torch.tensor([tokenizer(text)["input_ids"][:length]])
            yield model.base_model(ids, output_hidden_states=True).hidden_states[layer][0].numpy()


@pytest.mark.slow
@pytest.mark.parametrize("layer", [0, 1, 3])
def test_mean_pooling_equals_the_unpadded_pass(causal_folder, layer):
    from transformers import AutoModelForCausalLM

    result = read(TransformersModel(causal_folder), TEXTS, StateReading(layers=(layer,), length=20))
    plain = [states.mean(0) for states in _plain_states(causal_folder, layer, 20, auto=AutoModelForCausalLM)]
    np.testing.assert_allclose(result.states[layer], plain, atol=2e-5)


def test_last_pooling_takes_each_texts_own_last_token(causal_folder):
    from transformers import AutoModelForCausalLM

    result = read(
        TransformersModel(causal_folder), TEXTS, StateReading(layers=(3,), length=20, pooling="last")
    )
    plain = [states[-1] for states in _plain_states(causal_folder, 3, 20, auto=AutoModelForCausalLM)]
    np.testing.assert_allclose(result.states[3], plain, atol=2e-5)


def test_token_pooling_keeps_all_positions_or_the_same_draw(causal_folder):
    from transformers import AutoModelForCausalLM

    model = TransformersModel(causal_folder)
    everything = read(model, TEXTS, StateReading(layers=(2,), length=20, pooling="token"))
    plain = np.concatenate(list(_plain_states(causal_folder, 2, 20, auto=AutoModelForCausalLM)))
    np.testing.assert_allclose(everything.states[2], plain, atol=2e-5)
    few = StateReading(layers=(2,), length=20, pooling="token", max_tokens=10)
    first, second = read(model, TEXTS, few), read(model, TEXTS, few)
    assert first.states[2].shape == (10, 32)
    np.testing.assert_array_equal(first.states[2], second.states[2])


def test_an_encoder_ignores_its_padding(encoder_folder):
    from transformers import AutoModel

    result = read(TransformersModel(encoder_folder), TEXTS, StateReading(layers=(2,), length=30))
    plain = [states.mean(0) for states in _plain_states(encoder_folder, 2, 30, auto=AutoModel)]
    np.testing.assert_allclose(result.states[2], plain, atol=2e-5)
    assert np.isnan(result.nll)
    assert result.predicted == 0


def test_perplexity_is_weighted_by_tokens(causal_folder):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    reading = StateReading(layers=(3,), length=10, perplexity_texts=6, perplexity_length=40)
    result = read(TransformersModel(causal_folder), TEXTS, reading)
    model = AutoModelForCausalLM.from_pretrained(causal_folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(causal_folder)
    total, tokens = 0.0, 0
    with torch.inference_mode():
        for text in TEXTS[:6]:
            ids = torch.tensor([tokenizer(text)["input_ids"][:40]])
            total += model(ids, labels=ids).loss.item() * (ids.shape[1] - 1)
            tokens += ids.shape[1] - 1
    assert result.predicted == tokens
    assert result.nll == pytest.approx(total / tokens, abs=1e-5)
    assert result.perplexity == pytest.approx(np.exp(total / tokens), rel=1e-5)


def test_attention_rows_sum_to_one_and_look_back_only(causal_folder):
    model = TransformersModel(causal_folder)
    ids = model.encode(TEXTS[:1], 12)[0]
    layers = model.attentions(ids)
    assert [layer.shape for layer in layers] == [(4, len(ids), len(ids))] * 3
    for layer in layers:
        np.testing.assert_allclose(layer.sum(-1), 1.0, atol=1e-5)
        assert np.triu(layer, 1).max() == 0.0


def test_texts_longer_than_the_context_are_cut_and_noted(causal_folder):
    result = read(TransformersModel(causal_folder), TEXTS, StateReading(layers=(3,), perplexity_length=400))
    assert result.notes == ("texts cut at the model's context of 48 tokens",)


def test_overflow_in_half_precision_is_read_again_in_float32(tmp_path):
    write_causal_model(tmp_path, scale=3e6)
    wide = read(TransformersModel(tmp_path), TEXTS, StateReading(layers=(2,), length=20))
    half = read(TransformersModel(tmp_path, half=True), TEXTS, StateReading(layers=(2,), length=20))
    assert "half precision overflowed; read in float32" in half.notes
    assert np.isfinite(half.states[2]).all()
    assert half.states[2].shape == wide.states[2].shape


def test_weights_that_are_not_finite_end_in_one_line(tmp_path):
    write_causal_model(tmp_path, scale=float("nan"))
    with pytest.raises(InputError, match=r"not finite in float32; look for errors"):
        read(TransformersModel(tmp_path), TEXTS, StateReading(layers=(2,), length=20))


def test_batches_hold_every_text_once_within_the_budget():
    lengths = list(np.random.default_rng(0).integers(1, 60, 100))
    groups = list(_batches(lengths, 128))
    assert sorted(i for group in groups for i in group) == list(range(100))
    assert all(max(lengths[i] for i in group) * len(group) <= 128 for group in groups)


def test_chosen_tokens_are_spread_over_the_texts():
    positions, slots = _chosen_tokens([5, 1, 9], 8)
    assert sum(map(len, positions)) == 8
    assert sorted(slot for row in slots for slot in row) == list(range(8))
    assert all(max(row, default=0) < length for row, length in zip(positions, [5, 1, 9], strict=True))


@pytest.mark.parametrize("choice", ["x", "4", "-1", "0,9"])
def test_a_wrong_choice_of_layers_says_what_there_is(choice):
    with pytest.raises(InputError, match=r"layers"):
        resolve_layers(choice, 3)


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(SourceError, match=r"does not load as a transformers model"):
        TransformersModel(tmp_path)


def test_a_model_without_tokenizer_names_the_option(tmp_path):
    write_causal_model(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).unlink()
    with pytest.raises(SourceError, match="with `tokenizer`"):
        TransformersModel(tmp_path)
