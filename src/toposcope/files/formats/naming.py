"""Names of tensors without the parts that wrappers of a module add to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from toposcope.files.formats.reader import Facts, Reader, TensorInfo, find

WRAPPERS = frozenset(
    [
        "_orig_mod",
        "_fsdp_wrapped_module",
        "_fpw_module",
        "_checkpoint_wrapped_module",
        "_forward_module",
    ]
)
"""Parts that torch.compile, FSDP, activation checkpointing and Lightning's Fabric put into a name, at any
depth."""

_OUTERMOST = "module"
"""The part that DataParallel and DistributedDataParallel put in front; a model may have one inside."""


_MARKS = ("/", "..", *sorted(WRAPPERS))
"""What stands in the middle of a name that has another plain name."""


def plain_name(name: str) -> str:
    """Return the name of a tensor without wrappers, its parts separated by dots as in PyTorch.

    >>> plain_name("_orig_mod.module.h.0._checkpoint_wrapped_module.mlp.weight")
    'h.0.mlp.weight'
    >>> plain_name("params/layers_0/kernel"), plain_name("module")
    ('params.layers_0.kernel', 'module')
    """
    for mark in _MARKS:  # most names have none: a mixture of experts has 100,000
        if mark in name:
            break
    else:
        if not name.startswith((".", f"{_OUTERMOST}.")) and not name.endswith("."):
            return name
    parts = [part for part in name.replace("/", ".").split(".") if part and part not in WRAPPERS]
    while len(parts) > 1 and parts[0] == _OUTERMOST:
        parts = parts[1:]
    return ".".join(parts) or name


def plain_names(names: Iterable[str]) -> dict[str, str]:
    """Return the plain name of each stored name; two that would share one keep their own.

    >>> plain_names(["module.w", "b/c"]), plain_names(["module.w", "w"])
    ({'module.w': 'w', 'b/c': 'b.c'}, {'module.w': 'module.w', 'w': 'w'})
    """
    plain = {name: plain_name(name) for name in names}
    count = Counter(plain.values())
    return {name: short if count[short] == 1 else name for name, short in plain.items()}


class RenamedTensors:
    """A reader whose tensors have other names; `stored` maps each to its name in the file."""

    def __init__(self, inner: Reader, stored: Mapping[str, str]) -> None:
        self.label = inner.label
        self._inner, self._stored = inner, stored
        infos = inner.infos()
        self._infos = {name: replace(infos[old], name=name) for name, old in stored.items()}

    def infos(self) -> Mapping[str, TensorInfo]:
        """Return every tensor's name, shape and dtype, in the file's order."""
        return self._infos

    def read(self, name: str) -> np.ndarray:
        """Read one tensor."""
        find(self._infos, self.label, name)
        return self._inner.read(self._stored[name])

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Read rows `start` to `stop` of one tensor."""
        find(self._infos, self.label, name)
        return self._inner.rows(self._stored[name], start, stop)

    def facts(self) -> Facts:
        """Return the facts of the file; of an adapter, its changes have the new names."""
        facts = self._inner.facts()
        new = {old: name for name, old in self._stored.items()}
        changes = {new[old]: rank for old, rank in facts.changes.items() if old in new}
        return replace(facts, changes=changes) if facts.changes else facts


def renamed(reader: Reader, names: Mapping[str, str]) -> Reader:
    """Return a reader with the new names; the same reader if no name changes."""
    if all(name == new for name, new in names.items()):
        return reader
    return RenamedTensors(reader, {new: name for name, new in names.items()})


def unwrapped(reader: Reader) -> Reader:
    """Return a reader whose tensors have their plain names."""
    return renamed(reader, plain_names(reader.infos()))
