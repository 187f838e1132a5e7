"""Options and commands in a text, in the spelling of its reader: the command line's or Python's.

A command that a message or a page recommends is written in one place, so that each runs as it is printed.

A text names an option or a command by `option` or `command`. Both return a mark, which stands in the text
until `rendered` replaces it. An error renders its text when it is printed; other texts are rendered where
they are made.
"""

from __future__ import annotations

import json
import pkgutil
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path

_OPEN, _CLOSE = "\ue000", "\ue001"
"""The ends of a mark: characters of Unicode's private use area."""
_MARK = re.compile(f"{_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}")
# One state for the process and no context variable: the threads of the live page write messages, too.
_typed = False
_calls = ""
"""MODULE:FUNCTION that writes a command as the call of Python; `import toposcope` sets it."""


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


def write_calls_by(place: str) -> None:
    """Let MODULE:FUNCTION write commands as calls of Python, from their name, arguments and options."""
    global _calls
    _calls = place


def option(name: str, value: str | None = None) -> str:
    """Return the mark of an option, by the name of its argument in Python; with its value if one is given.

    >>> rendered(f"give {option('step_pattern')} REGEX")
    'give step_pattern REGEX'
    >>> with typed_options():
    ...     rendered(f"give {option('step_pattern')} REGEX")
    'give --step-pattern REGEX'
    >>> rendered(option("without", "my run"))
    "without='my run'"
    >>> with typed_options():
    ...     rendered(option("without", "my run"))
    "--without 'my run'"
    """
    return _marked("option", name) if value is None else _marked("option", name, value)


def renaming(old: str, new: str) -> str:
    """Return the mark of the option that gives a column another name.

    >>> rendered(renaming("THEIRS", "loss"))
    "rename={'THEIRS': 'loss'}"
    >>> with typed_options():
    ...     rendered(renaming("THEIRS", "loss"))
    '--rename THEIRS=loss'
    """
    return _marked("renaming", old, new)


def command(name: str, *words: object, **options: object) -> str:
    """Return the mark of a command, by its arguments and options; see `recommended`.

    >>> write_calls_by("toposcope.api.calls:call")
    >>> rendered(command("weights", "SERIES", out="my runs"))
    "toposcope.measure(SERIES, 'my runs')"
    >>> with typed_options():
    ...     rendered(command("weights", "SERIES", out="my runs"))
    "toposcope weights SERIES --out 'my runs'"
    """
    plain = {key: _plain(value) for key, value in options.items() if value is not None and value is not False}
    return _marked("command", name, list(map(str, words)), plain)


def _plain(value: object) -> object:
    if isinstance(value, list | tuple):
        return list(map(_plain, value))
    return value if isinstance(value, bool | int | float) else str(value)


def rendered(text: str) -> str:
    """Return a text with its options and commands in the spelling of its reader."""
    return _MARK.sub(_spelt, text) if _OPEN in text else text


def _marked(*parts: object) -> str:
    # json writes other characters than ASCII as escapes, so that no value can contain the end of the mark.
    return f"{_OPEN}{json.dumps(parts)}{_CLOSE}"


def _spelt(found: re.Match[str]) -> str:
    """Return the text of a mark; other text is returned as it is."""
    try:
        kind, *more = json.loads(found[1])
        return _SPELT[kind](*more)
    except (ValueError, TypeError, KeyError):
        return found[0]


def _option(name: str, value: str | None = None) -> str:
    if not _typed:
        return name if value is None else f"{name}={value!r}"
    return f"--{name.replace('_', '-')}" if value is None else typed(name, value)


def _renaming(old: str, new: str) -> str:
    return typed("rename", f"{old}={new}") if _typed else f"rename={{{old!r}: {new!r}}}"


def _command(name: str, words: list[str], options: dict[str, object]) -> str:
    if _typed or not _calls:
        return recommended(name, *words, **options)
    return str(pkgutil.resolve_name(_calls)(name, words, options))


_SPELT: dict[str, Callable[..., str]] = {"option": _option, "renaming": _renaming, "command": _command}


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
    return chain.from_iterable((f"--{name}", str(one)) for one in values)


def free_place(place: str | Path) -> Path:
    """Return a path that does not exist yet: the one given, or with the first number that is free.

    >>> free_place("/nowhere/report").as_posix()
    '/nowhere/report'
    """
    place = Path(place)
    beside = (place.with_name(f"{place.name}-{number}") for number in count(2))
    return place if not place.exists() else next(one for one in beside if not one.exists())
