"""Write the small part of TOML that recipes use: scalars, lists of scalars, one level of tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence


def dumps(content: Mapping[str, object]) -> str:
    """Return `content` as TOML; lists of mappings become arrays of tables and come last.

    >>> print(dumps({"steps": 5, "models": [{"name": "a"}]}))
    steps = 5
    <BLANKLINE>
    [[models]]
    name = "a"
    <BLANKLINE>
    """
    tables = {key: value for key, value in content.items() if _is_tables(value)}
    lines = _pairs({key: value for key, value in content.items() if key not in tables})
    for key, value in tables.items():
        for item in value:  # type: ignore[attr-defined]
            lines += ["", f"[[{key}]]", *_pairs(item)]
    return "\n".join(lines) + "\n"


def _is_tables(value: object) -> bool:
    return isinstance(value, Sequence) and bool(value) and isinstance(value[0], Mapping)


def _pairs(content: Mapping[str, object]) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in content.items()]


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Sequence):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    raise TypeError(f"a recipe cannot hold a {type(value).__name__}")
