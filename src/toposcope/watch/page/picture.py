"""The loss curves as an SVG that needs no script: what a browser paints first."""

from __future__ import annotations

import math
from typing import Any

from markupsafe import Markup

WIDTH, HEIGHT = 760, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 10, 10, 34
COLOURS = 8
"""Colours of groups, which repeat; the style sheet holds them for light and dark."""


def lines(shown: dict[str, Any]) -> Markup:
    """Return the traces of a panel of curves as one drawing: linear steps, values on a log axis."""
    drawn = [
        (trace, [(x, y) for x, y in zip(trace["x"], trace["y"], strict=True) if y is not None and y > 0])
        for trace in shown["traces"]
        if trace["kind"] == "value"
    ]
    points = [point for _, part in drawn for point in part]
    if not points:
        return Markup('<p class="soft">No loss is logged in this store yet.</p>')
    last = max(x for x, _ in points) or 1
    low, high = min(y for _, y in points), max(y for _, y in points)
    spread = math.log(high / low) or 1.0

    def place(x: float, y: float) -> str:
        right = _LEFT + x / last * (WIDTH - _LEFT - _RIGHT)
        down = _TOP + (1 - math.log(y / low) / spread) * (HEIGHT - _TOP - _BOTTOM)
        return f"{right:.1f},{down:.1f}"

    made = Markup("").join(
        Markup('<polyline class="line g{}" points="{}"><title>{}</title></polyline>').format(
            trace["group"] % COLOURS, " ".join(place(x, y) for x, y in part), trace["run"]
        )
        for trace, part in drawn
        if part
    )
    marks = Markup("").join(
        Markup('<text class="tick end" x="{}" y="{:.0f}">{:.3g}</text>').format(_LEFT - 6, at, value)
        for value, at in ((high, _TOP + 10), (low, HEIGHT - _BOTTOM))
    ) + Markup('<text class="tick" x="{}" y="{}">step 0</text>').format(_LEFT, HEIGHT - 12)
    marks += Markup('<text class="tick end" x="{}" y="{}">{:,}</text>').format(
        WIDTH - _RIGHT, HEIGHT - 12, last
    )
    return Markup(
        '<svg viewBox="0 0 {} {}" role="img" aria-label="{} of {} runs up to step {:,}, {:.4g} to {:.4g}">'
        "{}{}</svg>"
    ).format(WIDTH, HEIGHT, shown["title"], len(drawn), last, low, high, marks, made)
