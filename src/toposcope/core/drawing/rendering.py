"""Figures as bytes, half of them in a second process: drawing takes most of a page's time."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec, SubplotSpec
from matplotlib.image import imread
from matplotlib.text import Text

from toposcope.core.drawing.style import WIDTH, on_axes, say_empty, to_png, to_svg
from toposcope.core.processes import GoneError, cores, launch, receive, send

_PHONE = 4.0
"""Inches of a figure on a phone of 390 pixels: its letters are then about 9 pixels tall."""
_BELOW = 4
"""The most panels in one column on a phone; more would take long to scroll, so they get two columns."""
_MOST = 8
"""The most panels of a figure that is drawn for a phone."""
FOLDED = "folded"
"""The label of a figure that a page shows folded."""
WORTH = 4
"""Fewer figures than this are drawn before a second process has started."""


_CURVES = {"run": "", "mean": "", "loss": ", training", "ahead": ", forecast"}
"""What the groups of curves are called in the SVG, and what is added to the name of each curve."""
_MOST_POINTS = 120
"""Points of a curve that answer to a pointer: more are closer than a pointer can tell."""


@dataclass(frozen=True, slots=True)
class TracedCurve:
    """A curve for the script of a page: its points as (share of the width, of the height, x, y)."""

    name: str
    colour: str
    points: tuple[tuple[float, float, float, float], ...]


@dataclass(frozen=True, slots=True)
class Rendered:
    """One figure as SVG, as PNG at twice the screen's resolution, and for a phone where it can be."""

    svg: bytes
    png: bytes
    narrow: bytes = b""
    curves: tuple[TracedCurve, ...] = ()


def traced(figure: Figure) -> tuple[TracedCurve, ...]:
    """Return the named curves of a figure whose layout is settled, with the place of each point in it."""
    curves = []
    for ax in figure.axes:
        for line in ax.get_lines():
            kind, _, name = (line.get_gid() or "").partition(" ")
            x, y = (np.asarray(values, dtype=float) for values in line.get_data())
            positions = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
            if kind not in _CURVES or not name or len(positions) < 2:
                continue
            at = positions[np.unique(np.linspace(0, len(positions) - 1, _MOST_POINTS).astype(int))]
            places = figure.transFigure.inverted().transform(
                ax.transData.transform(np.column_stack([x[at], y[at]]))
            )
            points = tuple(
                (round(float(px), 4), round(1.0 - float(py), 4), float(f"{a:.6g}"), float(f"{b:.4g}"))
                for (px, py), a, b in zip(places, x[at], y[at], strict=True)
            )
            curves.append(TracedCurve(f"{name}{_CURVES[kind]}", to_hex(line.get_color()), points))
    return tuple(
        sorted(curves, key=lambda curve: "," in curve.name)
    )  # training losses behind the held-out ones


def render(figure: Figure) -> Rendered:
    """Return the figure as bytes, the same for the same data; its layout is settled afterwards.

    For a phone it is drawn narrower, its panels below one another. A figure of several panels that is called
    `FOLDED` is not: it would be one more picture behind a title that few open.
    """
    svg = to_svg(figure)
    curves = () if figure.get_label() == FOLDED else traced(figure)
    layout = figure.get_layout_engine()
    figure.set_layout_engine(None)  # found for the SVG; finding it again takes most of the time
    png = to_png(figure)
    height = figure.get_figheight()
    if len(figure.axes) != 1:
        if figure.get_label() == FOLDED or not (rows := _stacked(figure)):
            return Rendered(svg, png, curves=curves)
        height *= rows
    figure.set_layout_engine(layout)
    figure.set_size_inches(_PHONE, height)
    return Rendered(svg, png, to_svg(figure), curves)


def _stacked(figure: Figure) -> float:
    """Put the panels of a figure below one another, and return how many times as tall it is then.

    0 where that cannot be: a panel has no title, neither its own nor one above it, or there are very many. A
    colour bar stays beside them.
    """
    panels = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    shown = [ax for ax in panels if ax.axison]
    places = {ax: place for ax in panels if (place := ax.get_subplotspec()) is not None}
    if (
        len(places) < len(panels)
        or not 0 < len(shown) <= _MOST
        or not all(_titled(ax, places) for ax in shown)
    ):
        return 0
    if len(shown) < len(panels) < len(figure.axes):
        return 0  # the layout would look for what was taken out beside the colour bar
    before = places[panels[0]].get_gridspec().nrows
    columns = 1 if len(shown) <= _BELOW else 2
    rows = -(-len(shown) // columns)
    grid = GridSpec(rows, columns, figure=figure)
    for ax in panels:
        if ax not in shown:
            ax.remove()
    for at, ax in enumerate(shown):
        ax.set_subplotspec(grid[at // columns, at % columns])
        ax.tick_params(labelleft=True, labelbottom=True)
    return rows / before


def _titled(ax: Axes, places: Mapping[Axes, SubplotSpec]) -> bool:
    """Give a panel of a grid the title of its column and the label of its row; say whether it has a title."""
    own_place = places[ax]
    for other, place in places.items():
        above = place.colspan.start == own_place.colspan.start and place.rowspan.start == 0
        beside = place.rowspan.start == own_place.rowspan.start and place.colspan.start == 0
        if above and not ax.get_title(loc="left"):
            _title_as(ax, other)
        if beside and not ax.get_ylabel():
            ax.set_ylabel(other.get_ylabel())
    return bool(ax.get_title(loc="left"))


def _title_as(ax: Axes, other: Axes) -> None:
    """Give a panel the title of another, as it is drawn there."""
    title = other.get_title(loc="left")
    for text in other.get_children():
        if title and isinstance(text, Text) and text.get_text() == title:
            style = {"color": text.get_color(), "size": text.get_fontsize(), "weight": text.get_fontweight()}
            ax.set_title(title, loc="left", **style)  # type: ignore[arg-type]


def show_picture(path: Path | None, ax: Axes | None = None) -> Axes:
    """Show a figure's PNG file on axes, as it is."""
    image = None if path is None else imread(path)
    height = 2.0 if image is None else WIDTH * image.shape[0] / image.shape[1]
    with on_axes(ax, height) as ax:
        if image is None:
            say_empty(ax, "no figure was drawn")
        else:
            ax.imshow(image, interpolation="antialiased")
            ax.set_axis_off()
    return ax


def begin_rendering(figures: Iterable[Figure], *, expected: int = 0) -> Callable[[], list[Rendered]]:
    """Draw the figures while a second process renders them; return a function that gives the bytes.

    That function renders here what the second process has not begun. If it is known how many figures are
    `expected`, the second process starts before the first of them is drawn.

    >>> from toposcope.core.drawing.style import new_figure
    >>> finish = begin_rendering([new_figure(2.0)[0]])
    >>> len(finish())
    1
    """
    work = _Work()
    if expected >= WORTH:
        work.begin()
    try:
        for figure in figures:
            work.add(figure)
    except BaseException:
        work.give_up()
        raise
    return work.finished


class _Work:
    """The figures that wait, and the bytes of those that were rendered, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Figure]] = deque()
        self._made: dict[int, Rendered] = {}
        self._count = 0
        self._change = threading.Condition()
        self._complete = False
        self._beside: threading.Thread | None = None

    def add(self, figure: Figure) -> None:
        """Put a figure behind those that wait; the `WORTH`-th starts the second process."""
        with self._change:
            self._waiting.append((self._count, figure))
            self._count += 1
            self._change.notify()
        if self._count == WORTH:
            self.begin()

    def begin(self) -> None:
        """Start the second process, once, where there is a core for it."""
        if self._beside is None and sys.executable and cores() > 1:
            self._beside = threading.Thread(target=self._render_beside, daemon=True)
            self._beside.start()

    def give_up(self) -> None:
        """Let the second process end without the figures that wait."""
        with self._change:
            self._waiting.clear()
            self._complete = True
            self._change.notify_all()

    def finished(self) -> list[Rendered]:
        """Render what waits, beside the second process, and return the bytes of all."""
        with self._change:
            self._complete = True
            self._change.notify_all()
        self._render_in_process()
        if self._beside is not None:
            self._beside.join()
        self._render_in_process()  # what a second process that died has left
        return [self._made[place] for place in range(self._count)]

    def _render_in_process(self) -> None:
        while (job := self._next()) is not None:
            self._made[job[0]] = render(job[1])

    def _next(self) -> tuple[int, Figure] | None:
        with self._change:
            return self._waiting.popleft() if self._waiting else None

    def _next_beside(self) -> tuple[int, Figure] | None:
        """Return the last figure that waits or is still to come; None when there is none."""
        with self._change:
            while not self._waiting and not self._complete:
                self._change.wait()
            return self._waiting.pop() if self._waiting else None

    def _render_beside(self) -> None:
        """Let a second process render the last figure that waits, until none does."""
        try:
            child = launch(serve)
        except OSError:
            return
        try:
            while (job := self._next_beside()) is not None:
                try:
                    send(child.channel, job[1])
                    self._made[job[0]] = receive(child.channel)
                except (Exception, GoneError):  # it died, or a figure cannot travel: it is drawn here
                    with self._change:
                        self._waiting.append(job)
                    return
        finally:
            child.kill()  # it holds nothing that is waited for


def serve(channel: Connection) -> None:
    """Render the figures that come through a channel, until it ends."""
    while True:
        send(channel, render(receive(channel)))
