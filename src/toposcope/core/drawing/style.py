"""The house style: colours, fonts, step axes, direct labels, and reproducible files."""

from __future__ import annotations

import io
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import Collection, LineCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

from toposcope.core.groups import short
from toposcope.core.legible import legible
from toposcope.core.outputs import for_writing

INK = "#24292f"
MUTED = "#5f6b7a"
GRID = "#e6e9ed"
NULL = "#8a929c"
"""Colour of everything that is a null or a control, in every figure."""

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_LEAD = 1.018
"""Where a line from a curve's end to its name ends, in widths of the axes: the name begins at 1.025."""
WIDTH = 7.8
"""Width of a figure in inches: the text column of the report at its natural size."""

_SHOW_NOTHING = ("agg", "cairo", "pdf", "pgf", "ps", "svg", "template")
"""Backends of matplotlib that write files: they show no figure."""

CROWD = 800
"""With more marks on one pair of axes, an SVG stores them as a picture: each would be an element."""

SETTINGS: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 8.5,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "figure.dpi": 100.0,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "savefig.dpi": 160.0,
    "svg.fonttype": "path",
    "svg.hashsalt": "toposcope",
    "text.color": INK,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 8.0,
    "xtick.major.width": 0.7,
    "xtick.minor.width": 0.4,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 8.0,
    "ytick.major.width": 0.7,
    "ytick.minor.width": 0.4,
}
"""Matplotlib's settings of the style; the site's pictures have them, too."""


@contextmanager
def house() -> Iterator[None]:
    """Draw in the house style inside the block; the caller's own settings return afterwards.

    Only the settings of the style are put back. `mpl.rc_context` puts back all of them. If pyplot is imported
    in the block, this also undoes what a notebook's backend has just set, and no picture appears any more.
    """
    before = {name: mpl.rcParams[name] for name in SETTINGS}
    try:
        mpl.rcParams.update(SETTINGS)
        yield
    finally:
        mpl.rcParams.update(before)


def new_figure(
    height: float, *, rows: int = 1, columns: int = 1, **subplots: Any
) -> tuple[Figure, np.ndarray]:
    """Return a figure of the house's width with a (rows, columns) array of axes, without global state."""
    figure = ShownFigure(figsize=(WIDTH, height), layout=ConstrainedLayoutEngine(h_pad=0.06, hspace=0.05))
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **subplots)
    return figure, axes


def new_panels(count: int, *, each: float, more: float = 0.0, most: int = 2) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` axes in rows of at most `most`; surplus axes are turned off.

    A row is `each` inches tall, and `more` is added to the whole.
    """
    columns = min(max(count, 1), most)
    rows = max(math.ceil(count / columns), 1)
    figure, grid = new_figure(each * rows + more, rows=rows, columns=columns)
    axes = list(grid.flat)
    for ax in axes[count:]:
        ax.set_axis_off()
    return figure, axes


@contextmanager
def on_axes(ax: Axes | None, height: float) -> Iterator[Axes]:
    """Yield the caller's axes as they are, or new ones, `height` inches tall, in the house style."""
    if ax is not None:
        yield ax
        return
    with house():
        yield shown_axes(height)


class ShownAxes(Axes):
    """Axes that show their figure in a notebook, unless pyplot shows it."""

    by_pyplot: bool = False

    def _repr_png_(self) -> bytes | None:
        figure = self.get_figure(root=True)
        return None if self.by_pyplot or figure is None else to_png(figure)


class ShownFigure(Figure):
    """A figure that shows itself in a notebook."""

    def _repr_png_(self) -> bytes:
        return to_png(self)


def shown_axes(height: float, width: float = WIDTH) -> ShownAxes:
    """Return new axes that a notebook shows once, whether a cell ends with them or not.

    In a notebook whose pyplot shows figures, pyplot owns the figure. Anywhere else nobody does, and axes at
    the end of a cell show their figure themselves.
    """
    pyplot = _notebooks_pyplot()
    layout = ConstrainedLayoutEngine(h_pad=0.06, hspace=0.05)
    if pyplot is None:
        figure = Figure(figsize=(width, height), layout=layout)
        FigureCanvasAgg(figure)
    else:
        figure = pyplot.figure(figsize=(width, height), layout=layout)
    axes: Any = figure.subplots(subplot_kw={"axes_class": ShownAxes})
    ax: ShownAxes = axes
    ax.by_pyplot = pyplot is not None
    return ax


def _notebooks_pyplot() -> Any:
    """Return pyplot where it shows the figures of a notebook's cells; None elsewhere, in scripts as well."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if not hasattr(shell, "kernel"):
        return None
    import matplotlib.pyplot as plt

    name = mpl.get_backend().lower()
    return None if name in _SHOW_NOTHING else plt


def sequential(count: int) -> list[str]:
    """Return the colours of `count` model sizes: viridis from light to dark, the largest darkest.

    The yellow end, which vanishes on white, is left out.
    """
    viridis = mpl.colormaps["viridis"]
    return [to_hex(viridis(x)) for x in np.linspace(0.8, 0.0, count)] if count > 1 else [OKABE_ITO[0]]


GRADED = "YlOrBr"
"""Colour map for ordered things other than model sizes: layers, steps, values of a map."""


def graded(count: int) -> list[str]:
    """Return `count` colours from light to dark for layers or steps; no model size has one of them."""
    shades = mpl.colormaps[GRADED]
    return [to_hex(shades(x)) for x in np.linspace(0.35, 0.95, count)]


def readable(colour: str) -> str:
    """Return a shade of `colour` dark enough for text on white: a contrast of at least 4.5 to 1.

    >>> readable("#000000"), readable("#ffff00")
    ('#000000', '#767600')
    """
    rgb: Any = np.asarray(to_rgb(colour))
    while _contrast_with_white(rgb) < 4.5:
        rgb = rgb * 0.95
    return to_hex(rgb)


def _contrast_with_white(rgb: np.ndarray) -> float:
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return 1.05 / (float(linear @ np.array([0.2126, 0.7152, 0.0722])) + 0.05)


def step_axis(ax: Axes, steps: Iterable[float], *, label: bool = True) -> None:
    """Give `ax` a step axis that is logarithmic above the first positive step and linear down to step 0.

    `steps` are the optimiser steps that will be shown; the axis label states where the scale changes.
    """
    shown = np.unique(np.asarray(list(steps), dtype=np.float64))
    positive = shown[shown > 0]
    if not len(positive):
        ax.set_xlim(-0.5, 0.5)
        ax.set_xlabel("optimiser step" if label else "")
        return
    first, last = float(positive[0]), float(positive[-1])
    with_zero = bool(shown[0] == 0)
    linear_share = 0.35 * max(np.log10(last / first), 0.5) / 2 if with_zero else 0.05
    ax.set_xscale("symlog", linthresh=first, linscale=max(linear_share, 0.08))
    ax.set_xlim(0.0 if with_zero else first, last * (1.04 if last > first else 2.0))
    ticks = _step_ticks(first, last, with_zero=with_zero)
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    decades = 10.0 ** np.arange(np.floor(np.log10(first)), np.ceil(np.log10(last)) + 1)
    minor = np.outer(decades, np.arange(1, 10)).ravel()
    ax.xaxis.set_minor_locator(FixedLocator(minor[(minor > first) & (minor <= last)].tolist()))
    ax.xaxis.set_minor_formatter(NullFormatter())
    if label:
        below = f", linear below {first:,.0f}" if with_zero else ""
        ax.set_xlabel(f"optimiser step (log{below})")


def log_axis(axis: Axis) -> None:
    """Make `axis` logarithmic with plain numbers on it: at decades, and between them where they are few."""
    (axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale)("log")  # type: ignore[attr-defined]
    low, high = axis.axes.get_xlim() if axis.axis_name == "x" else axis.axes.get_ylim()  # type: ignore[attr-defined]
    few = high / max(low, 1e-300) < 200
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=9 if few else 5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axis.set_minor_formatter(NullFormatter())


def _step_ticks(first: float, last: float, *, with_zero: bool) -> list[float]:
    """Return few ticks, none on top of another: 0, the first step, decades between, the last step."""
    decades = 10.0 ** np.arange(np.ceil(np.log10(first)), np.floor(np.log10(last)) + 1)
    every = max(1, len(decades) // 4)
    ticks = [0.0] if with_zero else []
    for tick in (first, *decades[::-1][::every][::-1], last):
        if all(tick > 2.2 * other for other in ticks if other > 0):
            ticks.append(float(tick))
    return ticks


def end_labels(
    ax: Axes, labels: Sequence[tuple[float, str, str]], *, size: float = 8.0, leaders: bool = True
) -> None:
    """Write (y in data units, text, colour) beside the right end of the axes, moved apart where they collide.

    `leaders` draws a line from the edge of the axes to each label, for curves that end there. Call it when
    the limits of the y axis are final.
    """
    labels = [label for label in labels if np.isfinite(label[0])]
    if not labels:
        return
    figure = ax.get_figure()
    assert figure is not None
    rows = ax.get_gridspec().nrows if ax.get_subplotspec() else 1  # type: ignore[union-attr]
    gap = 1.25 * size / (72.0 * 0.72 * figure.get_figheight() / rows)  # type: ignore[union-attr]
    ax.get_ylim()  # settles the limits, which matplotlib leaves open until they are asked for
    to_axes = ax.transData + ax.transAxes.inverted()
    at = [float(to_axes.transform((1.0, y))[1]) for y, _, _ in labels]
    order = np.argsort(at)
    placed = _raised(_spread([at[i] for i in order], gap), 0.4 * gap, gap)
    if leaders:  # an arrow for each would be clipped against its words, which takes longer than the drawing
        lines = [((1.0, at[i]), (_LEAD, y)) for i, y in zip(order, placed, strict=True)]
        colours = [labels[i][2] for i in order]
        drawn = LineCollection(lines, colors=colours, linewidths=0.5, transform=ax.transAxes, clip_on=False)
        figure.add_artist(drawn)
    for i, y in zip(order, placed, strict=True):
        _, text, colour = labels[i]
        ax.annotate(
            text,
            xy=(1.0, at[i]),
            xytext=(1.025, y),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=readable(colour),
            fontsize=size,
            va="center",
            annotation_clip=False,
        )


def _spread(positions: list[float], gap: float) -> list[float]:
    """Return sorted positions at least `gap` apart, each cluster centred on where it was."""
    merged: list[list[float]] = []  # centre and size of each cluster, from the bottom up
    for position in positions:
        merged.append([position, 1.0])
        while len(merged) > 1 and _top(merged[-2], gap) + gap > _bottom(merged[-1], gap):
            centre, count = merged.pop()
            below_centre, below_count = merged[-1]
            total = count + below_count
            merged[-1] = [(centre * count + below_centre * below_count) / total, total]
    return [_bottom(cluster, gap) + k * gap for cluster in merged for k in range(int(cluster[1]))]


def _raised(positions: list[float], lowest: float, gap: float) -> list[float]:
    """Return sorted positions, none below `lowest` (there the last step is written), still `gap` apart."""
    out: list[float] = []
    for position in positions:
        out.append(max(position, out[-1] + gap if out else lowest))
    return out


def _bottom(cluster: list[float], gap: float) -> float:
    return cluster[0] - gap * (cluster[1] - 1) / 2


def _top(cluster: list[float], gap: float) -> float:
    return cluster[0] + gap * (cluster[1] - 1) / 2


def size_title(ax: Axes, text: str, colour: str) -> None:
    """Write a panel's title in its size's colour, as small or as short as one panel's width demands."""
    columns = ax.get_gridspec().ncols if ax.get_subplotspec() else 1  # type: ignore[union-attr]
    room = 72.0 * 0.86 * WIDTH / columns / 0.68  # points times characters
    size = min(9.5, max(room / max(len(text), 1), 6.5))
    most = int(room / size)
    ax.set_title(text if len(text) <= most else text[: most - 1] + "…", color=readable(colour), fontsize=size)


def say_empty(ax: Axes, reason: str) -> None:
    """Write on empty axes why nothing is drawn."""
    ax.set_axis_off()
    ax.text(0.5, 0.5, reason, transform=ax.transAxes, ha="center", va="center", color=MUTED, wrap=True)


def to_svg(figure: Figure) -> bytes:
    """Return the figure as SVG, the same bytes for the same data; crowds of marks are painted in it."""
    for ax in figure.axes:
        marks = {artist: count for artist in ax.get_children() if (count := _marks(artist))}
        for artist in marks if sum(marks.values()) > CROWD else ():
            artist.set_rasterized(True)
    return _compact(_render(figure, "svg", {"Date": None, "Creator": None}))


def _marks(artist: Artist) -> int:
    """Return how many SVG elements an artist makes; a curve or an area is one."""
    if isinstance(artist, Line2D) and artist.get_marker() not in ("", " ", "None", "none", None):
        return int(np.size(artist.get_xdata()))
    if isinstance(artist, Collection):
        several = len(np.atleast_1d(np.asarray(artist.get_offsets()))), len(artist.get_paths())
        return max(several) if max(several) > 1 else 0
    return 0


def to_png(figure: Figure) -> bytes:
    """Return the figure as PNG at twice the screen's resolution, the same bytes for the same data."""
    return _render(figure, "png", {"Software": None})


_LONG = re.compile(rb"(\d\.\d\d)\d+")
_SAID = re.compile(rb"<metadata>.*?</metadata>", re.DOTALL)
_BLANKS = re.compile(rb"\s*\n\s*")
_AROUND = re.compile(rb"\s*([A-Za-z])\s*")
_BETWEEN = re.compile(rb"\s+")
_PLACES = re.compile(rb'( d| x| y|points)="([^"]*)"')


def _compact(svg: bytes) -> bytes:
    """Return an SVG with coordinates to two decimals of a point, without metadata and indentation.

    Comments stay: matplotlib draws letters as shapes, and writes what they say beside them.

    >>> _compact(b'<path d="M 1.23456 7.1"/><g transform="scale(0.015625)"/>')
    b'<path d="M1.23,7.1"/><g transform="scale(0.015625)"/>'
    """
    short = _PLACES.sub(lambda match: match[1] + b'="' + _places(match[2]) + b'"', svg)
    return _BLANKS.sub(b"\n", _SAID.sub(b"", short))


def _places(text: bytes) -> bytes:
    """Return coordinates without blanks, each of which would take three bytes in the address of a picture."""
    return _BETWEEN.sub(b",", _AROUND.sub(rb"\1", _LONG.sub(rb"\1", text)).strip())


def _render(figure: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    buffer = io.BytesIO()
    for artist in figure.findobj(Artist):  # names of runs are labels, and mark groups of an SVG
        artist.set_gid(legible(artist.get_gid() or "") or None)
        if isinstance(artist, Text):
            artist.set_text(legible(artist.get_text()))
    with house():
        figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()


def save(figure: Figure, folder: Path, name: str) -> tuple[Path, Path]:
    """Write `folder/name.png` and `folder/name.svg` and return both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    png, svg = folder / f"{name}.png", folder / f"{name}.svg"
    for_writing(png).write_bytes(to_png(figure))
    for_writing(svg).write_bytes(to_svg(figure))
    return png, svg
