"""A request: the frozen dataclass of a subject's settings; its fields are also options of the command."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

_KEY = "option"


@dataclass(frozen=True, slots=True)
class CommandOption:
    """A field of a request as an option of the command line.

    `help` says what it sets; `name` is its name if that differs from the field's; `shown` is displayed
    instead of the field's default; `formerly` are old names that are still accepted.
    """

    help: str
    name: str = ""
    choices: tuple[str, ...] = ()
    shown: str = ""
    formerly: tuple[str, ...] = ()


def option(default: Any, help: str, **more: Any) -> Any:
    """Return a dataclass field that is also an option of the subject's command.

    >>> @dataclass(frozen=True, kw_only=True)
    ... class Request:
    ...     points: int = option(200, "Points of the clouds.")
    >>> [(known.name, kind.__name__, said.help) for known, kind, said in options_of(Request)]
    [('points', 'int', 'Points of the clouds.')]
    """
    return dataclasses.field(default=default, metadata={_KEY: CommandOption(help, **more)})


def options_of(request: type) -> Iterator[tuple[dataclasses.Field[Any], type, CommandOption]]:
    """Yield the fields of a request that are options, each with the type of its value."""
    hints = typing.get_type_hints(request)
    for known in dataclasses.fields(request):
        said = known.metadata.get(_KEY)
        if said is not None:
            yield known, _plain(hints[known.name]), said


def _plain(hint: Any) -> type:
    """Return the type of a value: that of a literal's values, or the first of a union.

    >>> _plain(float | None), _plain(Literal["mean", "last"])
    (<class 'float'>, <class 'str'>)
    """
    if isinstance(hint, types.UnionType):
        return _plain(typing.get_args(hint)[0])
    if typing.get_origin(hint) is Literal:
        return type(typing.get_args(hint)[0])
    return typing.cast(type, hint)
