"""The checkpoints of a run, each with a way to open it, found by the names in a folder."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath
from typing import Any

import pandas as pd

from toposcope.core.errors import SourceError
from toposcope.core.types import Checkpoint, RunRecord
from toposcope.files.blobs import Blob, Folder, LocalFolder, readable
from toposcope.files.formats.foreign import foreign_folder
from toposcope.files.formats.naming import renamed, unwrapped
from toposcope.files.formats.ranks import open_ranks_of, rank_of
from toposcope.files.formats.reader import Reader
from toposcope.files.formats.registry import folder_format, is_weights_file, open_checkpoint, open_file
from toposcope.files.formats.sharded import from_shards, is_shard, part_of
from toposcope.files.labels import is_copy, is_state_of, step_among, step_of, step_of_file, tokens_of
from toposcope.logs.pairing import LogOfRun
from toposcope.sources.names import shared_names


@dataclass(frozen=True, slots=True)
class Entry:
    """A checkpoint and how to open it."""

    checkpoint: Checkpoint
    open: Callable[[], Reader]
    release: Callable[[], None] = lambda: None
    """Called when the checkpoint is no longer needed; removes fetched files."""
    hold: Callable[[], None] = lambda: None
    """Keep fetched files until `release` has been called once more."""
    identity: Callable[[], Mapping[str, str]] | None = None
    """The files' hashes, if known without reading the files."""
    module: Any = None
    """The module itself, if the checkpoint is a module in memory."""
    parts: tuple[str, ...] = ()
    """Where its further files are, if one checkpoint has several beside each other."""
    place: str = ""
    """Where its files are now, if that is not the checkpoint's address: `watch` keeps links to them."""


@dataclass(frozen=True, slots=True)
class Source:
    """One run: its record, its checkpoints, its loss history and its model's configuration."""

    run: RunRecord
    entries: tuple[Entry, ...]
    metrics: Callable[[], pd.DataFrame]
    config: Mapping[str, Any] = field(default_factory=dict)
    raw_steps: Callable[[], list[int]] = list
    """The steps of the loss history in their original order."""
    facts: Callable[[], Mapping[str, Any]] = dict
    """What the trainer's own state says about the run: steps planned and done, batch size, tokens, FLOP."""
    stated: Callable[[], list[Mapping[str, Any]]] = list
    """The rows of losses that the checkpoints themselves state, for a run without any other."""
    log: Callable[[], str] = str
    """The log beside the checkpoints that the losses come from, in one line; empty for none."""
    companions: Callable[[], pd.DataFrame | None] = lambda: None
    """What was logged beside the loss and may judge the run, such as a reward, by step; None without any."""
    rows: Callable[[], pd.DataFrame | None] = lambda: None
    """What the log beside the checkpoints has, under any names; None without one."""
    replaced: Callable[[], pd.DataFrame | None] = lambda: None
    """The rows of the log that a restart replaced, as `Run.replaced` has them; None without any."""
    choice: Callable[[], LogOfRun] = LogOfRun
    """The log beside the checkpoints, or those among which the reader has to choose."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A file or folder among the checkpoints that was not checked, and why; `why` names it."""

    place: str
    why: str
    foreign: bool = False
    """Whether it holds weights in a form that is not read."""


def base_name(label: str) -> str:
    """Return the last part of a path or address, resolved where it is '.'."""
    plain = label.split("?")[0].rstrip("/")
    if "://" not in plain:
        return PurePath(plain).name if PurePath(plain).name not in ("", "..") else _resolved(plain)
    return plain.rsplit("/", 1)[-1]


def _resolved(path: str) -> str:
    from pathlib import Path

    return Path(os.path.realpath(path or ".")).name


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


INNER = ("model", "weights", "pytorch_model", "consolidated", "actor", "unet", "transformer", "checkpoint")
"""Folders inside a checkpoint that hold its weights: of NeMo, accelerate and Lightning under DeepSpeed, NeMo
Automodel, verl and diffusers."""
_MAIN = ("model", "pytorch_model", "lit_model")
"""The file's name that is the model's, if a folder has other PyTorch files beside it (OLMo, LitGPT)."""
_TAG = re.compile(r"global_step\d+")


def is_checkpoint(folder: Folder) -> bool:
    """Return whether a folder is one checkpoint, according to its listing."""
    return folder_format(folder) is not None or _main_file(folder) is not None


def _main_file(folder: Folder) -> str | None:
    """Return the name of the one file of weights in a folder; None if there is no such one."""
    weights = [name for name in folder.files() if is_weights_file(name) and not is_shard(name)]
    main = [name for name in weights if name.rsplit(".", 1)[0] in _MAIN]
    return next((names[0] for names in (weights, main) if len(names) == 1), None)


def _inner(folder: Folder) -> Folder | None:
    """Return the folder with the weights of a folder whose name states a step, or None.

    DeepSpeed names it after the step as well.
    """
    if is_checkpoint(folder):
        return folder
    names = [name for name in folder.folders() if name in INNER or _TAG.fullmatch(name)]
    inside = (_inner(folder.sub(name)) for name in names)
    return next((place for place in inside if place is not None), None)


def open_plain(blob: Blob) -> Reader:
    """Open one file as a checkpoint; its tensors have names without wrappers."""
    return unwrapped(open_file(blob))


def open_folder(folder: Folder) -> Reader:
    """Open a folder that is one checkpoint, or that holds one; its tensors have names without wrappers."""
    place = _inner(folder) or folder
    reader = open_checkpoint(place)
    if reader is not None:
        return unwrapped(reader)
    main = _main_file(place)
    if main is not None:
        return open_plain(place.open(main))
    if (foreign := foreign_folder(folder)) is not None:
        raise foreign
    weights = [name for name in folder.files() if is_weights_file(name)]
    raise SourceError(
        f"{folder.label}: contains {len(weights):,} weight files, but a checkpoint has one; complete "
        "the folder or remove it"
    )


def with_shared_names(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries of a run; each has the tensor names of the first one that can be read.

    Names differ within a run when the model was compiled or wrapped after a restart.
    """
    kept: list[frozenset[str]] = []

    def reference() -> frozenset[str]:
        for entry in () if kept else entries:
            try:
                kept.append(frozenset(entry.open().infos()))
                break
            except (SourceError, OSError):  # a finding when this checkpoint is read
                continue
        return kept[0] if kept else frozenset()

    def named(entry: Entry) -> Entry:
        def opened() -> Reader:
            reader = entry.open()
            return renamed(reader, shared_names(reader.infos(), reference()))

        return dataclasses.replace(entry, open=opened)

    return [named(entry) for entry in entries] if len(entries) > 1 else list(entries)


def labelled(folder: Folder, run: str, unread: list[Unread]) -> list[Entry]:
    """Return the checkpoints whose names state their steps, as files and as folders."""
    files: dict[tuple[str, int], list[str]] = {}
    for name in filter(is_weights_file, folder.files()):
        step, whole = _step(folder, name, name.rsplit(".", 1)[0], step_of_file, unread), name
        if (part := part_of(name)) is not None:
            whole, step = part
        elif (rank := rank_of(name)) is not None:
            whole = rank[0]
        if step is not None and not is_shard(name):
            files.setdefault((whole, step), []).append(name)
    entries = [_file_entry(folder, names, run, step) for (_, step), names in _without_copies(files).items()]
    folders = [name for name in folder.folders() if not is_state_of(name, folder.files())]
    among = partial(step_among, names=folders)
    named = [(name, _step(folder, name, name, among, unread)) for name in folders]
    steps = [(name, step) for name, step in named if step is not None]
    if _any_checkpoint(folder, [name for name, _ in steps], entries):
        entries += [_folder_entry(folder, name, run, step) for name, step in steps]
    if entries and isinstance(folder, LocalFolder):
        lost = {name: why for name, why in folder.lost(links=False).items() if step_of(name) is not None}
        unread += [Unread(f"{folder.label}/{name}", why) for name, why in lost.items()]
    return entries


def _without_copies(files: Mapping[tuple[str, int], list[str]]) -> dict[tuple[str, int], list[str]]:
    """Return the files of checkpoints without those named best or last whose step another file has."""
    own_steps = {step for whole, step in files if not is_copy(whole)}
    return {(whole, step): names for (whole, step), names in files.items()
            if not (is_copy(whole) and step in own_steps)}  # fmt: skip


def _step(
    folder: Folder, name: str, stem: str, read: Callable[[str], int | None], unread: list[Unread]
) -> int | None:
    """Return the step that a name states; an impossible name is reported."""
    place = f"{folder.label}/{readable(name)}"
    try:
        step = read(stem)
        if step is not None and readable(name) != name:
            raise SourceError(f"{place}: the name is not UTF-8; rename it")
    except SourceError as error:
        unread.append(Unread(place, str(error)))
        return None
    return step


def _any_checkpoint(folder: Folder, names: list[str], others: list[Entry]) -> bool:
    """Return whether one of the folders is a checkpoint; a bad folder matters only if none is good."""
    bad: SourceError | None = None
    for name in names:
        try:
            if _inner(folder.sub(name)) is not None:
                return True
        except SourceError as error:
            bad = error
    if bad is not None and not others:
        raise bad
    return bad is not None


def _file_entry(folder: Folder, names: list[str], run: str, step: int) -> Entry:
    """Return the entry of a file, or of the parts or the ranks of one checkpoint."""
    checkpoint = Checkpoint(run, step, tokens_of(names[0]), f"{folder.label}/{names[0]}")
    parts = tuple(f"{folder.label}/{name}" for name in names[1:])
    if part_of(names[0]) is not None:
        return Entry(checkpoint, lambda: unwrapped(from_shards(folder, names, open_file)), parts=parts)
    if len(names) > 1:
        return Entry(checkpoint, lambda: open_ranks_of(folder, names, open_plain), parts=parts)
    return Entry(checkpoint, lambda: open_plain(folder.open(names[0])))


def _folder_entry(folder: Folder, name: str, run: str, step: int) -> Entry:
    checkpoint = Checkpoint(run, step, tokens_of(name), f"{folder.label}/{name}")
    return Entry(checkpoint, lambda: open_folder(folder.sub(name)))


def with_tokens(entries: list[Entry], metrics: Callable[[], pd.DataFrame]) -> tuple[Entry, ...]:
    """Return the entries with the tokens that the loss history states for their steps."""
    if all(entry.checkpoint.tokens is not None for entry in entries):
        return tuple(entries)
    try:
        table = metrics()
    except SourceError:
        return tuple(entries)  # reported when the metrics themselves are read
    counted = table.loc[table["tokens"].notna(), ["step", "tokens"]]
    tokens = dict(zip(counted["step"].tolist(), (int(n) for n in counted["tokens"]), strict=True))
    return tuple(
        dataclasses.replace(
            entry,
            checkpoint=dataclasses.replace(
                entry.checkpoint, tokens=entry.checkpoint.tokens or tokens.get(entry.checkpoint.step)
            ),
        )
        for entry in entries
    )


def with_own_tokens(entry: Entry) -> Entry:
    """Return the entry with the tokens that its file states, if the metrics have no row for its step yet.

    Training writes the rows of several steps together, after the checkpoint.
    """
    if entry.checkpoint.tokens is not None:
        return entry
    try:
        tokens = entry.open().facts().tokens
    except (SourceError, OSError):
        return entry  # reported when the checkpoint is read
    return dataclasses.replace(entry, checkpoint=dataclasses.replace(entry.checkpoint, tokens=tokens))
