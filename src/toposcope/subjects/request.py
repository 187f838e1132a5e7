"""A request: the frozen dataclass of a subject's settings; its fields are also options of the command."""

from __future__ import annotations

import dataclasses
import numbers
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from toposcope.core.errors import InputError

_KEY = "option"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CommandOption:
    """A field of a request as an option of the command line, under the field's name.

    `help` says what it sets; `shown` is displayed instead of the field's default.
    """

    help: str
    choices: tuple[str, ...] = ()
    shown: str = ""


def option(
    default: Any, help: str | Callable[[], str], *,
    choices: tuple[str, ...] | Callable[[], tuple[str, ...]] = (), shown: str = "",
) -> Any:  # fmt: skip
    """Return a dataclass field that is also an option of the subject's command.

    Functions instead of help and choices are called when the command asks: their values may grow.

    >>> @dataclass(frozen=True, kw_only=True)
    ... class Request:
    ...     points: int = option(200, "Points of the clouds.")
    >>> [(known.name, kind.__name__, said.help) for known, kind, said in options_of(Request)]
    [('points', 'int', 'Points of the clouds.')]
    """

    def described() -> CommandOption:
        return CommandOption(_now(help), choices=_now(choices), shown=shown)

    return dataclasses.field(default=default, metadata={_KEY: described})


def _now(value: T | Callable[[], T]) -> T:
    return value() if callable(value) else value


def options_of(request: type) -> Iterator[tuple[dataclasses.Field[Any], type, CommandOption]]:
    """Yield the fields of a request that are options, each with the type of its value."""
    hints = typing.get_type_hints(request)
    for field in dataclasses.fields(request):
        described = field.metadata.get(_KEY)
        if described is not None:
            yield field, _plain(hints[field.name]), described()


def make_tuples(request: object) -> None:
    """Let the tuples of a request be given as lists, and a tuple of one string as that string.

    >>> @dataclass(frozen=True)
    ... class Request:
    ...     parts: tuple[str, ...] = ()
    ...
    ...     def __post_init__(self) -> None:
    ...         make_tuples(self)
    >>> Request(["mlp", "head"]), Request("mlp")
    (Request(parts=('mlp', 'head')), Request(parts=('mlp',)))

    Raises
    ------
    InputError
        Naming the first such setting that is neither.
    """
    for name in _tuple_fields(request):
        value = getattr(request, name)
        if not isinstance(value, str | list | tuple):
            raise InputError("it must be a tuple or a list", argument=name, value=value)
        # a string would be taken letter by letter
        object.__setattr__(request, name, (value,) if isinstance(value, str) else tuple(value))


def _tuple_fields(request: object) -> frozenset[str]:
    fields = dataclasses.fields(request)  # type: ignore[arg-type]
    return frozenset(field.name for field in fields if isinstance(field.default, tuple))


def check_counts(request: object, least: Mapping[str, int]) -> None:
    """Refuse a setting that is not a whole number, or is below its least value.

    Raises
    ------
    InputError
        Naming the first such setting.
    """
    for name, lowest in least.items():
        value = getattr(request, name)
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise InputError("it must be a whole number", argument=name, value=value)
        if value < lowest:
            raise InputError(f"it must be at least {lowest}", argument=name, value=value)


def check_choices(request: object, choices: Mapping[str, Collection[object]]) -> None:
    """Refuse a setting that is not one of its choices; a field of several must consist of them.

    Raises
    ------
    InputError
        Naming the first such setting.
    """
    several = _tuple_fields(request)
    for name, allowed in choices.items():
        value = getattr(request, name)
        for item in value if name in several else (value,):
            if item not in tuple(allowed):  # a tuple takes values without a hash, too
                raise InputError(
                    "unknown", argument=name, value=item, remedy=f"choose {', '.join(map(str, allowed))}"
                )


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
