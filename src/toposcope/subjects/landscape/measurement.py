"""Measurements of the loss surface around every checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.core.device import require_device
from toposcope.core.errors import InputError
from toposcope.core.wording import option
from toposcope.subjects.landscape.subject import SUBJECT
from toposcope.subjects.measurement import MeasureCall, Prepared
from toposcope.subjects.unused import refuse_unused

if TYPE_CHECKING:
    from toposcope.sources import Series
    from toposcope.subjects.landscape.options import LandscapeOptions
    from toposcope.subjects.text_request import TextRequest


def measured(call: MeasureCall) -> Prepared:
    """Return the measurement of a call of `measure`."""
    prepared, _ = of_landscape(call.find, SUBJECT.settings(call.options), call.request, call.store)
    return prepared


def of_landscape(
    find: Callable[[], Series], options: LandscapeOptions, request: TextRequest, store: Path
) -> tuple[Prepared, str]:
    """Return the measurement of the loss surface into `store`, and a description of what it does and costs.

    `find` opens the series. It is called last, after all arguments were checked.

    Raises
    ------
    InputError
        When a feature, a recipe or the device is unknown, there are too few texts, or the measurement costs
        too much.
    """
    from toposcope.models.loading import ModelLoader, run_folder_of
    from toposcope.recipes import load_training_recipe
    from toposcope.subjects.landscape.features import RETRAIN
    from toposcope.subjects.landscape.probes.retrain import without_run
    from toposcope.subjects.landscape.study import study_of_texts

    refuse_unused(SUBJECT, request.features, request)
    require_device(request.device)
    recipe = None if request.recipe is None else load_training_recipe(request.recipe)
    study = study_of_texts(
        options, request.texts, store, features=request.features,
        min_chars=1 if request.min_chars is None else request.min_chars, split=request.part,
        loader=ModelLoader(tokenizer=request.tokenizer, device=request.device, recipe=recipe),
    )  # fmt: skip
    series = find()
    if request.texts is None and not any(run_folder_of(at) is not None for at in series):
        if RETRAIN in request.features:
            raise without_run(series.uri)
        raise InputError(
            f"only run folders contain texts; for these models give {option('texts')} FILE"
            + ("" if request.tokenizer else f", and {option('tokenizer')} FOLDER if they have none")
        )
    study = study.of(series)
    words = study.announcement(series)
    return Prepared(series, study.probes(), study.recipe()), words
