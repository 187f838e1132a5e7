"""Which weights an optimiser's places stand for: by the order of its groups, checked by shapes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from toposcope.files.training_state.nouns import OptimizerState

Shape = tuple[int, ...]
ORDERED = ("Lightning", "nanoGPT", "PyTorch", "PyTorch's distributed checkpoint")
"""Writers whose files of weights keep the order of the model; safetensors sorts names."""


@dataclass(frozen=True, slots=True)
class ParameterNames:
    """The weights that each parameter of an optimiser may be, by its key; one where it is certain."""

    candidates: Mapping[str, tuple[str, ...]]

    def name(self, key: str) -> str:
        """Return what a parameter is called in a message: its name, or its place with what it may be.

        >>> names = ParameterNames({"0": ("wte",), "1": ("h.0.fc", "h.1.fc"), "2": ()})
        >>> names.name("0"), names.name("1"), names.name("2"), names.name("h.0.fc")
        ('wte', 'parameter 1 (h.0.fc or another of its shape)', 'parameter 2', 'h.0.fc')
        """
        candidates = self.candidates.get(key, ())
        if len(candidates) == 1 or not key.isdecimal():
            return candidates[0] if len(candidates) == 1 else key
        return f"parameter {key}" + (f" ({candidates[0]} or another of its shape)" if candidates else "")

    @property
    def ambiguous(self) -> int:
        """How many parameters may be several weights."""
        return sum(len(candidates) > 1 for candidates in self.candidates.values())

    @property
    def unknown(self) -> list[str]:
        """The parameters with a shape that no weights have."""
        return [key for key, candidates in self.candidates.items() if not candidates]


def names_of(optimizer: OptimizerState, shapes: Mapping[str, Shape], *, ordered: bool) -> ParameterNames:
    """Return the weights that each parameter may be; `ordered` says that weights are in the model's order."""
    if optimizer.named:
        with_moments = {
            key: parameter for key, parameter in optimizer.parameters.items() if parameter.shape is not None
        }
        return ParameterNames(
            {key: _by_name(key, with_moment.shape, shapes) for key, with_moment in with_moments.items()}
        )
    weights: dict[Shape, list[str]] = defaultdict(list)
    for name, shape in shapes.items():
        weights[shape].append(name)
    places = [key for group in optimizer.groups for key in group.parameters]
    group = {key: number for number, group in enumerate(optimizer.groups) for key in group.parameters}
    keys: dict[Shape, list[str]] = defaultdict(list)
    for key in [*places, *(key for key in optimizer.parameters if key not in group)]:
        parameter = optimizer.parameters.get(key)
        if parameter is not None and parameter.shape is not None:
            keys[parameter.shape].append(key)
    candidates: dict[str, tuple[str, ...]] = {}
    for shape, alike in keys.items():
        names = weights.get(shape, [])
        sure = len(names) == len(alike) and ordered and len({group.get(key) for key in alike}) == 1
        for place, key in enumerate(alike):
            candidates[key] = (names[place],) if sure else tuple(names)
    return ParameterNames(candidates)


def _by_name(key: str, shape: Shape | None, shapes: Mapping[str, Shape]) -> tuple[str, ...]:
    """Return the weights of a name, with or without what wrappers put in front of it."""
    if key in shapes:
        return (key,) if shapes[key] == shape else ()
    ends = [name for name in shapes if name.endswith(f".{key}") or key.endswith(f".{name}")]
    ends = [name for name in ends if shapes[name] == shape]
    return tuple(ends)
