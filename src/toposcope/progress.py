"""Progress on anything that takes more than a moment: a bar on a terminal, plain lines without one."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, Self, TypeVar

T = TypeVar("T")

_PLAIN_EVERY_SECONDS = 10.0
_SHOW_AFTER_SECONDS = 2.0


class Progress:
    """A counter that shows itself on standard error.

    On a terminal it is a live bar with rate and remaining time; elsewhere it prints a plain line at
    most every ten seconds, and nothing at all when the work ends within two.
    """

    def __init__(self, label: str, total: int | None = None, *, quiet: bool = False) -> None:
        self.label = label
        self.total = total
        self.done = 0
        self.failed = 0
        self._quiet = quiet
        self._start = self._last = time.monotonic()
        self._bar: tuple[Any, Any] | None = None

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            self._bar = _terminal_bar(self.label, self.total)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar[0].stop()
        elif not self._quiet and time.monotonic() - self._start > _SHOW_AFTER_SECONDS:
            self._line()

    def advance(self, n: int = 1, *, note: str = "", failed: bool = False) -> None:
        """Count `n` more units done, `note` shown beside the bar."""
        self.done += n
        self.failed += n if failed else 0
        if self._bar is not None:
            bar, task = self._bar
            bar.update(task, advance=n, note=note + self._failures())
        elif not self._quiet and time.monotonic() - self._last > _PLAIN_EVERY_SECONDS:
            self._last = time.monotonic()
            self._line(note)

    def _failures(self) -> str:
        return f" ({self.failed} failed)" if self.failed else ""

    def _line(self, note: str = "") -> None:
        seconds = time.monotonic() - self._start
        rate = self.done / seconds if seconds else 0.0
        of = f"/{self.total}" if self.total else ""
        left = (
            f", {(self.total - self.done) / rate:.0f} s left"
            if self.total and rate and self.done < self.total
            else ""
        )
        text = f"{self.label}: {self.done}{of}{self._failures()}, {rate:.1f}/s{left} {note}".rstrip()
        print(text, file=sys.stderr, flush=True)


def _terminal_bar(label: str, total: int | None) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
    )
    task = bar.add_task(label, total=total, note="")
    bar.start()
    return bar, task


def track(items: Iterable[T], label: str, total: int | None = None, *, quiet: bool = False) -> Iterator[T]:
    """Iterate over `items` with progress shown.

    >>> list(track([1, 2], "counting", quiet=True))
    [1, 2]
    """
    if total is None and hasattr(items, "__len__"):
        total = len(items)  # type: ignore[arg-type]
    with Progress(label, total, quiet=quiet) as progress:
        for item in items:
            yield item
            progress.advance()
