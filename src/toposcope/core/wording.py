"""Options and commands in a text, in the spelling of its reader: the command line's or Python's.

A text names them by `option` and `command`, where it is made. In Python an argument or a call stands in
backticks. `typed_options` says who reads: the command line sets it once. A command that a message or a page
recommends is written here alone, so that each runs as it is printed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path

# One state for the process and no context variable: the threads of the live page write messages, too.
_typed = False


def are_typed() -> bool:
    """Return whether texts name options and commands as they are typed."""
    return _typed


@contextmanager
def typed_options(typed: bool = True) -> Iterator[None]:
    """Let texts name options and commands as they are typed at the command line while this lasts."""
    global _typed
    before, _typed = _typed, typed
    try:
        yield
    finally:
        _typed = before


def option(name: str, value: str | None = None) -> str:
    """Return an option, by the name of its argument in Python; with its value if one is given.

    >>> f"give {option('step_pattern')} REGEX"
    'give `step_pattern` REGEX'
    >>> with typed_options():
    ...     f"give {option('step_pattern')} REGEX"
    'give --step-pattern REGEX'
    >>> option("without", "my run")
    "`without='my run'`"
    >>> with typed_options():
    ...     option("without", "my run")
    "--without 'my run'"
    """
    if _typed:
        return typed(name, True if value is None else value)
    return f"`{name}`" if value is None else f"`{name}={value!r}`"


def renaming(old: str, new: str) -> str:
    """Return the option that gives a column another name.

    >>> renaming("THEIRS", "loss")
    "`rename={'THEIRS': 'loss'}`"
    >>> with typed_options():
    ...     renaming("THEIRS", "loss")
    '--rename THEIRS=loss'
    """
    return typed("rename", f"{old}={new}") if _typed else f"`rename={ {old: new}!r}`"


def command(name: str, *words: object, **options: object) -> str:
    """Return a command in a sentence, by its arguments and options; see `recommended`.

    >>> command("weights", "SERIES", out="my runs")
    "`toposcope.measure(SERIES, 'my runs')`"
    >>> with typed_options():
    ...     command("weights", "SERIES", out="my runs")
    "toposcope weights SERIES --out 'my runs'"
    """
    line = runnable(name, *words, **options)
    return line if _typed or line.startswith("the command ") else f"`{line}`"


def runnable(name: str, *words: object, **options: object) -> str:
    """Return a command as its reader runs it, where it stands alone: in a field, a block or a program.

    >>> runnable("weights", "SERIES", out="my runs")
    "toposcope.measure(SERIES, 'my runs')"
    """
    if _typed:
        return recommended(name, *words, **options)
    from toposcope.core._calls import call  # the command line never spells a call

    return call(name, *words, **options)


def typed(name: str, value: object) -> str:
    """Return one option as it is typed, quoted for a shell.

    >>> typed("without", "my run")
    "--without 'my run'"
    """
    return shlex.join(_flags(name.replace("_", "-"), value))


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
    typed = chain.from_iterable(_flags(key.replace("_", "-"), value) for key, value in options.items())
    return shlex.join(["toposcope", name, *map(str, words), *typed])


def _flags(name: str, value: object) -> Iterable[str]:
    if value is None or value is False:
        return ()
    if value is True:
        return (f"--{name}",)
    values = value if isinstance(value, list | tuple) else [value]
    return chain.from_iterable((f"--{name}", str(value)) for value in values)


def free_place(place: str | Path) -> Path:
    """Return a path that does not exist yet: the one given, or with the first number that is free.

    >>> free_place("/nowhere/report").as_posix()
    '/nowhere/report'
    """
    place = Path(place)
    beside = (place.with_name(f"{place.name}-{number}") for number in count(2))
    return place if not place.exists() else next(path for path in beside if not path.exists())
