"""Deep graph persistence against the definition, path by path, and its null against full permutations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import networkx as nx
import numpy as np
import pytest

from toposcope.core.errors import InputError
from toposcope.topology import deep_graph_persistence, shuffled_deep_graph_persistence
from toposcope.topology.graph_persistence import standardised_stack


def widest_paths(layers: Sequence[np.ndarray]) -> tuple[np.ndarray, float]:
    """Return S by the definition, in float64, and the largest standardised magnitude of the stack."""
    stack = [
        np.abs((W - W.mean()) / W.std()) if W.std() > 0 else np.zeros(W.shape)
        for W in (np.asarray(layer, float) for layer in layers)
    ]
    S = stack[0]
    for W in stack[1:]:
        S = np.minimum(W[:, :, None], S[None]).max(axis=1)
    return S, max(float(W.max()) for W in stack)


def reference(layers: Sequence[np.ndarray], p: float = 2.0) -> dict[str, float]:
    """Return the values of a plain computation: the tree of S by networkx, and the norm of its bars.

    `paper` has births at the stack's largest weight; `code` and `rescaled` are what the authors' program
    prints: it counts the component that never dies as a bar of length 1, and rescales S in the second.
    """
    S, top = widest_paths(layers)
    if not top:
        return dict.fromkeys(("paper", "code", "rescaled"), 0.0)
    graph = nx.Graph()
    for o, i in np.ndindex(*S.shape):
        graph.add_edge(("output", o), ("input", i), weight=float(S[o, i]))
    deaths = np.array([data["weight"] for *_, data in nx.maximum_spanning_tree(graph).edges(data=True)])
    bars = 1 - deaths / top
    rescaled = 1 - deaths / (S.max() or 1.0)
    return {
        "paper": float(np.mean(bars**p) ** (1 / p)),
        "code": math.pow(((bars**p).sum() + 1) / bars.size, 1 / p),
        "rescaled": math.pow(((rescaled**p).sum() + 1) / bars.size, 1 / p),
    }


def near(value: float) -> object:
    """Return a number to compare with: the same but for the rounding of standardised weights to float32."""
    return pytest.approx(value, rel=1e-6, abs=2e-7)


def mlp(widths: Sequence[int], seed: int, kind: str) -> list[np.ndarray]:
    """Return the layers of an MLP: at its start, or with the marks of training."""
    generator = np.random.default_rng(seed)
    layers = []
    for below, above in itertools.pairwise(widths):
        W = generator.uniform(-1, 1, (above, below)) / math.sqrt(below)
        if kind == "grown":  # some units have grown, the entries have heavy tails
            W = W * np.exp(generator.normal(size=(above, 1))) + 0.05 * generator.standard_t(3, W.shape)
        if kind == "pruned":
            W[np.abs(W) < np.quantile(np.abs(W), 0.8)] = 0.0
            W[generator.random(above) < 0.2] = 0.0
        if kind == "rounded":
            W = np.round(4 * W * math.sqrt(below))
        layers.append(W)
    return layers


MLPS = (
    ((20, 50, 10), "fresh"),
    ((30, 40, 40, 10), "grown"),
    ((16, 64, 32, 16, 4), "pruned"),
    ((25, 60, 25), "rounded"),
    ((12, 200, 8), "grown"),
)


@pytest.mark.parametrize(("widths", "kind"), MLPS)
def test_five_mlps_equal_the_plain_reference(widths: tuple[int, ...], kind: str) -> None:
    layers = mlp(widths, 7, kind)
    expected = reference(layers)
    assert deep_graph_persistence(layers) == near(expected["paper"])
    assert deep_graph_persistence(layers, essential=True) == near(expected["code"])
    rescaled = deep_graph_persistence(layers, essential=True, scale="paths")
    assert rescaled == near(expected["rescaled"])
    assert deep_graph_persistence(layers, p=1) == near(reference(layers, 1.0)["paper"])


def test_many_small_stacks_equal_the_plain_reference() -> None:
    """Of one to four layers, with ties, dead units and layers of equal entries."""
    generator = np.random.default_rng(1)
    for trial in range(60):
        widths = generator.integers(1, 9, size=generator.integers(2, 6)).tolist()
        layers = mlp(widths, trial, ("fresh", "grown", "pruned", "rounded")[trial % 4])
        if trial % 7 == 0:
            layers[0][:] = 1.0
        assert deep_graph_persistence(layers) == near(reference(layers)["paper"]), trial


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_matrix_beyond_the_small_ones_and_every_type(dtype: type) -> None:
    layers = [W.astype(dtype) for W in mlp((70, 700, 60), 3, "grown")]
    assert deep_graph_persistence(layers) == pytest.approx(reference(layers)["paper"], rel=2e-6)


def test_neither_scale_nor_shift_of_a_layer_matters_and_the_given_arrays_stay() -> None:
    layers = [W.astype(np.float32) for W in mlp((20, 50, 10), 7, "grown")]
    before = [W.copy() for W in layers]
    value = deep_graph_persistence(layers)
    assert deep_graph_persistence([300 * layers[0], layers[1] - 2]) == pytest.approx(value, rel=1e-4)
    assert deep_graph_persistence([1e200 * layers[0].astype(float), layers[1]]) == pytest.approx(value)
    assert all(np.array_equal(a, b) for a, b in zip(layers, before, strict=True))


@pytest.mark.parametrize("shape", [(6, 9, 5), (40, 60, 30), (30, 400, 300)])
def test_the_null_is_that_of_full_permutations(shape: tuple[int, ...]) -> None:
    """In mean and spread, for layers of unlike tails, of which the first floor connects some only."""
    draws = 200 if max(shape) < 100 else 40
    layers = mlp(shape, 5, "grown")
    fast = shuffled_deep_graph_persistence(layers, draws, rng=np.random.default_rng(1))
    generator = np.random.default_rng(2)
    plain = np.array([
        deep_graph_persistence([generator.permutation(W.ravel()).reshape(W.shape) for W in layers])
        for _ in range(draws)
    ])  # fmt: skip
    error = math.sqrt((fast.var() + plain.var()) / draws)
    assert abs(fast.mean() - plain.mean()) < 4 * error
    assert 0.6 < fast.std() / plain.std() < 1.6


def test_the_null_is_seeded_and_keeps_each_layer() -> None:
    layers = mlp((20, 50, 10), 7, "grown")
    first, again = (
        shuffled_deep_graph_persistence(layers, rng=[np.random.default_rng(k) for k in range(3)])
        for _ in range(2)
    )
    assert np.array_equal(first, again)
    assert len(set(first)) == 3
    flat = [np.ones((3, 4)), np.ones((2, 3))]
    assert shuffled_deep_graph_persistence(flat, 2, rng=np.random.default_rng(0)).tolist() == [0.0, 0.0]
    with pytest.raises(InputError, match="draws = 0 must be at least 1"):
        shuffled_deep_graph_persistence(layers, 0, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="scale"):
        deep_graph_persistence(layers, scale="other")  # type: ignore[arg-type]


def test_how_layers_connect_is_seen_where_neural_persistence_sees_nothing() -> None:
    """The units with large inputs have large outputs, or not: each layer alone is the same but for order."""
    generator = np.random.default_rng(0)
    first, second = generator.standard_t(3, (300, 40)), generator.standard_t(3, (40, 300))
    first = first * np.geomspace(0.1, 3, 300)[:, None]
    second = second * np.geomspace(0.1, 3, 300)
    together = deep_graph_persistence([first, second])
    against = deep_graph_persistence([first, second[:, ::-1]])
    assert against - together > 0.02


def test_a_standardised_layer_has_mean_square_one() -> None:
    (layer,) = standardised_stack([np.random.default_rng(0).normal(5, 0.01, (300, 40)).astype(np.float32)])
    assert np.mean(layer.astype(float) ** 2) == pytest.approx(1, rel=1e-5)


def test_layers_that_do_not_compose_are_refused() -> None:
    first, second = mlp((4, 6, 3), 5, "fresh")
    with pytest.raises(InputError, match=r"layers\[1\] has shape \(6, 4\) but layers\[0\] has 3 outputs"):
        deep_graph_persistence([second, first])
    with pytest.raises(InputError, match="layers is empty"):
        deep_graph_persistence([])
    assert deep_graph_persistence([np.ones((2, 2))]) == 0.0
