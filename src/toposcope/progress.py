"""Progress on anything that takes more than a moment: a bar on a terminal, plain lines without one."""

from __future__ import annotations

import bisect
import math
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Self, TypeVar

T = TypeVar("T")

_PLAIN_EVERY_SECONDS = 10.0
_SHOW_AFTER_SECONDS = 2.0
_OVERRUN = 0.25
"""Time left of what should be over, in units of the time that has passed since the last count."""
_STRAIGHT = 0.8
"""Up to which share of its expected time the work under way is taken to go on evenly; then ever slower."""
_CREEP = 4.0
"""How many times the time left a share that is ahead of the true one takes for its rest, or rather more."""
_NEARLY = 0.99
"""The most that is said of work that goes on."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """Seconds that the finished work took and that the rest will take, as of now.

    Of the rest, `under_way` is what the next counts stand for at most: all of it when not given. `known`
    says whether any of this was measured; the time left is withheld otherwise.
    """

    done: float
    left: float
    under_way: float | None = None
    known: bool = True

    def after(self, since: float) -> tuple[float, float]:
        """Return the share done and the seconds left when nothing was counted for so many seconds."""
        if self.left <= 0:
            return 1.0, 0.0
        under_way = max(1e-9, self.left if self.under_way is None else min(self.under_way, self.left))
        moved = under_way * _eased(since / under_way)
        rest = self.left - under_way + max(under_way - since, _OVERRUN * since)
        return (self.done + moved) / (self.done + self.left), rest


def _eased(share: float) -> float:
    """Return how far something is that has had `share` of its expected time: it is never over by itself."""
    late = (share - _STRAIGHT) / (1.0 - _STRAIGHT)
    return share if late < 0 else 1.0 - (1.0 - _STRAIGHT) * math.exp(-late)


class Progress:
    """A counter that shows itself on standard error.

    On a terminal it is a live bar with rate and remaining time; elsewhere it prints a plain line at
    most every ten seconds, and nothing at all when the work ends within two.

    `weighed` work goes by seconds rather than by counts: both go on between two counts, from the `Outlook`
    that `expect` was last told. Work that `warms_up` (compiles, say) is timed over the later half of the
    time since its first count, and the time left is withheld until a fiftieth of the work has been seen.
    Where counts differ in cost, `work` is what all of them weigh together.
    """

    def __init__(
        self,
        label: str,
        total: int | None = None,
        *,
        quiet: bool = False,
        weighed: bool = False,
        warms_up: bool = False,
        work: float | None = None,
    ) -> None:
        self.label = label
        self.total = total
        self.done = 0
        self.failed = 0
        self._quiet = quiet
        self._weighed = weighed
        self._warms_up = warms_up
        self._work = float(total or 0) if work is None else work
        self._worked = 0.0
        self._passed: list[tuple[float, float]] = []
        self._start = self._last = time.monotonic()
        self._bar: tuple[Any, Any] | None = None
        self._expected: tuple[Outlook, float] | None = None
        self._shown = (0.0, self._start)
        self._showing = threading.Lock()
        self._note = ""
        self._over = threading.Event()

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            self._bar = _terminal_bar(self.label, self.total, self._weighed or self._warms_up)
        return self

    def expect(self, outlook: Outlook) -> None:
        """Say how much of the work is done and what the rest will take.

        From the first call on, the share done and the time left are read off this rather than off the
        count, and a plain line comes every ten seconds, whether or not a unit ends.
        """
        first = self._expected is None
        self._expected = (outlook, time.monotonic())
        if first and not self._quiet:
            threading.Thread(target=self._go_on, daemon=True).start()

    def standing(self) -> tuple[float, float | None] | None:
        """Return the share done (0 to 1) and the seconds left, between counts too; None without `expect`.

        Time that passes moves both, the share within what is under way only, and it never falls. What is
        under way and takes longer than was expected has a quarter of the time left that has passed since the
        last count. The seconds are None as long as nothing is known of them.
        """
        if self._expected is None:
            return None
        now = time.monotonic()
        outlook, at = self._expected
        share, left = outlook.after(now - at)
        known = left if outlook.known else None
        return self._onwards(share, known, now), known

    def _onwards(self, share: float, left: float | None, now: float) -> float:
        """Return the share to show: never less than before.

        Where the work has turned out longer than was expected, the share shown is ahead of the true one.
        It then creeps through its rest until both meet.
        """
        with self._showing:
            before, then = self._shown
            if share < before:
                share = before
                if left is not None:
                    share += (1.0 - before) * (now - then) / (_CREEP * left + now - then)
            self._shown = (share, now)
            return share

    def _go_on(self) -> None:
        while not self._over.wait(_PLAIN_EVERY_SECONDS if self._bar is None else 1.0):
            if self._bar is not None:
                self._move_bar()
            elif time.monotonic() - self._last > _PLAIN_EVERY_SECONDS:
                self._last = time.monotonic()
                self._line(self._note)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._bar is not None:
            self._bar[0].stop()
        elif not self._quiet and time.monotonic() - self._start > _SHOW_AFTER_SECONDS:
            self._line()

    def advance(self, n: int = 1, *, note: str = "", failed: bool = False, weight: float = 1.0) -> None:
        """Count `n` more units done, each of a `weight` in the work, `note` shown beside the bar."""
        self.done += n
        self._worked += n * weight
        if self._warms_up:
            self._passed.append((time.monotonic(), self._worked))
        self.failed += n if failed else 0
        if self._bar is not None:
            bar, task = self._bar
            if self._warms_up:
                bar.update(task, completed=self._worked / (self._work or 1.0) * (self.total or 0))
                bar.update(task, note=f"{self._counted()}{self._time_left()} {note}")
            elif self._expected is None:
                bar.update(task, advance=n, note=note + self._failures())
            else:
                self._note = note
                self._move_bar()
        elif not self._quiet and time.monotonic() - self._last > _PLAIN_EVERY_SECONDS:
            self._last = time.monotonic()
            self._line(note)

    def _rate(self) -> float:
        """Return the work done in a second; 0 when not known.

        Of work that warms up, over the later half of the time since the first count.
        """
        if not self._warms_up:
            seconds = time.monotonic() - self._start
            return self._worked / seconds if seconds > 0 else 0.0
        if len(self._passed) < 2:
            return 0.0
        (start, first), (now, done) = self._passed[0], self._passed[-1]
        if done - first < self._work / 50:
            return 0.0
        at = bisect.bisect_right(self._passed, (start + now) / 2, key=lambda passed: passed[0]) - 1
        then, before = self._passed[max(at, 0)]
        return (done - before) / (now - then) if now > then else 0.0

    def _time_left(self) -> str:
        """Return the time left in words, nothing at the end or where it is not known."""
        rate = self._rate()
        if not self.total or self.done >= self.total or rate <= 0:
            return ""
        return f", {duration((self._work - self._worked) / rate)} left"

    def _counted(self) -> str:
        of = f"/{self.total}" if self.total else ""
        return f"{self.done}{of}{self._failures()}"

    def _move_bar(self) -> None:
        """Put the bar at the share of the work, and the time left beside the count."""
        standing = self.standing()
        if self._bar is None or standing is None:
            return
        bar, task = self._bar
        left = "" if self.done == self.total else f", {_left(standing[1])}"
        note = f"{self._counted()}{left} {self._note}".rstrip()
        bar.update(task, completed=standing[0] * (self.total or 0), note=note)

    def _failures(self) -> str:
        return f" ({self.failed} failed)" if self.failed else ""

    def _line(self, note: str = "") -> None:
        standing = self.standing()
        if standing is not None and self.done != self.total:
            share, left = standing
            of = f"/{self.total}" if self.total else ""
            text = f"{min(share, _NEARLY):.0%}, {self.done}{of} units{self._failures()}, {_left(left)} {note}"
        else:
            rate = 0.0 if self._work != (self.total or 0) else self._rate()
            speed = f", {rate:.1f}/s" if rate else ""
            text = f"{self._counted()}{speed}{self._time_left()} {note}"
        print(f"{self.label}: {text}".rstrip(), file=sys.stderr, flush=True)


def _left(seconds: float | None) -> str:
    return "time left not known yet" if seconds is None else f"{duration(seconds)} left"


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


def _terminal_bar(label: str, total: int | None, weighed: bool) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        *(() if weighed else (MofNCompleteColumn(), TimeRemainingColumn())),
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
