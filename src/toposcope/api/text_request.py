"""The request for texts, and the refusal of what means nothing for what is measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.core.errors import InputError
from toposcope.core.wording import option
from toposcope.subjects.representations.features import REPRESENTATIONS
from toposcope.subjects.request import check_counts, make_tuples

if TYPE_CHECKING:
    from toposcope.subjects.representations.probes.sensitivity import SensitivityOptions

WEIGHTS, GRADIENTS, LANDSCAPE = "weights", "gradients", "landscape"
SAVED_STATES = "saved states"
NO_MODEL = f"{SAVED_STATES} do not use it: they open no model"
"""Why a measurement of saved states refuses an option."""
BUILT_IN = (WEIGHTS, GRADIENTS, REPRESENTATIONS, LANDSCAPE, SAVED_STATES)
"""What `measure` measures without a further subject; of another subject it takes `steps`, and its request."""
_USED_BY = "used_by"


def _used_by(*kinds: str) -> dict[str, tuple[str, ...]]:
    """Return the metadata of a field: the kinds of measurement that use it."""
    return {_USED_BY: kinds}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRequest:
    """The texts that a measurement reads, and how it reads them.

    `texts` is what `load_texts` takes; the first `limit` of at least `min_chars` characters count. `labelled`
    is a file for a linear probe, `grid` has the settings that the sensitivity compares, and `save_states` is
    the folder for saved states. `recipe` is a recipe's name or its TOML file; it defines the architecture for
    files that contain only weights.

    None stands for the default: 200 texts of at least 100 characters of the part "validation". For the loss
    surface every text counts, because a loss needs no hundred characters.

    Raises
    ------
    InputError
        When `limit` or `min_chars` is too small.
    """

    texts: str | None = field(default=None, metadata=_used_by(GRADIENTS, REPRESENTATIONS, LANDSCAPE))
    limit: int | None = field(default=None, metadata=_used_by(REPRESENTATIONS, SAVED_STATES))
    min_chars: int | None = field(default=None, metadata=_used_by(REPRESENTATIONS, LANDSCAPE))
    split: str | None = field(default=None, metadata=_used_by(REPRESENTATIONS, LANDSCAPE))
    features: tuple[str, ...] = (REPRESENTATIONS,)
    labelled: Path | None = field(default=None, metadata=_used_by(REPRESENTATIONS))
    grid: SensitivityOptions | None = field(default=None, metadata=_used_by(REPRESENTATIONS, SAVED_STATES))
    save_states: Path | None = field(default=None, metadata=_used_by(REPRESENTATIONS))
    tokenizer: Path | None = field(default=None, metadata=_used_by(REPRESENTATIONS, LANDSCAPE))
    device: str = field(default="cpu", metadata=_used_by(REPRESENTATIONS, LANDSCAPE))
    recipe: str | None = field(default=None, metadata=_used_by(LANDSCAPE))

    def __post_init__(self) -> None:
        """Refuse numbers of texts that cannot be read."""
        make_tuples(self)
        least = {"limit": 1, "min_chars": 0}
        check_counts(self, {name: of for name, of in least.items() if getattr(self, name) is not None})

    @property
    def part(self) -> str:
        """The part of a data set that is read."""
        return "validation" if self.split is None else self.split

    def given(self) -> dict[str, object]:
        """Return the fields that differ from their defaults, without the features."""
        values = {name: getattr(self, name) for name in _FIELDS}
        return {name: value for name, value in values.items() if value != _FIELDS[name].default}


_FIELDS = {one.name: one for one in dataclasses.fields(TextRequest) if _USED_BY in one.metadata}
USED_BY: Mapping[str, tuple[str, ...]] = {
    **{name: one.metadata[_USED_BY] for name, one in _FIELDS.items()},
    "preset": (WEIGHTS, GRADIENTS, REPRESENTATIONS, SAVED_STATES),
    "steps": (WEIGHTS, GRADIENTS, REPRESENTATIONS, LANDSCAPE),
}
"""For each field of `TextRequest` and each further argument of `measure`, the kinds that use it."""


def refuse_unused(kind: str, features: Sequence[str], request: TextRequest, **more: object) -> None:
    """Refuse the first part of a request, or argument in `more`, that this kind of measurement does not use.

    Raises
    ------
    InputError
        Naming it, and the kinds that it is for.
    """
    given = request.given() | {name: value for name, value in more.items() if value is not None}
    for name, value in given.items():
        if kind in USED_BY[name] or (name == "steps" and kind not in BUILT_IN):
            continue
        raise InputError(
            NO_MODEL
            if kind == SAVED_STATES
            else f"{option('features')} {','.join(features) or 'your own'!r} do not use it; it is for "
            f"{', '.join(USED_BY[name])}",
            argument=name,
            value=value if isinstance(value, int) else str(value),
            remedy="leave it out",
        )
    for name in ("min_chars", "split"):
        if name in given and request.texts is None:
            raise InputError(
                "it selects texts, and none are given",
                argument=name,
                value=given[name],
                remedy=f"give {option('texts')}, or leave it out",
            )
