"""The options that a request gives to its command."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from toposcope.subjects.request import CommandOption

Decorated = Callable[[Callable[..., int]], Callable[..., int]]


def as_option(**settings: Any) -> Any:
    """Return a field that is an option of the command line, under its name; see `click.option`."""
    return dataclasses.field(metadata=settings)


def options_from(request: type, argument: str) -> Decorated:
    """Return what adds the fields of `request` to a command as options; it gets them as one request."""
    fields = dataclasses.fields(request)

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(command)
        def gathered(**given: Any) -> int:
            made = request(**{field.name: given.pop(field.name) for field in fields})
            return command(**{argument: made}, **given)

        wrapped: Callable[..., int] = gathered
        for field in reversed(fields):
            wrapped = click.option(_spelt(field.name), field.name, **field.metadata)(wrapped)
        return wrapped

    return decorate


def request_options(request: type) -> Decorated:
    """Add the fields of `request` to a command as options; it gets those that were typed as `settings`."""
    from toposcope.subjects.request import options_of

    options = list(options_of(request))

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(command)
        def gathered(**given: Any) -> int:
            typed = {field.name: given.pop(field.name) for field, _, _ in options}
            settings = {name: value for name, value in typed.items() if value is not None}
            return command(settings=settings, **given)

        wrapped: Callable[..., int] = gathered
        for field, kind, command_option in reversed(options):
            wrapped = _option(field.name, field.default, kind, command_option)(wrapped)
        return wrapped

    return decorate


def _option(field: str, default: object, kind: type, command_option: CommandOption) -> Callable[[Any], Any]:
    """Return the option of one field; its default is shown but not set, so that a preset's value counts."""
    spelt = _spelt(field)
    if kind is bool:
        return click.option(spelt, field, is_flag=True, default=None, help=command_option.help)
    shown = command_option.shown or ("" if default is None else str(default))
    return click.option(
        spelt,
        field,
        type=click.Choice(command_option.choices) if command_option.choices else kind,
        help=f"{command_option.help}  [default: {shown}]" if shown else command_option.help,
    )


def _spelt(field: str) -> str:
    return f"--{field.replace('_', '-')}"
