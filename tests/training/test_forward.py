"""The compiled losses of sequences against the model in torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from toposcope.models import Batch, Objective
from toposcope.models.gpt import GPTModel
from toposcope.training.fused.forward import SequenceLosses, supports_losses
from toposcope.training.fused.onepass import attend
from toposcope.training.fused.tile import product
from toposcope.training.model import GPT
from toposcope.training.shapes import GPTShape


def _objective(width: int, layers: int, heads: int, lengths: list[int], *, spread: float = 0.3) -> Objective:
    generator = torch.Generator().manual_seed(width)
    module = GPT(GPTShape(vocabulary=48, context=70, width=width, layers=layers, heads=heads))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(spread * torch.randn(parameter.shape, generator=generator))
    numbers = np.random.default_rng(0)
    return Objective(GPTModel(module), Batch.of([numbers.integers(0, 48, length) for length in lengths]))


@pytest.mark.parametrize(("depth", "columns", "rows"), [(48, 144, 32), (24, 80, 16), (8, 16, 8), (5, 64, 24)])
def test_a_product_is_x_w_plus_b(depth: int, columns: int, rows: int) -> None:
    generator = np.random.default_rng(depth)
    x, w = generator.normal(size=(rows, depth)), generator.normal(size=(depth, columns))
    b, out = generator.normal(size=columns), generator.normal(size=(rows, columns))
    values, into = (np.float32(part).ravel() for part in (np.vstack([w, b]), out))
    for more in (1, 0):
        held = into.copy()
        product(np.float32(x).ravel(), 0, depth, rows, depth, values, 0, w.size, columns, held, 0, more)
        np.testing.assert_allclose(held.reshape(out.shape), x @ w + b + more * out, atol=2e-5)


@pytest.mark.parametrize(
    ("width", "layers", "heads"),
    [(8, 1, 1), (16, 1, 2), (24, 2, 2), (32, 3, 4), (48, 3, 4), (20, 2, 5), (15, 1, 1), (34, 2, 2)],
)
def test_compiled_losses_are_the_models(width: int, layers: int, heads: int) -> None:
    objective = _objective(width, layers, heads, [71, 2, 33, 17, 50])
    losses = objective.compiled()
    assert losses is not None
    packed = losses.pack(objective.parameters.numpy())
    exact = Objective(GPTModel(objective.model.module.double()), objective.batch).per_sequence_losses()
    np.testing.assert_allclose(losses.at(packed), exact, atol=1e-5)


@pytest.mark.parametrize(("size", "spread"), [(2, 1.0), (8, 5.0), (11, 1.0), (16, 60.0)])
def test_one_pass_of_attention_is_softmax_of_scores(size: int, spread: float) -> None:
    heads, rows, d = 2, 48, 2 * size
    generator = np.random.default_rng(size)
    three, wide = (-(-count // 16) * 16 for count in (3 * d, d))
    room = np.zeros(rows * three + 16, np.float32)
    qkv = spread * generator.normal(size=(rows, 3 * d))
    qkv[:, :d] *= np.exp(generator.normal(size=(rows, 1)))  # later keys may exceed the first by far
    room[: rows * three].reshape(rows, three)[:, : 3 * d] = qkv
    mixed, pairs = np.zeros(rows * wide, np.float32), np.zeros(rows * 32, np.float32)
    assert attend(room, three, d, heads, rows, mixed, wide, pairs)
    q, k, v = torch.tensor(np.float32(qkv)).double().view(rows, 3, heads, size).permute(1, 2, 0, 3)
    wanted = scaled_dot_product_attention(q, k, v, is_causal=True).transpose(0, 1).reshape(rows, d)
    close = 3e-6 * spread * (1 + float((q @ k.mT).abs().max()) / np.sqrt(size))
    np.testing.assert_allclose(mixed.reshape(rows, wide)[:, :d], wanted, atol=close)
    assert not mixed.reshape(rows, wide)[:, d:].any()
    room[5 * three] = np.inf
    assert not attend(room, three, d, heads, rows, mixed, wide, pairs)


def test_moving_packed_parameters_moves_the_model() -> None:
    objective = _objective(16, 2, 2, [40, 30])
    losses = objective.compiled()
    assert losses is not None
    here, steps = objective.parameters, np.array([0.5, -2.0])
    vectors = 0.1 * torch.randn(2, len(here), generator=torch.Generator().manual_seed(1))
    found = losses.along(
        losses.pack(here.numpy()), np.stack([losses.pack(vector.numpy()) for vector in vectors]), steps
    )
    moved = objective.at(here + 0.5 * vectors[0] - 2.0 * vectors[1]).per_sequence_losses()
    np.testing.assert_allclose(found, moved, atol=1e-5)
    assert np.abs(found - objective.per_sequence_losses()).max() > 1e-2


@pytest.mark.parametrize("name", ["token_emb.weight", "layers.1.attn.qkv.weight", "layers.0.mlp.fc2.bias"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 3e38])
def test_what_is_not_finite_on_the_way_is_nan_never_a_number(name: str, value: float) -> None:
    objective = _objective(16, 2, 2, [20, 20])
    losses = objective.compiled()
    assert losses is not None
    parts = {key: part.clone() for key, part in objective.named(objective.parameters).items()}
    parts[name].fill_(value)
    assert np.isnan(losses.at(losses.pack(objective.flat(parts).numpy()))).all()


def test_only_what_fits_is_compiled() -> None:
    shape = GPTShape(vocabulary=48, context=8, width=16, layers=1, heads=2)
    assert supports_losses(shape)
    assert not supports_losses(GPTShape(vocabulary=50, context=8, width=16, layers=1, heads=2))
    assert not supports_losses(GPTShape(vocabulary=48, context=8, width=512, layers=1, heads=2))
    module = GPT(shape)
    rows = [[1, 2, 3]]
    assert isinstance(GPTModel(module).compiled_losses(rows), SequenceLosses)
    assert GPTModel(module.double()).compiled_losses(rows) is None
