"""The weights of a base as an adapter names them: under other prefixes, fused, apart or transposed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toposcope.core.types import Checkpoint
from toposcope.files.formats.adapter import PEFT
from toposcope.files.formats.reader import Reader, TensorInfo
from toposcope.sources.matrices import Heads, heads_of, part_rows
from toposcope.sources.names import QKV, QKV_GROUPS, QKV_HEADS, Fused, strip
from toposcope.sources.series import Series

_MODEL = "model."
"""PEFT puts this between `base_model.` and the module name of the base."""
_GATE_UP = Fused(("gate", "up"))
_FUSED: Mapping[str, Fused] = {
    "c_attn": QKV,
    "qkv_proj": QKV,
    "Wqkv": QKV,
    "W_pack": QKV,
    "qkv": QKV,
    "query_key_value": QKV_GROUPS,
    "linear_qkv": QKV_GROUPS,
    "gate_up_proj": _GATE_UP,
}
"""The last part of the name of a fused matrix, and the order of its rows."""
_PARTS: Mapping[str, tuple[str, ...]] = {
    "q": ("q_proj", "query", "q_lin", "wq"),
    "k": ("k_proj", "key", "k_lin", "wk"),
    "v": ("v_proj", "value", "v_lin", "wv"),
    "gate": ("gate_proj", "w1"),
    "up": ("up_proj", "w3"),
}
"""A part of a fused matrix, and the last part of its name where it is stored by itself."""
_ATTENTION = ("self_attn", "attn", "attention", "self_attention")
"""Names of the module of an attention, which differ between two layouts of one model."""


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """What the base holds for one weight: its name there, and values in the change's shape.

    `values` is None where the tensor is there and has no comparable numbers; `why` says why.
    """

    name: str
    values: np.ndarray | None
    why: str = ""


class BaseWeights:
    """Finds the weight of a base that an adapter changes.

    >>> from toposcope.sources import open_series
    >>> series = open_series({0: {"transformer.h.0.attn.c_attn.weight": np.ones((4, 12))}})
    >>> with series.reading(next(iter(series))) as reader:
    ...     base = BaseWeights(reader, {"model_type": "gpt2"})
    ...     whole = base.find("base_model.model.h.0.attn.c_attn.weight", (4, 12))
    ...     part = base.find("base_model.model.h.0.attn.q_proj.weight", (4, 4))
    >>> whole.values.shape, part.name, part.values.shape
    ((4, 12), 'transformer.h.0.attn.c_attn.weight[q]', (4, 4))
    """

    def __init__(self, reader: Reader, config: Mapping[str, Any]) -> None:
        self._reader = reader
        self._infos = reader.infos()
        self._config = config
        self._heads = _heads(config)
        plain: dict[str, list[str]] = {}
        for name in self._infos:
            plain.setdefault(_plain(name), []).append(name)
        self._plain = {name: stored[0] for name, stored in plain.items() if len(stored) == 1}

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of the tensor of this name in the base; None if it has none."""
        stored = self._stored(name)
        return None if stored is None else self._infos[stored].shape

    def find(self, name: str, shape: tuple[int, ...]) -> StoredWeight | None:
        """Return what the base holds for a change of this name and shape; None if nothing fits."""
        stored = self._stored(name)
        if stored is not None:
            return self._as_it_is(stored, shape)
        parent, _, leaf = _plain(name).removesuffix(".weight").rpartition(".")
        fused = next((stored for stored in self._fused_with(parent, leaf, shape)), None)
        return fused or self._of_parts(parent, leaf, shape) or self._of_stack(name)

    def _stored(self, name: str) -> str | None:
        base_name = in_base(name)
        return base_name if base_name in self._infos else self._plain.get(_plain(name))

    def _as_it_is(self, stored: str, shape: tuple[int, ...]) -> StoredWeight | None:
        info = self._infos[stored]
        if why := _not_comparable(info):
            return StoredWeight(stored, None, why)
        if sorted(info.shape) != sorted(shape):
            return None
        values = self._reader.read(stored)
        return StoredWeight(stored, values if values.shape == shape else values.T)

    def _fused_with(self, parent: str, leaf: str, shape: tuple[int, ...]) -> Iterator[StoredWeight]:
        """Yield the part of a fused matrix that a change of one part belongs to."""
        part = next((part for part, leaves in _PARTS.items() if leaf in leaves), "")
        for fused_leaf, layout in _FUSED.items():
            if part not in layout.parts:
                continue
            for stored in self._beside(parent, [fused_leaf]):
                if why := _not_comparable(self._infos[stored]):
                    yield StoredWeight(f"{stored}[{part}]", None, why)
                    continue
                weight = self._part_of(stored, part, self._layout(fused_leaf, layout), shape)
                if weight is not None:
                    yield weight

    def _part_of(self, stored: str, part: str, layout: Fused, shape: tuple[int, ...]) -> StoredWeight | None:
        values, part_name = self._reader.read(stored), f"{stored}[{part}]"
        n_in = shape[1] if shape[1] in values.shape else shape[0]
        if n_in not in values.shape or values.ndim != 2:
            return None
        rows = values if values.shape[1] == n_in else values.T
        index = part_rows(layout, rows.shape, self._heads)
        if index is None:
            why = "its rows in the fused matrix are not known; config.json states the numbers of heads"
            return StoredWeight(part_name, None, why)
        taken = rows[index[part]]
        if sorted(taken.shape) != sorted(shape):
            return None
        return StoredWeight(part_name, taken if taken.shape == shape else taken.T)

    def _of_parts(self, parent: str, leaf: str, shape: tuple[int, ...]) -> StoredWeight | None:
        """Return the parts that are stored by themselves in the order of the fused matrix."""
        if leaf not in _FUSED:
            return None
        layout = self._layout(leaf, _FUSED[leaf])
        stored = [self._beside(parent, _PARTS[part]) for part in layout.parts]
        if not all(stored):
            return None
        names = [some[0] for some in stored]
        label = f"{names[0]} and {len(names) - 1} more"
        if why := next(filter(None, (_not_comparable(self._infos[name]) for name in names)), ""):
            return StoredWeight(label, None, why)
        pieces = dict(zip(layout.parts, map(self._reader.read, names), strict=True))
        if len({piece.shape[1] for piece in pieces.values()}) > 1:
            return None
        stacked = np.concatenate(list(pieces.values()))
        if sorted(stacked.shape) != sorted(shape):
            return None
        index = part_rows(layout, stacked.shape, self._heads)
        if index is not None and all(len(stacked[index[part]]) == len(pieces[part]) for part in pieces):
            for part, piece in pieces.items():
                stacked[index[part]] = piece
        return StoredWeight(label, stacked if stacked.shape == shape else stacked.T)

    def _of_stack(self, name: str) -> StoredWeight | None:
        """Return that a module holds the parameters of several experts, which one product may change."""
        module = _plain(name).removesuffix(".weight").removesuffix(".base_layer")
        inside = (stored for plain, stored in self._plain.items() if plain.startswith(f"{module}."))
        stored = next((name for name in inside if len(self._infos[name].shape) == 3), None)
        return None if stored is None else StoredWeight(stored, None, "a change of a stack of experts")

    def _beside(self, parent: str, leaves: Sequence[str]) -> list[str]:
        """Return the stored matrices of a module with one of some last names."""
        above, _, last = parent.rpartition(".")
        others = [other for other in _ATTENTION if last in _ATTENTION and other != last]
        parents = [parent, *(f"{above}.{other}" if above else other for other in others)]
        names = (f"{module}.{leaf}.weight" for module in parents for leaf in leaves)
        names_found = (self._plain.get(name) for name in names)
        return [name for name in names_found if name is not None and len(self._infos[name].shape) == 2]

    def _layout(self, leaf: str, layout: Fused) -> Fused:
        """Return the order of a fused matrix; that of query_key_value depends on the model."""
        if leaf != "query_key_value":
            return layout
        if self._config.get("model_type") in ("chatglm", "glm"):
            return QKV
        return QKV_HEADS if self._heads.groups == self._heads.queries else layout


def base_weights(reader: Reader, series: Series, checkpoint: Checkpoint) -> BaseWeights:
    """Return the weights of an open checkpoint, with its model's configuration."""
    return BaseWeights(reader, series.config(checkpoint.run) or reader.facts().config)


def in_base(name: str) -> str:
    """Return the name that PEFT's name of a matrix has in the base.

    >>> in_base("base_model.model.layers.0.fc.weight")
    'layers.0.fc.weight'
    """
    return name.removeprefix(PEFT).removeprefix(_MODEL)


def _plain(name: str) -> str:
    return strip(in_base(name))


def _not_comparable(info: TensorInfo) -> str:
    """Return why a tensor has no numbers to compare a change with; "" if it has."""
    if info.skip:
        return info.skip
    return "it is stored as whole numbers, without scales" if info.dtype.kind in "biu" else ""


def _heads(config: Mapping[str, Any]) -> Heads:
    """Return the attention's shape; Falcon has keys and values of one head, or groups, by a setting."""
    heads = heads_of(config)
    if config.get("model_type") not in ("falcon", "RefinedWeb", "RefinedWebModel"):
        return heads
    groups = config.get("num_kv_heads")
    if config.get("new_decoder_architecture") and isinstance(groups, int):
        return Heads(heads.queries, groups, heads.width)
    return Heads(heads.queries, 1 if config.get("multi_query", True) else heads.queries, heads.width)
