"""Parquet part files: named after their content, written to a temporary file and renamed, read as one table.

A folder of parts has two kinds of file. A *unit part* is one unit, with its key in the file name. A *pack*
has many units; its footer lists their keys and the names of the files that it replaces, so that a reader of a
pack and of the parts from which it was made counts nothing twice. If a run, step and probe has units in
several files, only the newest counts (see `toposcope.store.newest`). The order is that of the write numbers
in the files' footers, not that of the files' times, so that a copy of a store reads like the original. A file
whose name begins with a dot is being written by another process and is not read.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import operator
import os
import re
import stat
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from toposcope.core.errors import StoreError
from toposcope.store import inside, ledger
from toposcope.store.held import HeldUnit, Units

if TYPE_CHECKING:
    import pyarrow.dataset as pads

METADATA_KEY = b"toposcope"
WRITE_NUMBER = "write_number"
# Rows of a parquet row group: readers skip groups by their statistics. Changes no row.
_ROWS_PER_GROUP = 65_536
# Folders whose latest scan is remembered; the memory of a long process stays bounded.
_FOLDERS = 64
_Identity = tuple[int, int, int]
_seen: dict[Path, dict[str, tuple[_Identity, Part]]] = {}
"""The result of the latest scan of a folder: a file is read again only if it has changed."""

_TAIL = b"PAR1"


@dataclass(frozen=True, slots=True)
class Part:
    """A file of a table: its write number, its units, and the files that it replaces.

    `replaces` maps a file's name to its write number: a later file of that name is another one.
    """

    path: Path
    owner: str
    probe: str
    replaces: Mapping[str, int] = field(default_factory=dict)
    failed: bool = False
    pack: bool = False
    held: Sequence[HeldUnit] = ()
    written: int = 0
    latest: int = -1
    """The highest number among `held`."""


def slug(run: str) -> str:
    """Return a file name for a run's name; distinct names give distinct file names.

    >>> slug("xl-97k"), slug("org/model")
    ('xl-97k', 'org-model-c87c0c64')
    """
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", run).strip("-_")[:60]
    return plain if plain == run else f"{plain}-{hashlib.sha256(run.encode()).hexdigest()[:8]}"


def unit_name(run: str, step: int, probe: str, key: str) -> str:
    """Return the file name of a unit part."""
    return f"{slug(run)}.{step:09d}.{probe}.{key}.parquet"


def failure_name(run: str, step: int, probe: str) -> str:
    """Return the file name of the record that a probe failed at a checkpoint, for any content."""
    return f"{slug(run)}.{step:09d}.{probe}.failed.parquet"


def pack_name(owner: str, probe: str, keys: Sequence[str]) -> str:
    """Return the file name of a pack of the run whose slug is `owner`: the same units, the same name."""
    content = hashlib.sha256("".join(sorted(keys)).encode()).hexdigest()[:32]
    return f"{owner}.{probe}.{content}.pack.parquet"


def write_number(after: int) -> int:
    """Return the number of a new write: above `after`, the highest known one, and at least the clock's time.

    Launchers that share a folder then agree on the order as far as their clocks agree, and one whose clock is
    behind still continues from the numbers that it has read.
    """
    return max(after + 1, time.time_ns())


def write_atomically(table: pa.Table, path: Path, metadata: dict[str, object]) -> None:
    """Write `table` beside `path` and rename it; on any error nothing is left behind.

    Every page has a checksum, and the folder's ledger has that of the footer; both are verified on reading.

    Not synced to the platter: a file that a power cut emptied is recognised by its missing end.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.parent / f".{uuid.uuid4().hex}.tmp"
    table = table.replace_schema_metadata({METADATA_KEY: json.dumps(metadata).encode()})
    try:
        pq.write_table(
            table, aside, compression="zstd", row_group_size=_ROWS_PER_GROUP, write_page_checksum=True
        )
        ledger.note(path.parent, path.name, footer=ledger.footer_of(aside))
        os.replace(aside, path)
        if not path.name.endswith(".failed.parquet"):  # which are taken back
            ledger.note(path.parent, path.name, **ledger.said_of(metadata))
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def is_whole(path: Path) -> bool:
    """Return whether `path` has the end of a complete parquet file."""
    try:
        with open(inside.opened(path), "rb") as file:
            file.seek(-4, os.SEEK_END)
            return file.read(4) == _TAIL
    except (OSError, StoreError):
        return False


def file_metadata(path: Path) -> dict[str, Any]:
    """Return the metadata of `path`: versions, machine, recipe, keys."""
    try:
        raw = (pq.read_schema(path).metadata or {}).get(METADATA_KEY, b"{}")
        return json.loads(raw)
    except FileNotFoundError:
        raise
    except (pa.ArrowInvalid, ValueError, OSError, RecursionError) as error:
        raise broken(path) from error


def broken(path: Path) -> StoreError:
    """Return the error for a part that cannot be read."""
    return StoreError(f"{path} is truncated or damaged; repeat the sweep, which measures its units again")


def scan(folder: Path) -> list[Part]:
    """Return the live parts of a table's folder, sorted by name.

    Files that an existing pack replaces are left out. A unit part that cannot be read counts as the first
    write; reading its rows raises an error with its name. Raises `StoreError` for a pack that cannot be read.
    """
    inside.refuse_linked(folder)
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if is_part(entry.name))
    except FileNotFoundError:
        return []
    parts_before, parts_now = _seen.get(folder, {}), {}
    for name in names:
        if (at := _part(folder / name, parts_before.get(name))) is not None:
            parts_now[name] = at
    _seen[folder] = parts_now
    while len(_seen) > _FOLDERS:
        _seen.pop(next(iter(_seen)), None)
    parts = [part for _, part in parts_now.values()]
    there = {part.path.name for part in parts}
    claims: dict[str, int] = {}
    for part in parts:
        for name in there & part.replaces.keys():
            claims[name] = max(part.replaces[name], claims.get(name, -1))
    return [part for part in parts if part.written > claims.get(part.path.name, -1)]


def replaced(part: Part, there: Set[str]) -> dict[Path, int]:
    """Return the files among `there` that a pack replaces; a newer file of the same name is not replaced."""
    replacing = {}
    for name in part.replaces.keys() & there:
        at = _part(part.path.with_name(name), None)
        if at is not None and at[1].written <= part.replaces[name]:
            replacing[at[1].path] = part.replaces[name]
    return replacing


def remove(path: Path, written: int) -> bool:
    """Remove a file unless a later write than `written` has taken its name; return whether it was removed.

    The file is moved aside first, because another process may write it anew between the look and the removal.
    """
    aside = path.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        if _number(path) > written:
            return False
        path.rename(aside)
        newer = _number(aside) > written
    except FileNotFoundError:  # removed by another process
        return False
    if newer and not path.exists():
        aside.rename(path)
        return False
    aside.unlink()
    return not newer


def _number(path: Path) -> int:
    """Return the write number of a file; 0 if it cannot be read."""
    try:
        return int(file_metadata(path).get(WRITE_NUMBER, 0))
    except StoreError:
        return 0


def is_part(name: str) -> bool:
    """Return whether the name of a file is that of a part: one that begins with a dot is being written."""
    return name.endswith(".parquet") and not name.startswith(".")


def _part(path: Path, before: tuple[_Identity, Part] | None) -> tuple[_Identity, Part] | None:
    """Return a file with its contents; it is read unless it is the `before` one, unchanged."""
    fields = path.name.removesuffix(".parquet").split(".")
    if len(fields) != 4:
        return None
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise inside.not_plain(path)
        identity = _identity(status)
        if before is not None and before[0] == identity:
            return before
        return identity, _pack(path, fields) if fields[-1] == "pack" else _single(path, fields)
    except FileNotFoundError:  # replaced by a newer pack since the folder was listed
        return None


def _identity(status: os.stat_result) -> _Identity:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _single(path: Path, fields: Sequence[str]) -> Part:
    if fields[-1] == "failed":
        return Part(path, fields[0], fields[2], failed=True)
    try:
        written = _number(path)
    except (TypeError, ValueError) as error:
        raise broken(path) from error
    if not fields[1].isdecimal():
        raise StoreError(f"{path} is no part of a store, by its name; remove it")
    held = (HeldUnit(int(fields[1]), fields[3], written),)
    return Part(path, fields[0], fields[2], held=held, written=written, latest=written)


def _pack(path: Path, fields: Sequence[str]) -> Part:
    noted = file_metadata(path)
    try:
        units = Units(HeldUnit(int(step), str(key), int(at)) for step, key, at in noted["units"])
        replaces = {str(name): int(at) for name, at in noted["replaces"].items()}
        written = int(noted[WRITE_NUMBER])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise broken(path) from error
    return Part(
        path, fields[0], fields[1], replaces, pack=True, held=units, written=written, latest=units.written
    )


def read(
    parts: Iterable[Part],
    schema: pa.Schema,
    filters: pc.Expression | None = None,
    superseded: Mapping[Path, pc.Expression] | None = None,
) -> pa.Table:
    """Return the rows of `parts` as one table in the store's order: run, probe, feature, step.

    `superseded` says which rows of a part do not count.
    """
    import pyarrow.dataset as ds

    parts = list(parts)
    if not parts:
        return schema.empty_table()
    try:
        _check_footers(parts)
        tables = []
        for without, group in _alike(parts, superseded or {}):
            data = ds.dataset([str(part.path) for part in group], schema=schema, format=_verified())
            tests = [test for test in (filters, None if without is None else ~without) if test is not None]
            tables.append(data.to_table(filter=functools.reduce(operator.and_, tests) if tests else None))
        table = pa.concat_tables(tables)
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        bad = next((part.path for part in parts if not is_readable(part.path)), None)
        if bad is None:
            raise
        raise broken(bad) from error
    return table if _in_order(parts) else _sorted(table)


def _alike(
    parts: Sequence[Part], superseded: Mapping[Path, pc.Expression]
) -> Iterator[tuple[pc.Expression | None, list[Part]]]:
    """Group neighbouring parts that are read completely; every other part is a group of its own."""
    marks = itertools.groupby(enumerate(parts), lambda at: at[0] if at[1].path in superseded else -1)
    for _, members in marks:
        group = [part for _, part in members]
        yield superseded.get(group[0].path), group


def is_readable(path: Path) -> bool:
    """Return whether every row group of `path` can be decoded."""
    try:
        read_whole(path)
    except (pa.ArrowInvalid, OSError, StoreError):
        return False
    return True


def set_aside_if_broken(path: Path) -> bool:
    """Rename a file that is truncated or damaged so that it is no part; return whether it was.

    A file that another process removes or writes anew during the look is left alone: it was not looked at.
    """
    try:
        before = _identity(path.lstat())
        if (is_whole(path) and is_readable(path)) or _identity(path.lstat()) != before:
            return False
        path.rename(path.with_name(f".{path.name}.broken"))
    except FileNotFoundError:
        return False
    return True


def read_whole(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Return one file, with its checksums verified."""
    if not ledger.of(path.parent).is_sound(path):
        raise broken(path)
    return pq.read_table(path, columns=columns, page_checksum_verification=True)


def _check_footers(parts: Iterable[Part]) -> None:
    """Refuse a file whose footer does not match the ledger."""
    ledgers: dict[Path, ledger.Ledger] = {}
    for part in parts:
        folder = part.path.parent
        table_ledger = ledgers[folder] = ledgers.get(folder) or ledger.of(folder)
        if not table_ledger.is_sound(part.path):
            raise broken(part.path)


def _verified() -> pads.ParquetFileFormat:
    """Return the format of the store's files, in which every page is checked against its checksum."""
    import pyarrow.dataset as ds

    options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    return ds.ParquetFileFormat(default_fragment_scan_options=options)


def _in_order(parts: Sequence[Part]) -> bool:
    """Return whether there is one pack per run and probe: each is sorted inside, and so are the names."""
    owners = {(part.owner, part.probe) for part in parts}
    return all(part.pack for part in parts) and len(owners) == len(parts)


def _sorted(table: pa.Table) -> pa.Table:
    order = [name for name in ("run", "probe", "feature", "step") if name in table.column_names]
    return sort_stably(table, order)


def sort_stably(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return `table` sorted by the columns `names`; equal rows keep their order."""
    line = pa.array(range(len(table)), pa.int64())
    keyed = table.select(list(names)).append_column("line", line)
    return table.take(pc.sort_indices(keyed, [(n, "ascending") for n in [*names, "line"]]))
