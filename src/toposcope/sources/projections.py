"""What a matrix is in its block, by the tables of names: value, output, up, down, the tokens' embedding."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from toposcope.sources.names import FAMILIES, Fused, place

_PIECE = re.compile(r"\[(?P<part>[a-z]+)( \d+)?\]$")
"""What `stream_matrices` puts behind the name of a piece of a tensor."""


@dataclass(frozen=True, slots=True)
class Projection:
    """The part that a matrix is of its block (see `NameRule.part`), or its parts if it is fused and whole.

    `expert` is None outside mixtures.
    """

    part: str
    fused: Fused | None
    layer: int | None
    expert: int | None


@lru_cache(maxsize=1 << 16)
def projection_of(name: str) -> Projection | None:
    """Return what a matrix is by its name, in the first table that knows it; None if none does.

    A name has the same part in every table that has it, so no other name of the checkpoint is needed.

    >>> projection_of("model.layers.2.mlp.down_proj.weight").part
    'down'
    >>> projection_of("transformer.h.0.attn.c_attn.weight[v]").part
    'v'
    """
    piece = _PIECE.search(name)
    stem = name[: piece.start()] if piece else name
    for family in FAMILIES:
        projection_place = place(family, stem)
        if (rule := projection_place.rule) is not None:
            of_piece = piece["part"] if piece and piece["part"] != "head" else ""
            fused = None if piece else rule.fused
            return Projection(of_piece or rule.part, fused, projection_place.layer, projection_place.expert)
    return None
