"""Parquet part files: named by what they hold, written aside and renamed, read back as a whole table.

A folder of parts holds two forms. A *unit part* is one unit, its key in the file name. A *pack* holds
many units; its footer lists their keys and the names of the files that it replaces, so that a reader
who sees a pack and the parts it was made from counts nothing twice. A file whose name begins with a
dot is being written and belongs to nobody else.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from toposcope.errors import StoreError

METADATA_KEY = b"toposcope"
_ROWS_PER_GROUP = 65_536
_TAIL = b"PAR1"


@dataclass(frozen=True, slots=True)
class Part:
    """A file of a table: whose units it holds, and which other files it replaces."""

    path: Path
    owner: str
    probe: str
    keys: tuple[str, ...]
    replaces: tuple[str, ...] = ()
    failed: bool = False
    pack: bool = False


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


def write_atomically(table: pa.Table, path: Path, metadata: dict[str, object]) -> None:
    """Write `table` beside `path` and rename it; on any error nothing is left behind.

    Not synced to the platter: a file that a power cut emptied is recognised by its missing end.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.parent / f".{uuid.uuid4().hex}.tmp"
    table = table.replace_schema_metadata({METADATA_KEY: json.dumps(metadata).encode()})
    try:
        pq.write_table(table, aside, compression="zstd", row_group_size=_ROWS_PER_GROUP)
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
    claimed = {name for part in parts for name in part.replaces}
    return [part for part in parts if part.path.name not in claimed]


def _is_part(name: str) -> bool:
    return name.endswith(".parquet") and not name.startswith(".")


def _part(path: Path) -> Part | None:
    fields = path.name.removesuffix(".parquet").split(".")
    if len(fields) != 4:
        return None
    if fields[-1] == "pack":
        try:
            noted = file_metadata(path)
        except FileNotFoundError:  # replaced by a newer pack since the folder was listed
            return None
        keys, replaces = noted.get("keys", []), noted.get("replaces", [])
        if not isinstance(keys, list) or not isinstance(replaces, list):
            raise broken(path)
        return Part(path, fields[0], fields[1], tuple(keys), tuple(replaces), pack=True)
    failed = fields[-1] == "failed"
    return Part(path, fields[0], fields[2], (path.name if failed else fields[3],), failed=failed)


def read(parts: Iterable[Part], schema: pa.Schema, filters: object = None) -> pa.Table:
    """Return the rows of `parts` as one table in the store's order: run, probe, feature, step."""
    import pyarrow.dataset as ds

    parts = list(parts)
    if not parts:
        return schema.empty_table()
    try:
        data = ds.dataset([str(part.path) for part in parts], schema=schema, format="parquet")
        table = data.to_table(filter=filters)
    except (pa.ArrowInvalid, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        bad = next((part.path for part in parts if not is_readable(part.path)), None)
        if bad is None:
            raise
        raise broken(bad) from error
    return table if _in_order(parts) else _sorted(_distinct(table, parts))


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


def _distinct(table: pa.Table, parts: Sequence[Part]) -> pa.Table:
    """Two launchers that measured one unit left equal rows in two files: keep one of each."""
    keys = [key for part in parts for key in part.keys]
    if len(set(keys)) == len(keys):
        return table
    identity = [name for name in table.column_names if name not in ("seconds", "birth", "death")]
    numbered = table.select(identity).append_column("line", pa.array(range(len(table)), pa.int64()))
    first = numbered.group_by(identity, use_threads=False).aggregate([("line", "min")])
    return table.take(first["line_min"].sort())


def _sorted(table: pa.Table) -> pa.Table:
    order = [name for name in ("run", "probe", "feature", "step") if name in table.column_names]
    return sort_stably(table, order)


def sort_stably(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return `table` sorted by the columns `names`, equal rows in the order they had."""
    line = pa.array(range(len(table)), pa.int64())
    keyed = table.select(list(names)).append_column("line", line)
    return table.take(pa.compute.sort_indices(keyed, [(n, "ascending") for n in [*names, "line"]]))
