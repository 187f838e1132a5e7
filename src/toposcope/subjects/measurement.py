"""What a subject's measurement is made from, and what it makes: checkpoints, probes and a recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from toposcope.sources.series import Series
    from toposcope.subjects.base import Probe
    from toposcope.subjects.representations.saved_states import SavedStates
    from toposcope.subjects.text_request import TextRequest


class Opening(Protocol):
    """Opens the series, with fused matrices split as named; it is called after all arguments were checked."""

    def __call__(self, *, split: str = "table") -> Series:
        """Return the series."""


@dataclass(frozen=True, slots=True)
class MeasureCall:
    """One call of `measure` for one subject: its names of features, settings, texts and store.

    `options` replace those of the `preset`; None for these.

    `saved` are the states that are measured instead of a series; `fresh` says that the store is new, so that
    the series is checked before the first measurement.
    """

    find: Opening
    features: Sequence[str]
    options: Any
    request: TextRequest
    store: Path
    preset: str = "default"
    fresh: bool = False
    saved: SavedStates | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a sweep takes: checkpoints, probes, and the recipe that the store states."""

    series: Any
    probes: Sequence[Probe]
    recipe: Mapping[str, object]
