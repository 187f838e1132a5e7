"""Measurements of the loss gradients on a fixed batch, with the probes of weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from toposcope.core.errors import InputError
from toposcope.core.wording import option
from toposcope.subjects.gradients.subject import SUBJECT
from toposcope.subjects.measurement import MeasureCall, Opening, Prepared
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.unused import refuse_unused

if TYPE_CHECKING:
    from toposcope.subjects.text_request import TextRequest
    from toposcope.subjects.weights.options import WeightOptions


def measured(call: MeasureCall) -> Prepared:
    """Return the measurement of a call of `measure`; "gradients" alone stands for the cheap probes."""
    names = [name for name in call.features if name != SUBJECT.name]
    weight_probes(names, SUBJECT.settings())  # an unknown name, before settings that do not fit
    options = SUBJECT.settings(call.options, call.preset)
    return of_gradients(call.find, names or ["cheap"], options, call.request)


def of_gradients(
    find: Opening, features: Sequence[str], options: WeightOptions, request: TextRequest
) -> Prepared:
    """Return the measurement of the gradients; `find` is called last, after all arguments were checked.

    Raises
    ------
    InputError
        When a feature is unknown, the request has what is not used, or no checkpoint brings a batch.
    """
    refuse_unused(SUBJECT, features, request)
    probes = weight_probes(features, options) if features else []
    from toposcope.models import load_texts
    from toposcope.subjects.gradients.probe import (
        GradientBatch,
        gradient_probes,
        gradient_series,
        has_own_batch,
    )

    series = find(split=options.split)
    if request.texts is None and not any(has_own_batch(checkpoint) for checkpoint in series):
        raise InputError(
            "these checkpoints have neither saved gradients nor held-out texts",
            argument="gradients",
            remedy=f"give {option('texts')} FILE",
        )
    batch = GradientBatch(texts=None if request.texts is None else load_texts(request.texts))
    return Prepared(gradient_series(series, batch), gradient_probes(probes), options.recipe())
