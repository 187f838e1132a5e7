"""The weights that lead into one output unit, found from the order in which layers store their axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_INPUTS_FIRST = ("Conv1D", "Llama4TextExperts")
"""Layers of transformers that compute x W and store (inputs, outputs); `torch.nn.Linear` computes x W^T and
stores (outputs, inputs). Conv1D is that of GPT-2, GPT-1, ImageGPT and the decision transformer."""

_STACKS = ("Llama4TextExperts",)
"""Layers of experts without this attribute."""

_LAYOUT_FLAG = "is_transposed"
"""The attribute of a layer of experts that says whether it stores (experts, inputs, outputs)."""


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a module's parameters: all weights that lead into one output unit.

    `axes` has the axes that count output units, for parameters in which this is not the first axis as in
    `torch.nn.Linear`: (1,) for a Conv1D, (0, 1) or (0, 2) for a stack of experts. For an embedding, a unit is
    a token. A parameter of one dimension, or with axes (), has no filters.
    """

    axes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def rows(self, name: str, values: torch.Tensor) -> torch.Tensor | None:
        """Return a parameter's filters as rows (units, weights of a unit); None if it has none.

        >>> import torch
        >>> Filters({"w": (1,)}).rows("w", torch.tensor([[1, 2], [3, 4]])).tolist()
        [[1, 3], [2, 4]]
        """
        axes = self._of(name, values)
        if not axes:
            return None
        units = [values.shape[axis] for axis in axes]
        return values.permute(*axes, *_others(axes, values.ndim)).reshape(_product(units), -1)

    def stored(self, name: str, rows: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """Return rows, as `rows` gives them, in the shape and order in which `like` is stored."""
        axes = self._of(name, like)
        order = (*axes, *_others(axes, like.ndim))
        back = [order.index(axis) for axis in range(like.ndim)]
        return rows.reshape([like.shape[axis] for axis in order]).permute(*back)

    def _of(self, name: str, values: torch.Tensor) -> tuple[int, ...]:
        return () if values.ndim < 2 else self.axes.get(name, (0,))


def filters_of(module: torch.nn.Module) -> Filters:
    """Return the filters of a module's parameters, from the classes of its layers.

    >>> import torch
    >>> filters_of(torch.nn.Linear(2, 3)).axes
    {}
    """
    axes: dict[str, tuple[int, ...]] = {}
    for path, layer in module.named_modules():
        inputs_first = type(layer).__name__ in _INPUTS_FIRST or bool(getattr(layer, _LAYOUT_FLAG, False))
        experts = hasattr(layer, _LAYOUT_FLAG) or type(layer).__name__ in _STACKS
        for name, parameter in layer.named_parameters(recurse=False):
            layer_axes = _axes(layer, parameter.ndim, inputs_first=inputs_first, experts=experts)
            if layer_axes != (0,):
                axes[f"{path}.{name}" if path else name] = layer_axes
    return Filters(axes)


def _axes(layer: torch.nn.Module, dimensions: int, *, inputs_first: bool, experts: bool) -> tuple[int, ...]:
    from torch.nn.modules.conv import _ConvNd

    if dimensions == 3 and not isinstance(layer, _ConvNd):  # a stack of matrices
        return (0, 2 if inputs_first else 1)
    if dimensions == 2 and experts:  # a stack of biases
        return ()
    return (1,) if dimensions == 2 and inputs_first else (0,)


def _others(axes: tuple[int, ...], dimensions: int) -> tuple[int, ...]:
    return tuple(axis for axis in range(dimensions) if axis not in axes)


def _product(numbers: list[int]) -> int:
    result = 1
    for number in numbers:
        result *= number
    return result
