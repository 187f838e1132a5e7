"""Missing and foreign parts of the stores that a command reads: named beside its answer, with exit code 1."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from toposcope.cli.output import beside_json
from toposcope.core.errors import InputError


def naming_part_faults(
    *arguments: str, printed: bool = True
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Let a command name the faults of the stores in its `arguments`; without `printed` it does so itself."""

    def around(command: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(command)
        def told(**given: Any) -> int:
            faults = [fault for name in arguments for fault in _faults(given[name])]
            with beside_json({"part_faults": faults} if faults else {}):
                code = command(**given)
            for fault in faults if printed else ():
                click.echo(f"problem: {fault}", err=True)
            return max(code, 1) if faults else code

        return told

    return around


def _faults(given: object) -> Iterator[str]:
    several = given if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    for path in several:
        if isinstance(path, str | Path) and (Path(path) / "store.json").is_file():
            yield from _of_store(Path(path))


def _of_store(path: Path) -> tuple[str, ...]:
    from toposcope.store import Store

    try:
        return Store.open(path).part_faults()
    except (InputError, OSError):
        return ()  # the command itself says what is wrong with the store
