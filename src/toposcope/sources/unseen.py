"""Finds the weights in a folder that belong to no checkpoint of its runs, so that each is named."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from toposcope.core import WEIGHT_FILES
from toposcope.core.forms import listed
from toposcope.core.types import Checkpoint, RunRecord
from toposcope.files.blobs import LocalFolder, passes, readable
from toposcope.files.formats.foreign import DISTCP, Foreign, foreign_name
from toposcope.files.formats.reader import Reader
from toposcope.files.formats.registry import FSDP, OLMO_CORE, is_beside_weights, is_weights_file
from toposcope.files.labels import is_copy, is_state_of, looks_like_step, step_of, worded_step
from toposcope.files.lightning import CHECKPOINTS
from toposcope.logs.metrics import empty
from toposcope.sources.cache import revision_at
from toposcope.sources.entries import (
    INNER,
    Entry,
    Source,
    Unread,
    base_name,
    is_checkpoint,
    open_folder,
    open_plain,
)
from toposcope.sources.search import MOST_FOLDERS

_STORE = "store.json"
_OWN_RUN = "run.json"
_OF_OWN_RUN = ("gradients", "state")
"""Folders of our own training that hold tensors, but no checkpoints."""
_ENDS = "|".join(re.escape(end) for end in sorted(WEIGHT_FILES))
_ASIDE = re.compile(rf"(?:{_ENDS})\.(?:bak|old|orig|gz|bz2|xz|zst|zip|tar|7z|\d+)$", re.I)
"""Weights that were packed or set aside: no reader opens them."""
_PACKED = (".npy", ".pkl", ".pickle", ".joblib", ".zip", ".gz", ".tar", ".zst")
"""Suffixes of files that hold weights if their names state a step or are those of a model."""
_OF_MODELS = frozenset(
    [
        "model", "pytorch_model", "weights", "params", "consolidated", "checkpoint", "ckpt", "best", "last",
        "latest", "final",
    ]
)  # fmt: skip
_LONGEST_LINE = 1 << 12
"""A file without a suffix that is named after a step may hold a line, as references of a hub's cache do."""
_TORCH = (b"P", b"\x80")
"""How a file of PyTorch begins. Many data sets of tokens end in .bin, too, and are no weights."""


@dataclass(slots=True)
class UnseenWeights:
    """The weights below a folder that belong to no checkpoint of its runs.

    `copies` lie beside the checkpoints of a run, and their names state no step (best.pt), or one that another
    checkpoint has: each can be looked at as a file alone. `foreign` are in a format that is not read: each
    with its name below the folder. They are exports of a checkpoint, so no finding. `unread` are all others.
    """

    copies: list[Source] = field(default_factory=list)
    foreign: list[tuple[str, Foreign]] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)

    def take(self, other: UnseenWeights) -> None:
        """Add what another folder has, except what is unread."""
        self.copies += other.copies
        self.foreign += other.foreign


def unseen_weights(root: LocalFolder, sources: Sequence[Source], named: Sequence[Unread]) -> UnseenWeights:
    """Return the weights below a folder that no run has, and that `named` does not name.

    Hidden folders, stores, and what trainers save beside weights (optimizers, states) are left out. A
    checkpoint's folder is one thing, unless a name inside it states another step.
    """
    seen = _Places.of(root.label, sources, named)
    report = UnseenWeights()
    unseen: dict[str, list[str]] = {}
    ended = None
    for number, (folder, names) in enumerate(_walk(root.label, seen)):
        if number == MOST_FOLDERS:
            ended = folder
            break
        for name in names:
            path, top = _below(folder, name), seen.top(folder)
            if _is_empty_step(folder, name):
                why = "the name of this folder states a step, and the folder is empty; complete or remove it"
                report.unread.append(Unread(readable(path), f"{readable(path)}: {why}"))
            elif folder in seen.homes and _may_be_copy(folder, name):
                report.copies.append(_copy(folder, name))
            elif (form := _export(path, seen)) is not None:
                report.foreign.append((readable(os.path.relpath(path, root.label)), form))
            else:
                unseen.setdefault(top, []).append(os.path.relpath(path, top))
    report.unread += [_unread(top, names, top in seen.busy) for top, names in unseen.items()]
    if ended is not None:
        why = f"{readable(ended)}: this folder and others were not searched for weights, because more than "
        report.unread.append(
            Unread(readable(ended), f"{why}{MOST_FOLDERS:,} are here; give a folder that holds fewer")
        )
    return report


def _export(path: str, seen: _Places) -> Foreign | None:
    """Return the format of weights that are not read here; None for others, and for a step of their own.

    Shards of a distributed checkpoint are no export: without their .metadata saving was interrupted.
    """
    form, folder = foreign_name(os.path.basename(path)), _above(path)
    if form is None or form is DISTCP:
        return None
    step = worded_step(os.path.basename(path))
    return form if step is None or step in seen.steps(folder) else None


def _is_empty_step(folder: str, name: str) -> bool:
    """Return whether a name states a step and is that of an empty folder, as an interrupted writer leaves."""
    path = _below(folder, name)
    return worded_step(name) is not None and os.path.isdir(path) and not os.listdir(path)


def _may_be_copy(folder: str, name: str) -> bool:
    """Return whether a file or folder beside checkpoints may be one of them under another name: best.pt."""
    path = _below(folder, name)
    if os.path.islink(path) or readable(path) != path or (looks_like_step(name) and not is_copy(_stem(name))):
        return False
    if os.path.isdir(path):
        place = LocalFolder(Path(path))
        return "\\" not in name and is_checkpoint(place) and not any(map(looks_like_step, place.files()))
    return os.path.isfile(path) and is_weights_file(name)


def _stem(name: str) -> str:
    return name.rsplit(".", 1)[0]


def _copy(folder: str, name: str) -> Source:
    """Return a file or folder of weights beside the checkpoints of a run, as a run of its own."""
    place, path = LocalFolder(Path(folder)), _below(folder, name)
    revision = revision_at(Path(folder), name)

    def opened() -> Reader:
        if os.path.isdir(path):
            return open_folder(place.sub(name) if revision is None else revision[1])
        return open_plain(place.open(name))

    run = f"{base_name(folder)}/{name if revision is None else revision[0]}"
    entry = Entry(Checkpoint(run, 0, None, path), opened)
    return Source(RunRecord(run, uri=entry.checkpoint.uri), (entry,), empty)


@dataclass(slots=True)
class _Places:
    """The files and folders that runs are read from, those that are named already, and the folders above."""

    root: str
    entries: dict[str, Entry]
    named: frozenset[str]
    busy: set[str] = field(default_factory=set)
    """The folders that a checkpoint of a run is in."""
    homes: set[str] = field(default_factory=set)
    """The folders that have a checkpoint directly in them, or in their folder checkpoints."""

    @classmethod
    def of(cls, root: str, sources: Sequence[Source], named: Sequence[Unread]) -> _Places:
        entries = {
            _spelt(place): entry
            for source in sources
            for entry in source.entries
            for place in (entry.checkpoint.uri, *entry.parts)
        }
        seen = cls(root, entries, frozenset(_spelt(entry.place) for entry in named))
        for place in entries:
            home = _above(place)
            seen.homes |= {home} if place != root else set()
            if os.path.basename(home) == CHECKPOINTS and home != root:
                seen.homes.add(_above(home))
            while place not in seen.busy and place != _above(place):
                seen.busy.add(place)
                place = root if place == root else _above(place)
        seen.busy.add(root)
        return seen

    def top(self, folder: str) -> str:
        """Return the highest folder at or above one that no checkpoint of a run is in."""
        while folder not in self.busy and (above := _above(folder)) not in self.busy:
            folder = above
        return folder

    def steps(self, folder: str) -> set[int]:
        """Return the steps of the checkpoints in a folder, or of the one whose folder it is in."""
        within = {folder, *map(str, Path(folder).parents)}
        places = self.entries.items()
        return {
            entry.checkpoint.step for place, entry in places if place in within or _above(place) == folder
        }

    def has(self, path: str) -> bool:
        """Return whether a path is that of a checkpoint or is named, or leads to such a one."""
        if path in self.entries or readable(path) in self.named:
            return True
        return os.path.islink(path) and _relative(os.path.realpath(path), self.root) in self.entries


def _spelt(place: str) -> str:
    """Return a path in the one spelling that is compared here: ./a is a, because both stand for one file."""
    return str(Path(place))


def _below(folder: str, name: str) -> str:
    return str(Path(folder) / name)


def _above(place: str) -> str:
    """Return the folder that a path is in; above a plain name it is '.'."""
    return str(Path(place).parent)


def _relative(real: str, root: str) -> str:
    """Return a real path as it is called below `root`, whose own path may contain links."""
    return _below(root, os.path.relpath(real, os.path.realpath(root)))


def _walk(root: str, seen: _Places) -> Iterator[tuple[str, list[str]]]:
    """Yield folders from the top, with the names of the weights in each that no run has."""
    ahead: deque[tuple[str, Entry | None]] = deque([(root, seen.entries.get(root))])
    while ahead:
        folder, inside = ahead.popleft()
        try:
            with os.scandir(folder) as entries:
                listing = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            yield _above(folder), [f"{os.path.basename(folder)} ({error.strerror})"]
            continue
        names = {entry.name for entry in listing}
        if _STORE in names:  # its own folders hold copies that a watch keeps, and results
            listing = [entry for entry in listing if not passes(entry.is_dir)]
        kept: list[str] = []
        for entry in listing:
            if entry.name.startswith(".") or (_OWN_RUN in names and entry.name in _OF_OWN_RUN):
                continue
            if not passes(entry.is_dir):
                kept += [entry.name] if _is_unseen(entry, inside, seen) else []
                continue
            path = _below(folder, entry.name)
            if (
                not entry.is_symlink()
                and readable(path) not in seen.named
                and not (is_beside_weights(entry.name) or is_state_of(entry.name, names))
            ):
                within = seen.entries.get(path) or inside
                beside = within is None and folder in seen.homes
                if beside and (_may_be_copy(folder, entry.name) or _is_empty_step(folder, entry.name)):
                    kept.append(entry.name)
                elif not _is_part(entry.name, inside):
                    ahead.append((path, within))
        yield folder, kept


def _is_part(name: str, inside: Entry | None) -> bool:
    """Return whether a folder in a checkpoint's own is where its format keeps weights."""
    return inside is not None and name in (*INNER, OLMO_CORE, FSDP)


def _is_unseen(file: os.DirEntry[str], inside: Entry | None, seen: _Places) -> bool:
    """Return whether a file holds weights that are not those of a checkpoint."""
    foreign = foreign_name(file.name)
    if seen.has(_spelt(file.path)) or not (is_weights_file(file.name) or foreign or _is_packed(file)):
        return False
    if inside is not None:
        return _states_another(file, inside) or foreign not in (None, DISTCP)
    stem, end = os.path.splitext(file.name.lower())
    return end != ".bin" or stem in _OF_MODELS or _begins_like_torch(file)


def _is_packed(file: os.DirEntry[str]) -> bool:
    """Return whether a file seems to hold weights in an archive, a pickle or an array, or some set aside."""
    name = file.name
    stem, end = os.path.splitext(name.lower())
    stated = end in _PACKED and (stem in _OF_MODELS or looks_like_step(name))
    if not end and looks_like_step(name):
        stated = passes(file.is_file) and file.stat().st_size > _LONGEST_LINE
    return (stated or _ASIDE.search(name) is not None) and not is_beside_weights(name)


def _states_another(file: os.DirEntry[str], inside: Entry) -> bool:
    """Return whether a file in a checkpoint's folder is of another checkpoint.

    In a folder whose name states no step, weights in a folder of their own are another model.
    """
    place = inside.checkpoint.uri
    parts = os.path.relpath(file.path, place).split(os.sep)
    stated = [step for part in parts if (step := worded_step(part)) is not None]
    if any(step != inside.checkpoint.step for step in stated):
        return True
    return len(parts) > 1 and not stated and step_of(os.path.basename(place)) is None


def _begins_like_torch(file: os.DirEntry[str]) -> bool:
    try:
        if not passes(file.is_file):
            return True
        with open(file.path, "rb") as opened:
            return opened.read(1) in _TORCH
    except OSError:
        return True


def _unread(top: str, names: Sequence[str], busy: bool) -> Unread:
    """Return what says that the weights of a folder were not looked at."""
    files = [readable(name) for name in names]
    place = readable(_below(top, names[0]) if busy else top)
    belong = "belongs" if len(files) == 1 else "belong"
    why = f"{readable(top)}: {listed(files, most=3)} {belong} to no checkpoint that was read here"
    path = _below(top, names[0])
    return Unread(
        place, f"{why}; give {place} alone" if readable(path) == path else f"{why}; rename what is not UTF-8"
    )
