"""A measurement of representations: its texts, its probes, and the recipe that describes both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from toposcope.core.errors import InputError
from toposcope.models.loading import ModelLoader
from toposcope.models.texts import load_texts
from toposcope.subjects.base import Probe
from toposcope.subjects.representations.features import SENSITIVITY
from toposcope.subjects.representations.options import RepresentationOptions
from toposcope.subjects.representations.probes.linear_probe import LabelledTexts
from toposcope.subjects.representations.probes.probe import Representations
from toposcope.subjects.representations.probes.sensitivity import Sensitivity, SensitivityOptions
from toposcope.subjects.representations.saved_states import SavedStates, check_reading
from toposcope.subjects.representations.source import StateSource


@dataclass(frozen=True)
class RepresentationStudy:
    """What a sweep over representations measures."""

    options: RepresentationOptions
    source: StateSource
    texts_digest: str
    labelled: LabelledTexts | None = None
    grid: SensitivityOptions | None = None

    def recipe(self) -> dict[str, object]:
        """Return the settings and the texts as the store's recipe: plain JSON values."""
        labelled = self.labelled.digest if self.labelled is not None else ""
        grid = {} if self.grid is None else {SENSITIVITY: asdict(self.grid)}
        return self.options.recipe(self.texts_digest, labelled) | grid

    def probes(self) -> list[Probe]:
        """Return the probes; they share one pass over each checkpoint."""
        chosen_probes: list[Probe] = [Representations(self.options, self.source, self.labelled)]
        if self.grid is not None:
            chosen_probes.append(Sensitivity(self.options, self.source, self.grid))
        return chosen_probes


def study_of_texts(
    options: RepresentationOptions,
    texts: str,
    loader: ModelLoader,
    *,
    limit: int = 200,
    min_chars: int = 100,
    split: str = "validation",
    labelled: LabelledTexts | None = None,
    keep: Path | None = None,
    grid: SensitivityOptions | None = None,
) -> RepresentationStudy:
    """Return the study of the first `limit` texts of a source (see `load_texts`).

    With a sensitivity grid, as many texts as its largest number are read; those beyond `limit` do not enter
    the clouds of the study itself.

    Raises
    ------
    SourceError
        When `keep` holds states of other texts or of other settings.
    """
    wanted = max([limit, *(grid.texts if grid is not None else ())])
    read = load_texts(texts, limit=wanted, min_chars=min_chars, split=split)
    if wanted > limit:
        options = replace(options, cloud_texts=limit)
    if keep is not None:
        check_reading(keep, read.digest, options.pass_settings())
    return RepresentationStudy(options, StateSource(read, loader, keep), read.digest, labelled, grid)


def study_of_saved_states(
    options: RepresentationOptions,
    series: SavedStates,
    *,
    limit: int | None = None,
    grid: SensitivityOptions | None = None,
) -> RepresentationStudy:
    """Return the study of saved states, without texts or models.

    The settings of the pass are those with which the states were read. `options` sets the rest, and `layers`
    if it names saved ones; `limit` sets the number of texts.

    Raises
    ------
    InputError
        When `options` asks for attention graphs, which need the model, or for another pass.
    """
    if options.attention:
        raise InputError("saved states contain no attention; measure the series itself")
    _refuse_another_pass(options, series.facts.reading, limit)
    settings = {name: value for name, value in series.facts.reading.items() if name != "layers"}
    options = replace(options, **settings, cloud_texts=limit)
    return RepresentationStudy(
        options, StateSource(None, None, series.folder), series.facts.texts, None, grid
    )


def _refuse_another_pass(
    options: RepresentationOptions, reading: Mapping[str, Any], limit: int | None
) -> None:
    """Refuse settings that are neither the defaults nor those with which the states were read."""
    usual = RepresentationOptions()
    for name, saved in reading.items():
        given = getattr(options, name)
        of_preset = name == "half" and options.preset != usual.preset  # the preset set it
        if name != "layers" and not of_preset and given not in (saved, getattr(usual, name)):
            raise InputError(
                f"the states were saved with {saved}",
                argument=name,
                value=given,
                remedy="leave it out, or measure the series itself",
            )
    if options.cloud_texts not in (None, limit):
        raise InputError(
            "it does not work with saved states",
            argument="cloud_texts",
            value=options.cloud_texts,
            remedy="give limit instead",
        )


def parse_grid(texts: str) -> SensitivityOptions:
    """Return the sensitivity grid with the numbers of texts written as "200,800".

    >>> parse_grid("20,40").texts
    (20, 40)

    Raises
    ------
    InputError
        When a part is no number.
    """
    parts: Sequence[str] = texts.split(",")
    if not all(part.strip().isdigit() for part in parts):
        raise InputError(
            "not a list of numbers", argument="sensitivity_texts", value=texts,
            remedy="give numbers separated by commas, such as 200,800",
        )  # fmt: skip
    return SensitivityOptions(texts=tuple(sorted({int(part) for part in parts})))
