"""Loss and gradients of a GPT on one CPU thread, written out by hand.

Autograd's attention and matrix products are made for wide models; at widths of 8 to 48 most of their
time is overhead. Here the matrix products go to oneDNN, attention, GELU and cross-entropy to kernels
that keep their working set in the nearest cache, and gradients land in the flat buffer directly.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from toposcope.kernels.torch_products import linear, linear_add, onednn_products
from toposcope.training.fused.attention import attention_backward, attention_forward
from toposcope.training.fused.pointwise import cross_entropy, gelu
from toposcope.training.fused.products import transposed_product
from toposcope.training.fused.vectors import LANES
from toposcope.training.model import GPT
from toposcope.training.shapes import GPTShape

_EPSILON = 1e-5
_TOKENS_AT_ONCE = 8192


def supports(shape: GPTShape, *, device: str) -> bool:
    """Say whether this way of computing fits the model, the device and the build of torch."""
    return (
        device == "cpu"
        and shape.vocabulary % LANES == 0
        and shape.width % 4 == 0
        and not shape.last_only
        and onednn_products()
    )


class FusedCompute:
    """Computes the same loss and gradients as autograd, to rounding."""

    def __init__(self, model: GPT) -> None:
        self._shape = model.shape
        self._values: Mapping[str, Tensor] = {n: p.data for n, p in model.named_parameters()}
        self._grads: Mapping[str, Tensor] = {n: _grad(p) for n, p in model.named_parameters()}
        self._sequences = max(1, _TOKENS_AT_ONCE // model.shape.context)

    def gradients(self, tokens: np.ndarray) -> float:
        """Add the gradients of the mean loss on `tokens` (batch, context + 1); return the loss."""
        return self._over_chunks(tokens, backward=True)

    def loss(self, tokens: np.ndarray) -> float:
        """Return the mean loss on `tokens`."""
        return self._over_chunks(tokens, backward=False)

    def _over_chunks(self, tokens: np.ndarray, *, backward: bool) -> float:
        count = tokens.shape[0] * (tokens.shape[1] - 1)
        summed = 0.0
        with torch.no_grad():
            for start in range(0, len(tokens), self._sequences):
                chunk = tokens[start : start + self._sequences]
                summed += _Pass(self._shape, self._values, self._grads).run(chunk, count, backward=backward)
        return summed / count


def _grad(parameter: torch.nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


class _Pass:
    """One forward and backward pass over some sequences."""

    def __init__(self, shape: GPTShape, values: Mapping[str, Tensor], grads: Mapping[str, Tensor]) -> None:
        self.shape, self.values, self.grads = shape, values, grads

    def run(self, tokens: np.ndarray, count: int, *, backward: bool) -> float:
        inputs = torch.from_numpy(np.ascontiguousarray(tokens[:, :-1]))
        targets = np.ascontiguousarray(tokens[:, 1:]).ravel()
        self.time = inputs.shape[1]
        embedding = self.values["token_emb.weight"]
        x = torch.nn.functional.embedding(inputs, embedding)
        x = (x + self.values["pos_emb.weight"][: self.time]).flatten(0, 1)
        kept = []
        for i in range(self.shape.layers):
            x, saved = self._block(x, f"layers.{i}")
            kept.append(saved)
        features, final = self._norm(x, "ln_f")
        logits = linear(features, embedding, None)
        summed = cross_entropy(logits.numpy(), targets, np.float32(1.0 / count))
        if backward:
            self._add_weight_grad(logits, features, "token_emb.weight", None)
            d = self._norm_backward(linear(logits, embedding.t(), None), final)
            for i in reversed(range(self.shape.layers)):
                d = self._block_backward(d, f"layers.{i}", kept[i])
            self._embedding_backward(d, inputs)
        return summed

    def _block(self, x: Tensor, name: str) -> tuple[Tensor, tuple[object, ...]]:
        v = self.values
        a, norm1 = self._norm(x, f"{name}.ln1")
        qkv = linear(a, v[f"{name}.attn.qkv.weight"], v[f"{name}.attn.qkv.bias"])
        mixed = torch.empty_like(x)
        log_sum = np.empty(len(x) * self.shape.heads, dtype=np.float32)
        attention_forward(qkv.numpy(), self.shape.heads, self.time, mixed.numpy(), log_sum)
        x = linear_add(mixed, v[f"{name}.attn.proj.weight"], v[f"{name}.attn.proj.bias"], x)
        m, norm2 = self._norm(x, f"{name}.ln2")
        slope = linear(m, v[f"{name}.mlp.fc1.weight"], v[f"{name}.mlp.fc1.bias"])
        active = torch.empty_like(slope)
        gelu(slope.numpy().ravel(), active.numpy().ravel())
        x = linear_add(active, v[f"{name}.mlp.fc2.weight"], v[f"{name}.mlp.fc2.bias"], x)
        return x, (norm1, a, qkv, mixed, log_sum, norm2, m, slope, active)

    def _block_backward(self, d: Tensor, name: str, saved: tuple) -> Tensor:
        norm1, a, qkv, mixed, log_sum, norm2, m, slope, active = saved
        v = self.values
        self._add_linear_grad(d, active, f"{name}.mlp.fc2")
        d_hidden = linear(d, v[f"{name}.mlp.fc2.weight"].t(), None).mul_(slope)
        self._add_linear_grad(d_hidden, m, f"{name}.mlp.fc1")
        d_m = linear(d_hidden, v[f"{name}.mlp.fc1.weight"].t(), None)
        d = d + self._norm_backward(d_m, norm2)
        self._add_linear_grad(d, mixed, f"{name}.attn.proj")
        d_mixed = linear(d, v[f"{name}.attn.proj.weight"].t(), None)
        d_qkv = torch.empty_like(qkv)
        attention_backward(
            qkv.numpy(), self.shape.heads, self.time, mixed.numpy(), log_sum, d_mixed.numpy(), d_qkv.numpy()
        )
        self._add_linear_grad(d_qkv, a, f"{name}.attn.qkv")
        d_a = linear(d_qkv, v[f"{name}.attn.qkv.weight"].t(), None)
        return d + self._norm_backward(d_a, norm1)

    def _norm(self, x: Tensor, name: str) -> tuple[Tensor, tuple[str, Tensor, Tensor, Tensor]]:
        weight, bias = self.values[f"{name}.weight"], self.values[f"{name}.bias"]
        out, mean, scale = torch.native_layer_norm(x, [x.shape[1]], weight, bias, _EPSILON)
        return out, (name, x, mean, scale)

    def _norm_backward(self, d: Tensor, saved: tuple[str, Tensor, Tensor, Tensor]) -> Tensor:
        name, x, mean, scale = saved
        weight, bias = self.values[f"{name}.weight"], self.values[f"{name}.bias"]
        d_x, d_weight, d_bias = torch.ops.aten.native_layer_norm_backward(
            d, x, [x.shape[1]], mean, scale, weight, bias, [True, True, True]
        )
        self.grads[f"{name}.weight"].add_(d_weight)
        self.grads[f"{name}.bias"].add_(d_bias)
        return d_x

    def _add_linear_grad(self, d: Tensor, x: Tensor, name: str) -> None:
        self._add_weight_grad(d, x, f"{name}.weight", f"{name}.bias")

    def _add_weight_grad(self, d: Tensor, x: Tensor, weight: str, bias: str | None) -> None:
        self.grads[weight].add_(torch.from_numpy(transposed_product(d.numpy(), x.numpy())))
        if bias is not None:
            self.grads[bias].add_(d.sum(0))

    def _embedding_backward(self, d: Tensor, inputs: Tensor) -> None:
        shape = self.shape
        self.grads["pos_emb.weight"][: self.time].add_(d.view(-1, self.time, shape.width).sum(0))
        self.grads["token_emb.weight"].add_(
            torch.ops.aten.embedding_dense_backward(d, inputs.flatten(), shape.vocabulary, -1, False)
        )
