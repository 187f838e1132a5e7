"""Which weights lead into one output unit, in modules as they store them and in the tables of names."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.models.test_objective import small, windows
from toposcope.models import Batch, Objective
from toposcope.models._filters import Filters, filters_of
from toposcope.models._pretrained import TransformersModel
from toposcope.sources import open_series
from toposcope.sources.names import family_of, place
from toposcope.subjects.landscape.geometry.directions import random_directions
from toposcope.subjects.landscape.geometry.surface import sample_surface, symmetric_axis


class AsLinear(torch.nn.Linear):
    """A Conv1D's function with the weights of a linear layer."""


def as_linear(module: torch.nn.Module) -> torch.nn.Module:
    """Put a linear layer in the place of every Conv1D: the same function under the same names."""
    for layer in list(module.modules()):
        for name, inner in list(layer.named_children()):
            if type(inner).__name__ == "Conv1D":
                linear = AsLinear(*inner.weight.shape)
                linear.weight.data, linear.bias.data = inner.weight.data.T.clone(), inner.bias.data.clone()
                setattr(layer, name, linear)
    return module


def of_gpt2(module: torch.nn.Module | None = None) -> Objective:
    model = TransformersModel.of_module((module or small("gpt2")).double())
    return Objective(model, Batch.of(windows()), tokens_at_once=14)


def matrices(objective: Objective, vector: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the eight matrices of the blocks, by name."""
    return {k: v for k, v in objective.named(vector).items() if v.ndim == 2 and ".h." in k}


def test_a_direction_of_gpt2_has_the_weights_length_at_every_output_unit() -> None:
    """By hand: GPT-2 computes x W + b, so that column j of W leads into output unit j."""
    objective = of_gpt2()
    (vector,) = random_directions(objective, 1, seed=1).vectors
    weights, direction = matrices(objective, objective.parameters), matrices(objective, vector)
    assert len(weights) == 8
    bias = dict(objective.model.module.named_parameters())
    for name, weight in weights.items():
        units = len(bias[name.replace("weight", "bias")])
        assert weight.shape[1] == units
        for unit in range(units):
            torch.testing.assert_close(direction[name][:, unit].norm(), weight[:, unit].norm())
    tokens = objective.named(vector)["transformer.wte.weight"]
    torch.testing.assert_close(
        tokens.norm(dim=1), objective.named(objective.parameters)["transformer.wte.weight"].norm(dim=1)
    )


def test_one_network_stored_both_ways_has_one_surface() -> None:
    conv, linear = of_gpt2(), of_gpt2(as_linear(small("gpt2")))
    assert linear.loss() == pytest.approx(conv.loss(), rel=1e-12)
    theirs, ours = (random_directions(one, 2, seed=3) for one in (linear, conv))
    for a, b in zip(theirs.vectors, ours.vectors, strict=True):
        other = matrices(linear, a)
        for name, part in matrices(conv, b).items():
            torch.testing.assert_close(other[name].T, part)
    axes = [symmetric_axis(1.0, 5)] * 2
    np.testing.assert_allclose(
        sample_surface(linear, theirs, axes).losses, sample_surface(conv, ours, axes).losses, rtol=1e-10
    )


@pytest.mark.parametrize("kind", ["gpt2", "neox", "llama"])
def test_the_tables_of_names_agree_with_the_layers(kind: str) -> None:
    """A file says only names: the tables that read them must know what the layers say of themselves."""
    module = small(kind)
    known = filters_of(module).axes
    shapes = {n: tuple(p.shape) for n, p in module.named_parameters() if p.ndim == 2}
    family = family_of(shapes)
    transposed = {n for n in shapes if (rule := place(family, n).rule) is not None and rule.transposed}
    assert transposed == {name for name, axes in known.items() if axes == (1,)}
    assert len(transposed) == (8 if kind == "gpt2" else 0)


def test_weight_probes_read_one_network_stored_both_ways_alike() -> None:
    """Rows, heads and products of heads are taken from matrices in one orientation, (outputs, inputs)."""
    both = []
    for module in (small("gpt2"), as_linear(small("gpt2"))):
        series = open_series({5: module})
        both.append({one.name: one for one in series.matrices(next(iter(series)))})
    conv, linear = both
    assert conv.keys() == linear.keys()
    for name, matrix in conv.items():
        np.testing.assert_array_equal(matrix.values, linear[name].values)
        assert (matrix.role, matrix.layer) == (linear[name].role, linear[name].layer)
    assert conv["transformer.h.0.mlp.c_fc.weight"].values.shape == (32, 8)


@pytest.mark.parametrize("inputs_first", [False, True])
def test_every_expert_of_a_stack_has_filters_of_its_own(inputs_first: bool) -> None:
    transformers = pytest.importorskip("transformers")
    shared = {
        "vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 12, "num_local_experts": 2, "num_experts_per_tok": 1, "head_dim": 4,
        "num_key_value_heads": 1, "max_position_embeddings": 16,
    }  # fmt: skip
    kind = "GptOss" if inputs_first else "Mixtral"
    config = getattr(transformers, f"{kind}Config")(**shared)
    module = getattr(transformers, f"{kind}ForCausalLM")(config)
    filters = filters_of(module)
    stacks = {n: p.detach() for n, p in module.named_parameters() if p.ndim == 3}
    up = next(name for name in stacks if name.endswith("gate_up_proj"))
    assert stacks[up].shape == ((2, 8, 24) if inputs_first else (2, 24, 8))
    rows = filters.rows(up, stacks[up])
    assert rows.shape == (2 * 24, 8)
    one = stacks[up][1, :, 5] if inputs_first else stacks[up][1, 5]
    torch.testing.assert_close(rows[24 + 5], one)
    for name, stack in stacks.items():
        torch.testing.assert_close(filters.stored(name, filters.rows(name, stack), stack), stack)
    for name, parameter in module.named_parameters():
        if name.endswith("_bias"):
            assert filters.rows(name, parameter) is None


def test_other_layers_have_their_first_axis() -> None:
    layers = torch.nn.Sequential(torch.nn.Conv1d(3, 4, 2), torch.nn.Linear(2, 3), torch.nn.LayerNorm(3))
    filters = filters_of(layers)
    assert filters == Filters({})
    weight = layers[0].weight.detach()
    torch.testing.assert_close(filters.rows("0.weight", weight), weight.flatten(1))
    assert filters.rows("2.weight", layers[2].weight) is None
