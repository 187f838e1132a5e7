"""The commands as calls of Python."""

from __future__ import annotations

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
_OPENED = ("losses", "rename", "pattern", "step_pattern")
"""Options of a measurement that Python gives to `toposcope.open_series`."""
_TO_NAME = {
    "ADDRESS", "COLUMN", "DIR", "FILE", "FLOP", "LOG", "NAME", "OTHER", "PLACE", "REGEX", "RUN", "SERIES",
    "STEP", "STEPS", "STORE", "STORE_OR_RUN", "THEIRS", "...",
}  # fmt: skip
"""Words that stand for what the reader has to name; a store may have a name in capitals of its own."""


def call(name: str, *words: object, **options: object) -> str:
    """Return the call that does what a command does, by its arguments and options.

    An option whose value is None or False is left out.

    >>> imported, measured = call("weights", "SERIES", out="runs", draws=2).split("; ")
    >>> imported
    'from toposcope.subjects.weights.presets import preset'
    >>> measured
    "toposcope.measure(SERIES, 'runs', options=preset('default', draws=2))"
    >>> call("weights", "SERIES", out="runs", losses="FILE")
    "toposcope.measure(toposcope.open_series(SERIES, losses=FILE), 'runs')"
    """
    if "--help" in words and name in (*_MEASURED, *_CALLED, "train"):
        return f"help(toposcope.{'measure' if name in _MEASURED else name})"
    literals = [_literal(str(word)) for word in words]
    given = {
        key: _value(key, value) for key, value in options.items() if value is not None and value is not False
    }
    if name == "weights" and (settings := {key: given.pop(key) for key in _SETTINGS if key in given}):
        preset = settings.pop("preset", "'default'")
        chosen = ", ".join([preset, *(f"{key}={value}" for key, value in settings.items())])
        called = _called(name, literals, given | {"options": f"preset({chosen})"})
        return f"from toposcope.subjects.weights.presets import preset; {called}"
    return _called(name, literals, given)


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
        return repr(dict(pair.split("=", 1) for pair in value))
    if key == "seeds":
        return f"[{', '.join(str(value).split(','))}]"
    return str(value) if key == "budget" else _literal(value)


def _literal(value: object) -> str:
    """Return a value as Python has it.

    >>> _literal("STORE"), _literal("J1")
    ('STORE', "'J1'")
    """
    plain = value if isinstance(value, bool | int | float | list) else str(value)
    return str(value) if isinstance(plain, str) and plain in _TO_NAME else repr(plain)
