"""Attention as a graph: one tree per head and text, on the distance 1 - max(A, A^T)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from toposcope.core.errors import InputError

if TYPE_CHECKING:
    from toposcope.models.protocol import LanguageModel


def attention_h0(model: LanguageModel, texts: Sequence[Sequence[int]]) -> np.ndarray:
    r"""Return H0's mean bar length of every head's attention graph, for every text.

    A text's tokens are the vertices, the distance of two is :math:`1 - \max(A_{ij}, A_{ji})`; H0's bars are
    the edges of the minimum spanning tree, so their sum is :math:`(t - 1) - \mathrm{MST}(\max(A, A^\top))`.
    It is divided by t - 1, so that texts of different length can be averaged: 0 if every token is tied to
    another with weight 1, near 1 if attention is spread thin.

    Parameters
    ----------
    texts : token ids of every text, at least two tokens each

    Returns
    -------
    array of shape (texts, layers, heads), float64

    Raises
    ------
    InputError
        When a text has fewer than two tokens.
    """
    from toposcope.kernels.small_tree import maximum_tree_weights

    short = [i for i, ids in enumerate(texts) if len(ids) < 2]
    if short:
        raise InputError(
            f"text {short[0]} has fewer than two tokens: an attention graph needs two",
            remedy="give longer texts",
        )
    values = []
    for ids in texts:
        stack = np.stack([np.asarray(layer, np.float64) for layer in model.attentions(ids)])
        layers, heads, length, _ = stack.shape
        sizes = np.full(layers * heads, length)
        weight = maximum_tree_weights(stack.reshape(layers * heads, length, length), sizes)
        values.append(1.0 - weight.reshape(layers, heads) / (length - 1))
    return np.stack(values)
