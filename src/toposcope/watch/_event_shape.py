"""The form that an event has in a journal: a line of any other form is left out, not believed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

_LARGEST = 1 << 63
"""Steps and counts stay below it: they are stored as 64-bit integers."""

Test = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LARGEST


def _is_whole(value: Any) -> bool:
    return type(value) is int and abs(value) < _LARGEST


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e300 and math.isfinite(value)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, Mapping) for row in value)


def _are_stamps(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(row, list) and len(row) == 4 and _is_text(row[0]) and all(map(_is_count, row[1:]))
        for row in value
    )


def _is_kept(value: Any) -> bool:
    return isinstance(value, Mapping) and _is_text(value.get("at")) and _are_stamps(value.get("files"))


def _or_none(test: Test) -> Test:
    return lambda value: value is None or test(value)


_FIELDS: Mapping[str, Test] = {
    **dict.fromkeys(("test", "place", "of", "content", "turn", "uri", "alarm", "side", "verdict"), _is_text),
    **dict.fromkeys(("sentence", "why", "next", "quiet", "folder"), _or_none(_is_text)),
    **dict.fromkeys(
        ("tokens", "last_good", "passed", "since", "compared", "target", "earlier"), _or_none(_is_number)
    ),
    **dict.fromkeys(("look", "losses", "written", "units", "rows"), _is_count),
    **dict.fromkeys(("first", "last", "after"), _is_whole),
    **dict.fromkeys(("problems", "unread"), _are_texts),
    "sampled": _or_none(_are_texts),
    "culprits": _are_rows,
    "facets": _are_rows,
    "files": _are_stamps,
    "held": _or_none(_is_kept),
}

_NEEDED: Mapping[str, tuple[str, ...]] = {
    "alarm": ("test",),
    "look": ("test",),
    "metrics": ("first", "last"),
    "restart": ("of", "verdict", "sentence", "rows"),
    "resume": ("of", "verdict", "sentence", "facets"),
    "unseen": ("place", "why"),
    "vanished": ("why",),
}


def is_event(content: Any) -> bool:
    """Return whether the content of a line has the form of an event.

    >>> is_event({"number": 1, "kind": "vanished", "run": "a", "step": 10, "data": {"why": "deleted"}})
    True
    >>> is_event({"number": 1, "kind": "vanished", "run": "a", "step": "ten", "data": {"why": "deleted"}})
    False
    """
    if not isinstance(content, Mapping) or not isinstance(content.get("data"), Mapping):
        return False
    data, kind, step = content["data"], content.get("kind"), content.get("step")
    return (
        _is_count(content.get("number"))
        and _is_text(kind)
        and _is_text(content.get("run"))
        and (step is None or _is_whole(step))
        and all(name in data for name in _NEEDED.get(str(kind), ()))
        and all(name not in data or test(data[name]) for name, test in _FIELDS.items())
    )
