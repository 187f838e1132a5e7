"""Parquet part files: named by what they hold, written aside and renamed, read back as a whole table.

A folder of parts holds two forms. A *unit part* is one unit, its key in the file name. A *pack* holds
many units; its footer lists their keys and the names of the files that it replaces, so that a reader
who sees a pack and the parts it was made from counts nothing twice. Of the units that one run, step and
probe has in several files only the newest counts (see `toposcope.store.newest`). A file whose name begins
with a dot is being written and belongs to nobody else.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import operator
import os
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from toposcope.errors import StoreError
from toposcope.store.units import Unit

METADATA_KEY = b"toposcope"
_ROWS_PER_GROUP = 65_536
_TAIL = b"PAR1"
_VERSIONS = range(33)


@dataclass(frozen=True, slots=True)
class Held:
    """A unit that a part holds, and when it was written, in nanoseconds since 1970.

    `step` is None, and `content` is needed to tell the rows of one step apart, only in packs of an older
    toposcope, whose footers do not say which step a key belongs to.
    """

    step: int | None
    key: str
    written: int
    content: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A file of a table: whose units it holds, and which files, no newer than itself, it replaces."""

    path: Path
    owner: str
    probe: str
    keys: tuple[str, ...]
    replaces: tuple[str, ...] = ()
    failed: bool = False
    pack: bool = False
    held: tuple[Held, ...] = ()
    written: int = 0


def slug(run: str) -> str:
    """Return a file-name form of a run's name, distinct for distinct names.

    >>> slug("xl-97k"), slug("org/model")
    ('xl-97k', 'org-model-c87c0c64')
    """
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", run).strip("-_")[:60]
    return plain if plain == run else f"{plain}-{hashlib.sha256(run.encode()).hexdigest()[:8]}"


def unit_name(run: str, step: int, probe: str, key: str) -> str:
    """Return the file name of a unit part."""
    return f"{slug(run)}.{step:09d}.{probe}.{key}.parquet"


def failure_name(run: str, step: int, probe: str) -> str:
    """Return the file name of the record that a probe failed at a checkpoint, whatever its content."""
    return f"{slug(run)}.{step:09d}.{probe}.failed.parquet"


def pack_name(owner: str, probe: str, keys: Sequence[str]) -> str:
    """Return the file name of a pack of the run whose slug is `owner`: the same units, the same name."""
    content = hashlib.sha256("".join(sorted(keys)).encode()).hexdigest()[:32]
    return f"{owner}.{probe}.{content}.pack.parquet"


def write_atomically(
    table: pa.Table, path: Path, metadata: dict[str, object], *, written: int | None = None
) -> None:
    """Write `table` beside `path` and rename it; on any error nothing is left behind.

    The file's time is `written`, in nanoseconds, or now: a coarse clock would make two writes look equal.

    Not synced to the platter: a file that a power cut emptied is recognised by its missing end.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.parent / f".{uuid.uuid4().hex}.tmp"
    table = table.replace_schema_metadata({METADATA_KEY: json.dumps(metadata).encode()})
    try:
        pq.write_table(table, aside, compression="zstd", row_group_size=_ROWS_PER_GROUP)
        at = time.time_ns() if written is None else written
        os.utime(aside, ns=(at, at))
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def is_whole(path: Path) -> bool:
    """Return whether `path` ends like a finished parquet file."""
    try:
        with path.open("rb") as file:
            file.seek(-4, os.SEEK_END)
            return file.read(4) == _TAIL
    except OSError:
        return False


def file_metadata(path: Path) -> dict[str, object]:
    """Return what the writer of `path` noted in it: versions, machine, recipe, keys."""
    try:
        raw = (pq.read_schema(path).metadata or {}).get(METADATA_KEY, b"{}")
        return json.loads(raw)
    except (pa.ArrowInvalid, ValueError) as error:
        raise broken(path) from error


def broken(path: Path) -> StoreError:
    """Return the error for a part that cannot be read."""
    return StoreError(f"{path} is truncated or damaged; repeat the sweep, which measures its units again")


def scan(folder: Path) -> list[Part]:
    """Return the live parts of a table's folder, sorted by name.

    Files claimed by a pack that is there are left out. Raises `StoreError` for a pack that cannot be
    read; unit parts are not opened.
    """
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if _is_part(entry.name))
    except FileNotFoundError:
        return []
    parts = [part for name in names if (part := _part(folder / name)) is not None]
    claims: dict[str, int] = {}
    for part in parts:
        for name in part.replaces:
            claims[name] = max(part.written, claims.get(name, 0))
    return [part for part in parts if part.written > claims.get(part.path.name, -1)]


def replaced(part: Part) -> list[Path]:
    """Return the files that a pack replaces and that are still there; a newer one of that name is not."""
    found = []
    for name in part.replaces:
        path = part.path.with_name(name)
        try:
            if path.stat().st_mtime_ns <= part.written:
                found.append(path)
        except FileNotFoundError:
            continue
    return found


def _is_part(name: str) -> bool:
    return name.endswith(".parquet") and not name.startswith(".")


def _part(path: Path) -> Part | None:
    fields = path.name.removesuffix(".parquet").split(".")
    if len(fields) != 4:
        return None
    try:
        written = path.stat().st_mtime_ns
        if fields[-1] == "pack":
            return _pack(path, fields, written)
    except FileNotFoundError:  # replaced by a newer pack since the folder was listed
        return None
    if fields[-1] == "failed":
        return Part(path, fields[0], fields[2], (path.name,), failed=True, written=written)
    held = (Held(int(fields[1]), fields[3], written),)
    return Part(path, fields[0], fields[2], (fields[3],), held=held, written=written)


def _pack(path: Path, fields: Sequence[str], written: int) -> Part:
    noted = file_metadata(path)
    keys, replaces, units = noted.get("keys", []), noted.get("replaces", []), noted.get("units")
    if not isinstance(keys, list) or not isinstance(replaces, list):
        raise broken(path)
    if isinstance(units, list):
        held = tuple(Held(step, key, at) for step, key, at in units)
    else:
        held = _held_without_units(path, keys, written)
    return Part(
        path, fields[0], fields[1], tuple(keys), tuple(replaces), pack=True, held=held, written=written
    )


def _held_without_units(path: Path, keys: Sequence[str], written: int) -> tuple[Held, ...]:
    """Find the steps of the keys of an older pack from its rows; units without rows have none."""
    columns = ["run", "step", "probe", "content_hash", "recipe_hash"]
    try:
        lines = pq.read_table(path, columns=columns).group_by(columns).aggregate([]).to_pylist()
    except FileNotFoundError:
        raise
    except (pa.ArrowInvalid, OSError) as error:
        raise broken(path) from error
    left, found = set(keys), []
    for line in lines:
        recipe = line.pop("recipe_hash")
        for version in _VERSIONS:
            key = Unit(version=version, **line).key(recipe)
            if key in left:
                left.remove(key)
                found.append(Held(line["step"], key, written, line["content_hash"]))
    return (*found, *(Held(None, key, written) for key in sorted(left)))


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
        tables = []
        for without, group in _alike(parts, superseded or {}):
            data = ds.dataset([str(part.path) for part in group], schema=schema, format="parquet")
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
    """Group neighbouring parts that are read whole; each of the others comes alone."""
    marks = itertools.groupby(enumerate(parts), lambda at: at[0] if at[1].path in superseded else -1)
    for _, members in marks:
        group = [part for _, part in members]
        yield superseded.get(group[0].path), group


def is_readable(path: Path) -> bool:
    """Return whether every row group of `path` can be decoded."""
    try:
        pq.read_table(path)
    except (pa.ArrowInvalid, OSError):
        return False
    return True


def _in_order(parts: Sequence[Part]) -> bool:
    """One pack for every run and probe: each is sorted inside, and so are the names."""
    owners = {(part.owner, part.probe) for part in parts}
    return all(part.pack for part in parts) and len(owners) == len(parts)


def _sorted(table: pa.Table) -> pa.Table:
    order = [name for name in ("run", "probe", "feature", "step") if name in table.column_names]
    return sort_stably(table, order)


def sort_stably(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return `table` sorted by the columns `names`, equal rows in the order they had."""
    line = pa.array(range(len(table)), pa.int64())
    keyed = table.select(list(names)).append_column("line", line)
    return table.take(pc.sort_indices(keyed, [(n, "ascending") for n in [*names, "line"]]))
