"""The loss curves as an SVG without a script, for the browser's first paint."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

from markupsafe import Markup

WIDTH, HEIGHT = 760, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 150, 10, 34
"""Size of the picture, and its margins: run names are on the right."""
_APART, _LONGEST = 13, 20
"""Smallest distance between two names, and longest name that is not shortened."""
_TICKS = 6
"""The largest number of gaps between ticks."""
COLOURS = 8
"""Number of colours for runs or sizes, used cyclically; the style sheet defines them for light and dark."""


def lines(shown: dict[str, Any], odd: Collection[str] = ()) -> Markup:
    """Return the traces of a panel of curves as one drawing: linear steps, values on a log axis.

    Each curve ends with its run's name; names of `odd` runs are marked.
    """
    drawn = [
        (trace, [(x, y) for x, y in zip(trace["x"], trace["y"], strict=True) if y is not None and y > 0])
        for trace in shown["traces"]
        if trace["kind"] == "value"
    ]
    points = [point for _, part in drawn for point in part]
    if not points:
        return Markup('<p class="soft">No loss has been logged in this store yet.</p>')
    last = max(x for x, _ in points) or 1
    low, high = min(y for _, y in points), max(y for _, y in points)
    spread = math.log(high / low) or 1.0

    def place(x: float, y: float) -> str:
        right = _LEFT + x / last * (WIDTH - _LEFT - _RIGHT)
        down = _TOP + (1 - math.log(y / low) / spread) * (HEIGHT - _TOP - _BOTTOM)
        return f"{right:.1f},{down:.1f}"

    names_text = Markup("").join(
        Markup('<polyline class="line g{}" points="{}"><title>{}</title></polyline>').format(
            trace["group"] % COLOURS, " ".join(place(x, y) for x, y in part), trace["run"]
        )
        for trace, part in drawn
        if part
    )
    ends = [(trace, float(place(*part[-1]).split(",")[1])) for trace, part in drawn if part]
    names_text += _names(ends, odd)
    marks = _marks(place, low, high, last)
    return Markup(
        '<svg viewBox="0 0 {} {}" role="img" aria-label="{} of {} runs up to step {:,}, {:.4g} to {:.4g}">'
        "{}{}</svg>"
    ).format(WIDTH, HEIGHT, shown["title"], len(drawn), last, low, high, marks, names_text)


def _marks(place: Callable[[float, float], str], low: float, high: float, last: float) -> Markup:
    """Return the ticks of both axes with their grid lines: values from `low` to `high`, steps up to `last`.

    Where fewer than two round values lie between them, the ends themselves are marked.
    """
    values = _rounded(low, high)
    values = values if len(values) > 1 else [low, high] if high > low else [low]
    marks_text = Markup("")
    for value in values:
        down = float(place(0, value).split(",")[1])
        marks_text += Markup('<line class="grid" x1="{}" x2="{}" y1="{:.0f}" y2="{:.0f}"/>').format(
            _LEFT, WIDTH - _RIGHT, down, down
        ) + Markup('<text class="tick end" x="{}" y="{:.0f}">{:.3g}</text>').format(
            _LEFT - 6, down + 4, value
        )
    for step in _rounded(0, last):
        right = float(place(step, low).split(",")[0])
        text = f"step {step:,.0f}" if step == 0 else f"{step:,.0f}"
        marks_text += Markup('<text class="tick middle" x="{:.0f}" y="{}">{}</text>').format(
            right, HEIGHT - 12, text
        )
    return marks_text


def _rounded(low: float, high: float) -> list[float]:
    """Return three to six round numbers from `low` to `high`.

    >>> _rounded(2.29, 4.83), _rounded(0, 400)
    ([2.5, 3.0, 3.5, 4.0, 4.5], [0.0, 100.0, 200.0, 300.0, 400.0])
    """
    if not high > low:
        return [float(low)]
    unit = 10.0 ** math.floor(math.log10((high - low) / _TICKS))
    size = next(digit * unit for digit in (1, 2, 2.5, 5, 10) if digit * unit >= (high - low) / _TICKS)
    return [size * k for k in range(math.ceil(low / size), math.floor(high / size) + 1)]


def _names(ends: Sequence[tuple[dict[str, Any], float]], odd: Collection[str]) -> Markup:
    """Return the names of curves at their ends, spread so that none overlap.

    Without room for all, odd runs are named first, then every n-th by its last value.
    """
    room = (HEIGHT - _TOP - _BOTTOM) // _APART
    ranked = sorted(ends, key=lambda end: end[1])
    if len(ranked) > room:
        first = [end for end in ranked if end[0]["run"] in odd][:room]
        rest = [end for end in ranked if end[0]["run"] not in odd]
        every = -(-len(rest) // max(room - len(first) - 1, 1))
        ranked = sorted([*first, *rest[::every]], key=lambda end: end[1])
    names_text, above = Markup(""), float(_TOP - _APART)
    for number, (trace, at) in enumerate(ranked):
        lowest = HEIGHT - _BOTTOM - _APART * (len(ranked) - number - 1)
        above = max(min(max(at, above + _APART), lowest), above + _APART)
        run = str(trace["run"])
        name = run if len(run) <= _LONGEST else f"{run[: _LONGEST - 1]}…"
        names_text += Markup('<text class="tick f{}" x="{}" y="{:.0f}">{}{}</text>').format(
            trace["group"] % COLOURS, WIDTH - _RIGHT + 6, above + 4, name, " (odd)" if run in odd else ""
        )
    if len(ranked) < len(ends):
        names_text += Markup('<text class="tick end" x="{}" y="{}">{} more</text>').format(
            WIDTH, HEIGHT - 12, len(ends) - len(ranked)
        )
    return names_text
