"""A model with a batch as a function of the parameters, against the model's own loss and autograd."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from toposcope.core.errors import InputError
from toposcope.models import Batch, ModelLoader, Objective
from toposcope.models._pretrained import TransformersModel
from toposcope.models.curvature import HessianProduct
from toposcope.models.gpt import GPTModel
from toposcope.models.loading import model_of
from toposcope.sources import open_series
from toposcope.training.model import GPT
from toposcope.training.shapes import GPTShape


def tiny(*, last_only: bool = False, seed: int = 0) -> GPT:
    torch.manual_seed(seed)
    return GPT(GPTShape(vocabulary=11, context=6, width=8, layers=2, heads=2, last_only=last_only))


def windows(rows: int = 5, length: int = 7) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 11, (rows, length))


@pytest.mark.slow
@pytest.mark.parametrize("last_only", [False, True])
def test_loss_and_gradient_are_the_modules_own(last_only: bool) -> None:
    module = tiny(last_only=last_only)
    objective = Objective(GPTModel(module), Batch.of(windows(), last_only=last_only), tokens_at_once=16)
    assert len(objective.pieces) > 1
    loss = module.loss(torch.from_numpy(windows()))
    loss.backward()
    assert objective.loss() == pytest.approx(loss.item(), rel=1e-6)
    own = torch.cat([parameter.grad.reshape(-1) for parameter in module.parameters()])
    torch.testing.assert_close(objective.gradient(), own, atol=1e-6, rtol=1e-4)
    assert objective.n_parameters == module.shape.parameters == len(objective.parameters)


def test_losses_of_sequences_of_any_length_are_those_of_each_alone() -> None:
    rows = [row[:n].tolist() for row, n in zip(windows(), (7, 2, 4, 7, 3), strict=True)]
    model = GPTModel(tiny())
    together = Objective(model, Batch.of(rows), tokens_at_once=21).per_sequence_losses()
    alone = [Objective(model, Batch.of([row])).loss() for row in rows]
    np.testing.assert_allclose(together, alone, rtol=1e-6)
    counts = np.array([len(row) - 1 for row in rows])
    assert Objective(model, Batch.of(rows)).loss() == pytest.approx((alone * counts).sum() / counts.sum())


def test_a_gradient_may_follow_losses_of_a_copy_that_moves() -> None:
    objective = Objective(GPTModel(tiny()), Batch.of(windows()))
    losses = objective.movable().per_sequence_losses(objective.parameters)
    np.testing.assert_allclose(losses, objective.per_sequence_losses(), rtol=1e-5)
    assert torch.isfinite(objective.gradient()).all()


def test_other_parameters_leave_the_model_as_it_is() -> None:
    here, there = Objective(GPTModel(tiny()), Batch.of(windows())), tiny(seed=1)
    before, target = here.parameters.clone(), Objective(GPTModel(there), Batch.of(windows()))
    moved = here.at(target.parameters)
    assert moved.loss() == pytest.approx(target.loss(), rel=1e-6)
    assert moved.digest == target.digest != here.digest
    torch.testing.assert_close(here.parameters, before)
    assert here.at(dict(there.named_parameters())).loss() == pytest.approx(target.loss(), rel=1e-6)


def test_wrong_parameters_and_batches_are_named() -> None:
    model = GPTModel(tiny())
    objective = Objective(model, Batch.of(windows()))
    with pytest.raises(InputError, match=r"vector has shape \(3,\); this objective has 1,\d+ parameters"):
        objective.at(torch.zeros(3))
    with pytest.raises(InputError, match=r"'token_emb.weight' is missing, the model's is \(11, 8\)"):
        objective.at({})
    with pytest.raises(
        InputError, match="7 tokens before its last one, but the context of the model is 6: cut it"
    ):
        Objective(model, Batch.of([[1] * 8]))
    with pytest.raises(InputError, match="the batch has token 11, but the vocabulary of the model has 11"):
        Objective(model, Batch.of([[1, 11]]))
    with pytest.raises(InputError, match="has 1 rows, and none has two tokens"):
        Batch.of([[1]])
    with pytest.raises(InputError, match="this model has no tokenizer; give a Batch"):
        model.encode(["text"], 5)


def test_a_batch_is_named_by_its_tokens() -> None:
    rows = windows()
    assert Batch.of(rows).digest == Batch.of(rows.tolist()).digest
    assert Batch.of(rows).digest != Batch.of(rows[:, :-1]).digest
    assert Batch.of(rows).digest != Batch.of(rows, last_only=True).digest
    assert Batch.of([[1, 2], [3]]).digest == Batch.of([[1, 2]]).digest
    assert Batch.of([[1, 2], [3, 4]]).digest != Batch.of([[1, 2, 3, 4]]).digest


def test_an_encoder_has_no_loss(tmp_path) -> None:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=11, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    with pytest.raises(InputError, match="does not predict the next token"):
        Objective(TransformersModel.of_module(BertModel(config)), Batch.of(windows()))


def small(kind: str):
    """Return a random small model of a family."""
    import transformers as hf

    torch.manual_seed(0)
    if kind == "gpt2":
        return hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=11, n_positions=8, n_embd=8, n_layer=2, n_head=2))
    shared = {
        "vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 16, "max_position_embeddings": 8,
    }  # fmt: skip
    if kind == "llama":
        return hf.LlamaForCausalLM(hf.LlamaConfig(**shared, num_key_value_heads=1))
    return hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**shared))


@pytest.mark.parametrize("kind", ["gpt2", "neox", "llama"])
def test_a_module_of_transformers_in_memory_has_its_own_loss(kind: str) -> None:
    module = small(kind).eval()
    series = open_series({10: module})
    ids = torch.from_numpy(windows())
    with ModelLoader().model(series, next(iter(series))) as model:
        found = Objective(model, Batch.of(windows()), tokens_at_once=14)
        assert found.loss() == pytest.approx(module(ids, labels=ids).loss.item(), rel=1e-5)
        module(ids, labels=ids).loss.backward()
        own = torch.cat([parameter.grad.reshape(-1) for parameter in module.parameters()])
        torch.testing.assert_close(found.gradient(), own, atol=1e-5, rtol=1e-3)


def test_the_model_of_a_series_is_a_copy_and_has_a_digest() -> None:
    module = tiny().train()
    series = open_series({"a": {0: module}})
    with ModelLoader().model(series, next(iter(series))) as model:
        assert model.digest == model_of(module).digest != model_of(tiny(seed=1)).digest
        assert model.module is not module
        assert module.training
        ids = torch.from_numpy(windows()[:, :6])
        mask = torch.ones_like(ids)
        torch.testing.assert_close(model.final_states(ids, mask), model.hidden_states(ids, mask)[-1])
        assert model.token_losses(ids, mask).shape == (5, 5)
        assert [layer.shape for layer in model.attentions(windows()[0, :6])] == [(2, 6, 6)] * 2


def test_what_is_no_model_is_named() -> None:
    series = open_series({0: torch.nn.Linear(3, 3)})
    with (
        pytest.raises(InputError, match="a Linear is not a language model of a known kind"),
        ModelLoader().model(series, next(iter(series))),
    ):
        pass
    weights = open_series({0: {"w": np.eye(3)}})
    with (
        pytest.raises(InputError, match="contains weights but no model"),
        ModelLoader().model(weights, next(iter(weights))),
    ):
        pass


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["gpt2", "neox", "llama", "own"])
def test_a_16_bit_model_is_evaluated_in_float32(kind: str, dtype: torch.dtype) -> None:
    """Loss, gradient, curvature and surface are those of its float32 copy; the module stays as it is."""
    from toposcope.subjects.landscape.geometry.directions import random_directions
    from toposcope.subjects.landscape.geometry.surface import sample_surface, symmetric_axis

    module = (tiny() if kind == "own" else small(kind)).to(dtype)
    batch = Batch.of(windows())
    objectives = [Objective(model_of(one), batch) for one in (module, copy.deepcopy(module).float())]
    directions = [random_directions(one, 2, seed=1) for one in objectives]
    surfaces = [
        sample_surface(one, along, [symmetric_axis(1.0, 5)] * 2)
        for one, along in zip(objectives, directions, strict=True)
    ]
    assert surfaces[0].digest == surfaces[1].digest
    np.testing.assert_array_equal(surfaces[0].losses, surfaces[1].losses)
    assert np.ptp(surfaces[0].mean) > 1e-3
    torch.testing.assert_close(*(one.gradient() for one in objectives), rtol=0, atol=0)
    products = [
        HessianProduct(one)(along.vectors[0]) for one, along in zip(objectives, directions, strict=True)
    ]
    torch.testing.assert_close(*products, rtol=1e-5, atol=1e-7)
    assert {parameter.dtype for parameter in module.parameters()} == {dtype}
    assert objectives[0].model.module is not module
