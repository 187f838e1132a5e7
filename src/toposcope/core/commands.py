"""Commands that a message or a page recommends: written in one place, so that each runs as it is printed."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from itertools import chain, count
from pathlib import Path


def typed(name: str, value: object) -> str:
    """Return one option as it is typed, quoted for a shell.

    >>> typed("without", "my run")
    "--without 'my run'"
    """
    return shlex.join(_option(name.replace("_", "-"), value))


def recommended(name: str, *words: object, **options: object) -> str:
    """Return a command as it is typed: quoted for a shell, its options complete.

    An option whose value is None or False is left out, one that is True is a flag, one that is a list comes
    once for each item. A word in capitals, such as SERIES, stands for what the reader has to name.

    Parameters
    ----------
    name
        The subcommand.
    words
        Its arguments: names that exist.
    options
        Its options; `step_pattern` is `--step-pattern`.

    Examples
    --------
    >>> recommended("weights", "my runs", out="store", features="all", diagrams=True, losses=None)
    "toposcope weights 'my runs' --out store --features all --diagrams"
    >>> recommended("forecast", "store", rename=["val=loss"])
    'toposcope forecast store --rename val=loss'
    """
    typed = chain.from_iterable(_option(key.replace("_", "-"), value) for key, value in options.items())
    return shlex.join(["toposcope", name, *map(str, words), *typed])


def _option(name: str, value: object) -> Iterable[str]:
    if value is None or value is False:
        return ()
    if value is True:
        return (f"--{name}",)
    values = value if isinstance(value, list | tuple) else [value]
    return chain.from_iterable((f"--{name}", str(one)) for one in values)


def free_place(place: str | Path) -> Path:
    """Return a path that does not exist yet: the one given, or with the first number that is free.

    >>> free_place("/nowhere/report").as_posix()
    '/nowhere/report'
    """
    place = Path(place)
    beside = (place.with_name(f"{place.name}-{number}") for number in count(2))
    return place if not place.exists() else next(one for one in beside if not one.exists())
