"""Measurements: their checkpoints, probes and recipes, and the sweep that makes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.api.checkpoints import opened
from toposcope.api.measurement import Measurement, StorePlace
from toposcope.core.errors import InputError
from toposcope.core.types import About
from toposcope.core.wording import option
from toposcope.subjects.roster import measurable, subject_of

if TYPE_CHECKING:
    from toposcope.api.checkpoints import Where
    from toposcope.api.representations import TextRequest
    from toposcope.sources import Series
    from toposcope.store import Store
    from toposcope.subjects.base import Probe
    from toposcope.subjects.landscape.options import LandscapeOptions
    from toposcope.subjects.representations.options import RepresentationOptions
    from toposcope.subjects.representations.saved_states import SavedStates
    from toposcope.subjects.subject import Subject
    from toposcope.subjects.weights.options import WeightOptions
    from toposcope.sweep import Execution


def of_weights(
    series: Series, probes: Sequence[Probe], options: WeightOptions, *, gradients: bool, texts: str | None
) -> Measurement:
    """Return the measurement of a series' weights, or of the loss gradients on a fixed batch instead.

    Raises
    ------
    InputError
        When gradients are wanted and no checkpoint brings a batch.
    """
    if not gradients:
        return Measurement(series, probes, options.recipe())
    from toposcope.models import load_texts
    from toposcope.subjects.gradients.probe import (
        GradientBatch,
        gradient_probes,
        gradient_series,
        has_own_batch,
    )

    if texts is None and not any(has_own_batch(checkpoint) for checkpoint in series):
        raise InputError(
            "only run folders contain a batch", argument="gradients", remedy=f"give {option('texts')} FILE"
        )
    batch = GradientBatch(texts=None if texts is None else load_texts(texts))
    return Measurement(gradient_series(series, batch), gradient_probes(list(probes)), options.recipe())


def of_subject(subject: Subject, series: Series, request: object) -> Measurement:
    """Return the measurement of a subject whose request makes its probes.

    Raises
    ------
    InputError
        When the subject has no such request.
    """
    probes = subject.probes(request)
    return Measurement(series, probes, {"probe": subject.name, **dataclasses.asdict(request)})  # type: ignore[call-overload]


def _brought(names: Sequence[str]) -> Subject | None:
    """Return the subject of an installed package that `names` choose; it is measured alone."""
    brought = measurable()
    found = [brought[name] for name in names if name in brought]
    if found and len(names) > 1:
        raise InputError(
            f"{found[0].name} cannot be combined with other features",
            argument="features",
            value=",".join(names),
            remedy="name only it",
        )
    return found[0] if found else None


def measure(
    series: Where | SavedStates,
    store: str | Path,
    *,
    features: str | Sequence[str | Probe] = "cheap",
    preset: str = "default",
    texts: str | Path | TextRequest | None = None,
    limit: int | None = None,
    options: WeightOptions | RepresentationOptions | LandscapeOptions | object | None = None,
    tokenizer: str | Path | None = None,
    recipe: str | None = None,
    device: str = "cpu",
    steps: str | None = None,
    execution: Execution | None = None,
    jobs: int = 1,
    diagrams: bool | None = None,
    quiet: bool = True,
) -> Store:
    """Measure every checkpoint into a store: weights, gradients, representations or the loss surface.

    Measurements that the store already has are not repeated. So an interrupted call continues when it is
    repeated.

    Parameters
    ----------
    series
        A `Series`, anything that `open_series` opens, or `SavedStates`.
    store
        The store's folder. It is created if it does not exist.
    features
        "cheap", "all", names of weight probes separated by commas, or a list of names and of your own probes.
        With "gradients" among them the gradients are measured instead of the weights. "representations": how
        each checkpoint represents `texts`; "sensitivity": also with other settings; "landscape": the
        loss surface, or name its probes (sharpness, curvature, surface, paths, retrain). Or the name of a
        subject that an installed package brings.
    preset
        "default", or a paper's conventions: "seed004" for weights, "seed003" for representations.
    texts
        A file with one text on each line, or what `load_texts` takes. Representations need it. For
        gradients and the loss surface, run folders use their held-out texts by default. A `TextRequest` has
        more options: the part of a data set, the least length, labelled texts, the folder of saved states.
    limit
        How many texts form the cloud of representations; 200 by default.
    options
        Settings that replace the preset: `WeightOptions`, `RepresentationOptions`, `LandscapeOptions`, or the
        request of another subject.
    tokenizer
        A tokenizer's folder, for models that have none.
    recipe
        Recipe that defines the architecture, for files that contain only weights: a name or a TOML file.
    device
        "cpu" or "cuda", for representations and the loss surface.
    steps
        Steps to read, if `series` is opened here: log, first, last, A:B:EVERY, or a list.
    execution
        Replaces `jobs`, `diagrams` and `quiet`: a shard, a Ray cluster, no audit.
    jobs
        Number of processes.
    diagrams
        Also store the persistence diagrams; by default only those of representations, which figures need.
    quiet
        Show no progress.

    Returns
    -------
    Store
        Its `features()` has a row for each measured number. `analyze` interprets them.

    Raises
    ------
    InputError
        When nothing could be measured, a feature is unknown, the store was made with other settings, or an
        argument does not apply to the features.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import toposcope as ts
    >>> weights = {step: {"fc.weight": np.vander(range(1, 5)) * (1.0 + step)} for step in (0, 10)}
    >>> store = ts.measure(weights, tempfile.mkdtemp(), features="baselines")
    >>> print(str(store).splitlines()[0])
    2 checkpoints of 1 run measured by baselines
    >>> store = ts.measure("runs/", "store", features="rips,baselines", jobs=2)        # doctest: +SKIP
    >>> store = ts.measure("runs/", "states", features="representations", texts="texts.txt")  # doctest: +SKIP
    >>> from toposcope.api import TextRequest
    >>> from toposcope.sweep import Execution, Shard
    >>> short = TextRequest(texts="texts.txt", min_chars=20)
    >>> half = Execution(jobs=2, shard=Shard.parse("1/2"))
    >>> ts.measure("runs/", "half", features="all", execution=half)                    # doctest: +SKIP
    """
    from toposcope.api.landscapes import of_landscape
    from toposcope.api.refusals import kind_of, refuse_meaningless
    from toposcope.api.representations import OURS, TextRequest, of_representations, of_saved_states
    from toposcope.store import Store
    from toposcope.subjects.representations.saved_states import SavedStates
    from toposcope.sweep import Execution

    requested = features.split(",") if isinstance(features, str) else list(features)
    names = [one.strip() for one in requested if isinstance(one, str)]
    own = [one for one in requested if not isinstance(one, str)]
    brought = None if isinstance(series, SavedStates) else _brought(names)
    kind = brought.name if brought else kind_of(names, saved_states=isinstance(series, SavedStates))
    refuse_meaningless(kind, ",".join(names) or "your own", {
        "texts": texts, "limit": limit, "tokenizer": tokenizer, "recipe": recipe, "steps": steps,
        "device": None if device == "cpu" else device, "preset": None if preset == "default" else preset,
    })  # fmt: skip
    _refuse_doubled(options, preset, execution, jobs, diagrams, quiet=quiet)
    wanted = _requested(texts, tuple(names), limit, recipe, device, tokenizer)
    if isinstance(series, SavedStates):
        found = of_saved_states(series, _settings(options, About.REPRESENTATIONS, preset), wanted)
    elif brought is not None:
        assert brought.request is not None
        found = of_subject(brought, opened(series, steps=steps), options or brought.request())
    elif kind == About.LANDSCAPE:
        surface = _settings(options, About.LANDSCAPE)
        # every text counts: a loss needs no hundred characters
        every = wanted if isinstance(texts, TextRequest) else replace(wanted, min_chars=1)
        found, _ = of_landscape(lambda: opened(series, steps=steps), surface, every, Path(store))
    elif kind == About.REPRESENTATIONS:
        found = of_representations(
            lambda: opened(series, steps=steps), _settings(options, About.REPRESENTATIONS, preset), wanted,
            look=StorePlace.of(Path(store)).fresh,
        )  # fmt: skip
    else:
        _refuse_unknown(names)
        weights = _settings(options, About.WEIGHTS, preset)
        found = _of_names(series, names, wanted.texts, weights, steps)
    keep_diagrams = bool({*names} & {*OURS}) if diagrams is None else diagrams
    execution = execution or Execution(jobs=jobs, keep_diagrams=keep_diagrams, quiet=quiet)
    Measurement(found.series, [*found.probes, *own], found.recipe).carry_out(store, execution=execution)
    return Store.open(store)


def _refuse_doubled(
    options: object,
    preset: str,
    execution: Execution | None,
    jobs: int,
    diagrams: bool | None,
    *,
    quiet: bool,
) -> None:
    """Raise InputError for an argument that `settings` or the `Execution` has, too."""
    from toposcope.api.refusals import refuse_both

    if options is not None and preset != "default":
        refuse_both("preset", preset, "options")
    beside = {"jobs": None if jobs == 1 else jobs, "diagrams": diagrams, "quiet": None if quiet else quiet}
    if execution is not None and (twice := [name for name, value in beside.items() if value is not None]):
        refuse_both(twice[0], beside[twice[0]], "execution")


def _requested(
    texts: str | Path | TextRequest | None,
    features: tuple[str, ...],
    limit: int | None,
    recipe: str | None,
    device: str,
    tokenizer: str | Path | None,
) -> TextRequest:
    """Return the request for texts; an argument given together with a `TextRequest` takes precedence."""
    from toposcope.api.representations import TextRequest

    given = texts if isinstance(texts, TextRequest) else TextRequest(texts=str(texts) if texts else None)
    return replace(
        given, features=features, limit=limit or given.limit, recipe=recipe or given.recipe,
        device=given.device if device == "cpu" else device,
        tokenizer=given.tokenizer if tokenizer is None else Path(tokenizer),
    )  # fmt: skip


def _of_names(
    series: Where, names: list[str], texts: str | None, options: WeightOptions, steps: str | None
) -> Measurement:
    """Return the measurement of weights, or of gradients, by the names of their probes."""
    from toposcope.subjects.registry import weight_probes

    gradients = "gradients" in names
    chosen = [name for name in names if name != "gradients"]
    if gradients and not chosen:
        chosen = ["cheap"]
    probes = weight_probes(chosen, options) if chosen else []
    found = opened(series, split=options.split, steps=steps)
    return of_weights(found, probes, options, gradients=gradients, texts=texts)


def _refuse_unknown(names: list[str]) -> None:
    """Raise InputError for a name that no probe has, before its settings are found not to fit."""
    from toposcope.subjects.registry import weight_probes
    from toposcope.subjects.weights.options import WeightOptions

    weight_probes([name for name in names if name != "gradients"], WeightOptions())


def _settings(given: object, kind: About, preset: str = "default"):  # type: ignore[no-untyped-def]
    """Return the settings of a kind of measurement: those given, else the preset's."""
    from toposcope.papers import representation_presets, weight_presets
    from toposcope.subjects.landscape.options import LandscapeOptions

    needed = subject_of(kind).request
    assert needed is not None
    if given is None:
        if kind == About.WEIGHTS:
            return weight_presets.preset(preset)
        return (
            representation_presets.preset(preset, {}) if kind == About.REPRESENTATIONS else LandscapeOptions()
        )
    if not isinstance(given, needed):
        raise InputError(f"options is a {type(given).__name__}; these features need {needed.__name__}")
    return given
