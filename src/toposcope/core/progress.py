"""Progress on anything that takes more than a moment: a bar on a terminal, plain lines without one.

What is shown is what was counted. The time left is that of `rich`: what is left at the rate so far.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, Self, TypeVar

from toposcope.core.legible import drawn_on

T = TypeVar("T")

_PLAIN_EVERY_SECONDS = 10.0
"""Seconds between plain lines, which stay in a log: six a minute."""
_SHOW_AFTER_SECONDS = 2.0
"""Work that is done by then needs no bar."""
_RATE_OVER_SECONDS = 600.0
"""The rate is taken over this many last seconds, without the first count, during which things load."""

Listener = Callable[[str, int, "int | None"], object]
_current_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def progress_reported_to(listener: Listener) -> Iterator[None]:
    """Report label, count and total of every `Progress` inside to `listener`, also of a quiet one.

    >>> with progress_reported_to(lambda *said: print(said)):
    ...     done = list(track("ab", "reading", quiet=True))
    ('reading', 1, 2)
    ('reading', 2, 2)
    """
    token = _current_listener.set(listener)
    try:
        yield
    finally:
        _current_listener.reset(token)


class Progress:
    """A counter that shows itself on standard error.

    On a terminal it is a live bar; elsewhere it prints a plain line at most every ten seconds, also while
    nothing is counted, and nothing at all when the work ends within two. Where counts differ in cost, `work`
    is their total weight.
    """

    def __init__(
        self, label: str, total: int | None = None, *, quiet: bool = False, work: float | None = None
    ) -> None:
        self.label = label
        self.total = total
        self.done = 0
        self.failed = 0
        self._quiet = quiet
        self._work = float(total or 0) if work is None else work
        self._worked = 0.0
        self._start = self._last = self._advanced = time.monotonic()
        self._bar: tuple[Any, Any] | None = None
        self._live = False
        self._inside = ""
        self._note = ""
        self._listener = _current_listener.get()
        self._over = threading.Event()

    def __enter__(self) -> Self:
        if self._quiet:
            return self
        self._bar = _bar(self.label, self._work or None)
        self._live = sys.stderr.isatty()
        if self._live:
            self._bar[0].start()
        threading.Thread(target=self._go_on, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._bar is None:
            return
        if self._live:
            self._bar[0].stop()
        elif time.monotonic() - self._start > _SHOW_AFTER_SECONDS:
            self._line()

    def inside(self, part: str) -> None:
        """Show the progress within the unit that is under way; "" if it is not known."""
        self._inside = part

    def advance(
        self,
        n: int = 1,
        *,
        note: str = "",
        failed: bool = False,
        work: float | None = None,
        there: float = 0.0,
    ) -> None:
        """Count `n` more finished units with the weight `work` (by default n); show `note` beside the bar.

        `there` is the weight of units that were finished earlier and took no time now.
        """
        self._advanced = time.monotonic()
        self.done += n
        self._worked += n if work is None else work
        self._work -= there
        self._inside = "" if n else self._inside
        self.failed += n if failed else 0
        self._note = note
        if self._listener is not None:
            self._listener(self.label, self.done, self.total)
        self._show()

    def _go_on(self) -> None:
        while not self._over.wait(1.0 if self._live else _PLAIN_EVERY_SECONDS):
            self._show()

    def _show(self) -> None:
        if self._bar is None:
            return
        bar, task = self._bar
        note = f"{self._counted()} {self._under_way()}".rstrip()
        bar.update(task, completed=self._worked, total=self._work or None, note=note)
        if not self._live and time.monotonic() - self._last > _PLAIN_EVERY_SECONDS:
            self._last = time.monotonic()
            self._line()

    def _line(self) -> None:
        print(f"{self.label}: {self._text()}".rstrip(), file=sys.stderr, flush=True)

    def _text(self) -> str:
        """Return what is counted, how long it took and takes, and what is under way."""
        passed = duration(time.monotonic() - self._start)
        if self.done == self.total:
            return f"{self._counted()}, in {passed}"
        left = self._left()
        rest = f"{passed} so far" if left is None else f"{duration(left)} left"
        return f"{self._counted()}, {rest}{self._under_way()}"

    def _left(self) -> float | None:
        """Return the seconds that are left; None where the unit under way alone has taken longer."""
        assert self._bar is not None
        left: float | None = self._bar[0].tasks[0].time_remaining
        return None if left is None or left < time.monotonic() - self._advanced else left

    def _counted(self) -> str:
        of = f"/{self.total}" if self.total else ""
        return f"{self.done}{of}" + (f" ({self.failed} failed)" if self.failed else "")

    def _under_way(self) -> str:
        return f"{f'; {self._inside}' if self._inside else ''} {self._note}"


def duration(seconds: float) -> str:
    """Return a time in words.

    >>> duration(4), duration(600), duration(9000), duration(300000)
    ('4 s', '10 min', '2.5 h', '3.5 days')
    """
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"


@contextmanager
def busy(label: str, *, quiet: bool = False) -> Iterator[None]:
    """Show that work of unknown length goes on: by a moving bar on a terminal, else a line every ten seconds.

    >>> with busy("counting"):
    ...     total = sum(range(10))
    """
    over, start = threading.Event(), time.monotonic()

    def tell() -> None:
        before = ""
        while not over.wait(_PLAIN_EVERY_SECONDS):
            passed = duration(time.monotonic() - start)
            if passed != before:  # minutes change less often than lines would come
                print(f"{label}: {passed} so far", file=sys.stderr, flush=True)
            before = passed

    with ExitStack() as stack:
        stack.callback(over.set)
        if quiet:
            pass
        elif sys.stderr.isatty():
            stack.enter_context(_moving_bar(label))
        else:
            threading.Thread(target=tell, daemon=True).start()
        yield


def _moving_bar(label: str) -> Any:
    """Return a bar that moves, with the time so far, and leaves nothing behind."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    bar = Bar(*columns, console=Console(file=drawn_on(sys.stderr)), transient=True, refresh_per_second=4)
    bar.add_task(label, total=None)
    return bar


def _bar(label: str, work: float | None) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    texts = TextColumn("{task.description}"), TextColumn("{task.fields[note]}")
    columns = (texts[0], BarColumn(), TimeElapsedColumn(), TimeRemainingColumn(), texts[1])
    bar = Bar(
        *columns,
        console=Console(file=drawn_on(sys.stderr)),
        speed_estimate_period=_RATE_OVER_SECONDS,
        get_time=lambda: time.monotonic(),
    )
    return bar, bar.add_task(label, total=work, note="")


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
