"""Curvature products against the dense Hessian of a tiny transformer, closed forms, and curvlinops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy, gelu, layer_norm, scaled_dot_product_attention

from tests.landscape.conftest import tiny_objective
from tests.models.test_objective import small, windows
from toposcope.core.errors import InputError
from toposcope.models import Batch, Objective
from toposcope.models._pretrained import TransformersModel
from toposcope.models._twice import twice_differentiable
from toposcope.models.curvature import GaussNewtonProduct, HessianProduct
from toposcope.models.gpt import GPTModel
from toposcope.subjects.landscape.geometry.cost import ComputeCost, refuse_above


def rows(product, n: int) -> torch.Tensor:
    return torch.stack([product(unit) for unit in torch.eye(n, dtype=torch.float64)])


@pytest.mark.slow
@pytest.mark.parametrize("keep_bytes", [0, 2**30])
def test_hessian_products_are_the_dense_hessian(objective, dense, keep_bytes) -> None:
    assert len(objective.pieces) > 1
    product = HessianProduct(objective, keep_bytes=keep_bytes)
    torch.testing.assert_close(rows(product, objective.n_parameters), dense, atol=1e-12, rtol=1e-10)
    assert product.method == "double backward"
    vector = torch.linspace(-1, 1, objective.n_parameters, dtype=torch.float64)
    torch.testing.assert_close(HessianProduct(objective)(vector), dense @ vector)


def test_a_blocks_product_is_its_block_of_the_hessian(objective, dense) -> None:
    blocks = objective.layer_blocks()
    assert {label: block.n_parameters for label, block in blocks.items()} == {"outside": 56, "layer 0": 244}
    sizes = {name: int(np.prod(shape)) for name, shape in objective.shapes.items()}
    where = torch.cat([torch.full((size,), name.startswith("layers.0.")) for name, size in sizes.items()])
    own = dense[where][:, where]
    torch.testing.assert_close(rows(HessianProduct(blocks["layer 0"]), 244), own, atol=1e-12, rtol=1e-10)
    assert blocks["layer 0"].loss() == objective.loss()
    with pytest.raises(InputError, match="parameter 'nothing' is none of them; the objective has"):
        objective.block(["nothing"])


def test_differences_of_gradients_stand_in_for_a_missing_second_derivative(objective, dense, once) -> None:
    class OnlyOnce(GPTModel):
        def logits(self, hidden):
            return super().logits(once(hidden))

    plain = objective.model.module
    rough = Objective(OnlyOnce(plain), objective.batch)
    product = HessianProduct(rough)
    vector = torch.linspace(-1, 1, objective.n_parameters, dtype=torch.float64)
    torch.testing.assert_close(product(vector), dense @ vector, atol=1e-6, rtol=1e-5)
    assert product.method == "finite differences"
    gauss_newton = GaussNewtonProduct(rough)
    torch.testing.assert_close(
        gauss_newton(vector), GaussNewtonProduct(objective)(vector), atol=1e-6, rtol=1e-5
    )
    assert gauss_newton.method == "finite differences"
    assert float(gauss_newton(torch.zeros_like(vector)).norm()) == 0.0


def test_gauss_newton_is_the_hessian_of_a_model_linear_in_its_parameters() -> None:
    """Bigram logits: the next token's row of one table, so that the loss is a softmax of linear functions."""

    class Bigram(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Parameter(torch.randn(5, 5, dtype=torch.float64))

    class BigramModel:
        n_layers, width, vocabulary, context, causal, last_only = 0, 5, 5, 9, True, False
        device = torch.device("cpu")

        def __init__(self, module):
            self.module = module

        def final_states(self, ids, mask):
            return self.module.table[ids]

        def logits(self, hidden):
            return hidden

        def token_losses(self, ids, mask):
            from toposcope.models.protocol import next_token_losses

            return next_token_losses(self, ids, mask)

    torch.manual_seed(0)
    batch = Batch.of([[0, 1, 2, 3], [4, 4, 1], [2, 0]])
    linear = Objective(BigramModel(Bigram()), batch)
    hessian, gauss_newton = (rows(p, 25) for p in (HessianProduct(linear), GaussNewtonProduct(linear)))
    torch.testing.assert_close(gauss_newton, hessian, atol=1e-12, rtol=1e-10)
    assert float(hessian.abs().max()) > 0.01


@pytest.mark.slow
def test_gauss_newton_has_no_negative_eigenvalue_and_is_no_hessian_here(objective, dense) -> None:
    matrix = rows(GaussNewtonProduct(objective), objective.n_parameters)
    torch.testing.assert_close(matrix, matrix.T, atol=1e-12, rtol=0)
    assert float(torch.linalg.eigvalsh(matrix)[0]) > -1e-12
    assert float(torch.linalg.eigvalsh(dense)[0]) < -1.0


@pytest.mark.parametrize("kind", ["gpt2", "neox"])
def test_products_of_transformers_models_are_differences_of_their_gradients(kind: str) -> None:
    objective = Objective(TransformersModel.of_module(small(kind).double()), Batch.of(windows()))
    product = HessianProduct(objective)
    vector = torch.randn(objective.n_parameters, dtype=torch.float64, generator=torch.manual_seed(1))
    torch.testing.assert_close(product(vector), product._by_differences(vector), atol=1e-5, rtol=1e-4)
    assert product.method == "double backward"


@pytest.mark.slow
def test_a_llamas_product_is_torchs_own(monkeypatch) -> None:
    """Its norm rounds to float32 whatever the parameters are: differences of gradients drown in that."""
    objective = Objective(TransformersModel.of_module(small("llama").double()), Batch.of(windows()))
    vector = torch.randn(objective.n_parameters, dtype=torch.float64, generator=torch.manual_seed(1))
    own = HessianProduct(objective)(vector)
    monkeypatch.setattr("toposcope.models._twice.twice_differentiable", lambda: sdpa_kernel(SDPBackend.MATH))
    torch.testing.assert_close(own, HessianProduct(objective)(vector), atol=1e-12, rtol=1e-12)
    assert float(own.abs().max()) > 1.0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # its own imports
def test_curvlinops_gives_the_same_products(objective) -> None:
    curvlinops = pytest.importorskip("curvlinops")
    module, tokens = objective.model.module, torch.tensor(objective.batch.rows)

    class Flat(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, ids):
            return self.inner(ids).flatten(0, 1)

    data = [(tokens[:, :-1], tokens[:, 1:].flatten())]
    flat = Flat()
    params = list(flat.parameters())
    vector = torch.linspace(-1, 1, objective.n_parameters, dtype=torch.float64)
    other = {}
    for kind in ("HessianLinearOperator", "GGNLinearOperator"):
        with sdpa_kernel(SDPBackend.MATH):
            loss = torch.nn.CrossEntropyLoss()
            operator = getattr(curvlinops, kind)(flat, loss, params, data, check_deterministic=False)
            other[kind] = operator @ vector
    torch.testing.assert_close(
        GaussNewtonProduct(objective)(vector), other["GGNLinearOperator"], atol=1e-9, rtol=1e-8
    )
    # curvlinops differentiates forward over backward, and torch's forward mode is wrong for the weights of
    # LayerNorm: there the differences of gradients, which need no second derivative, are the judge
    found, hessian = (
        objective.named(HessianProduct(objective)(vector)),
        objective.named(other["HessianLinearOperator"]),
    )
    differences = objective.named(HessianProduct(objective)._by_differences(vector))
    for name, own in found.items():
        torch.testing.assert_close(own, differences[name], atol=1e-6, rtol=1e-5)
        if ".ln" not in name and not name.startswith("ln"):
            torch.testing.assert_close(own, hessian[name], atol=1e-9, rtol=1e-8)


def test_a_kept_graph_does_not_follow_a_model_that_trains_on(objective, dense) -> None:
    own = tiny_objective()
    product = HessianProduct(own)
    vector = torch.linspace(-1, 1, own.n_parameters, dtype=torch.float64)
    torch.testing.assert_close(product(vector), dense @ vector)
    with torch.no_grad():
        for parameter in own.model.module.parameters():
            parameter.add_(1.0)
    torch.testing.assert_close(product(vector), dense @ vector)
    assert float((HessianProduct(own)(vector) - dense @ vector).abs().max()) > 1e-3


def test_what_costs_too_much_is_refused_with_the_cheap_way() -> None:
    cost = ComputeCost(93, 2 * 300 * 36 * 93)
    refuse_above(cost)
    with pytest.raises(InputError, match=r"costs 93 forward passes.*2.0e\+06 FLOP.*critical sharpness"):
        refuse_above(cost, limit=1e6)


def test_a_product_that_is_not_finite_is_named() -> None:
    objective = tiny_objective(dtype=torch.float32)
    broken = objective.at(objective.parameters * float("nan"))
    with pytest.raises(InputError, match="a curvature product is not finite"):
        HessianProduct(broken)(torch.ones(objective.n_parameters))


@pytest.mark.parametrize("rows", [5, 33, 128])
@pytest.mark.parametrize("causal", [True, False])
def test_attention_and_gelu_have_torchs_first_and_second_derivatives(causal: bool, rows: int) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v, weight, u = (
        torch.randn(2, 2, rows, 3, generator=generator, dtype=torch.float64, requires_grad=True)
        for _ in range(5)
    )

    def found() -> list[torch.Tensor]:
        mixed = scaled_dot_product_attention(q, k, gelu(v), is_causal=causal)
        return derivatives(mixed, (q, k, v), weight, u)

    agree(found)


def test_layer_norm_and_cross_entropy_have_torchs_first_and_second_derivatives() -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, 4, 6, generator=generator, dtype=torch.float64, requires_grad=True)
    norm = torch.nn.LayerNorm(6, eps=1e-3, dtype=torch.float64)
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.normal_(generator=generator)
    target = torch.randint(0, 6, (12,), generator=generator)
    weight = torch.randn(12, generator=generator, dtype=torch.float64, requires_grad=True)

    def found() -> list[torch.Tensor]:
        # cubed, so that what arrives at the slopes depends on what they are taken of
        losses = cross_entropy(norm(x**3).flatten(0, 1), target, reduction="none")
        u = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        return derivatives(losses, (x, norm.weight, norm.bias), weight, u)

    agree(found)


def derivatives(
    values: torch.Tensor, of: tuple[torch.Tensor, ...], weight: torch.Tensor, u: torch.Tensor
) -> list[torch.Tensor]:
    """Return values, their weighted slopes, and the slopes of these along a vector, twice."""
    slopes = torch.autograd.grad(values, of, weight, create_graph=True)
    along = [u.detach() if slope.dim() > 1 else u.detach()[0, 0] for slope in slopes]
    total = sum((slope * a).sum() for slope, a in zip(slopes, along, strict=True))
    again = torch.autograd.grad(total, (*of, weight), retain_graph=True)
    return [values, *slopes, *again, *torch.autograd.grad(total, (*of, weight))]


def agree(found) -> None:
    with sdpa_kernel(SDPBackend.MATH):
        wanted = found()
    with twice_differentiable():
        own = found()
    for a, b in zip(own, wanted, strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-11)


def test_a_third_derivative_is_refused_rather_than_wrong() -> None:
    x = torch.linspace(-1, 1, 8, dtype=torch.float64).view(2, 4).requires_grad_()
    norm = torch.nn.LayerNorm(4, dtype=torch.float64)
    functions = (
        lambda: gelu(x),
        lambda: norm(x) ** 3,
        lambda: scaled_dot_product_attention(x, x, x, is_causal=True),
        lambda: cross_entropy(x, torch.tensor([0, 1]), reduction="none"),
    )
    for function in functions:
        with twice_differentiable():
            (slope,) = torch.autograd.grad((function() ** 2).sum(), x, create_graph=True)
            (second,) = torch.autograd.grad((slope**2).sum(), x, create_graph=True)
            with pytest.raises(RuntimeError, match="once_differentiable"):
                second.sum().backward()


def test_what_is_more_than_these_is_left_to_torch() -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 3, 5, 4, generator=generator) for _ in range(3))
    mask = torch.ones(5, 5, dtype=torch.bool).tril(1)
    x = torch.linspace(-3, 3, 7)
    with sdpa_kernel(SDPBackend.MATH):
        wanted = scaled_dot_product_attention(q, k, v, attn_mask=mask)
        grouped = scaled_dot_product_attention(q[:, :2], k[:, :1], v[:, :1], enable_gqa=True)
    with twice_differentiable():
        torch.testing.assert_close(scaled_dot_product_attention(q, k, v, attn_mask=mask), wanted)
        torch.testing.assert_close(
            scaled_dot_product_attention(q[:, :2], k[:, :1], v[:, :1], enable_gqa=True), grouped
        )
        torch.testing.assert_close(
            gelu(x, approximate="tanh"), torch.nn.functional.gelu(x, approximate="tanh")
        )
        torch.testing.assert_close(layer_norm(x, (7,)), torch.nn.LayerNorm(7)(x))
        assert float(cross_entropy(x, torch.tensor(2))) == float(-x.log_softmax(0)[2])
        scaled = scaled_dot_product_attention(q, k, v, scale=0.1, is_causal=True)
    torch.testing.assert_close(scaled, scaled_dot_product_attention(q, k, v, scale=0.1, is_causal=True))
