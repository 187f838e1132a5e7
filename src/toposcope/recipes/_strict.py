"""Check plain data against a dataclass: every key must be known, every value of the declared type."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, get_args, get_origin, get_type_hints

from toposcope.core.errors import RecipeError


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a remedy: the nearest known name if one is close, else all known names.

    >>> nearest("stepz", ["steps", "seeds"])
    "did you mean 'steps'?"
    """
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(known))}"


def build(kind: type, content: Mapping[str, object], *, where: str) -> Any:
    """Return `kind(**content)`, every key and type checked.

    Raises
    ------
    RecipeError
        Naming `where`, the key, the value, and the nearest known key or the required type.
    """
    wanted = {field.name: field for field in fields(kind)}
    hints = get_type_hints(kind)
    for key in content:
        if key not in wanted:
            raise RecipeError(f"{where} has an unknown key {key!r}: {nearest(key, wanted)}")
    values = {key: _checked(value, hints[key], f"{where}: {key}") for key, value in content.items()}
    missing = [name for name, field in wanted.items() if _required(field) and name not in values]
    if missing:
        raise RecipeError(f"{where} lacks a value for {', '.join(missing)}", remedy="add it")
    return kind(**values)


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _checked(value: object, hint: Any, where: str) -> object:
    if get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            raise RecipeError(f"{where} is {value!r}; give a list")
        inner = get_args(hint)[0]
        return tuple(_checked(item, inner, where) for item in value)
    if isinstance(hint, types.UnionType):
        if value is None:
            return None
        hint = next(option for option in get_args(hint) if option is not type(None))
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hasattr(hint, "__dataclass_fields__"):
        if isinstance(value, hint):
            return value
        if not isinstance(value, Mapping):
            raise RecipeError(f"{where} is {value!r}; give a table")
        return build(hint, value, where=f"{where} {value.get('name', '')}".rstrip())
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        names = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
        raise RecipeError(f"{where} is {value!r}; give {names.get(hint, hint)}")
    return value
