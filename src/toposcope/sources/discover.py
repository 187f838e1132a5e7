"""What a location holds: runs, and in each run its checkpoints, found by listing alone."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import pandas as pd

from toposcope.errors import SourceError
from toposcope.sources import history
from toposcope.sources.blobs import Blob, Folder
from toposcope.sources.formats import config_of, folder_format, is_weights_file, open_checkpoint, open_file
from toposcope.sources.labels import stated_pattern, step_of, step_of_file, tokens_of
from toposcope.sources.lightning import CHECKPOINTS, is_lightning, lightning_facts, lightning_metrics
from toposcope.sources.reader import Reader, read_json, step_in
from toposcope.sources.sharded import is_shard
from toposcope.sources.trainer_state import (
    TRAINER_STATE,
    losses_of,
    stated_step,
    trainer_state,
    training_facts,
)
from toposcope.types import Checkpoint, Run

MAX_DEPTH = 3
GENERIC = frozenset(
    [
        "model",
        "pytorch_model",
        "checkpoint",
        "ckpt",
        "last",
        "best",
        "final",
        "latest",
        "adapter_model",
        "consolidated",
    ]
)
"""File names that say nothing about the run: the folder's name stands for it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A checkpoint and how to open it."""

    checkpoint: Checkpoint
    open: Callable[[], Reader]
    release: Callable[[], None] = lambda: None
    """What to do when the checkpoint is no longer needed (fetched files are removed)."""
    hold: Callable[[], None] = lambda: None
    """Keep what is fetched until `release` has been called once more."""
    identity: Callable[[], Mapping[str, str]] | None = None
    """The files' hashes, where they are known without reading the files."""
    module: Any = None
    """The module itself, where the checkpoint is one in memory."""


@dataclass(frozen=True, slots=True)
class Source:
    """One run: who it is, its checkpoints, its loss history and its model's configuration."""

    run: Run
    entries: tuple[Entry, ...]
    metrics: Callable[[], pd.DataFrame]
    config: Mapping[str, Any] = field(default_factory=dict)
    raw_steps: Callable[[], list[int]] = list
    """The steps of the loss history as it has them, unsorted."""
    facts: Callable[[], Mapping[str, Any]] = dict
    """What the trainer's own state says of the run: steps planned and done, batch size, tokens, FLOP."""


def discover(location: Folder | Blob) -> list[Source]:
    """Return the runs that a folder or a file holds.

    Raises
    ------
    SourceError
        When there is no checkpoint.
    """
    if not isinstance(location, Folder):
        return [_one_file(location)]
    found = _runs(location, 0)
    if not found:
        raise SourceError(
            f"{location.label}: holds no checkpoint; expected a toposcope run, step_*.pt files, step "
            "folders, "
            "a model folder, or folders of these"
        )
    return found


def base_name(label: str) -> str:
    """Return the last part of a path or address, resolved where it is '.'."""
    plain = label.split("?")[0].rstrip("/")
    if "://" not in plain:
        return PurePath(plain).name if PurePath(plain).name not in ("", "..") else _resolved(plain)
    return plain.rsplit("/", 1)[-1]


def _resolved(path: str) -> str:
    from pathlib import Path

    return Path(path or ".").resolve().name


def _parent_name(label: str) -> str:
    from pathlib import Path

    if "://" in label:
        return base_name(label.rsplit("/", 1)[0])
    return Path(label).resolve().parent.name


def _one_file(blob: Blob) -> Source:
    name = base_name(blob.label)
    stem = name.rsplit(".", 1)[0]
    step = step_of_file(stem)
    run = _parent_name(blob.label) if step is not None or stem in GENERIC else stem
    if step is None:
        step = step_in(open_file(blob).facts())
    checkpoint = Checkpoint(run, step, tokens_of(stem), blob.label)
    return Source(Run(run, uri=blob.label), (Entry(checkpoint, lambda: open_file(blob)),), history.empty)


def _stepless(label: str, names: Sequence[str]) -> str:
    """Say that weight files state no step, and what helps."""
    more = f" and {len(names) - 1} more do" if len(names) > 1 else " does"
    if given := stated_pattern():
        return (
            f"{label}: {names[0]}{more} not say a step where --step-pattern '{given}' looks for one: its "
            "group must find digits in each name"
        )
    return (
        f"{label}: {names[0]}{more} not say their step; rename them to step_N, give --step-pattern 'REGEX' "
        "with one group around the step, or open one of them"
    )


def _runs(folder: Folder, depth: int) -> list[Source]:
    files = folder.files()
    if "run.json" in files:
        trained = _toposcope_run(folder)
        if not trained.entries and not depth:
            raise SourceError(f"{folder.label}: this run has no checkpoint yet; train it further")
        return [trained] if trained.entries else []
    if is_lightning(folder):
        inner = _runs(folder.sub(CHECKPOINTS), depth + 1)
        return [_of_lightning(folder, inner[0])] if len(inner) == 1 else inner
    labelled = _labelled(folder, base_name(folder.label))
    if labelled:
        return [_series(folder, labelled)]
    if _is_checkpoint(folder):
        return [_one_folder(folder)]
    weights = [name for name in files if is_weights_file(name)]
    if weights:
        raise SourceError(_stepless(folder.label, weights))
    if depth == MAX_DEPTH:
        return []
    found = [
        source
        for name in folder.folders()
        if _may_hold_runs(name)
        for source in _runs(folder.sub(name), depth + 1)
    ]
    return _unique(found, folder)


def _of_lightning(folder: Folder, source: Source) -> Source:
    """Return the run of a version_N folder: its name, its log and its plan beside its checkpoints."""
    run = base_name(folder.label)
    return dataclasses.replace(
        rename(source, run),
        metrics=lambda: lightning_metrics(folder, run),
        facts=lambda: {**source.facts(), **lightning_facts(folder)},
    )


def _may_hold_runs(name: str) -> bool:
    return not name.startswith((".", "_"))


def _unique(found: list[Source], folder: Folder) -> list[Source]:
    names = [source.run.run for source in found]
    if len(set(names)) == len(names):
        return found
    root = folder.label.rstrip("/") + "/"
    return [
        rename(source, source.run.uri.removeprefix(root).rstrip("/") or source.run.run) for source in found
    ]


def rename(source: Source, name: str) -> Source:
    """Return the same run under another name."""
    metrics = source.metrics
    return dataclasses.replace(
        source,
        run=dataclasses.replace(source.run, run=name),
        entries=tuple(
            dataclasses.replace(entry, checkpoint=dataclasses.replace(entry.checkpoint, run=name))
            for entry in source.entries
        ),
        metrics=lambda: metrics().assign(run=name),
    )


def _is_checkpoint(folder: Folder) -> bool:
    weights = [name for name in folder.files() if is_weights_file(name) and not is_shard(name)]
    return folder_format(folder) is not None or len(weights) == 1


def open_folder(folder: Folder) -> Reader:
    """Open a folder that is one checkpoint."""
    reader = open_checkpoint(folder)
    if reader is not None:
        return reader
    weights = [name for name in folder.files() if is_weights_file(name)]
    if len(weights) != 1:
        raise SourceError(
            f"{folder.label}: holds {len(weights)} weight files where a checkpoint has one; complete it "
            "or remove it"
        )
    return open_file(folder.open(weights[0]))


def _labelled(folder: Folder, run: str) -> list[Entry]:
    """Return the checkpoints whose names state their steps, as files and as folders."""
    entries = []
    for name in folder.files():
        step = step_of_file(name.rsplit(".", 1)[0])
        if step is not None and is_weights_file(name) and not is_shard(name):
            entries.append(_file_entry(folder, name, run, step))
    named = [(name, step_of(name)) for name in folder.folders()]
    steps = [(name, step) for name, step in named if step is not None]
    if _any_checkpoint(folder, [name for name, _ in steps], entries):
        entries += [_folder_entry(folder, name, run, step) for name, step in steps]
    return entries


def _any_checkpoint(folder: Folder, names: list[str], others: list[Entry]) -> bool:
    """Say whether one of the folders is a checkpoint; a bad one matters only where none is good."""
    bad: SourceError | None = None
    for name in names:
        try:
            if _is_checkpoint(folder.sub(name)):
                return True
        except SourceError as error:
            bad = error
    if bad is not None and not others:
        raise bad
    return bad is not None


def _file_entry(folder: Folder, name: str, run: str, step: int) -> Entry:
    checkpoint = Checkpoint(run, step, tokens_of(name), f"{folder.label}/{name}")
    return Entry(checkpoint, lambda: open_file(folder.open(name)))


def _folder_entry(folder: Folder, name: str, run: str, step: int) -> Entry:
    checkpoint = Checkpoint(run, step, tokens_of(name), f"{folder.label}/{name}")
    return Entry(checkpoint, lambda: open_folder(folder.sub(name)))


def _one_folder(folder: Folder) -> Source:
    name = base_name(folder.label)
    step = step_of(name)
    run = _parent_name(folder.label) if step is not None or name in GENERIC else name
    step = stated_step(folder) if step is None else step
    step = step_in(open_folder(folder).facts()) if step is None else step
    entry = Entry(Checkpoint(run, step, tokens_of(name), folder.label), lambda: open_folder(folder))
    return Source(
        Run(run, uri=folder.label), (entry,), lambda: _metrics(folder, run, ()), config_of(folder),
        facts=lambda: training_facts(trainer_state(folder)),
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
        Run(run, uri=folder.label),
        _with_tokens(entries, metrics),
        metrics,
        config,
        lambda: _raw_steps(folder),
        lambda: _facts_of_series(folder, last),
    )


def _facts_of_series(folder: Folder, last: str | None) -> dict[str, Any]:
    """Return what the trainer's state says, of the folder or its last checkpoint, and whether they agree."""
    try:
        own, latest = trainer_state(folder), trainer_state(folder.sub(last)) if last is not None else {}
    except SourceError:
        return {}  # said by that checkpoint when it is read
    facts = training_facts(own or latest)
    stated, named = latest.get("global_step"), step_of(last) if last is not None else None
    if type(stated) is int and named is not None and stated != named:
        facts["step_conflict"] = f"folder {last} states global_step {stated} in its {TRAINER_STATE}"
    return facts


def _metrics(folder: Folder, run: str, inner: tuple[str, ...]) -> pd.DataFrame:
    if "training_log.json" in folder.files():
        return history.training_log(folder.open("training_log.json"), run)
    for place in (folder, *(folder.sub(name) for name in inner)):
        if (losses := losses_of(trainer_state(place), run)) is not None:
            return losses
    return history.tidy([], run)


def _raw_steps(folder: Folder) -> list[int]:
    if "training_log.json" not in folder.files():
        return []
    rows = read_json(folder.open("training_log.json"))
    steps = [row.get("step") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return [step for step in steps if type(step) is int]


def _toposcope_run(folder: Folder) -> Source:
    content = read_json(folder.open("run.json"))
    if not isinstance(content, dict) or not isinstance(content.get("run"), str):
        raise SourceError(f"{folder.label}/run.json: does not describe a run; train it again")
    known = {item.name for item in dataclasses.fields(Run)} - {"uri", "config"}
    config = content.get("config") if isinstance(content.get("config"), dict) else {}
    run = Run(
        **{key: value for key, value in content.items() if key in known},
        uri=folder.label,
        config=config or {},
    )

    def metrics() -> pd.DataFrame:
        has = "metrics" in folder.folders()
        return history.parquet_parts(folder.sub("metrics"), run.run) if has else history.tidy([], run.run)

    entries = _labelled(folder.sub("checkpoints"), run.run) if "checkpoints" in folder.folders() else []
    entries.sort(key=lambda entry: entry.checkpoint.step)
    config = json.loads(json.dumps(config or {}, default=str))
    return Source(run, tuple(map(_with_own_tokens, _with_tokens(entries, metrics))), metrics, config)


def _with_own_tokens(entry: Entry) -> Entry:
    """Return the entry with the tokens that its file states, where the metrics have no line of its step yet.

    Training writes the lines of some steps together, after the checkpoint before them.
    """
    if entry.checkpoint.tokens is not None:
        return entry
    try:
        tokens = entry.open().facts().tokens
    except (SourceError, OSError):
        return entry  # said when the checkpoint is read
    return dataclasses.replace(entry, checkpoint=dataclasses.replace(entry.checkpoint, tokens=tokens))


def _with_tokens(entries: list[Entry], metrics: Callable[[], pd.DataFrame]) -> tuple[Entry, ...]:
    """Return the entries with the tokens that the loss history states for their steps."""
    if all(entry.checkpoint.tokens is not None for entry in entries):
        return tuple(entries)
    try:
        table = metrics()
    except SourceError:
        return tuple(entries)  # said when the metrics themselves are asked for
    known = table.loc[table["tokens"].notna(), ["step", "tokens"]]
    tokens = dict(zip(known["step"].tolist(), (int(n) for n in known["tokens"]), strict=True))
    return tuple(
        dataclasses.replace(
            entry,
            checkpoint=dataclasses.replace(
                entry.checkpoint, tokens=entry.checkpoint.tokens or tokens.get(entry.checkpoint.step)
            ),
        )
        for entry in entries
    )
