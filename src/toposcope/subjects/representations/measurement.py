"""Measurements of representations: from texts through models, or from saved states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from toposcope.core.device import require_device
from toposcope.core.errors import InputError
from toposcope.core.wording import option
from toposcope.subjects.measurement import MeasureCall, Prepared
from toposcope.subjects.representations.features import SENSITIVITY
from toposcope.subjects.representations.subject import SUBJECT
from toposcope.subjects.unused import refuse_unused

if TYPE_CHECKING:
    from toposcope.models.loading import ModelLoader
    from toposcope.sources.series import Series
    from toposcope.subjects.base import Probe
    from toposcope.subjects.representations.options import RepresentationOptions
    from toposcope.subjects.representations.probes.sensitivity import SensitivityOptions
    from toposcope.subjects.representations.saved_states import SavedStates
    from toposcope.subjects.representations.study import RepresentationStudy
    from toposcope.subjects.text_request import TextRequest


def measured(call: MeasureCall) -> Prepared:
    """Return the measurement of a call of `measure`: of texts, or of saved states."""
    options = SUBJECT.settings(call.options, call.preset)
    if call.saved is not None:
        return of_saved_states(call.saved, options, call.request)
    return of_representations(call.find, options, call.request, look=call.fresh)


def of_representations(
    find: Callable[[], Series], options: RepresentationOptions, request: TextRequest, *, look: bool
) -> Prepared:
    """Return the measurement of how every checkpoint represents texts; with `look`, models are checked first.

    `find` opens the series. It is called last, after all arguments were checked.

    Raises
    ------
    InputError
        When no texts are given, a device or a feature is unknown, or no checkpoint is a model.
    """
    from toposcope.models.loading import ModelLoader
    from toposcope.subjects.representations.probes.linear_probe import load_labelled
    from toposcope.subjects.representations.saved_states import save_runs
    from toposcope.subjects.representations.study import study_of_texts

    refuse_unused(SUBJECT, request.features, request)
    if request.texts is None:
        raise InputError(
            f"representations need texts; give {option('texts')} FILE with one text on each line"
        )
    further = _further(request.features)
    require_device(request.device)
    loader = ModelLoader(tokenizer=request.tokenizer, device=request.device, half=options.half)
    study = study_of_texts(
        options, request.texts, loader, limit=200 if request.limit is None else request.limit,
        min_chars=100 if request.min_chars is None else request.min_chars, split=request.part,
        labelled=None if request.labelled is None else load_labelled(request.labelled),
        keep=request.save_states, grid=_grid(request),
    )  # fmt: skip
    series = find()
    if look and (request.save_states is None or not request.save_states.exists()):
        _check_models(series, loader, options.layers)
    if request.save_states is not None:
        save_runs(request.save_states, series.runs)
    return Prepared(series, [*_wanted(study, request), *further], study.recipe())


def of_saved_states(series: SavedStates, options: RepresentationOptions, request: TextRequest) -> Prepared:
    """Return the measurement of saved states, which needs no model.

    Raises
    ------
    InputError
        When `limit` exceeds the number of saved texts, a feature is unknown, or an option needs a model.
    """
    from toposcope.subjects.representations.study import study_of_saved_states

    refuse_unused(SUBJECT, request.features, request, saved=True)
    further = _further(request.features)
    _check_saved(series, request.limit)
    study = study_of_saved_states(options, series, limit=request.limit, grid=_grid(request))
    return Prepared(series, [*_wanted(study, request), *further], study.recipe())


def _grid(request: TextRequest) -> SensitivityOptions | None:
    if request.grid is not None or SENSITIVITY not in request.features:
        return request.grid
    from toposcope.subjects.representations.probes.sensitivity import SensitivityOptions

    return SensitivityOptions()


def _wanted(study: RepresentationStudy, request: TextRequest) -> list[Probe]:
    names = {*request.features, SENSITIVITY}
    return [probe for probe in study.probes() if probe.name in names]


def _further(features: Sequence[str]) -> list[Probe]:
    """Return the probes that come from elsewhere."""
    from toposcope.subjects.registry import further_probes

    ours = SUBJECT.features
    return further_probes([name for name in features if name not in ours], known=ours)


def _check_saved(saved: SavedStates, limit: int | None) -> None:
    """Refuse to take more texts than were saved at every checkpoint."""
    from toposcope.subjects.representations.saved_states import read_states

    if limit is None:
        return
    states = read_states(saved.folder, next(iter(saved)))
    few = min(len(values) for values in states.values())
    if limit > few:
        raise InputError(
            f"{saved.folder} contains only {few:,} texts",
            argument="limit",
            value=limit,
            remedy="give a smaller number",
        )


def _check_models(series: Series, loader: ModelLoader, layers: str) -> None:
    """Refuse a series of which no checkpoint is a model with these layers and a tokenizer.

    One usable checkpoint suffices; the sweep lists the others. Weights are not read, and models of the hub
    are left to the sweep, since looking at them fetches them.
    """
    from toposcope.subjects.representations.forward import resolve_layers

    refusals = []
    for checkpoint in series:
        try:
            n_layers = loader.n_layers(checkpoint)
            if n_layers is not None:
                resolve_layers(layers, n_layers)
            return
        except InputError as error:
            refusals.append(error)
    if refusals:
        raise refusals[0]
