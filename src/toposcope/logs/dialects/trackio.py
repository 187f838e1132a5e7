"""trackio databases: a SQLite file for each project, with a row of JSON for each record."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Blob, LocalBlob, stream
from toposcope.logs.dialects.json_text import flat
from toposcope.logs.records import collected
from toposcope.logs.run import Run

_NEEDED = {"run_name", "step", "metrics"}


@contextmanager
def _local(blob: Blob) -> Iterator[Path]:
    """Yield the path of a database; a remote one is fetched for the block."""
    if isinstance(blob, LocalBlob):
        yield blob.path.resolve()
        return
    with tempfile.TemporaryDirectory() as folder, stream(blob) as file:
        path = Path(folder) / "trackio.db"
        with path.open("wb") as out:
            while piece := file.read(1 << 20):
                out.write(piece)
        yield path


def runs(blob: Blob) -> Sequence[Run]:
    """Return the runs of a database, in the order of their first records."""
    try:
        with (
            _local(blob) as path,
            closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as base,
        ):
            columns = {str(row[1]) for row in base.execute("pragma table_info(metrics)")}
            if not columns >= _NEEDED:
                raise SourceError(
                    f"{blob.label}: is a SQLite file without trackio's table of metrics", remedy="give a log"
                )
            names = [
                str(row[0])
                for row in base.execute("select run_name from metrics group by 1 order by min(id)")
            ]
            return [Run(name, collected(_rows(base, name), blob.label)) for name in names]
    except sqlite3.Error as error:
        raise SourceError(
            f"{blob.label}: cannot be read as SQLite ({str(error)[:80]}); fetch it again"
        ) from error


def _rows(base: sqlite3.Connection, name: str) -> Iterator[dict[str, float]]:
    for step, text in base.execute(
        "select step, metrics from metrics where run_name = ? order by id", [name]
    ):
        try:
            content = json.loads(text)
        except (ValueError, TypeError, RecursionError):
            continue
        if isinstance(content, dict):
            yield flat({**content, "step": step})
