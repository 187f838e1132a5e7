"""Progress on anything that takes more than a moment: a bar on a terminal, plain lines without one.

What is shown is what was counted. A time left stands beside it only while it is known: not before enough was
measured, and not while the unit under way takes much longer than it was expected to.
"""

from __future__ import annotations

import bisect
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Self, TypeVar

T = TypeVar("T")

_PLAIN_EVERY_SECONDS = 10.0
_SHOW_AFTER_SECONDS = 2.0
_LATE = 2.0
"""How many times its expected time a unit may take until the time left is no longer said: estimates before a
unit of its kind has ended are good to a factor of three, later ones to less than two."""
_SLOW = 0.1
"""Counts a second below which seconds for each are said: 0.0/s says nothing."""

Hear = Callable[[str, int, "int | None"], object]
_hears: ContextVar[Hear | None] = ContextVar("hears", default=None)


@contextmanager
def parts_heard_by(hear: Hear) -> Iterator[None]:
    """Let `hear` know label, count and total of every `Progress` inside, one that is quiet, too.

    >>> with parts_heard_by(lambda *said: print(said)):
    ...     done = list(track("ab", "reading", quiet=True))
    ('reading', 1, 2)
    ('reading', 2, 2)
    """
    token = _hears.set(hear)
    try:
        yield
    finally:
        _hears.reset(token)


@dataclass(frozen=True, slots=True)
class Outlook:
    """Seconds that the rest of the work will take, as of now.

    Of the rest, `under_way` is what the next counts stand for at most: all of it when not given. `known`
    says whether any of this was measured; the time left is withheld otherwise.
    """

    left: float
    under_way: float | None = None
    known: bool = True

    def after(self, since: float) -> float | None:
        """Return the seconds left when nothing was counted for so many seconds; None where not known."""
        under_way = self.left if self.under_way is None else min(self.under_way, self.left)
        if not self.known or since > _LATE * max(under_way, 1.0):
            return None
        return self.left - min(since, under_way)


class Progress:
    """A counter that shows itself on standard error.

    On a terminal it is a live bar; elsewhere it prints a plain line at most every ten seconds, also while
    nothing is counted, and nothing at all when the work ends within two.

    Work whose units differ in cost tells its own `Outlook` by `expect`: the time left is that. Work that
    `warms_up` (compiles, say) is timed over the later half of the time since its first count, and the time
    left is withheld until a fiftieth of the work has been seen. Where counts differ in cost, `work` is what
    all of them weigh together.
    """

    def __init__(
        self,
        label: str,
        total: int | None = None,
        *,
        quiet: bool = False,
        warms_up: bool = False,
        work: float | None = None,
    ) -> None:
        self.label = label
        self.total = total
        self.done = 0
        self.failed = 0
        self._quiet = quiet
        self._warms_up = warms_up
        self._work = float(total or 0) if work is None else work
        self._worked = 0.0
        self._passed: list[tuple[float, float]] = []
        self._start = self._last = self._counted_at = time.monotonic()
        self._bar: tuple[Any, Any] | None = None
        self._expected: tuple[Outlook, float] | None = None
        self._inside = ""
        self._note = ""
        self._hear = _hears.get()
        self._over = threading.Event()

    def __enter__(self) -> Self:
        if self._quiet:
            return self
        if sys.stderr.isatty():
            self._bar = _terminal_bar(self.label, self.total)
        threading.Thread(target=self._go_on, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._bar is not None:
            self._bar[0].stop()
        elif not self._quiet and time.monotonic() - self._start > _SHOW_AFTER_SECONDS:
            self._line()

    def expect(self, outlook: Outlook) -> None:
        """Say what the rest of the work will take; the time left is read off this from now on."""
        self._expected = (outlook, time.monotonic())

    def inside(self, part: str) -> None:
        """Say how far the unit is that is under way: "" where that is not known."""
        self._inside = part

    def advance(self, n: int = 1, *, note: str = "", failed: bool = False, weight: float = 1.0) -> None:
        """Count `n` more units done, each of a `weight` in the work, `note` shown beside the bar."""
        self.done += n
        self._worked += n * weight
        self._inside = "" if n else self._inside
        self._counted_at = time.monotonic()
        if self._warms_up:
            self._passed.append((self._counted_at, self._worked))
        self.failed += n if failed else 0
        self._note = note
        if self._hear is not None:
            self._hear(self.label, self.done, self.total)
        if self._bar is not None:
            self._move_bar()
        else:
            self._line_when_due()

    def left(self) -> float | None:
        """Return the seconds left; None where they are not known."""
        now = time.monotonic()
        if self._expected is not None:
            outlook, at = self._expected
            return outlook.after(now - at)
        rate = self._rate()
        if not self.total or self.done >= self.total or rate <= 0:
            return None
        each = self._worked / max(self.done, 1) / rate
        return Outlook((self._work - self._worked) / rate, under_way=each).after(now - self._counted_at)

    def _go_on(self) -> None:
        while not self._over.wait(_PLAIN_EVERY_SECONDS if self._bar is None else 1.0):
            if self._bar is not None:
                self._move_bar()
            else:
                self._line_when_due()

    def _rate(self) -> float:
        """Return the work done in a second; 0 when not known.

        Of work that warms up, over the later half of the time since the first count.
        """
        if not self._warms_up:
            seconds = self._counted_at - self._start
            return self._worked / seconds if seconds > 0 else 0.0
        if len(self._passed) < 2:
            return 0.0
        (start, first), (now, done) = self._passed[0], self._passed[-1]
        if done - first < self._work / 50:
            return 0.0
        at = bisect.bisect_right(self._passed, (start + now) / 2, key=lambda passed: passed[0]) - 1
        then, before = self._passed[max(at, 0)]
        return (done - before) / (now - then) if now > then else 0.0

    def _text(self) -> str:
        """Return what is counted, how fast, how long it takes, and what is under way."""
        return f"{self._counted()}{self._timing()}{f'; {self._inside}' if self._inside else ''} {self._note}"

    def _timing(self) -> str:
        """Return the pace and the time left in words, or the time so far where that is not known."""
        passed = duration(time.monotonic() - self._start)
        if self.done == self.total:
            return f", in {passed}"
        left = self.left()
        rest = f", {duration(left)} left" if left is not None else f", {passed} so far"
        if self._expected is not None:
            return rest if left is not None else f"{rest}, time left not known"
        rate = self._rate() if self._work == (self.total or 0) else 0.0
        speed = f", {rate:.1f}/s" if rate >= _SLOW else f", {duration(1 / rate)} each" if rate > 0 else ""
        return speed + rest

    def _counted(self) -> str:
        of = f"/{self.total}" if self.total else ""
        units = " units" if self._expected is not None else ""
        return f"{self.done}{of}{units}" + (f" ({self.failed} failed)" if self.failed else "")

    def _move_bar(self) -> None:
        assert self._bar is not None
        bar, task = self._bar
        bar.update(task, completed=self.done, note=self._text().rstrip())

    def _line_when_due(self) -> None:
        if not self._quiet and time.monotonic() - self._last > _PLAIN_EVERY_SECONDS:
            self._last = time.monotonic()
            self._line()

    def _line(self) -> None:
        print(f"{self.label}: {self._text()}".rstrip(), file=sys.stderr, flush=True)


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
    """Say that work of unknown length goes on: by a moving bar on a terminal, else a line every ten seconds.

    >>> with busy("counting"):
    ...     total = sum(range(10))
    """
    over, start = threading.Event(), time.monotonic()

    def tell() -> None:
        while not over.wait(_PLAIN_EVERY_SECONDS):
            print(f"{label}: {duration(time.monotonic() - start)} so far", file=sys.stderr, flush=True)

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
    bar = Bar(*columns, console=Console(stderr=True), transient=True, refresh_per_second=4)
    bar.add_task(label, total=None)
    return bar


def _terminal_bar(label: str, total: int | None) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"))
    bar = Bar(*columns, console=Console(stderr=True))
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
