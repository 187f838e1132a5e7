"""Progress on anything that takes more than a moment: a bar on a terminal, plain lines without one."""

from __future__ import annotations

import bisect
import math
import sys
import threading
import time
from collections.abc import Iterable, Iterator
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
    """

    def __init__(
        self,
        label: str,
        total: int | None = None,
        *,
        quiet: bool = False,
        weighed: bool = False,
        warms_up: bool = False,
    ) -> None:
        self.label = label
        self.total = total
        self.done = 0
        self.failed = 0
        self._quiet = quiet
        self._weighed = weighed
        self._warms_up = warms_up
        self._passed: list[tuple[float, int]] = []
        self._start = self._last = time.monotonic()
        self._bar: tuple[Any, Any] | None = None
        self._expected: tuple[Outlook, float] | None = None
        self._shown = (0.0, self._start)
        self._showing = threading.Lock()
        self._note = ""
        self._over = threading.Event()

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            self._bar = _terminal_bar(self.label, self.total, self._weighed)
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

    def advance(self, n: int = 1, *, note: str = "", failed: bool = False) -> None:
        """Count `n` more units done, `note` shown beside the bar."""
        self.done += n
        if self._warms_up:
            self._passed.append((time.monotonic(), self.done))
        self.failed += n if failed else 0
        if self._bar is not None:
            bar, task = self._bar
            if self._expected is None:
                bar.update(task, advance=n, note=note + self._failures())
            else:
                self._note = note
                self._move_bar()
        elif not self._quiet and time.monotonic() - self._last > _PLAIN_EVERY_SECONDS:
            self._last = time.monotonic()
            self._line(note)

    def _late_rate(self) -> float:
        """Return the counts per second over the later half of the time since the first; 0 when not known."""
        if len(self._passed) < 2:
            return 0.0
        (start, first), (now, done) = self._passed[0], self._passed[-1]
        if done - first < (self.total or 0) / 50:
            return 0.0
        at = bisect.bisect_right(self._passed, (start + now) / 2, key=lambda passed: passed[0]) - 1
        then, before = self._passed[max(at, 0)]
        return (done - before) / (now - then) if now > then else 0.0

    def _move_bar(self) -> None:
        """Put the bar at the share of the work, and the time left beside the count."""
        standing = self.standing()
        if self._bar is None or standing is None:
            return
        bar, task = self._bar
        note = f"{self.done}/{self.total}, {_left(standing[1])} {self._note}{self._failures()}".rstrip()
        bar.update(task, completed=standing[0] * (self.total or 0), note=note)

    def _failures(self) -> str:
        return f" ({self.failed} failed)" if self.failed else ""

    def _line(self, note: str = "") -> None:
        seconds = time.monotonic() - self._start
        rate = self._late_rate() if self._warms_up else self.done / seconds if seconds else 0.0
        of = f"/{self.total}" if self.total else ""
        left = (
            f", {(self.total - self.done) / rate:.0f} s left"
            if self.total and rate and self.done < self.total
            else ""
        )
        standing = self.standing()
        if standing is not None and self.done != self.total:
            share, seconds_left = standing
            count = f"{self.done}{of} units{self._failures()}"
            text = f"{self.label}: {share:.0%}, {count}, {_left(seconds_left)} {note}"
            print(text.rstrip(), file=sys.stderr, flush=True)
            return
        speed = f", {rate:.1f}/s" if rate else ""
        text = f"{self.label}: {self.done}{of}{self._failures()}{speed}{left} {note}".rstrip()
        print(text, file=sys.stderr, flush=True)


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
