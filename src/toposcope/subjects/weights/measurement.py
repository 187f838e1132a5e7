"""Measurements of weights, and of what the optimiser keeps beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from toposcope.subjects.measurement import MeasureCall, Opening, Prepared
from toposcope.subjects.optimizer.kept import has_moments
from toposcope.subjects.registry import beside_weights, weight_probes
from toposcope.subjects.unused import refuse_unused
from toposcope.subjects.weights.subject import SUBJECT

if TYPE_CHECKING:
    from toposcope.sources import Series
    from toposcope.subjects.base import Probe
    from toposcope.subjects.text_request import TextRequest
    from toposcope.subjects.weights.options import WeightOptions


def measured(call: MeasureCall) -> Prepared:
    """Return the measurement of a call of `measure`."""
    weight_probes(call.features, SUBJECT.settings())  # an unknown name, before settings that do not fit
    return of_weights(call.find, call.features, SUBJECT.settings(call.options, call.preset), call.request)


def of_weights(
    find: Opening, features: Sequence[str], options: WeightOptions, request: TextRequest
) -> Prepared:
    """Return the measurement of a series' weights; `find` is called last, after all arguments were checked.

    Raises
    ------
    InputError
        When a feature is unknown, or the request has what is not used.
    """
    refuse_unused(SUBJECT, features, request)
    probes = weight_probes(features, options) if features else []
    series = find(split=options.split)
    return Prepared(series, [*probes, *_beside(series, features)], options.recipe())


def _beside(series: Series, features: Sequence[str]) -> list[Probe]:
    """Return the cheap probes of the optimiser's state, if a checkpoint keeps one."""
    beside = beside_weights(features)
    # trainers delete older states, so the last two tell; one alone is no series, as of `toposcope train`
    last = [series.of_run(run)[-2:] for run in series.names if series.of_run(run)] if beside else []
    return beside if any(all(has_moments(series.place(place)) for place in two) for two in last) else []
