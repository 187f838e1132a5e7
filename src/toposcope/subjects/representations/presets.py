"""The papers' own conventions for measuring representations, under the names that `--preset` takes."""

from __future__ import annotations

from dataclasses import replace

from toposcope.core.errors import InputError
from toposcope.subjects.representations.options import RepresentationOptions

PRESETS = {
    "default": RepresentationOptions(),
    "seed003": RepresentationOptions(preset="seed003", half=True, dimension=False),
}
"""`seed003`: 200 texts of at least 100 characters, last layer, mean over 128 tokens, PCA to 50, H0 and H1 of
all points, perplexity of the first 100 texts at 256 tokens, half precision if the device supports it. Rows
that the report does not have are added: the Gaussian nulls, and every summary of `toposcope.topology`."""


def preset(name: str, **changes: object) -> RepresentationOptions:
    """Return a preset with some settings changed; None leaves a setting as it is.

    >>> preset("default", layers="all", draws=None).layers
    'all'
    """
    if name not in PRESETS:
        raise InputError("unknown", argument="preset", value=name, remedy=f"use one of {', '.join(PRESETS)}")
    given = {key: value for key, value in changes.items() if value is not None}
    return replace(PRESETS[name], **given)  # type: ignore[arg-type]
