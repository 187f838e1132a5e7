"""Measurements: their checkpoints, probes and recipes, and the sweep that makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.api.checkpoints import opened
from toposcope.api.measurement import Measurement, StorePlace
from toposcope.core.errors import InputError
from toposcope.subjects.measurement import MeasureCall
from toposcope.subjects.roster import further_subject, subject_measured, subjects
from toposcope.subjects.text_request import TextRequest as TextRequest
from toposcope.subjects.unused import refuse_unused

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
    from toposcope.store import Store
    from toposcope.subjects.representations.saved_states import SavedStates
    from toposcope.sweep import Execution

    names, probes = _named(features)
    saved = series if isinstance(series, SavedStates) else None
    subject = (None if saved else further_subject(names)) or _subject(names, saved=saved is not None)
    wanted = _requested(
        texts, names, limit=limit, recipe=recipe, device=None if device == "cpu" else device,
        tokenizer=None if tokenizer is None else Path(tokenizer),
    )  # fmt: skip
    stated = {"preset": None if preset == "default" else preset, "steps": steps}
    refuse_unused(subject, names, wanted, saved=saved is not None, **stated)
    _refuse_doubled(options, preset, execution, jobs, diagrams, quiet=quiet)

    def find(*, split: str = "table") -> Series:
        assert not isinstance(series, SavedStates)
        return opened(series, split=split, steps=steps)

    place = Path(store)
    call = MeasureCall(
        find, names, options, wanted, place, preset, StorePlace.of(place).fresh, saved
    )  # fmt: skip
    measurement = Measurement.of(subject.prepared(call), probes)
    drawn = subject.keeps_diagrams and bool({*names} & {subject.name, *subject.features})
    keep_diagrams = drawn if diagrams is None else diagrams
    execution = execution or Execution(jobs=jobs, keep_diagrams=keep_diagrams, quiet=quiet)
    measurement.carry_out(store, execution=execution)
    return Store.open(store)


def _subject(names: Sequence[str], *, saved: bool) -> Subject:
    """Return the subject of these features; saved states are those of the one that measures some."""
    if saved:
        return next(subject for subject in subjects().values() if subject.uses_saved)
    return subject_measured(names)


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
    names = tuple(feature.strip() for feature in requested if isinstance(feature, str))
    return names, [feature for feature in requested if not isinstance(feature, str)]


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
