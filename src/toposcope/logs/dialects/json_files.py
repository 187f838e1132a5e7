"""JSON: a list of records, lists by name, transformers' trainer_state.json, or one record per line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from toposcope.core.errors import SourceError
from toposcope.files.blobs import Blob
from toposcope.files.formats.reader import parse_json
from toposcope.logs.dialects.dialect import FileDialect
from toposcope.logs.dialects.json_text import flat
from toposcope.logs.dialects.tables import runs_of_table
from toposcope.logs.lines import LONGEST, lines, whole_text
from toposcope.logs.records import PLANNED, Record, collected, number
from toposcope.logs.run import Run

LARGEST = 1 << 28
"""Largest JSON file, in bytes, that is read as a whole."""
TOTAL = "total_steps"
"""The planned steps in each record of LLaMA-Factory's trainer_log.jsonl."""
_HISTORY = ("log_history", "history", "logs", "log", "metrics", "records")
"""Keys under which files keep their list of records, in the order in which they are tried."""


def records(blob: Blob) -> Iterator[dict[str, Any]]:
    """Yield the object of each line; an unfinished last line is left out.

    Raises
    ------
    SourceError
        When a line is not a JSON object.
    """
    broken = ""
    for count, line in enumerate(lines(blob), 1):
        if broken:
            raise SourceError(broken)
        if not line.strip():
            continue
        try:
            content = json.loads(line)
        except (ValueError, RecursionError) as error:
            why = "is too long" if len(line) >= LONGEST else f"is not valid JSON ({str(error)[:60]})"
            broken = f"{blob.label}: line {count} {why}; correct it or fetch it again"
            continue
        if not isinstance(content, dict):
            raise SourceError(f"{blob.label}: has a line that is not a JSON object; correct it")
        yield content
    if broken and count == 1:
        raise SourceError(broken)


def _jsonl(blob: Blob) -> Sequence[Run]:
    """Return the runs of a file with one record per line; text values, such as a run's name, are kept."""
    texts: list[dict[str, object]] = []

    def numbers() -> Iterator[Record]:
        for content in records(blob):
            texts.append({name: value for name, value in content.items() if _is_name(name, value)})
            yield {name: value for name, value in flat(content).items() if name not in texts[-1]}

    table = collected(numbers(), blob.label).rename(columns={TOTAL: PLANNED})
    return runs_of_table(_with_texts(table, texts))


def _with_texts(table: pd.DataFrame, texts: Sequence[Mapping[str, object]]) -> pd.DataFrame:
    """Return a table of numbers, together with the columns that are text in every record."""
    named = pd.DataFrame(texts, index=table.index)
    return pd.concat([table, named[[name for name in named if name not in table]]], axis=1)


def _is_name(name: str, value: object) -> bool:
    return isinstance(value, str) and number(value) != number(value) and value.strip().lower() != "nan"


def _json(blob: Blob) -> Sequence[Run]:
    content = parse_json(whole_text(blob, LARGEST), blob.label)
    planned = content.get("max_steps") if isinstance(content, dict) else None
    if isinstance(content, dict):
        content = _list_of(content)
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise SourceError(
            f"{blob.label}: is not a list of records that each have a step; correct or remove it"
        )
    rows = [row for row in content if "train_runtime" not in row]
    table = collected((flat(row) for row in rows), blob.label)
    texts = [{k: v for k, v in row.items() if _is_name(k, v)} for row in rows]
    runs = runs_of_table(_with_texts(table, texts))
    if type(planned) is int and 0 < planned < 1 << 53:
        runs = [replace(run, planned_steps=planned) for run in runs]
    return runs


def _list_of(content: dict[str, Any]) -> object:
    """Return the records in an object: under a known key, as lists by name, or as its first list."""
    for name in _HISTORY:
        if isinstance(content.get(name), list):
            return content[name]
        if isinstance(content.get(name), dict):
            content = content[name]
    lists = {name: value for name, value in content.items() if isinstance(value, list)}
    if any(name in lists for name in ("loss", "train_loss", "val_loss")):
        longest = max(map(len, lists.values()))
        steps = (
            {} if any(name in lists for name in ("step", "epoch")) else {"step": list(range(1, longest + 1))}
        )
        full = {**steps, **{name: value for name, value in lists.items() if len(value) == longest}}
        return [dict(zip(full, row, strict=True)) for row in zip(*full.values(), strict=True)]
    return next((v for v in lists.values() if v and all(isinstance(row, dict) for row in v)), [])


def _is_jsonl(name: str, head: bytes) -> bool:
    name = name.removesuffix(".gz")
    if name.endswith((".jsonl", ".ndjson")):
        return True
    first, _, more = head.partition(b"\n")
    return not name.endswith(".json") and _is_object(first) and (not more.strip() or more.startswith(b"{"))


def _is_object(line: bytes) -> bool:
    """Return whether a line is a JSON object, which has its names in double quotes."""
    text = line.removeprefix(b"\xef\xbb\xbf").strip()
    return text.startswith(b"{") and text.endswith(b"}") and text[1:].lstrip().startswith((b'"', b"}"))


JSONL = FileDialect("JSONL", _is_jsonl, _jsonl)
JSON = FileDialect("JSON", lambda name, head: name.removesuffix(".gz").endswith(".json"), _json)
