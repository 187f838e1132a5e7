"""Scaled dot-product attention whose derivative can be differentiated in few passes over memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

_ROWS = 32
"""Causal queries form up to four groups of at least this many; each group reads the keys before its end."""


def attention(
    query: Tensor, key: Tensor, value: Tensor, *, causal: bool, scale: float | None = None
) -> Tensor:
    """Return scaled dot-product attention, (..., queries, features)."""
    *outer, rows, size = query.shape
    factor = 1.0 / math.sqrt(size) if scale is None else scale
    scaled = (query * factor).reshape(-1, rows, size)
    k, v = (part.reshape(-1, *part.shape[-2:]) for part in (key, value))
    mixed = _Attention.apply(scaled, k, v, causal)[0]
    return mixed.view(*outer, rows, value.shape[-1])


def _groups(rows: int, columns: int, causal: bool) -> Iterator[tuple[slice, slice]]:
    """Yield groups of queries and the keys that they read."""
    if not causal:
        yield slice(0, rows), slice(0, columns)
        return
    size = max(_ROWS, -(-rows // 4))
    for start in range(0, rows, size):
        stop = min(start + size, rows)
        yield slice(start, stop), slice(0, min(stop, columns))


class _Attention(Function):
    """The mixed values p v with p = softmax(q k^T), and p, group by group."""

    @staticmethod
    def forward(context: Any, q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Any:
        groups = list(_groups(q.shape[1], k.shape[1], causal))
        mixed, shares = v.new_empty(*q.shape[:2], v.shape[2]), []
        for rows, columns in groups:
            scores = torch.bmm(q[:, rows], k[:, columns].mT)
            if causal:
                later = torch.ones(scores.shape[1:], dtype=torch.bool, device=q.device)
                scores.masked_fill_(later.triu_(rows.start + 1), -math.inf)
            shares.append(scores.softmax(-1))
            mixed[:, rows] = torch.bmm(shares[-1], v[:, columns])
        context.groups = groups
        context.set_materialize_grads(False)
        context.save_for_backward(q, k, v, *shares)
        return mixed, *shares

    @staticmethod
    def backward(context: Any, *adjoint: Any) -> Any:
        q, k, v, *shares = context.saved_tensors
        slope, *by_shares = adjoint
        if slope is None:
            slope = torch.zeros(*q.shape[:2], v.shape[2], dtype=v.dtype, device=v.device)
        if torch.is_grad_enabled():
            return *_AttentionSlope.apply(context.groups, slope, q, k, v, *shares), None
        by_q, by_k, by_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for (rows, columns), share, by_share in zip(context.groups, shares, by_shares, strict=True):
            seen = v[:, columns].mT
            by = by_share.baddbmm_(slope[:, rows], seen) if by_share is not None else slope[:, rows] @ seen
            by_scores = torch._softmax_backward_data(by, share, -1, share.dtype)
            by_q[:, rows] = torch.bmm(by_scores, k[:, columns])
            by_k[:, columns].baddbmm_(by_scores.mT, q[:, rows])
            by_v[:, columns].baddbmm_(share.mT, slope[:, rows])
        return by_q, by_k, by_v, None


class _AttentionSlope(Function):
    """Derivatives d k by q, d^T q by k, p^T g by v; d = p a, a = g v^T minus its mean under p in a row."""

    @staticmethod
    def forward(
        context: Any, groups: Any, g: Tensor, q: Tensor, k: Tensor, v: Tensor, *shares: Tensor
    ) -> Any:
        by_q, by_k, by_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        above, slopes = [], []
        for (rows, columns), share in zip(groups, shares, strict=True):
            a = torch.bmm(g[:, rows], v[:, columns].mT)
            a -= _dot(a, share)
            d = share * a
            by_q[:, rows] = torch.bmm(d, k[:, columns])
            by_k[:, columns].baddbmm_(d.mT, q[:, rows])
            by_v[:, columns].baddbmm_(share.mT, g[:, rows])
            above.append(a)
            slopes.append(d)
        context.groups = groups
        context.save_for_backward(g, q, k, v, *shares, *above, *slopes)
        return by_q, by_k, by_v

    @staticmethod
    @once_differentiable
    def backward(context: Any, *adjoint: Tensor) -> Any:
        g, q, k, v, *saved = context.saved_tensors
        groups, n = context.groups, len(context.groups)
        uq, uk, uv = adjoint
        by_g, by_q, by_k, by_v = (
            torch.empty_like(g),
            torch.empty_like(q),
            torch.zeros_like(k),
            torch.zeros_like(v),
        )
        by_shares = []
        left, right = torch.cat((uq, q), -1), torch.cat((k, uk), -1)
        for (rows, columns), p, a, d in zip(groups, saved[:n], saved[n : 2 * n], saved[2 * n :], strict=True):
            moved = torch.bmm(left[:, rows], right[:, columns].mT)  # the adjoint of d
            moved -= _dot(moved, p)
            by_a = p * moved
            by_g[:, rows] = torch.bmm(by_a, v[:, columns]).baddbmm_(p, uv[:, columns])
            by_q[:, rows] = torch.bmm(d, uk[:, columns])
            by_k[:, columns].baddbmm_(d.mT, uq[:, rows])
            by_v[:, columns].baddbmm_(by_a.mT, g[:, rows])
            # up to a constant per row, which the softmax that made p ignores
            by_shares.append(moved.mul_(a).baddbmm_(g[:, rows], uv[:, columns].mT))
        return None, by_g, by_q, by_k, by_v, *by_shares


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return torch.linalg.vecdot(a, b).unsqueeze(-1)
