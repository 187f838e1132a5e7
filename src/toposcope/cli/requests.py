"""The options that a subject's request gives to its command."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from toposcope.subjects.request import CommandOption, options_of


def request_options(request: type) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add the fields of `request` to a command as options; it gets those that were typed as `settings`."""
    known = list(options_of(request))

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(command)
        def gathered(**given: Any) -> int:
            typed = {field.name: given.pop(field.name) for field, _, _ in known}
            settings = {name: value for name, value in typed.items() if value is not None}
            return command(settings=settings, **given)

        wrapped: Callable[..., int] = gathered
        for field, kind, said in reversed(known):
            wrapped = _option(field.name, field.default, kind, said)(wrapped)
        return wrapped

    return decorate


def _option(field: str, default: object, kind: type, said: CommandOption) -> Callable[[Any], Any]:
    """Return the option of one field; its default is shown but not set, so that a preset's value counts."""
    spelt = _spelt(field)
    if kind is bool:
        return click.option(spelt, field, is_flag=True, default=None, help=said.help)
    shown = said.shown or ("" if default is None else str(default))
    return click.option(
        spelt,
        field,
        type=click.Choice(said.choices) if said.choices else kind,
        help=f"{said.help}  [default: {shown}]" if shown else said.help,
    )


def _spelt(field: str) -> str:
    return f"--{field.replace('_', '-')}"
