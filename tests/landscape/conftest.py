"""Tiny transformers in float64, whose whole Hessian fits on a page."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from toposcope.models import Batch, Objective
from toposcope.models.gpt import GPTModel
from toposcope.training.model import GPT
from toposcope.training.shapes import GPTShape


def tiny_objective(*, tokens_at_once: int = 18, dtype: torch.dtype = torch.float64) -> Objective:
    """Return an objective of 300 parameters on six sequences, in several micro-batches."""
    torch.manual_seed(0)
    module = GPT(GPTShape(vocabulary=7, context=5, width=4, layers=1, heads=2)).to(dtype)
    batch = Batch.of(np.random.default_rng(0).integers(0, 7, (6, 6)))
    return Objective(GPTModel(module), batch, tokens_at_once=tokens_at_once)


@pytest.fixture(scope="session")
def objective() -> Objective:
    return tiny_objective()


@pytest.fixture(scope="session")
def dense(objective: Objective) -> torch.Tensor:
    """The Hessian by torch's own second derivative of the mean loss, one row at a time."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def loss(vector: torch.Tensor) -> torch.Tensor:
        named = objective.named(vector)
        total = sum((objective.call(named, part).sum() for part in objective.pieces), torch.zeros(()))
        return total / objective.batch.tokens

    with sdpa_kernel(SDPBackend.MATH):
        return torch.autograd.functional.hessian(loss, objective.parameters)


@pytest.fixture
def once() -> Callable[[torch.Tensor], torch.Tensor]:
    """The identity, differentiable a single time: what lies behind it has no second derivative."""

    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad):
            return grad

    return Once.apply
