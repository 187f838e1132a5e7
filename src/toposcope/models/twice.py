"""Attention and GELU whose derivative is differentiated in few passes over memory.

The fused attention kernels have no second derivative, and torch's plain one keeps every step of the softmax
and its slope. Here the slope is a function of its own, with what its derivative needs computed once: a graph
that is kept for many products of a vector with the Hessian reads it again each time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import gelu, scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)


@contextmanager
def twice_differentiable() -> Iterator[None]:
    """Use attention that can be differentiated twice, and the functions here where they stand for torch's."""
    with sdpa_kernel(SDPBackend.MATH), _Replaced():
        yield


class _Replaced(TorchFunctionMode):
    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if function is scaled_dot_product_attention and _plain(*args, **given):
            return attention(*args[:3], causal=given.get("is_causal", False), scale=given.get("scale"))
        if function is gelu and given.get("approximate", "none") == "none":
            return _Gelu.apply(args[0] if args else given["input"])
        return function(*args, **given)


def _plain(*args: Any, **given: Any) -> bool:
    """Say whether a call of attention asks for nothing but the causal mask and a scale."""
    quiet = not given.get("dropout_p") and given.get("attn_mask") is None and not given.get("enable_gqa")
    return len(args) == 3 and quiet and args[0].shape[:-2] == args[1].shape[:-2]


def attention(
    query: Tensor, key: Tensor, value: Tensor, *, causal: bool, scale: float | None = None
) -> Tensor:
    """Return scaled dot-product attention, (..., queries, features)."""
    *outer, rows, size = query.shape
    columns = key.shape[-2]
    factor = 1.0 / math.sqrt(size) if scale is None else scale
    mask = query.new_zeros(1, 1)
    if causal:
        mask = query.new_full((rows, columns), -math.inf).triu_(1)
    flat = (part.reshape(-1, part.shape[-2], part.shape[-1]) for part in (query, key, value))
    q, k, v = flat
    weights = _Softmax.apply(torch.baddbmm(mask, q, k.transpose(1, 2), alpha=factor))
    return torch.bmm(weights, v).view(*outer, rows, value.shape[-1])


class _Softmax(Function):
    @staticmethod
    def forward(context: Any, scores: Tensor) -> Tensor:
        share = scores.softmax(-1)
        context.save_for_backward(share)
        return share

    @staticmethod
    def backward(context: Any, *slopes: Tensor) -> Any:
        (share,) = context.saved_tensors
        if torch.is_grad_enabled():
            return _SoftmaxSlope.apply(slopes[0], share)
        return torch._softmax_backward_data(slopes[0], share, -1, share.dtype)


class _SoftmaxSlope(Function):
    """s (g - sum(g s)): linear in g, and its derivative by s in two terms."""

    @staticmethod
    def forward(context: Any, slope: Tensor, share: Tensor) -> Tensor:
        context.save_for_backward(share, slope, slope - _dot(slope, share))
        return torch._softmax_backward_data(slope, share, -1, share.dtype)

    @staticmethod
    def backward(context: Any, *adjoint: Tensor) -> Any:
        share, slope, above = context.saved_tensors
        (u,) = adjoint
        by_slope = torch._softmax_backward_data(u, share, -1, share.dtype)
        by_share = (u * above).addcmul_(slope, _dot(u, share), value=-1.0)
        return by_slope, by_share


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return torch.linalg.vecdot(a, b).unsqueeze(-1)


class _Gelu(Function):
    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        square = x * x
        bell = torch.exp(-0.5 * square).mul_(_DENSITY)
        rise = torch.special.ndtr(x).addcmul_(x, bell)
        context.save_for_backward(x, rise, bell.mul_(2.0 - square))
        return gelu(x)

    @staticmethod
    def backward(context: Any, *slopes: Tensor) -> Any:
        x, rise, bend = context.saved_tensors
        return _GeluSlope.apply(slopes[0], x, rise, bend) if torch.is_grad_enabled() else slopes[0] * rise


class _GeluSlope(Function):
    """g (Phi(x) + x phi(x)), whose derivative by x is g phi(x) (2 - x^2)."""

    @staticmethod
    def forward(context: Any, slope: Tensor, x: Tensor, rise: Tensor, bend: Tensor) -> Tensor:
        context.save_for_backward(rise, slope * bend)
        return slope * rise

    @staticmethod
    def backward(context: Any, *adjoint: Tensor) -> Any:
        rise, bend = context.saved_tensors
        return adjoint[0] * rise, adjoint[0] * bend, None, None
