"""Options and commands in a text, in the spelling of its reader: the command line's or Python's.

A text names an option or a command by `option` or `command`. Both return a mark, which stands in the text
until `rendered` replaces it. An error renders its text when it is printed; other texts are rendered where
they are made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from toposcope.core.commands import recommended, typed

_OPEN, _CLOSE = "\ue000", "\ue001"
"""The ends of a mark: characters of Unicode's private use area."""
_MARK = re.compile(f"{_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}")
_MEASURED: dict[str, dict[str, str]] = {
    "weights": {},
    "embeddings": {"features": "'representations'"},
    "landscape": {"features": "'landscape'"},
}
"""Commands that `toposcope.measure` does, and the arguments that it needs besides."""
_CALLED = ("analyze", "audit", "check", "cloud", "compare", "forecast", "report")
"""Commands that a function of the same name does."""
_SETTINGS = ("preset", "points", "draws", "nulls")
"""Options of a measurement of weights that Python gives as one object of settings."""
_OPENED = ("losses", "rename", "step_pattern")
"""Options of a measurement that Python gives to `toposcope.open_series`."""
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
    """Return the mark of a command, by its arguments and options; see `toposcope.core.commands.recommended`.

    >>> rendered(command("weights", "SERIES", out="my runs"))
    "toposcope.measure(SERIES, 'my runs')"
    >>> with typed_options():
    ...     rendered(command("weights", "SERIES", out="my runs"))
    "toposcope weights SERIES --out 'my runs'"
    >>> said = rendered(command("weights", "SERIES", out="runs", draws=2)).split("; ")
    >>> said[0]
    'from toposcope.papers.weight_presets import preset'
    >>> said[1]
    "toposcope.measure(SERIES, 'runs', options=preset('default', draws=2))"
    >>> rendered(command("weights", "SERIES", out="runs", losses="FILE"))
    "toposcope.measure(toposcope.open_series(SERIES, losses=FILE), 'runs')"
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
    if _typed:
        return recommended(name, *words, **options)
    if "--help" in words and name in (*_MEASURED, *_CALLED, "train"):
        return f"help(toposcope.{'measure' if name in _MEASURED else name})"
    given = {key: _value(key, value) for key, value in options.items()}
    if name == "weights" and (settings := {key: given.pop(key) for key in _SETTINGS if key in given}):
        preset = settings.pop("preset", "'default'")
        chosen = ", ".join([preset, *(f"{key}={value}" for key, value in settings.items())])
        call = _called(name, [_literal(word) for word in words], given | {"options": f"preset({chosen})"})
        return f"from toposcope.papers.weight_presets import preset; {call}"
    return _called(name, [_literal(word) for word in words], given)


def _called(name: str, words: list[str], given: dict[str, str]) -> str:
    """Return the call that does what a command does; a command without one is named."""
    out = [given.pop("out")] if "out" in given else []
    several = [f"[{', '.join(words)}]"] if len(words) > 1 else words
    if name in _MEASURED:
        named = {key: given.pop(key) for key in _OPENED if key in given}
        series = [_written("open_series", several, named)] if named else several
        return _written("measure", [*series, *out], _MEASURED[name] | given)
    if name == "train":
        return _written("train", [given.pop("recipe", "'demo'"), *out], given)
    if name == "merge":
        return f"from toposcope.store.merge import merge; merge({', '.join([*several, *out])})"
    if name not in _CALLED:
        return f"the command toposcope {name}"
    budget = given.pop("budget", "") if given.pop("advise", "") else ""
    call = _written(name, [*(words if name == "compare" else several), *out], given)
    return f"{call}.advise({budget})" if budget else call


def _written(function: str, words: list[str], named: dict[str, str]) -> str:
    return f"toposcope.{function}({', '.join([*words, *(f'{key}={value}' for key, value in named.items())])})"


def _value(key: str, value: object) -> str:
    """Return the value of an option as Python's argument of that name takes it."""
    if key == "rename" and isinstance(value, list):
        return repr(dict(one.split("=", 1) for one in value))
    if key == "seeds":
        return f"[{', '.join(str(value).split(','))}]"
    return str(value) if key == "budget" else _literal(value)


def _literal(value: object) -> str:
    """Return a value as Python has it; a word in capitals stands for what the reader has to name."""
    return value if isinstance(value, str) and (value.isupper() or value == "...") else repr(value)


_SPELT: dict[str, Callable[..., str]] = {"option": _option, "renaming": _renaming, "command": _command}
