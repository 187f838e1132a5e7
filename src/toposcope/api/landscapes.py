"""Measurements of the loss surface around every checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.api.measuring import Measurement
from toposcope.api.representations import check_device

if TYPE_CHECKING:
    from toposcope.api.representations import TextsAsked
    from toposcope.sources import Series
    from toposcope.subjects.landscape.options import LandscapeOptions


def of_landscape(
    find: Callable[[], Series], options: LandscapeOptions, asked: TextsAsked, store: Path
) -> tuple[Measurement, str]:
    """Return the measurement of the loss surface into `store`, and in words what it does and costs.

    `find` opens the series, which is done last: what is asked for can be wrong whatever the series holds.

    Raises
    ------
    InputError
        When a feature, a recipe or the device is unknown, there are too few texts, or it costs too much.
    """
    from toposcope.models.loading import ModelLoader
    from toposcope.recipes import load_training_recipe
    from toposcope.subjects.landscape.study import study_of_texts

    check_device(asked.device)
    recipe = None if asked.recipe is None else load_training_recipe(asked.recipe)
    study = study_of_texts(
        options, asked.texts, store, features=asked.features, min_chars=asked.min_chars, split=asked.split,
        loader=ModelLoader(tokenizer=asked.tokenizer, device=asked.device, recipe=recipe),
    )  # fmt: skip
    series = find()
    study = study.of(series)
    words = study.announcement(series)
    return Measurement(series, study.probes(), study.recipe()), words
