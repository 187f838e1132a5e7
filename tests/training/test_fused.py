from __future__ import annotations

import numpy as np
import pytest
import torch

from toposcope.core.errors import InputError
from toposcope.recipes import load_training_recipe
from toposcope.training.engine import Engine
from toposcope.training.fused.attention import attention_backward, attention_forward
from toposcope.training.fused.compute import FusedCompute
from toposcope.training.fused.pointwise import cross_entropy, gelu
from toposcope.training.model import GPT, bind
from toposcope.training.shapes import GPTShape, first_values


def _reference_attention(qkv: torch.Tensor, heads: int, time: int) -> torch.Tensor:
    """Attention by its definition, in float64."""
    n, wide = qkv.shape
    size = wide // 3 // heads
    q, k, v = qkv.view(n // time, time, 3, heads, size).permute(2, 0, 3, 1, 4)
    scores = q @ k.transpose(-1, -2) / size**0.5
    hidden = torch.ones(time, time, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    return (weights @ v).transpose(1, 2).reshape(n, wide // 3)


@pytest.mark.parametrize("scale", [1.0, 12.0])
@pytest.mark.parametrize(
    ("batch", "time", "heads", "size"),
    [(2, 128, 4, 12), (3, 64, 2, 6), (1, 128, 1, 8), (2, 37, 2, 20), (1, 4, 1, 1), (2, 16, 3, 16)],
)
def test_attention_equals_its_definition(batch: int, time: int, heads: int, size: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(time)
    qkv = scale * torch.randn(batch * time, 3 * heads * size, generator=generator)
    exact = qkv.double().requires_grad_()
    expected = _reference_attention(exact, heads, time)
    upstream = torch.randn(expected.shape, generator=generator)
    expected.backward(upstream.double())
    out = np.empty(expected.shape, np.float32)
    log_sum = np.empty(batch * time * heads, np.float32)
    attention_forward(qkv.numpy(), heads, time, out, log_sum)
    np.testing.assert_allclose(out, expected.detach().numpy(), rtol=0, atol=1e-5 * scale**2)  # scores grow so
    d_qkv = np.empty(qkv.shape, np.float32)
    attention_backward(qkv.numpy(), heads, time, out, log_sum, upstream.numpy(), d_qkv)
    assert exact.grad is not None
    error = np.abs(d_qkv - exact.grad.numpy()).max() / np.abs(exact.grad.numpy()).max()
    assert error < 1e-5 * scale**2


def test_a_key_of_the_future_changes_nothing_however_large() -> None:
    generator = np.random.default_rng(0)
    qkv = generator.standard_normal((32, 24)).astype(np.float32)
    first, second = np.empty((32, 8), np.float32), np.empty((32, 8), np.float32)
    log_sum = np.empty(32, np.float32)
    attention_forward(qkv, 1, 32, first, log_sum)
    qkv[20:] *= 1e4
    attention_forward(qkv, 1, 32, second, log_sum)
    np.testing.assert_array_equal(first[:20], second[:20])
    assert np.isfinite(second).all()


def test_gelu_and_its_slope() -> None:
    x = np.linspace(-30, 30, 16 * 1000, dtype=np.float32)
    exact = torch.from_numpy(x).double().requires_grad_()
    value = torch.nn.functional.gelu(exact)
    value.sum().backward()
    assert exact.grad is not None
    slope, out = x.copy(), np.empty_like(x)
    gelu(slope, out)
    np.testing.assert_allclose(out, value.detach().numpy(), rtol=3e-7, atol=2e-6)
    np.testing.assert_allclose(slope, exact.grad.numpy(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_cross_entropy_and_its_gradient(scale: float) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = scale * torch.randn(40, 48, generator=generator)
    targets = torch.randint(0, 48, (40,), generator=generator)
    exact = logits.double().requires_grad_()
    loss = torch.nn.functional.cross_entropy(exact, targets, reduction="sum")
    (loss / 40).backward()
    gradient = logits.numpy().copy()
    summed = cross_entropy(gradient, targets.numpy(), np.float32(1 / 40))
    assert summed == pytest.approx(float(loss.detach()), rel=2e-6)
    assert exact.grad is not None
    np.testing.assert_allclose(gradient, exact.grad.numpy(), rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    "shape",
    [
        GPTShape(vocabulary=128, context=32, width=8, layers=1, heads=1),
        GPTShape(vocabulary=192, context=16, width=12, layers=2, heads=2),
        GPTShape(vocabulary=128, context=32, width=48, layers=3, heads=4),
        GPTShape(vocabulary=64, context=20, width=40, layers=1, heads=2),
    ],
)
def test_gradients_equal_autograds(shape: GPTShape) -> None:
    values = torch.from_numpy(first_values(shape, seed=1, std=0.2))
    gradients = torch.zeros_like(values)
    model = GPT(shape)
    bind(model, values, gradients)
    tokens = np.random.default_rng(2).integers(0, shape.vocabulary, (6, shape.context + 1))
    loss = model.double().loss(torch.from_numpy(tokens))
    exact = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(_in_order(model)))]).numpy()
    model = GPT(shape)
    bind(model, values, gradients)
    compute = FusedCompute(model)
    assert compute.loss(tokens) == pytest.approx(float(loss.detach()), abs=5e-6)
    assert (gradients == 0).all()
    assert compute.gradients(tokens) == pytest.approx(float(loss.detach()), abs=5e-6)
    assert np.abs(gradients.numpy() - exact).max() < 2e-5 * np.abs(exact).max()


def _in_order(model: GPT):
    from toposcope.training.shapes import parameter_shapes

    parameters = dict(model.named_parameters())
    return (parameters[name] for name, _ in parameter_shapes(model.shape))


def test_chunks_add_up_to_the_whole_batch() -> None:
    shape = GPTShape(vocabulary=32, context=16, width=16, layers=1, heads=2)
    values = torch.from_numpy(first_values(shape, seed=1, std=0.2))
    gradients = torch.zeros_like(values)
    model = GPT(shape)
    bind(model, values, gradients)
    tokens = np.random.default_rng(2).integers(0, 32, (5, 17))
    whole = FusedCompute(model)
    loss = whole.gradients(tokens)
    once = gradients.clone()
    gradients.zero_()
    whole._sequences = 2
    assert whole.gradients(tokens) == pytest.approx(loss, abs=1e-6)
    np.testing.assert_allclose(gradients, once, atol=1e-7)


def test_fused_is_refused_where_it_does_not_fit() -> None:
    recipe = load_training_recipe("seed004", {"models": "tiny-3k", "vocabulary": 100, "compute": "fused"})
    shape = GPTShape.in_recipe(recipe.models[0], recipe)
    with pytest.raises(InputError, match=r"compute is 'fused', but vocabulary 100.*set compute=auto"):
        Engine(shape, recipe, first_values(shape, seed=1, std=0.02), device="cpu")
