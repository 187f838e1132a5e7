"""Figures as bytes, half of them in a second process: drawing takes most of a page's time."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import cloudpickle
from matplotlib.figure import Figure

from toposcope.figures.style import thumbnail, to_png, to_svg

WORTH = 4
"""Fewer figures than this are drawn before a second process has started."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """One figure as SVG, as PNG at twice the screen's resolution, and as the PNG of a card."""

    svg: bytes
    png: bytes
    thumbnail: bytes


def render(figure: Figure) -> Rendered:
    """Return the figure as bytes, the same for the same data; its layout is settled afterwards."""
    svg = to_svg(figure)
    figure.set_layout_engine(None)  # found for the SVG; finding it again takes most of the time
    png = to_png(figure)
    return Rendered(svg, png, thumbnail(png))


def render_all(figures: Iterable[Figure]) -> list[Rendered]:
    """Return what `render` returns of each, made side by side where there is a second core.

    >>> from toposcope.figures.style import new_figure
    >>> figure, _ = new_figure(2.0)
    >>> render_all([figure])[0].png[1:4]
    b'PNG'
    """
    waiting = deque(enumerate(figures))
    made: list[Rendered | None] = [None] * len(waiting)
    if len(waiting) < WORTH or not sys.executable or (os.cpu_count() or 1) < 2:
        return [render(figure) for _, figure in waiting]
    beside = threading.Thread(target=_beside, args=(waiting, made), daemon=True)
    beside.start()
    while (one := _next(waiting)) is not None:
        made[one[0]] = render(one[1])
    beside.join()
    while (one := _next(waiting)) is not None:  # what a second process that died has left
        made[one[0]] = render(one[1])
    return [one for one in made if one is not None]


def _next(waiting: deque[tuple[int, Figure]], *, last: bool = False) -> tuple[int, Figure] | None:
    try:
        return waiting.pop() if last else waiting.popleft()
    except IndexError:
        return None


def _beside(waiting: deque[tuple[int, Figure]], made: list[Rendered | None]) -> None:
    """Let a second process render the last figure that waits, until none does; without a pool's guards.

    A pool would start by importing the caller's main module, which a plain script does not survive.
    """
    command = [sys.executable, "-c", f"from {__name__} import serve; serve()"]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=paths)
    except OSError:
        return
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        while (one := _next(waiting, last=True)) is not None:
            try:
                cloudpickle.dump(one[1], process.stdin)
                process.stdin.flush()
                made[one[0]] = pickle.load(process.stdout)
            except Exception:  # it died, or a figure cannot travel: it is drawn here
                waiting.append(one)
                process.kill()
                return
        process.stdin.close()


def serve() -> None:
    """Render figures from standard input to standard output until it ends; the parent answers Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            figure = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(render(figure), sys.stdout.buffer)
        sys.stdout.buffer.flush()
