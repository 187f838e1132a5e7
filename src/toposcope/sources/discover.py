"""Finds the runs at a location and the checkpoints of each by listing folders only."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from toposcope.core.errors import SourceError
from toposcope.core.forms import and_more
from toposcope.core.types import Checkpoint, RunRecord
from toposcope.core.wording import option
from toposcope.files import TRAINER_STATE
from toposcope.files.blobs import Blob, Folder, LocalFolder, has_file, readable
from toposcope.files.formats.foreign import ForeignFormatError, foreign_file, foreign_folder, refusal
from toposcope.files.formats.ranks import open_ranks_of, rank_of
from toposcope.files.formats.reader import read_json, step_in
from toposcope.files.formats.registry import config_of, is_weights_file
from toposcope.files.labels import (
    checked_step,
    is_copy,
    pattern_of,
    stated_pattern,
    step_of,
    step_of_file,
    tokens_of,
)
from toposcope.files.lightning import CHECKPOINTS, is_lightning, lightning_facts
from toposcope.files.trainer_state import stated_step, trainer_state, training_facts
from toposcope.logs import history
from toposcope.logs.metrics import empty, tidy
from toposcope.logs.run_folder import parquet_parts
from toposcope.sources._logs_beside import with_logs_beside
from toposcope.sources._stated import facts_of, stated_rows
from toposcope.sources.cache import is_cache, run_of_cache, source_of_cache, whole_of_cache
from toposcope.sources.entries import (
    Entry,
    Source,
    Unread,
    base_name,
    is_checkpoint,
    labelled,
    open_folder,
    open_plain,
    rename,
    with_own_tokens,
    with_shared_names,
    with_tokens,
)
from toposcope.sources.search import (
    FREE_DEPTH,
    ExhaustedError,
    Search,
    each_once,
    may_hold_runs,
    refuse_ranks,
    with_unique_names,
)
from toposcope.sources.unseen import UnseenWeights, unseen_weights

__all__ = ["Entry", "Source", "Unread", "base_name", "discover", "open_folder", "rename"]

GENERIC = frozenset([
    "model", "pytorch_model", "checkpoint", "ckpt", "last", "best", "final", "latest", "adapter_model",
    "consolidated",
])  # fmt: skip
"""File names that say nothing about the run; the folder's name is used instead."""


STORE = "store.json"
"""The file that identifies a store."""


def discover(
    location: Folder | Blob,
    unread: list[Unread] | None = None,
    *,
    logs: bool = True,
    beside: UnseenWeights | None = None,
) -> list[Source]:
    """Return the runs in a folder or a file.

    An unreadable folder beside the runs does not hide them: it is added to `unread`, by name, with the
    reason. With `logs`, runs without losses of their own get those of the logs beside them. `beside` takes
    the weights that belong to no checkpoint of a run, such as best.pt or model.gguf.

    Raises
    ------
    SourceError
        When no checkpoint can be read.
    """
    if not isinstance(location, Folder):
        return [_one_file(location)]
    unread = [] if unread is None else unread
    search = Search(unread)
    with search.entered(location, 0):
        labelled_runs = _runs(location, 0, search)
    if not labelled_runs and unread:
        foreign = sorted(
            (folder_left for folder_left in unread if folder_left.foreign),
            key=lambda folder_left: len(folder_left.place),
        )
        if unread[0].foreign:  # the folder that others of its format are inside
            raise ForeignFormatError(foreign[0].why)
        raise SourceError(unread[0].why)
    if not labelled_runs:
        raise SourceError(
            f"{location.label}: contains no checkpoint; expected a toposcope run, step_*.pt files, step "
            "folders, a model folder, or folders of these"
        )
    if not isinstance(location, LocalFolder):
        return labelled_runs
    unseen = unseen_weights(location, labelled_runs, unread)
    unread += unseen.unread
    if beside is not None:
        beside.take(unseen)
    return with_logs_beside(location, labelled_runs) if logs else labelled_runs


def refuse_foreign(source: Source) -> None:
    """Raise the error of a run's first checkpoint if every one is in a form that is not read.

    One line then says what converts them, instead of a finding for each. Only the first is opened if it can
    be read; checkpoints that would have to be fetched are not.
    """
    refused: SourceError | None = None
    for entry in source.entries:
        if "://" in entry.checkpoint.uri or entry.identity is not None:
            return
        try:
            entry.open()
        except ForeignFormatError as error:
            refused = refused or error
        except (SourceError, OSError):
            return  # a finding when it is read
        else:
            return
    if refused is not None:
        raise refused


def _parent_name(label: str) -> str:
    from pathlib import Path

    if "://" in label:
        return base_name(label.rsplit("/", 1)[0])
    return Path(os.path.realpath(label)).parent.name


def _one_file(blob: Blob) -> Source:
    name = base_name(blob.label)
    stem = name.rsplit(".", 1)[0]
    step = step_of_file(stem)
    run = _parent_name(blob.label) if step is not None or stem in GENERIC else stem
    if step is None:
        step = checked_step(step_in(open_plain(blob).facts()), blob.label)
    entry = Entry(Checkpoint(run, step, tokens_of(stem), blob.label), lambda: open_plain(blob))
    return Source(
        RunRecord(run, uri=blob.label),
        (entry,),
        lambda: tidy(stated_rows([entry]), run),
        facts=lambda: facts_of(entry),
    )


def _stepless(label: str, names: Sequence[str]) -> str:
    """Return the error for weight files whose names state no step, with the remedy."""
    more = and_more(len(names) - 1, "more do") or " does"
    if given := stated_pattern():
        return (
            f"{label}: the name {names[0]}{more} not match {option('step_pattern')} '{given}'; "
            "its group must find digits in each name"
        )
    pattern = pattern_of(names[0])
    given = f"'{pattern}' if that is the step" if pattern else "'REGEX' with one group around the step"
    return (
        f"{label}: the name {names[0]}{more} not state a step; rename them to step_N, give "
        f"{option('step_pattern')} {given}, or open one of them"
    )


def _runs(folder: Folder, depth: int, search: Search) -> list[Source]:
    files = folder.files()
    foreign = None
    if is_cache(folder):
        return _of_cache(folder, depth, search)
    if "run.json" in files:
        content = read_json(folder.open("run.json"))
        if isinstance(content, dict) and isinstance(content.get("run"), str):
            trained = _toposcope_run(folder, content, search.unread)
            if not trained.entries and not depth:
                raise SourceError(f"{folder.label}: this run has no checkpoint yet; train it further")
            return [trained] if trained.entries else []
        foreign = SourceError(f"{folder.label}/run.json: does not describe a run; correct or remove it")
    if is_lightning(folder):
        inner = _runs(folder.sub(CHECKPOINTS), depth + 1, search)
        return [_of_lightning(folder, inner[0])] if len(inner) == 1 else inner
    runs = labelled(folder, base_name(folder.label), search.unread)
    if runs:
        return [_series(folder, runs)]
    if (
        depth > FREE_DEPTH
    ):  # a model without a step so deep may be a part of a checkpoint that is not complete
        return _runs_inside(folder, depth, search)
    weights = [name for name in files if is_weights_file(name)]
    if weights and CHECKPOINTS in folder.folders():
        steps = labelled(folder.sub(CHECKPOINTS), base_name(folder.label), search.unread)
        if steps:
            return [rename(_series(folder.sub(CHECKPOINTS), steps), base_name(folder.label))]
    if is_checkpoint(folder):
        return [_one_folder(folder)]
    if weights and (ranked := _ranked(folder, weights)):
        return [_one_of_ranks(folder, ranked)]
    if weights and all(map(is_copy, weights)):
        return [_one_of_copies(folder, weights)]
    if weights:
        _refuse_first(folder, weights[0])
        raise SourceError(_stepless(folder.label, weights))
    inside = _runs_inside(folder, depth, search)
    if not inside and (other := foreign_folder(folder)) is not None:
        raise other
    if foreign is not None and not inside:
        raise foreign  # a file of another program, without anything known beside it
    return inside


def _of_cache(folder: Folder, depth: int, search: Search) -> list[Source]:
    """Return the runs of a model in the hub's local cache: its revisions, or those inside its only one."""
    inside = whole_of_cache(folder)
    if inside is None:
        return [source_of_cache(folder)]
    runs_inside = _runs(inside, depth, search)
    return [rename(runs_inside[0], run_of_cache(folder))] if len(runs_inside) == 1 else runs_inside


def _refuse_first(folder: Folder, name: str) -> None:
    """Raise the error of a file of weights in a format that is not read, which no name of a step mends."""
    blob = folder.open(name)
    form = foreign_file(name, blob.read(0, min(blob.size, 64)).tobytes())
    if form is not None:
        raise refusal(blob.label, form)


def _runs_inside(folder: Folder, depth: int, search: Search) -> list[Source]:
    """Return the runs of a folder's subfolders; one unreadable folder does not stop the others."""
    lost = folder.lost() if isinstance(folder, LocalFolder) else {}
    search.unread += [
        Unread(f"{folder.label}/{name}", why) for name, why in lost.items() if may_hold_runs(name)
    ]
    sources_inside: list[Source] = []
    for name in filter(may_hold_runs, folder.folders()):
        try:
            if "\\" in name:
                raise SourceError(f"{folder.label}/{name}: the name contains a backslash; rename it")
            inner = folder.sub(name)
            if STORE in inner.files():  # what `watch` keeps there temporarily is not a run
                continue
            with search.entered(inner, depth + 1):
                sources_inside += _runs(inner, depth + 1, search)
        except ExhaustedError:
            break
        except (SourceError, OSError) as error:
            foreign = isinstance(error, ForeignFormatError)
            search.unread.append(Unread(f"{folder.label}/{readable(name)}", str(error), foreign))
    refuse_ranks(sources_inside)
    return with_unique_names(each_once(sources_inside), folder)


def _of_lightning(folder: Folder, source: Source) -> Source:
    """Return the run of a version_N folder, with the name, log and plan beside its checkpoints."""
    run = base_name(folder.label)
    return dataclasses.replace(
        rename(source, run),
        metrics=lambda: history.lightning_metrics(folder, run),
        companions=lambda: history.companions_in(history.lightning_table(folder)),
        facts=lambda: {**source.facts(), **lightning_facts(folder)},
    )


def _ranked(folder: Folder, names: Sequence[str]) -> list[str]:
    """Return the files that the ranks of one checkpoint wrote, if the names state no step but ranks."""
    fronts = {rank[0] for name in names if (rank := rank_of(name)) is not None}
    ranked = [name for name in names if rank_of(name) is not None]
    return ranked if len(fronts) == 1 and len(ranked) > 1 and len(ranked) == len(names) else []


def _one_of_ranks(folder: Folder, names: list[str]) -> Source:
    """Return the run of one checkpoint with a file for each rank."""
    run = base_name(folder.label)
    entry = Entry(Checkpoint(run, 0, None, folder.label), lambda: open_ranks_of(folder, names, open_plain))
    return Source(RunRecord(run, uri=folder.label), (entry,), empty, config_of(folder))


def _one_of_copies(folder: Folder, names: list[str]) -> Source:
    """Return the run of a folder with files named best, last and so on, and no step: its last one is read."""
    name = next((name for name in names if "last" in name.lower() or "latest" in name.lower()), names[0])
    source = rename(_one_file(folder.open(name)), base_name(folder.label))
    return dataclasses.replace(source, run=dataclasses.replace(source.run, uri=folder.label))


def _one_folder(folder: Folder) -> Source:
    name = base_name(folder.label)
    step = step_of(name)
    run = _parent_name(folder.label) if step is not None or name in GENERIC else name
    step = stated_step(folder) if step is None else step
    step = checked_step(step_in(open_folder(folder).facts()) if step is None else step, folder.label)
    entry = Entry(Checkpoint(run, step, tokens_of(name), folder.label), lambda: open_folder(folder))
    return Source(
        RunRecord(run, uri=folder.label), (entry,), lambda: _metrics(folder, run, ()), config_of(folder),
        facts=lambda: training_facts(trainer_state(folder)) or facts_of(entry),
        stated=lambda: stated_rows([entry]),
    )  # fmt: skip


def _series(folder: Folder, entries: list[Entry]) -> Source:
    run = base_name(folder.label)
    entries.sort(key=lambda entry: (entry.checkpoint.step, entry.checkpoint.uri))
    folders = [name for name in folder.folders() if step_of(name) is not None]
    last = max(folders, key=lambda name: step_of(name) or 0, default=None)
    inner = (last,) if last is not None else ()

    def metrics() -> pd.DataFrame:
        return _metrics(folder, run, inner)

    try:
        config = config_of(folder) or (config_of(folder.sub(last)) if last is not None else {})
    except SourceError:
        config = {}  # said by that checkpoint when it is read
    return Source(
        RunRecord(run, uri=folder.label),
        with_tokens(with_shared_names(entries), metrics),
        metrics,
        config,
        lambda: _raw_steps(folder),
        lambda: _facts_of_series(folder, last) or facts_of(entries[-1]),
        lambda: stated_rows(entries),
        companions=lambda: _companions(folder, inner),
    )


def _facts_of_series(folder: Folder, last: str | None) -> dict[str, Any]:
    """Return what the trainer's state in the folder or its last checkpoint says, and whether both agree."""
    try:
        own_state, latest = trainer_state(folder), trainer_state(folder.sub(last)) if last is not None else {}
    except SourceError:
        return {}  # said by that checkpoint when it is read
    facts = training_facts(own_state or latest)
    stated, named = latest.get("global_step"), step_of(last) if last is not None else None
    if type(stated) is int and named is not None and stated != named:
        facts["step_conflict"] = f"folder {last} states global_step {stated} in its {TRAINER_STATE}"
    return facts


def _metrics(folder: Folder, run: str, inner: tuple[str, ...]) -> pd.DataFrame:
    if has_file(folder, "training_log.json"):
        return history.training_log(folder.open("training_log.json"), run)
    for place in (folder, *(folder.sub(name) for name in inner)):
        if (losses := history.losses_of(trainer_state(place), run)) is not None:
            return losses
    return tidy([], run)


def _companions(folder: Folder, inner: tuple[str, ...]) -> pd.DataFrame | None:
    """Return what the trainer's state has beside the losses and may judge the run, by step."""
    if has_file(folder, "training_log.json"):
        return None
    for place in (folder, *(folder.sub(name) for name in inner)):
        if (records := history.records_of(trainer_state(place))) is not None:
            return history.companions_in(pd.DataFrame(records))
    return None


def _raw_steps(folder: Folder) -> list[int]:
    if not has_file(folder, "training_log.json"):
        return []
    rows = read_json(folder.open("training_log.json"))
    steps = [row.get("step") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return [step for step in steps if type(step) is int]


def _toposcope_run(folder: Folder, content: Mapping[str, Any], unread: list[Unread]) -> Source:
    _check_run(f"{folder.label}/run.json", content)
    names = {item.name for item in dataclasses.fields(RunRecord)} - {"uri", "config"}
    config = content.get("config") if isinstance(content.get("config"), dict) else {}
    run = RunRecord(
        **{key: value for key, value in content.items() if key in names},
        uri=folder.label,
        config=config or {},
    )

    def metrics() -> pd.DataFrame:
        has = "metrics" in folder.folders()
        return parquet_parts(folder.sub("metrics"), run.run) if has else tidy([], run.run)

    entries = (
        labelled(folder.sub("checkpoints"), run.run, unread) if "checkpoints" in folder.folders() else []
    )
    entries.sort(key=lambda entry: entry.checkpoint.step)
    config = json.loads(json.dumps(config or {}, default=str))
    return Source(run, tuple(map(with_own_tokens, with_tokens(entries, metrics))), metrics, config)


def _check_run(label: str, content: Mapping[str, Any]) -> None:
    """Refuse a run that a store cannot hold: a name that is not text, or a number that is not one."""
    for name in ("run", "family", "schedule", "corpus"):
        value = content.get(name)
        if value is not None and (not isinstance(value, str) or readable(value) != value):
            raise SourceError(f"{label}: {name} is {value!r:.80}, which is not text; correct it")
    for name in ("parameters", "seed"):
        value = content.get(name)
        if value is not None and (type(value) is not int or abs(value) >= 2**63):
            raise SourceError(f"{label}: {name} is {value!r:.80}, which is not a whole number; correct it")
