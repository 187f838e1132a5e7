"""The GPT family's forward pass at several parameters at once, with one batched product instead of many."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, gelu, layer_norm, scaled_dot_product_attention

from toposcope.training.shapes import TIED_TO, GPTShape


def token_losses_at(shape: GPTShape, parameters: Mapping[str, Tensor], ids: Tensor) -> Tensor:
    """Return every next token's loss, (points, batch, length - 1), at stacked parameters (points, ...)."""
    inputs, targets = ids[:, :-1], ids[:, 1:]
    batch, time = inputs.shape
    table = parameters[TIED_TO]
    points, width = len(table), shape.width
    x = table[:, inputs.reshape(-1)].view(points, batch, time, width)
    x = (x + parameters["pos_emb.weight"][:, None, :time]).view(points, batch * time, width)
    for i in range(shape.layers):
        block = f"layers.{i}"
        mixed = _attention(shape, parameters, block, _norm(parameters, f"{block}.ln1", x), batch)
        x = x + _linear(parameters, f"{block}.attn.proj", mixed)
        hidden = gelu(_linear(parameters, f"{block}.mlp.fc1", _norm(parameters, f"{block}.ln2", x)))
        x = x + _linear(parameters, f"{block}.mlp.fc2", hidden)
    logits = torch.bmm(_norm(parameters, "ln_f", x), table.transpose(1, 2))
    wanted = targets.reshape(-1).repeat(points)
    losses = cross_entropy(logits.view(len(wanted), -1), wanted, reduction="none")
    return losses.view(points, batch, time)


def _attention(
    shape: GPTShape, parameters: Mapping[str, Tensor], block: str, x: Tensor, batch: int
) -> Tensor:
    points, rows, width = x.shape
    heads, time = shape.heads, rows // batch
    qkv = _linear(parameters, f"{block}.attn.qkv", x).view(points * batch, time, 3, heads, width // heads)
    q, k, v = qkv.permute(2, 0, 3, 1, 4)
    mixed = scaled_dot_product_attention(q, k, v, is_causal=True)
    return mixed.transpose(1, 2).reshape(points, rows, width)


def _norm(parameters: Mapping[str, Tensor], name: str, x: Tensor) -> Tensor:
    scale, shift = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
    return torch.addcmul(shift[:, None], layer_norm(x, x.shape[-1:]), scale[:, None])


def _linear(parameters: Mapping[str, Tensor], name: str, x: Tensor) -> Tensor:
    weight, bias = parameters[f"{name}.weight"], parameters[f"{name}.bias"]
    return torch.baddbmm(bias[:, None], x, weight.transpose(1, 2))
