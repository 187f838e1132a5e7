"""The parameters of the GPT family: names, shapes, order and initial values, without torch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from toposcope.core.seeding import rng
from toposcope.recipes import ModelShape, TrainingRecipe

HEAD = "head.weight"
TIED_TO = "token_emb.weight"


@dataclass(frozen=True, slots=True)
class GPTShape:
    """A decoder-only transformer: tied head, learned positions, fused qkv, MLP of four times the width.

    `last_only`: only the token after the whole context is predicted, as in tables of sums.
    """

    vocabulary: int
    context: int
    width: int
    layers: int
    heads: int
    last_only: bool = False

    @classmethod
    def of(cls, shape: ModelShape, *, vocabulary: int, context: int) -> GPTShape:
        """Return the shape of a language model."""
        return cls(vocabulary, context, shape.width, shape.layers, shape.heads)

    @classmethod
    def in_recipe(cls, shape: ModelShape, recipe: TrainingRecipe) -> GPTShape:
        """Return the shape of one model of a recipe."""
        last_only = recipe.task == "modular-addition"
        return cls(recipe.vocabulary, recipe.context, shape.width, shape.layers, shape.heads, last_only)

    @property
    def parameters(self) -> int:
        """The number of trainable parameters; the tied head counts once.

        >>> GPTShape(vocabulary=128, context=128, width=8, layers=1, heads=1).parameters
        2936
        """
        return sum(math.prod(shape) for _, shape in parameter_shapes(self))


def parameter_shapes(gpt: GPTShape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield name and shape of every trainable parameter, in the order of the flat buffer."""
    d = gpt.width
    yield TIED_TO, (gpt.vocabulary, d)
    yield "pos_emb.weight", (gpt.context, d)
    for i in range(gpt.layers):
        block = f"layers.{i}"
        yield from _norm(f"{block}.ln1", d)
        yield from _linear(f"{block}.attn.qkv", 3 * d, d)
        yield from _linear(f"{block}.attn.proj", d, d)
        yield from _norm(f"{block}.ln2", d)
        yield from _linear(f"{block}.mlp.fc1", 4 * d, d)
        yield from _linear(f"{block}.mlp.fc2", d, 4 * d)
    yield from _norm("ln_f", d)


def _linear(name: str, n_out: int, n_in: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (n_out, n_in)
    yield f"{name}.bias", (n_out,)


def _norm(name: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (width,)
    yield f"{name}.bias", (width,)


def first_values(gpt: GPTShape, *, seed: int, std: float) -> np.ndarray:
    """Return all parameters before training, flat float32: N(0, std), norms 1, biases 0.

    They depend only on the seed and the names, not on the device or the number of threads.
    """
    parts = []
    for name, shape in parameter_shapes(gpt):
        if name.endswith(".bias"):
            values = np.zeros(shape)
        elif ".ln" in name or name.startswith("ln_f"):
            values = np.ones(shape)
        else:
            values = rng(name="init", parameter=name, seed=seed).normal(0.0, std, shape)
        parts.append(values.astype(np.float32).ravel())
    return np.concatenate(parts)


def split(gpt: GPTShape, flat: np.ndarray) -> dict[str, np.ndarray]:
    """Return views of a flat buffer by parameter name, including the tied head under its own name.

    The entry of the tied head is the same view as that of the token embedding.
    """
    views: dict[str, np.ndarray] = {}
    start = 0
    for name, shape in parameter_shapes(gpt):
        size = math.prod(shape)
        views[name] = flat[start : start + size].reshape(shape)
        start += size
    views[HEAD] = views[TIED_TO]
    return views
