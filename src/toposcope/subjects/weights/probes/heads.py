"""The weights of one attention head, sliced from its layer's matrices, and their QK and OV products."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from toposcope.core.types import Matrix, Role
from toposcope.sources.matrices import Heads, heads_of
from toposcope.sources.rows import scaling

_PARTS = {
    "q": re.compile(r"(\[q\]|(^|[._])(q_proj|wq|W_Q|query|q)(\.weight)?)$"),
    "k": re.compile(r"(\[k\]|(^|[._])(k_proj|wk|W_K|key|k)(\.weight)?)$"),
    "v": re.compile(r"(\[v\]|(^|[._])(v_proj|wv|W_V|value|v)(\.weight)?)$"),
    "qkv": re.compile(r"(^|[._])(qkv|qkv_proj|c_attn|in_proj)(\.weight|_weight)?$"),
    "o": re.compile(r"(^|[._])(o_proj|wo|W_O|c_proj|out_proj|proj|dense|linear_proj|att_proj)(\.weight)?$"),
}
"""Names of attention matrices; a fused matrix that is not split has all of q, then k, then v."""

Pair = tuple[np.ndarray, np.ndarray | None]
"""A matrix now and at the checkpoint before."""


@dataclass(slots=True)
class Layer:
    """The four matrices of one layer's attention, (n_out, n_in) each, now and before."""

    layer: int
    heads: Heads
    name: str = ""
    parts: dict[str, Pair] = field(default_factory=dict)


@dataclass(slots=True)
class Attention:
    """Collects attention matrices by layer, for a model whose numbers of heads are known."""

    heads: Heads
    layers: dict[int, Layer] = field(default_factory=dict)

    def add(self, now: Matrix, then: Matrix | None) -> None:
        """Add a matrix if it belongs to an attention layer whose heads are known."""
        if now.role != Role.ATTENTION or now.layer is None or now.head is not None or not self.heads.queries:
            return
        part = next((part for part, pattern in _PARTS.items() if pattern.search(now.name)), None)
        if part is None:
            return
        layer = self.layers.setdefault(now.layer, Layer(now.layer, self.heads))
        before = None if then is None or then.values.shape != now.values.shape else then.values
        pieces = _thirds(now.values, before) if part == "qkv" else {part: (now.values, before)}
        layer.parts |= pieces
        if "q" in pieces:
            layer.name = now.name


def heads_in(config: Mapping[str, Any]) -> Heads:
    """Return the numbers of heads that a configuration, or the recipe of a run of `toposcope train`, states.

    >>> heads_in({"models": [{"name": "small", "width": 16, "heads": 2}]}).queries
    2
    """
    heads, models = heads_of(config), config.get("models")
    if heads.queries or not isinstance(models, list) or len(models) != 1:
        return heads
    return heads_of(models[0])


def attention_layers(attention: Attention) -> Iterator[Layer]:
    """Yield the layers whose four matrices are present and fit the numbers of heads."""
    for _, layer in sorted(attention.layers.items()):
        if set(layer.parts) >= {"q", "k", "v", "o"} and _fits(layer):
            yield layer


def head_products(layer: Layer) -> Iterator[dict[str, float]]:
    """Yield each head's norm and entropy of QK = W_Q^T W_K and OV = W_O W_V, and its relative update.

    The singular values of a product of thin factors are those of the product of their triangular factors.
    """
    width = len(layer.parts["q"][0]) // layer.heads.queries
    for head in range(layer.heads.queries):
        now = _of_head(layer, head, width, 0)
        if now is None:
            return
        q, k, v, o = now
        values: dict[str, float] = {}
        for name, left, right in (("qk", q, k), ("ov", o, v)):
            singular = np.linalg.svd(_triangle(left) @ _triangle(right).T, compute_uv=False)
            values[f"{name}_norm"] = float(np.linalg.norm(singular))
            values[f"{name}_entropy"] = spectral_entropy(singular)
        before = _of_head(layer, head, width, 1)
        if before is not None:
            moved = [float(np.sum((a - b) ** 2)) for a, b in zip(now, before, strict=True)]
            past = [float(np.sum(b**2)) for b in before]
            values["update_relative"] = _root(sum(moved), sum(past))
            for part, a, b, above, below in zip("qkvo", now, before, moved, past, strict=True):
                values[f"update_relative_{part}"] = _root(above, below)
                values[f"scaling_{part}"], values[f"scaling_cosine_{part}"] = scaling(a, b)
        yield values


def _root(above: float, below: float) -> float:
    return math.sqrt(above / below) if below > 0 else math.nan


def _of_head(layer: Layer, head: int, width: int, when: int) -> tuple[np.ndarray, ...] | None:
    """Return a head's rows of Q, K and V and its columns of O, transposed; None if they are missing."""
    group = head * layer.heads.groups // layer.heads.queries
    heads = []
    for part in "qkvo":
        matrix = layer.parts[part][when]
        if matrix is None:
            return None
        index = group if part in "kv" else head
        rows = matrix.T if part == "o" else matrix
        heads.append(np.asarray(rows[index * width : (index + 1) * width], np.float64))
    return tuple(heads)


def _triangle(rows: np.ndarray) -> np.ndarray:
    """Return R of the QR decomposition of the transpose."""
    return np.asarray(np.linalg.qr(rows.T, mode="r"))


def spectral_entropy(singular: np.ndarray) -> float:
    """Return the entropy of p = s^2 / sum s^2 divided by log k, for k singular values; NaN for zeros.

    >>> round(spectral_entropy(np.array([1.0, 1.0])), 12), spectral_entropy(np.array([1.0, 0.0]))
    (1.0, 0.0)
    """
    p = np.square(singular) / np.square(singular).sum() if singular.any() else np.full(1, math.nan)
    if len(p) < 2:
        return math.nan if math.isnan(p[0]) else 0.0
    return abs(float(-np.sum(p * np.log(np.maximum(p, 1e-300))) / math.log(len(p))))


def _thirds(now: np.ndarray, before: np.ndarray | None) -> dict[str, Pair]:
    n = len(now) // 3
    if len(now) % 3:
        return {}
    return {
        part: (now[i * n : (i + 1) * n], None if before is None else before[i * n : (i + 1) * n])
        for i, part in enumerate("qkv")
    }


def _fits(layer: Layer) -> bool:
    heads = layer.heads
    q, k, v, o = (layer.parts[part][0].shape for part in "qkvo")
    width = q[0] // heads.queries
    return (
        q[0] == heads.queries * width
        and k[0] == v[0] == heads.groups * width
        and o[1] == q[0]
        and heads.queries % heads.groups == 0
    )
