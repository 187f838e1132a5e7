"""What is measured where a tensor is, run on the host: the numbers of the arrays."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from toposcope.core.errors import InputError
from toposcope.topology import shuffled_spanning_tree_weights

torch = pytest.importorskip("torch")


@pytest.fixture
def device(monkeypatch):
    """Let host tensors count as those of a device."""
    for name in ("neural_persistence", "weight_null"):
        module = importlib.import_module(f"toposcope.topology.{name}")
        monkeypatch.setattr(module, "on_device", lambda one: isinstance(one, torch.Tensor))


def test_shuffled_trees(device):
    W = np.random.default_rng(0).normal(size=(20, 7)).astype(np.float32)
    draws = [[np.random.default_rng(seed) for seed in range(3)] for _ in range(2)]
    found = shuffled_spanning_tree_weights(torch.from_numpy(W), rng=draws[0])
    for one, other in zip(found, shuffled_spanning_tree_weights(W, rng=draws[1]), strict=True):
        assert (one == other).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused(device, value):
    W = torch.ones(4, 5)
    W[2, 3] = value
    with pytest.raises(InputError, match="W has entries that are not finite"):
        shuffled_spanning_tree_weights(W, rng=np.random.default_rng(0))
