"""Measurements: their checkpoints, probes and recipes, and the sweep that makes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.api.checkpoints import opened
from toposcope.api.measurement import Measurement, StorePlace
from toposcope.api.text_request import (
    GRADIENTS,
    LANDSCAPE,
    REPRESENTATIONS,
    SAVED_STATES,
    WEIGHTS,
    TextRequest,
    refuse_unused,
)
from toposcope.core.errors import InputError
from toposcope.core.types import About
from toposcope.core.wording import option
from toposcope.subjects.roster import further_subject, subject_of

if TYPE_CHECKING:
    from toposcope.api.checkpoints import Where
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
    find: Callable[[], Series],
    features: Sequence[str],
    options: WeightOptions,
    request: TextRequest,
    *,
    gradients: bool,
) -> Measurement:
    """Return the measurement of a series' weights, or of the loss gradients on a fixed batch instead.

    `find` opens the series. It is called last, after all arguments were checked.

    Raises
    ------
    InputError
        When a feature is unknown, the request has what is not used, or gradients are wanted and no checkpoint
        brings a batch.
    """
    from toposcope.subjects.registry import weight_probes

    refuse_unused(GRADIENTS if gradients else WEIGHTS, features, request)
    probes = weight_probes(features, options) if features else []
    if not gradients:
        series = find()
        return Measurement(series, [*probes, *_beside_weights(series, features)], options.recipe())
    from toposcope.models import load_texts
    from toposcope.subjects.gradients.probe import (
        GradientBatch,
        gradient_probes,
        gradient_series,
        has_own_batch,
    )

    series = find()
    if request.texts is None and not any(has_own_batch(checkpoint) for checkpoint in series):
        raise InputError(
            "these checkpoints have neither saved gradients nor held-out texts",
            argument="gradients",
            remedy=f"give {option('texts')} FILE",
        )
    batch = GradientBatch(texts=None if request.texts is None else load_texts(request.texts))
    return Measurement(gradient_series(series, batch), gradient_probes(probes), options.recipe())


def _beside_weights(series: Series, features: Sequence[str]) -> list[Probe]:
    """Return the cheap probes of the optimiser's state, if a checkpoint keeps one."""
    from toposcope.subjects.optimizer.kept import has_moments
    from toposcope.subjects.registry import beside_weights

    beside = beside_weights(features)
    # trainers delete older states, so the last two tell; one alone is no series, as of `toposcope train`
    last = [series.of_run(run)[-2:] for run in series.names if series.of_run(run)] if beside else []
    return beside if any(all(has_moments(series.place(one)) for one in two) for two in last) else []


def of_subject(subject: Subject, find: Callable[[], Series], request: object | None) -> Measurement:
    """Return the measurement of a subject whose request makes its probes; `find` opens the series.

    Raises
    ------
    InputError
        When the subject has no such request.
    """
    probes = subject.probes(request)
    return Measurement(find(), probes, subject.recipe(request))


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
        further subject, alone.
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
    >>> weights = {step: {"fc.weight": np.vander(range(1, 5)) * (1 + step / 100)} for step in (0, 10)}
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
    from toposcope.api.representations import OURS, of_representations, of_saved_states
    from toposcope.store import Store
    from toposcope.subjects.representations.saved_states import SavedStates
    from toposcope.sweep import Execution

    names, own = _named(features)
    saved = isinstance(series, SavedStates)
    further = None if saved else further_subject(names)
    kind = further.name if further else subject_measured(names, saved_states=saved)
    wanted = _requested(
        texts, names, limit=limit, recipe=recipe, device=None if device == "cpu" else device,
        tokenizer=None if tokenizer is None else Path(tokenizer),
    )  # fmt: skip
    refuse_unused(kind, names, wanted, preset=None if preset == "default" else preset, steps=steps)
    _refuse_doubled(options, preset, execution, jobs, diagrams, quiet=quiet)
    if isinstance(series, SavedStates):
        found = of_saved_states(series, _settings(options, About.REPRESENTATIONS, preset), wanted)
    elif further is not None:
        found = of_subject(further, lambda: opened(series, steps=steps), options)
    elif kind == About.LANDSCAPE:
        surface = _settings(options, About.LANDSCAPE)
        found, _ = of_landscape(lambda: opened(series, steps=steps), surface, wanted, Path(store))
    elif kind == About.REPRESENTATIONS:
        found = of_representations(
            lambda: opened(series, steps=steps), _settings(options, About.REPRESENTATIONS, preset), wanted,
            look=StorePlace.of(Path(store)).fresh,
        )  # fmt: skip
    else:
        _refuse_unknown(names)
        weights = _settings(options, About.WEIGHTS, preset)
        found = of_weights(
            lambda: opened(series, split=weights.split, steps=steps), _probe_names(names), weights, wanted,
            gradients=kind == GRADIENTS,
        )  # fmt: skip
    keep_diagrams = bool({*names} & {*OURS}) if diagrams is None else diagrams
    execution = execution or Execution(jobs=jobs, keep_diagrams=keep_diagrams, quiet=quiet)
    Measurement(found.series, [*found.probes, *own], found.recipe).carry_out(store, execution=execution)
    return Store.open(store)


def subject_measured(names: Collection[str], *, saved_states: bool) -> str:
    """Return the subject that features of these names measure.

    >>> [str(subject_measured([name], saved_states=False)) for name in ("rips", "surface", "sensitivity")]
    ['weights', 'landscape', 'representations']
    """
    if saved_states:
        return SAVED_STATES
    for kind in (LANDSCAPE, REPRESENTATIONS):
        if {*names} & {kind, *subject_of(kind).features}:
            return kind
    return GRADIENTS if GRADIENTS in names else WEIGHTS


def _named(features: str | Sequence[str | Probe]) -> tuple[tuple[str, ...], list[Probe]]:
    """Return the names among `features`, and the probes.

    Raises
    ------
    InputError
        When there are neither.
    """
    requested = features.split(",") if isinstance(features, str) else list(features)
    if not requested:
        raise InputError(
            "nothing is measured", argument="features", value="[]", remedy="name some, such as 'cheap'"
        )
    names = tuple(one.strip() for one in requested if isinstance(one, str))
    return names, [one for one in requested if not isinstance(one, str)]


def _refuse_doubled(
    options: object,
    preset: str,
    execution: Execution | None,
    jobs: int,
    diagrams: bool | None,
    *,
    quiet: bool,
) -> None:
    """Raise InputError for an argument that `options` or the `Execution` has, too."""
    if options is not None and preset != "default":
        raise _doubled("preset", preset, "options")
    beside = {"jobs": None if jobs == 1 else jobs, "diagrams": diagrams, "quiet": None if quiet else quiet}
    if execution is not None and (twice := [name for name, value in beside.items() if value is not None]):
        raise _doubled(twice[0], beside[twice[0]], "execution")


def _doubled(name: str, value: object, other: str) -> InputError:
    return InputError(
        f"{other}, which replaces it, is given, too",
        argument=name,
        value=value,
        remedy="leave one of them out",
    )


def _requested(
    texts: str | Path | TextRequest | None, features: tuple[str, ...], **given: object
) -> TextRequest:
    """Return the request for texts; an argument given together with a `TextRequest` takes precedence."""
    base = TextRequest() if texts is None else texts
    if not isinstance(base, TextRequest):
        base = TextRequest(texts=str(base))
    chosen = {name: value for name, value in given.items() if value is not None}
    return replace(base, features=features, **chosen)  # type: ignore[arg-type]


def _probe_names(names: Sequence[str]) -> list[str]:
    """Return the names of probes; "gradients" alone stands for the cheap ones."""
    probes = [name for name in names if name != GRADIENTS]
    return probes or ["cheap"] * (GRADIENTS in names)


def _refuse_unknown(names: Sequence[str]) -> None:
    """Raise InputError for a name that no probe has, before its settings are found not to fit."""
    from toposcope.subjects.registry import weight_probes
    from toposcope.subjects.weights.options import WeightOptions

    weight_probes([name for name in names if name != "gradients"], WeightOptions())


def _settings(given: object, kind: About, preset: str = "default"):  # type: ignore[no-untyped-def]
    """Return the settings of a kind of measurement: those given, else the preset's."""
    from toposcope.subjects.representations import presets as representation_presets
    from toposcope.subjects.weights import presets as weight_presets

    presets = {About.WEIGHTS: weight_presets.preset, About.REPRESENTATIONS: representation_presets.preset}
    needed = subject_of(kind).request
    assert needed is not None
    if given is None:
        return presets[kind](preset) if kind in presets else needed()
    if not isinstance(given, needed):
        raise InputError(f"options is a {type(given).__name__}; these features need {needed.__name__}")
    return given
