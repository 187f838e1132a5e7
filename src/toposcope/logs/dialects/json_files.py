"""JSON: a list of records, lists by name, transformers' trainer_state.json, or one record per line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pandas as pd

from toposcope.core.errors import NoLogError, SourceError
from toposcope.files.blobs import Blob
from toposcope.files.formats.reader import parse_json
from toposcope.logs.dialects.json_text import flat, text_values
from toposcope.logs.dialects.phrases import HELD_OUT, TRAINED
from toposcope.logs.dialects.tables import runs_of_table
from toposcope.logs.dialects.tracker_exports import metric_among, records_of_export
from toposcope.logs.lines import LONGEST, lines, whole_text
from toposcope.logs.meanings import chosen, meaning, plain
from toposcope.logs.records import PLANNED, Record, collected, number
from toposcope.logs.run import Run

LARGEST = 1 << 28
"""Largest JSON file, in bytes, that is read as a whole."""
TOTAL = "total_steps"
"""The planned steps in each record of LLaMA-Factory's trainer_log.jsonl."""
_HISTORY = ("log_history", "history", "logs", "log", "metrics", "records")
"""Keys under which files keep their list of records, in the order in which they are tried."""
_LOSSES = ("loss", "heldout_loss")
SUMMARY = "train_runtime"
"""The key of transformers' last record, whose `train_loss` is the mean over the run."""
_PERIOD = re.compile(r"(?:(epoch|step|iter|iteration)[ _-]?)?(\d{1,12})", re.IGNORECASE)
"""The name of a record that stands by its epoch or step."""
_DECODER = json.JSONDecoder()
_KINDS = frozenset([int, float])
_NO_TEXTS: Mapping[str, str] = MappingProxyType({})


def records(blob: Blob, notes: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yield the objects of each line; an unfinished last line is left out. `notes` takes what is missing.

    Raises
    ------
    SourceError
        When a line is not a JSON object.
    """
    broken = ""
    for count, line in enumerate(lines(blob, notes), 1):
        if broken:
            raise SourceError(broken)
        text = line.strip().lstrip("\ufeff")
        if not text:
            continue
        contents, error = _values(text)
        if error:
            why = "is too long" if len(line) >= LONGEST else f"is not valid JSON ({error})"
            broken = f"{blob.label}: line {count} {why}; correct it or fetch it again"
        for content in contents:
            several = content if isinstance(content, list) else [content]  # a batch of records, as ClearML's
            if not all(isinstance(record, dict) for record in several):
                raise SourceError(f"{blob.label}: has a line that is not a JSON object; correct it")
            yield from several
    if broken and count == 1:
        raise SourceError(broken)


def _values(text: str) -> tuple[list[Any], str]:
    """Return the JSON values of a line, and what is wrong with it; two writers may have put two on one."""
    try:
        value, end = _DECODER.raw_decode(text)  # without the checks of `json.loads`, half of the time
        if end == len(text):
            return [value], ""
    except (ValueError, RecursionError):
        pass
    try:
        return [json.loads(text)], ""
    except (ValueError, RecursionError) as error:
        values, rest = _objects(text)
        return values, "" if values and not rest else str(error)[:60]


def _objects(text: str) -> tuple[list[Any], str]:
    """Return the JSON values that stand one after another at the begin of a text, and what follows them."""
    values: list[Any] = []
    at = 0
    while at < len(text):
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        values.append(value)
        at = end
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
    return values, text[at:]


def jsonl(blob: Blob) -> Sequence[Run]:
    """Return the runs of a file with one record per line; text values, such as a run's name, are kept."""
    texts: list[Mapping[str, str]] = []
    notes: list[str] = []

    def numbers() -> Iterator[Record]:
        for message in records(blob, notes):
            content = metric_among(message)
            if content is None or SUMMARY in content:
                continue
            if _KINDS.issuperset(map(type, content.values())) and (plain := _plain(content)) is not None:
                texts.append(_NO_TEXTS)
                yield plain
                continue
            texts.append(text_values(content))
            yield {name: value for name, value in flat(content).items() if name not in texts[-1]}

    table = collected(numbers(), blob.label).rename(columns={TOTAL: PLANNED})
    return [replace(run, notes=(*run.notes, *notes)) for run in runs_of_table(_with_texts(table, texts))]


def _plain(content: dict[str, float]) -> Record | None:
    """Return what `flat` returns for a record of plain numbers, in a tenth of the time; None if it is not.

    >>> _plain({"step": 1, "loss": 2.5}), _plain({"step": 10**400})
    ({'step': 1.0, 'loss': 2.5}, None)
    """
    try:
        return (
            dict(zip(content, map(float, content.values()), strict=True))
            if "".join(content).isascii()
            else None
        )
    except OverflowError:
        return None


def _with_texts(table: pd.DataFrame, texts: Sequence[Mapping[str, object]]) -> pd.DataFrame:
    """Return a table of numbers, together with the columns that are text in every record."""
    if not any(texts):
        return table
    named = pd.DataFrame(texts, index=table.index)
    return pd.concat([table, named[[name for name in named if name not in table]]], axis=1)


def json_runs(blob: Blob) -> Sequence[Run]:
    """Return the runs of a file that is one JSON value."""
    notes: list[str] = []
    text = whole_text(blob, LARGEST, notes).replace("\0", "").lstrip("\ufeff").strip()
    content = _parsed(text, blob.label, notes)
    planned = content.get("max_steps") if isinstance(content, dict) else None
    rows = rows_of(content)
    if rows is None:
        raise NoLogError(
            f"{blob.label}: is not a list of records that each have a step; correct or remove it"
        )
    rows = [row for row in rows if SUMMARY not in row]
    table = collected((flat(row) for row in rows), blob.label)
    runs = runs_of_table(_with_texts(table, [text_values(row) for row in rows]))
    if type(planned) is int and 0 < planned < 1 << 53:
        runs = [replace(run, planned_steps=planned) for run in runs]
    return [replace(run, notes=(*run.notes, *notes)) for run in runs]


def _parsed(text: str, label: str, notes: list[str]) -> Any:
    """Return the value of a text, or its objects where several stand one after another, or a list is cut."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        values, rest = _objects(text)
        if not values and text.startswith("["):
            values, rest = _objects(text[1:].lstrip())
        objects = values and all(isinstance(value, dict) for value in values)
        if not objects or (len(values) == 1 and rest):
            return parse_json(text, label)  # raises the error in one line
        if rest.strip("], \n\t"):
            notes.append("the JSON is cut short or damaged: what follows its last whole record is left out")
        return values


def rows_of(content: Any) -> list[dict[str, Any]] | None:
    """Return the records that a JSON value holds; None if it holds none.

    >>> rows_of({"lm loss": {"start_step": 1, "step_interval": 5, "values": [9.1, 8.2]}})
    [{'step': 1, 'lm loss': 9.1}, {'step': 6, 'lm loss': 8.2}]
    >>> rows_of({"loss": {"10": 2.5, "20": 2.25}})
    [{'step': 10.0, 'loss': 2.5}, {'step': 20.0, 'loss': 2.25}]
    """
    if exported := records_of_export(content):
        return exported
    if isinstance(content, dict):
        content = _of_series(content) or _of_pairs(content) or _by_period(content) or _list_of(content)
    elif isinstance(content, list) and (points := _points(content)):
        content = [{"step": step, "loss": value} for step, value in points]
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        return None
    return content


def _points(content: object) -> list[tuple[float, float]]:
    """Return the steps and numbers of pairs, or of TensorBoard's triples of a time, a step and a number.

    >>> _points([[1.7e9, 10, 2.5], [1.7e9, 20, 2.25]]), _points([[1, 2.5]]), _points([1, 2])
    ([(10, 2.5), (20, 2.25)], [(1, 2.5)], [])
    """
    if not isinstance(content, list) or not content:
        return []
    points = [tuple(point[-2:]) for point in content if isinstance(point, list) and len(point) in (2, 3)]
    numbers = all(
        number(coordinate) == number(coordinate) or coordinate != coordinate
        for point in points
        for coordinate in point
    )
    whole = len(points) == len(content) and numbers and all(number(step) % 1 == 0 for step, _ in points)
    return points if whole else []


def _of_pairs(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the records of lists of pairs by name: `{"train_loss": [[10, 2.5], ...]}`; empty for others."""
    named = {name: points for name, value in content.items() if (points := _points(value))}
    if not any(map(_is_loss, named)):
        return []
    return _of_series({name: {str(step): value for step, value in points} for name, points in named.items()})


def _by_period(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return records that stand by their epoch or step: `{"1": {"loss": 2.5}, "2": ...}`; empty for others.

    >>> _by_period({"epoch_1": {"loss": 2.5}, "epoch_2": {"loss": 2.25}})
    [{'epoch': 1.0, 'loss': 2.5}, {'epoch': 2.0, 'loss': 2.25}]
    """
    named = [_PERIOD.fullmatch(name) for name in content]
    if len(content) < 2 or not all(named) or not all(isinstance(record, dict) for record in content.values()):
        return []
    if not any(map(_is_loss, flat(next(iter(content.values()))))):
        return []  # runs, and not records
    pairs = [(period, record) for period, record in zip(named, content.values(), strict=True) if period]
    return [{(period[1] or "epoch").lower(): float(period[2]), **record} for period, record in pairs]


def _of_series(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the records of numbers by step, by name: Megatron's golden values; empty for anything else."""
    rows: dict[float, dict[str, Any]] = {}
    named = {name: value for name, value in content.items() if isinstance(value, dict)}
    if not any("loss" in name.lower() for name in named):
        return []
    for name, value in named.items():
        series = value.get("values", value)
        if isinstance(series, list):
            begin, interval = value.get("start_step", 1), value.get("step_interval", 1)
            if type(begin) is not int or type(interval) is not int:
                continue
            series = {begin + place * interval: number_at for place, number_at in enumerate(series)}
        if not isinstance(series, dict):
            continue
        steps = [number(str(step)) if isinstance(step, str) else step for step in series]
        if any(step != step for step in steps):
            continue
        for step, number_at in zip(steps, series.values(), strict=True):
            rows.setdefault(step, {"step": step})[name] = number_at
    return [rows[step] for step in sorted(rows)]


def _list_of(content: dict[str, Any]) -> object:
    """Return the records in an object: under a known key, as lists by name, or as its first list."""
    if isinstance(content.get("iterations"), list) and isinstance(content.get("meta"), dict):
        return _of_catboost(content["iterations"], content["meta"])
    for name in _HISTORY:
        if isinstance(content.get(name), list):
            return content[name]
        if isinstance(content.get(name), dict):
            content = content[name]
    lists = {name: value for name, value in _flat_lists(content).items() if value}
    numbers = {name: value for name, value in lists.items() if not isinstance(value[0], dict | list)}
    if any(_is_loss(name) for name in numbers):
        longest = max(len(value) for name, value in numbers.items() if _is_loss(name))
        counted = any(meaning(name) in ("step", "epoch") for name in numbers)
        steps = {} if counted else {"step": list(range(1, longest + 1))}
        whole = {_singular(name): value for name, value in numbers.items() if len(value) == longest}
        full = {**steps, **whole}
        return [dict(zip(full, row, strict=True)) for row in zip(*full.values(), strict=True)]
    records = {n: v for n, v in lists.items() if all(isinstance(row, dict) for row in v)}
    return _records_among(records) or ([content] if _is_record(content) else [])


def _of_catboost(rows: list[Any], meta: Mapping[str, Any]) -> object:
    """Return the records of CatBoost's `catboost_training.json`, their metrics named by its `meta`.

    >>> meta = {"learn_metrics": [{"name": "Logloss"}], "iteration_count": 9}
    >>> _of_catboost([{"learn": [0.5], "iteration": 0}], meta)
    [{'learn Logloss': 0.5, 'iteration': 0, 'planned_steps': 9}]
    """
    names: dict[str, list[str]] = {}
    for kind in ("learn", "test"):
        listed = meta.get(f"{kind}_metrics")
        metrics = (
            [metric for metric in listed if isinstance(metric, dict)] if isinstance(listed, list) else []
        )
        names[kind] = [f"{kind} {metric.get('name')}" for metric in metrics]
    planned = {PLANNED: meta["iteration_count"]} if type(meta.get("iteration_count")) is int else {}
    records = []
    for row in rows:
        if not isinstance(row, dict):
            return rows
        record: dict[str, Any] = {}
        for name, value in row.items():
            is_listed = _is_list_of(name, names, value)
            record |= dict(zip(names[name], value, strict=True)) if is_listed else {name: value}
        records.append(record | planned)
    return records


def _is_list_of(name: str, names: Mapping[str, list[str]], value: object) -> bool:
    return name in names and isinstance(value, list) and len(value) == len(names[name])


def _records_among(lists: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the lists of training and of evaluation together, or the first list of records with a step.

    >>> _records_among({"train": [{"step": 1, "loss": 2.0}], "val": [{"step": 1, "loss": 2.5}]})
    [{'step': 1, 'loss': 2.0}, {'step': 1, 'val_loss': 2.5}]
    >>> _records_among({"meta": [{"name": "a"}], "rows": [{"step": 1}]})
    [{'step': 1}]
    """
    counted = {name: rows for name, rows in lists.items() if "step" in chosen(rows[0])}
    words = {name: {*plain(name).split("_")} for name in counted}
    held = next((rows for name, rows in counted.items() if words[name] & {*HELD_OUT}), [])
    trained = next((rows for name, rows in counted.items() if words[name] & {*TRAINED}), [])
    if not (held and trained):
        return next(iter([*counted.values(), *lists.values()]), [])
    named = [
        {f"val_{name}" if name == "loss" else name: value for name, value in row.items()} for row in held
    ]
    return _merged(trained, named)


def _merged(trained: list[dict[str, Any]], held: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return records of evaluation each after that of training which reaches its step."""
    step, own_step = (str(chosen(rows[0])["step"]) for rows in (trained, held))
    merged, waiting = [], list(held)
    for row in trained:
        merged.append(row)
        while waiting and not number(waiting[0].get(own_step)) > number(row.get(step)):
            merged.append(waiting.pop(0))
    return [*merged, *waiting]


def _is_record(content: Mapping[str, Any]) -> bool:
    """Return whether an object is one record: it has a step and a loss that are numbers."""
    names = {meaning(name) for name, value in content.items() if number(value) == number(value)}
    return "step" in names and bool(names & {*_LOSSES})


def _flat_lists(content: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the lists of an object by name, and those of the objects in it as outer/inner."""
    lists: dict[str, list[Any]] = {}
    for name, value in content.items():
        if isinstance(value, list):
            lists[name] = value
        elif isinstance(value, dict):
            lists |= {
                f"{name}/{inner}": inner_value
                for inner, inner_value in value.items()
                if isinstance(inner_value, list)
            }
    return lists


def _is_loss(name: str) -> bool:
    """Return whether a list has the name of a loss, or of losses: `train_losses`."""
    from toposcope.logs.measures import measure

    return meaning(name) in _LOSSES or name.lower().endswith(("loss", "losses")) or measure(name) is not None


def _singular(name: str) -> str:
    """Return the name of a list of losses as that of a column: train_loss, not train_losses."""
    return f"{name[:-4]}{name[-4:].lower().removesuffix('es')}" if name.lower().endswith("losses") else name
