"""One optimiser step on flat buffers: what the training loop asks of whatever computes it."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from toposcope.recipes import TrainingRecipe
from toposcope.train.model import GPT, bind
from toposcope.train.shapes import GPTShape


class Engine(Protocol):
    """Computes losses and gradients of one model and applies AdamW to it.

    `model` is live: its parameters and gradients show the current buffers.
    """

    model: GPT

    def gradients(self, tokens: np.ndarray) -> float:
        """Fill the gradients of the mean loss on `tokens` (batch, context + 1); return the loss."""

    def loss(self, tokens: np.ndarray) -> float:
        """Return the mean loss on `tokens` without touching the gradients."""

    def norms(self) -> tuple[float, float]:
        """Return the Euclidean norms of the gradients and of the parameters."""

    def update(self, learning_rate: float, *, grad_norm: float) -> None:
        """Clip the gradients, whose norm is given, and take one AdamW step."""

    def state(self) -> dict[str, np.ndarray]:
        """Return copies of `values`, `first_moment` and `second_moment`, flat float32."""

    def restore(self, state: dict[str, np.ndarray], *, step: int) -> None:
        """Set what `state` returned, after `step` updates."""

    def gradient_values(self) -> np.ndarray:
        """Return a copy of the gradients, flat float32."""


class TorchEngine:
    """Autograd and torch's fused AdamW on one flat parameter, on any device."""

    def __init__(self, shape: GPTShape, recipe: TrainingRecipe, values: np.ndarray, *, device: str) -> None:
        self._device = torch.device(device)
        self._clip = recipe.gradient_clip
        self._values = torch.nn.Parameter(torch.from_numpy(values.copy()).to(self._device))
        self._values.grad = torch.zeros_like(self._values)
        self.model = GPT(shape).to(self._device)
        bind(self.model, self._values.data, self._values.grad)
        self._adam = torch.optim.AdamW(
            [self._values],
            lr=recipe.learning_rate,
            betas=(recipe.beta1, recipe.beta2),
            weight_decay=recipe.weight_decay,
            fused=True,
        )

    def _grad(self) -> torch.Tensor:
        assert self._values.grad is not None
        return self._values.grad

    def gradients(self, tokens: np.ndarray) -> float:
        """Fill the gradients of the mean loss on `tokens`; return the loss."""
        self._grad().zero_()
        loss = self._loss(tokens)
        loss.backward()
        return float(loss.detach())

    def loss(self, tokens: np.ndarray) -> float:
        """Return the mean loss on `tokens`."""
        with torch.no_grad():
            return float(self._loss(tokens))

    def _loss(self, tokens: np.ndarray) -> torch.Tensor:
        batch = torch.from_numpy(tokens).to(self._device)
        if self._device.type == "cpu":
            return self.model.loss(batch)
        with sdpa_kernel(SDPBackend.MATH):  # the fused backward passes on GPUs add in any order
            return self.model.loss(batch)

    def norms(self) -> tuple[float, float]:
        """Return the Euclidean norms of the gradients and of the parameters."""
        norms = torch.stack([self._grad().norm(), self._values.detach().norm()])
        grad_norm, weight_norm = norms.tolist()
        return grad_norm, weight_norm

    def update(self, learning_rate: float, *, grad_norm: float) -> None:
        """Clip the gradients, whose norm is given, and take one AdamW step."""
        scale = self._clip / (grad_norm + 1e-6)
        if scale < 1.0:
            self._grad().mul_(scale)
        self._adam.param_groups[0]["lr"] = learning_rate
        self._adam.step()

    def state(self) -> dict[str, np.ndarray]:
        """Return copies of parameters and moments."""
        moments = self._adam.state.get(self._values)
        zero = torch.zeros_like(self._values)
        tensors = {
            "values": self._values.detach(),
            "first_moment": moments["exp_avg"] if moments else zero,
            "second_moment": moments["exp_avg_sq"] if moments else zero,
        }
        return {name: tensor.cpu().numpy().copy() for name, tensor in tensors.items()}

    def restore(self, state: dict[str, np.ndarray], *, step: int) -> None:
        """Set what `state` returned, after `step` updates."""
        tensors = {name: torch.from_numpy(array.copy()).to(self._device) for name, array in state.items()}
        self._values.data.copy_(tensors["values"])
        self._adam.state[self._values] = {
            "step": torch.tensor(float(step), device=self._device),
            "exp_avg": tensors["first_moment"],
            "exp_avg_sq": tensors["second_moment"],
        }

    def gradient_values(self) -> np.ndarray:
        """Return a copy of the gradients."""
        return self._grad().cpu().numpy().copy()


def make_engine(shape: GPTShape, recipe: TrainingRecipe, values: np.ndarray, *, device: str) -> Engine:
    """Return the fastest engine for `device`."""
    return TorchEngine(shape, recipe, values, device=device)
