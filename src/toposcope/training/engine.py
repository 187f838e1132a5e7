"""One model on flat buffers: its losses, its gradients, and AdamW."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from toposcope.recipes import TrainingRecipe
from toposcope.training.model import GPT, bind
from toposcope.training.shapes import GPTShape


class Engine:
    """A model whose parameters and gradients are views of two flat buffers, and its optimiser.

    `model` is live: it always has the current parameters and gradients. In half precision the products are
    bfloat16 and the attention is the device's fastest: a repetition then differs in its last digits.
    """

    def __init__(
        self, shape: GPTShape, recipe: TrainingRecipe, values: np.ndarray, *, device: str, half: bool = False
    ) -> None:
        self._device = torch.device(device)
        self._half = half
        self._clip = recipe.gradient_clip
        self._values = torch.nn.Parameter(torch.from_numpy(values.copy()).to(self._device))
        self._grads = torch.zeros_like(self._values, requires_grad=False)
        self._values.grad = self._grads
        self.model = GPT(shape).to(self._device)
        bind(self.model, self._values.data, self._grads)
        self._adam = torch.optim.AdamW(
            [self._values],
            lr=recipe.learning_rate,
            betas=(recipe.beta1, recipe.beta2),
            weight_decay=recipe.weight_decay,
            fused=True,
        )

    def gradients(self, tokens: np.ndarray) -> float:
        """Set the gradients to those of the mean loss on `tokens` (batch, context + 1); return the loss."""
        self._grads.zero_()
        loss = self._loss(tokens)
        loss.backward()
        return float(loss.detach())

    def loss(self, tokens: np.ndarray) -> float:
        """Return the mean loss on `tokens`."""
        with torch.no_grad():
            return float(self._loss(tokens))

    def _loss(self, tokens: np.ndarray) -> torch.Tensor:
        batch = torch.from_numpy(tokens).to(self._device)
        if self._half:
            with torch.autocast(self._device.type, torch.bfloat16):
                return self.model.loss(batch)
        if self._device.type == "cpu":
            return self.model.loss(batch)
        with sdpa_kernel(SDPBackend.MATH):  # the fused backward passes on GPUs add in any order
            return self.model.loss(batch)

    def weights(self) -> dict[str, torch.Tensor]:
        """Return the live parameters by name, on the device, without gradients."""
        return {name: parameter.detach() for name, parameter in self.model.named_parameters()}

    def norms(self) -> tuple[float, float]:
        """Return the Euclidean norms of the gradients and of the parameters."""
        grad_norm, weight_norm = torch.stack([self._grads.norm(), self._values.detach().norm()]).tolist()
        return grad_norm, weight_norm

    def update(self, learning_rate: float, *, grad_norm: float) -> None:
        """Clip the gradients, given their norm, and take one AdamW step."""
        scale = self._clip / (grad_norm + 1e-6)
        if scale < 1.0:
            self._grads.mul_(scale)
        self._adam.param_groups[0]["lr"] = learning_rate
        self._adam.step()

    def settings(self, learning_rate: float) -> dict[str, object]:
        """Return the settings of an AdamW step at this rate, by PyTorch's names."""
        group = self._adam.param_groups[0]
        return {"lr": learning_rate, **{name: group[name] for name in ("betas", "eps", "weight_decay")}}

    def state(self) -> dict[str, np.ndarray]:
        """Return copies of `values`, `first_moment` and `second_moment`, flat float32."""
        moments = self._adam.state.get(self._values)
        zero = torch.zeros_like(self._grads)
        tensors = {
            "values": self._values.detach(),
            "first_moment": moments["exp_avg"] if moments else zero,
            "second_moment": moments["exp_avg_sq"] if moments else zero,
        }
        return {name: tensor.cpu().numpy().copy() for name, tensor in tensors.items()}

    def restore(self, state: dict[str, np.ndarray], *, step: int) -> None:
        """Restore what `state` returned after `step` updates."""
        tensors = {name: torch.from_numpy(array.copy()).to(self._device) for name, array in state.items()}
        self._values.data.copy_(tensors["values"])
        self._adam.state[self._values] = {
            "step": torch.tensor(float(step), device=self._device),
            "exp_avg": tensors["first_moment"],
            "exp_avg_sq": tensors["second_moment"],
        }

    def gradient_values(self) -> np.ndarray:
        """Return a copy of the gradients, flat float32."""
        return self._grads.cpu().numpy().copy()
