"""Tensor kernels on CPU tensors and, where there is one, on a GPU: the same deaths as the array kernels."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from toposcope.core.errors import InputError
from toposcope.topology import batched_spanning_tree_weights, components, maximum_spanning_tree_weights

torch = pytest.importorskip("torch", reason="torch is not installed")

from toposcope.kernels import torch_bipartite, torch_euclidean  # noqa: E402

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def tensor_of(array: np.ndarray):
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(np.ascontiguousarray(array).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(array))


def matrices(dtype) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    found = []
    for m, n in ((1, 1), (1, 7), (7, 1), (40, 60), (300, 200)):
        W = generator.standard_normal((m, n))
        dead = W.copy()
        dead[m // 2] = 0
        scales = np.exp(generator.standard_normal((m, 1))) * np.exp(generator.standard_normal((1, n)))
        found += [W, np.round(W), dead, W * scales, np.zeros((m, n)), np.eye(m, n), np.ones((m, n))]
    return [W.astype(dtype) for W in found]


def points() -> list[np.ndarray]:
    X = np.random.default_rng(1).standard_normal((150, 12))
    tight = np.repeat(np.eye(5, 12) * 10, 30, axis=0) + 1e-5 * X
    return [X, X[:1], X[:2], np.round(X), X + 1e4, tight, X * 1e150]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_tree_weights_equal_the_array_kernels_bit_for_bit(dtype):
    batch = matrices(dtype)
    found = torch_bipartite.spanning_tree_weights([tensor_of(W) for W in batch])
    for W, weights in zip(batch, found, strict=True):
        np.testing.assert_array_equal(weights, maximum_spanning_tree_weights(W))


def test_small_pieces_and_short_prefixes_change_nothing(monkeypatch):
    monkeypatch.setattr(torch_bipartite, "_PIECE", 1000)
    monkeypatch.setattr(torch_bipartite, "PREFIX", 0.02)
    W = matrices(np.float32)[-4]
    (found,) = torch_bipartite.spanning_tree_weights([tensor_of(W)])
    np.testing.assert_array_equal(found, maximum_spanning_tree_weights(W))


@pytest.mark.parametrize("block", [512, 37])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_tree_lengths_equal_the_array_kernels(monkeypatch, block, metric):
    monkeypatch.setattr(torch_euclidean, "_BLOCK", {"cpu": block})
    for X in points():
        if metric == "cosine" and not X.any(axis=1).all():
            continue
        lengths = torch_euclidean.tree_lengths(torch.from_numpy(X), unit=metric == "cosine")
        lengths = lengths**2 / 2 if metric == "cosine" else lengths
        expected = components(X, metric=metric).death[:-1]
        np.testing.assert_allclose(lengths, expected, rtol=1e-6, atol=1e-15)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_host_tensors_are_read_as_arrays(dtype):
    W = np.random.default_rng(2).standard_normal((20, 30)).astype(dtype)
    found = maximum_spanning_tree_weights(tensor_of(W).requires_grad_())
    np.testing.assert_array_equal(found, maximum_spanning_tree_weights(W))
    np.testing.assert_array_equal(components(tensor_of(W)).death, components(W).death)


@needs_gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_gpu_tree_weights_equal_the_array_kernels_bit_for_bit(dtype):
    W = np.random.default_rng(3).standard_normal((2000, 1500)).astype(dtype)
    batch = [*matrices(dtype), W]
    found = batched_spanning_tree_weights([tensor_of(W).cuda() for W in batch])
    for W, weights in zip(batch, found, strict=True):
        np.testing.assert_array_equal(weights, maximum_spanning_tree_weights(W))


@needs_gpu
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_gpu_components_agree_to_a_millionth(metric):
    X = np.random.default_rng(4).standard_normal((5000, 64)).astype(np.float32)
    for cloud in (*points(), X):
        if metric == "cosine" and not cloud.any(axis=1).all():
            continue
        found = components(torch.from_numpy(cloud).cuda(), metric=metric).death
        np.testing.assert_allclose(found, components(cloud, metric=metric).death, rtol=1e-6, atol=1e-15)


@needs_gpu
def test_gpu_input_passes_the_gate_too():
    W = torch.zeros(3, 4, device="cuda")
    W[1, 2] = torch.nan
    with pytest.raises(InputError, match="not finite"):
        maximum_spanning_tree_weights(W)
    with pytest.raises(InputError, match="two dimensions"):
        components(torch.zeros(0, 4, device="cuda"))


def test_a_meta_tensor_stands_for_a_device_that_cannot_be_read():
    with pytest.raises(InputError, match="two dimensions"):
        maximum_spanning_tree_weights(torch.zeros(3, device="meta"), name="blocks.0.weight")
    with pytest.raises(InputError, match="int64"):
        maximum_spanning_tree_weights(torch.zeros(3, 3, dtype=torch.int64, device="meta"))


def test_many_matrices_keep_their_order():
    generator = np.random.default_rng(5)
    batch = [generator.standard_normal((n, 2 * n)).astype(np.float32) for n in range(1, 60)]
    found = torch_bipartite.spanning_tree_weights([tensor_of(W) for W in batch])
    assert [weights.size for weights in found] == [3 * n - 1 for n in range(1, 60)]
