"""Matrix products of float32 layers with oneDNN, where torch uses a slower library on some CPUs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_PLAIN = ContextVar("_PLAIN", default=False)


def onednn_products() -> bool:
    """Return whether this build of torch has oneDNN's products."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return x W^T + b; no gradient flows through it."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def read_with_onednn(model: torch.nn.Module) -> None:
    """Let a model's float32 linear layers on a CPU use oneDNN whenever no gradient is needed.

    Values agree with torch's own up to rounding. Without oneDNN in the build of torch, nothing changes.
    """
    if not onednn_products():
        return
    for module in model.modules():
        if type(module) is torch.nn.Linear and module.weight.dtype == torch.float32:
            module.__class__ = _OneDNNLinear


@contextmanager
def torchs_own_products() -> Iterator[None]:
    """Leave linear layers to torch: oneDNN's do not support several parameters at once (vmap)."""
    before = _PLAIN.set(True)
    try:
        yield
    finally:
        _PLAIN.reset(before)


class _OneDNNLinear(torch.nn.Linear):
    """A linear layer with oneDNN's forward pass."""

    def forward(self, x: Tensor) -> Tensor:
        if _PLAIN.get() or torch.is_grad_enabled() or x.dtype != torch.float32 or x.device.type != "cpu":
            return super().forward(x)
        return linear(x, self.weight, self.bias)
