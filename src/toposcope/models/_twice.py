"""Functions of a transformer whose derivatives can be differentiated in few passes over memory.

The fused attention kernels have no second derivative, and torch's plain functions record every step of a
derivative and traverse it again. Here the derivatives of attention, layer norm, GELU and cross-entropy are
functions of their own, which compute once what their derivatives need: a graph that is kept for many
Hessian-vector products reads it every time. In the comments, a bar over a name denotes the adjoint.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional as plain
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from toposcope.models._twice_attention import attention

_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)


@contextmanager
def twice_differentiable() -> Iterator[None]:
    """Use attention that can be differentiated twice, and the functions here instead of torch's."""
    with sdpa_kernel(SDPBackend.MATH), _Replaced():
        yield


class _Replaced(TorchFunctionMode):
    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        replacement = _OWN.get(function)
        answer = None if replacement is None else replacement(*args, **(kwargs or {}))
        return function(*args, **(kwargs or {})) if answer is None else answer


def _attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor | None:  # fmt: skip
    if attn_mask is not None or dropout_p or enable_gqa or query.shape[:-2] != key.shape[:-2]:
        return None
    return attention(query, key, value, causal=is_causal, scale=scale)


def _gelu(input: Tensor, *, approximate: str = "none") -> Tensor | None:
    return _Gelu.apply(input) if approximate == "none" else None


def _layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor | None:  # fmt: skip
    if weight is None or bias is None or weight.dim() != 1 or weight.dtype != input.dtype:
        return None
    return _LayerNorm.apply(input.reshape(-1, len(weight)), weight, bias, eps).view(input.shape)


def _cross_entropy(
    input: Tensor, target: Tensor, weight: Any = None, size_average: Any = None, ignore_index: int = -100,
    reduce: Any = None, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor | None:  # fmt: skip
    if weight is not None or reduction != "none" or label_smoothing or target.dim() != 1 or input.dim() != 2:
        return None
    return _CrossEntropy.apply(input, target)


_OWN: dict[Any, Any] = {
    plain.scaled_dot_product_attention: _attention,
    plain.gelu: _gelu,
    plain.layer_norm: _layer_norm,
    plain.cross_entropy: _cross_entropy,
}


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return torch.linalg.vecdot(a, b).unsqueeze(-1)


class _Gelu(Function):
    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        square = x * x
        bell = torch.exp(-0.5 * square).mul_(_DENSITY)
        rise = torch.special.ndtr(x).addcmul_(x, bell)
        context.save_for_backward(x, rise, bell.mul_(2.0 - square))
        return plain.gelu(x)

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
    @once_differentiable
    def backward(context: Any, *adjoint: Tensor) -> Any:
        rise, bend = context.saved_tensors
        return adjoint[0] * rise, adjoint[0] * bend, None, None


class _CrossEntropy(Function):
    """log(sum(exp z)) - z_target for each row of logits z."""

    @staticmethod
    def forward(context: Any, logits: Tensor, target: Tensor) -> Tensor:
        log_share = logits.log_softmax(-1)
        place = target.unsqueeze(-1)
        losses = log_share.gather(-1, place).neg_().squeeze(-1)
        context.save_for_backward(logits, log_share.exp_(), place)
        return losses

    @staticmethod
    def backward(context: Any, *slopes: Tensor) -> Any:
        logits, share, place = context.saved_tensors
        (slope,) = slopes
        if torch.is_grad_enabled():
            return _CrossEntropySlope.apply(slope, logits, share, place), None
        return _pointed(slope, share, place), None


def _pointed(slope: Tensor, share: Tensor, place: Tensor) -> Tensor:
    """Return g (p - e_target), row by row."""
    column = slope.unsqueeze(-1)
    return (column * share).scatter_add_(-1, place, -column)


class _CrossEntropySlope(Function):
    @staticmethod
    def forward(context: Any, slope: Tensor, logits: Tensor, share: Tensor, place: Tensor) -> Tensor:
        context.save_for_backward(slope, share, place)
        return _pointed(slope, share, place)

    @staticmethod
    @once_differentiable
    def backward(context: Any, *adjoint: Tensor) -> Any:
        slope, share, place = context.saved_tensors
        (u,) = adjoint
        mean = _dot(u, share)
        by_slope = (mean - u.gather(-1, place)).squeeze(-1)
        return by_slope, (u - mean).mul_(share).mul_(slope.unsqueeze(-1)), None, None


class _LayerNorm(Function):
    """w x' + b with x' = (x - mean) rho, rho = 1 / sqrt(variance + eps), for rows x."""

    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
        result, mean, rho = torch.native_layer_norm(x, weight.shape, weight, bias, eps)
        context.save_for_backward(x, weight, bias, mean, rho)
        return result

    @staticmethod
    def backward(context: Any, *slopes: Tensor) -> Any:
        x, weight, bias, mean, rho = context.saved_tensors
        if torch.is_grad_enabled():
            return *_LayerNormSlope.apply(slopes[0], x, weight, bias, mean, rho), None
        return *_layer_norm_slope(slopes[0], x, weight, bias, mean, rho), None


def _layer_norm_slope(
    slope: Tensor, x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, rho: Tensor
) -> Any:
    return torch.ops.aten.native_layer_norm_backward(
        slope, x, weight.shape, mean, rho, weight, bias, (True, True, True)
    )


class _LayerNormSlope(Function):
    """The derivatives rho P(g w) by x, sum(g x') by w and sum(g) by b; P(z) = z - mean(z) - x' mean(x' z)."""

    @staticmethod
    def forward(
        context: Any, slope: Tensor, x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, rho: Tensor
    ) -> Any:
        by_x, by_weight, by_bias = _layer_norm_slope(slope, x, weight, bias, mean, rho)
        standard = (x - mean) * rho
        weighted = slope * weight
        share = _dot(weighted, standard).mul_(rho / -len(weight))
        context.save_for_backward(slope, x, weight, mean, rho, standard, by_x, share)
        return by_x, by_weight, by_bias

    @staticmethod
    @once_differentiable
    def backward(context: Any, *adjoint: Tensor) -> Any:
        slope, x, weight, mean, rho, standard, by_x, share = context.saved_tensors
        u, v, b = adjoint
        turned = _projected(u, x, mean, rho)  # rho P(u): the change of x' if x moves by u
        by_slope = torch.addcmul(b, standard, v).addcmul_(turned, weight)
        moved = slope * turned
        scale = rho / -len(weight)
        by = _projected(slope * v, x, mean, rho)
        by.addcmul_(by_x, _dot(standard, u).mul_(scale)).addcmul_(turned, share)
        by.addcmul_(standard, torch.mv(moved, weight).unsqueeze(-1).mul_(scale))
        return by_slope, by, moved.sum(0), None, None, None


def _projected(z: Tensor, x: Tensor, mean: Tensor, rho: Tensor) -> Tensor:
    only = (True, False, False)
    return torch.ops.aten.native_layer_norm_backward(z, x, x.shape[-1:], mean, rho, None, None, only)[0]
