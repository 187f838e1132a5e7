"""The request for texts: which a measurement reads, and how."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.core.types import About
from toposcope.subjects.request import check_counts, make_tuples

if TYPE_CHECKING:
    from toposcope.subjects.representations.probes.sensitivity import SensitivityOptions


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

    texts: str | None = None
    limit: int | None = None
    min_chars: int | None = None
    split: str | None = None
    features: tuple[str, ...] = (About.REPRESENTATIONS,)
    labelled: Path | None = None
    grid: SensitivityOptions | None = None
    save_states: Path | None = None
    tokenizer: Path | None = None
    device: str = "cpu"
    recipe: str | None = None

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


_FIELDS = {field.name: field for field in dataclasses.fields(TextRequest) if field.name != "features"}
