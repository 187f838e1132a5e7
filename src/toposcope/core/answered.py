"""What an answer has as an object: its tables by name, and what a notebook shows of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

SHOWN = 40
"""Rows of a table that a notebook shows."""


class Tables(Mapping[str, "pd.DataFrame"]):
    """The tables of an object by name, each computed on first use.

    >>> tables = Tables(losses=lambda: [3.0, 2.5], runs=lambda: 1 / 0)
    >>> tables["losses"], list(tables), tables
    ([3.0, 2.5], ['losses', 'runs'], tables: losses, runs)
    """

    def __init__(self, **made_by: Callable[[], pd.DataFrame]) -> None:
        self._made_by = made_by

    def __getitem__(self, name: str) -> pd.DataFrame:
        """Return the table of this name; KeyError where there is none."""
        return self._made_by[name]()

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._made_by)

    def __len__(self) -> int:
        """Return how many tables there are."""
        return len(self._made_by)

    def __repr__(self) -> str:
        """Return the names; nothing is computed."""
        return f"tables: {', '.join(self)}"


LINES = 10
"""Lines of an answer that a notebook shows; printed, it has all."""
WORDS = 150
"""Words of an answer in a notebook, about: a longer table is cut in its middle."""


def answered(
    answer: str, table: pd.DataFrame | None = None, plot: Callable[[Axes], Axes] | None = None
) -> str:
    """Return what a notebook shows of an object: its answer, the first line bold, its picture, a table.

    Of a long answer the first `LINES` lines are shown; `plot` draws the picture on axes.

    >>> answered(chr(10).join(["two runs", "no fault"]))
    '<p><strong>two runs</strong><br>no fault</p>'
    """
    from html import escape

    least = 0 if table is None or not len(table) else _words(table, _FEWEST)
    lines = [escape(line) for line in _first(answer.splitlines(), WORDS - least)]
    first, *more = lines
    text = "<br>".join([f"<strong>{first}</strong>", *more])
    rows = "" if table is None or not len(table) else _short(table, WORDS - len(" ".join(lines).split()))
    return f"<p>{text}</p>{pictured(plot) if plot else ''}{rows}"


_MORE = "… (print it for all)"


def _first(lines: list[str], words: int) -> list[str]:
    """Return the first lines of an answer: `LINES` at most, with this many words, and the first in any case.

    >>> _first(["yes", "for one", "for two, three and all that follow"], 8)
    ['yes', 'for one', '… (print it for all)']
    """
    shown = 1
    while shown < len(lines):
        last = shown + 1 == len(lines)
        text = " ".join([*lines[: shown + 1], *([] if last else [_MORE])])
        if len(text.split()) > words or shown + 1 > LINES - (not last):
            break
        shown += 1
    return [*lines[:shown], *([_MORE] if shown < len(lines) else [])] or [""]


_FEWEST = 3
"""Rows of a table that a notebook shows at least."""


def _words(table: pd.DataFrame, rows: int) -> int:
    """Return how many words a table with this many rows has."""
    cells = [*table.columns, *table.head(rows).to_numpy().ravel()]
    return sum(len(str(value).split()) for value in cells)


def _short(table: pd.DataFrame, words: int) -> str:
    """Return a table as HTML with as many rows as a number of words allows, at least `_FEWEST`."""
    each = max(_words(table.iloc[:1], 1) - _words(table, 0), 1)
    fits = (words - _words(table, 0)) // each
    fits -= fits < len(table)  # the row of dots, where rows are left out
    return table.to_html(index=False, max_rows=min(max(fits, _FEWEST), SHOWN))


def pictured(plot: Callable[[Axes], Axes]) -> str:
    """Return what `plot` draws as an HTML image, for a notebook."""
    import base64

    from toposcope.core.drawing.style import house, new_figure, to_png

    with house():
        figure, axes = new_figure(3.2)
        plot(axes[0, 0])
    code = base64.b64encode(to_png(figure)).decode()
    return f'<img style="width:100%;max-width:56em" alt="" src="data:image/png;base64,{code}">'


def counted(checkpoints: int, runs: int) -> str:
    """Return the number of checkpoints and runs in words.

    >>> counted(51, 3), counted(1, 1)
    ('51 checkpoints of 3 runs', '1 checkpoint of 1 run')
    """
    return f"{checkpoints:,} checkpoint{'s' * (checkpoints != 1)} of {runs:,} run{'s' * (runs != 1)}"
