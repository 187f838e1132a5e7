"""JSON objects among other text: `2024-05-01 INFO {"step": 10, "train/loss": 2.31}`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toposcope.files.blobs import readable
from toposcope.logs.dialects.dialect import TextDialect
from toposcope.logs.lines import text_of
from toposcope.logs.records import PLANNED, Record, number

# Nesting depth to which numbers of objects become columns; deeper ones are left out.
_DEEPEST = 3
STEP_OF_PLAN = re.compile(r"\s*(\d{1,15})\s*/\s*(\d{1,15})\s*$")
_OF_A_MEAN = frozenset(["mean", "num", "std", "min", "max", "count", "var", "n"])
"""The numbers of an object that stands for its mean: `"Loss/loss": {"num": 64, "mean": 2.3, "std": 0.1}`."""
COUNTS_STEPS = re.compile(r"step|iter|update", re.IGNORECASE)


def flat(content: dict[str, Any], before: str = "", depth: int = 0) -> dict[str, float]:
    """Return the numbers of a JSON object by name; those of inner objects as outer/inner.

    >>> flat({"step": 1, "train": {"loss": "2.5", "note": "x"}, "on": True})
    {'step': 1.0, 'train/loss': 2.5}
    >>> flat({"global_step/max_steps": "10/400"})
    {'global_step': 10.0, 'planned_steps': 400.0}
    >>> flat({"Loss/loss": {"num": 64, "mean": 2.5, "std": 0.1}, "learn": [0.5]})
    {'Loss/loss': 2.5, 'learn': 0.5}
    """
    values: dict[str, float] = {}
    for name, value in content.items():
        name = str(name)
        if not name.isascii():
            name = readable(name)  # JSON can hold half letters, which cannot be printed
        if isinstance(value, dict) and "mean" in value and value.keys() <= _OF_A_MEAN:
            value = value["mean"]
        elif isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, dict):
            if depth < _DEEPEST:
                values |= flat(value, f"{before}{name}/", depth + 1)
            continue
        read = number(value)
        if read == read or (isinstance(value, float | str) and str(value).strip().lower() == "nan"):
            values[f"{before}{name}"] = read
            continue
        counted = STEP_OF_PLAN.match(value) if isinstance(value, str) and "/" in value else None
        if counted and COUNTS_STEPS.search(str(name)):  # "8270/11043" is a step and a plan
            values[f"{before}{str(name).partition('/')[0]}"] = float(counted[1])
            values[PLANNED] = float(counted[2])
    return values


def text_values(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of a JSON object that are no numbers, such as the name of a run."""
    return {readable(name): readable(value) for name, value in content.items() if is_name(value)}


def is_name(value: object) -> bool:
    """Return whether a value of a record is a text and no number."""
    return isinstance(value, str) and number(value) != number(value) and value.strip().lower() != "nan"


def records(lines: Iterable[str]) -> Iterator[Record]:
    """Yield the numbers of each object."""
    for line in lines:
        begin, end = line.find("{"), line.rfind("}")
        if 0 <= begin < end:
            try:
                content = json.loads(line[begin : end + 1])
            except (ValueError, RecursionError):
                continue
            if isinstance(content, dict) and (values := flat(content)):
                yield values


def is_jsonl(name: str, head: bytes) -> bool:
    """Return whether a file has one JSON object per line, by its lower-case name and its first bytes."""
    name = name.removesuffix(".gz")
    begun = [line.strip() for line in text_of(head).lstrip("\ufeff\n\r \0").splitlines()]
    first, second = (*begun, "", "")[:2]
    if name.endswith((".jsonl", ".ndjson")):
        return first not in ("{", "[")
    return _is_object(first) and (second.startswith("{") or (not second and not name.endswith(".json")))


def _is_object(line: str) -> bool:
    """Return whether a line is a JSON object, which has its names in double quotes."""
    return line.startswith("{") and line.endswith("}") and line[1:].lstrip().startswith(('"', "}"))


def is_json(name: str, head: bytes) -> bool:
    """Return whether a file is JSON, by its lower-case name and its first bytes."""
    text = text_of(head).lstrip("\ufeff\0").lstrip()
    inside = text[1:].lstrip()
    begins = (text[:1] == "{" and inside[:1] == '"') or (text[:1] == "[" and inside[:1] == "{")
    return name.removesuffix(".gz").endswith((".json", ".jsonl")) or begins


def is_notebook(name: str, head: bytes) -> bool:
    """Return whether a file is a notebook, by its lower-case name or its first bytes."""
    return name.endswith(".ipynb") or (b'"cells"' in head and b'"cell_type"' in head)


DIALECT = TextDialect(
    "JSON in text",
    ('":', '" :'),
    re.compile(r'"(?:[\w/ -]{0,40}step|current_steps|iter\w{0,9}|num_updates)"\s?:\s?"?\d'),
    records,
)
