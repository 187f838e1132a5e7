"""The papers' own conventions for measuring weights, under the names that `--preset` takes."""

from __future__ import annotations

from dataclasses import replace

from toposcope.core.errors import InputError
from toposcope.core.types import Normalization
from toposcope.subjects.weights.options import WeightOptions

PRESETS = {
    "default": WeightOptions(),
    "seed004": WeightOptions(
        preset="seed004",
        points=200,
        draws=20,
        nulls=0,
        confounds=False,
        thresh=2.0,
        conventions=(Normalization.MATRIX,),
        clouds=("pooled",),
        without=("ln", "emb"),
        split="whole",
    ),
}
"""`seed004`: the settings of the weight-space paper; it drew each cloud once, here it is drawn 20 times."""


def preset(name: str, **changes: object) -> WeightOptions:
    """Return a preset with some settings changed; None leaves a setting as it is.

    >>> preset("default", draws=1).draws
    1
    """
    if name not in PRESETS:
        raise InputError("unknown", argument="preset", value=name, remedy=f"use one of {', '.join(PRESETS)}")
    return replace(PRESETS[name], **{key: value for key, value in changes.items() if value is not None})  # type: ignore[arg-type]
