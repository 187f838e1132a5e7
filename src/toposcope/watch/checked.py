"""What a watch has checked and what it has not: "no alarm" refers only to what it has checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toposcope.core.answered import counted
from toposcope.core.forms import and_more
from toposcope.store import Store
from toposcope.watch.first_line import FirstLine, Lead


@dataclass(frozen=True, slots=True)
class Unchecked:
    """A file or folder that was not checked, and why; a `problem` unless waiting may solve it."""

    place: str
    why: str
    problem: bool = True


@dataclass(frozen=True, slots=True)
class Checked:
    """The checkpoints that were measured, the runs whose losses are known, and what was not checked.

    >>> checked = Checked({"a": [10, 20]}, unseen=(Unchecked("runs/b", "holds no checkpoint"),))
    >>> checked.answer(FirstLine.of([], checked.problems, [], checked=checked.any))
    'no alarm in 2 checkpoints of 1 run, but 1 problem: runs/b: holds no checkpoint'
    """

    measured: Mapping[str, Sequence[int]]
    logged: tuple[str, ...] = ()
    unseen: tuple[Unchecked, ...] = ()

    @classmethod
    def of(cls, store: Store, unseen: Sequence[Unchecked] = ()) -> Checked:
        """Return what was checked, according to the store, and what was not: its faulty parts, too."""
        losses = store.metrics()
        logged = losses.loc[losses["loss"].notna() | losses["heldout_loss"].notna(), "run"]
        faults = [Unchecked(str(store.path), why) for why in store.part_faults()]
        return cls(store.measured_steps(), tuple(sorted(set(logged.astype(str)))), (*unseen, *faults))

    @property
    def any(self) -> bool:
        """Whether anything was checked."""
        return bool(self.measured or self.logged)

    @property
    def problems(self) -> list[str]:
        """What was not checked and will not be solved by waiting, each with its place."""
        reasons = [
            log_unchecked.why
            if log_unchecked.place in log_unchecked.why
            else f"{log_unchecked.place}: {log_unchecked.why}"
            for log_unchecked in self.unseen
            if log_unchecked.problem
        ]
        if not self.any and not reasons:
            return ["no checkpoint is complete yet"]
        return reasons

    def answer(self, first: FirstLine) -> str:
        """Return the first line in words: what it is about, and in what nothing else was found."""
        waiting = sum(not log_unchecked.problem for log_unchecked in self.unseen)
        later = f"; {waiting} not complete yet" if waiting else ""
        if first.lead is Lead.ALARM:
            more = and_more(first.count - 1, "earlier", form=", and {}")
            return f"alarm: {first.said}{more}" + (f"; next: {first.next}" if first.next else "")
        if first.lead is Lead.UNCHECKED:
            return f"nothing was checked: {first.said}{later}"
        of = counted(sum(map(len, self.measured.values())), len(self.measured))
        of = of if self.measured else f"the losses of {len(self.logged):,} run{'s' * (len(self.logged) > 1)}"
        if first.lead is Lead.PROBLEM:
            many = f"{first.count:,} problem{'s' * (first.count > 1)}"
            return f"no alarm in {of}, but {many}: {first.said}{later}"
        return f"no alarm in {of}{later}"

    def to_dict(self) -> dict[str, Any]:
        """Return both halves as plain JSON."""
        runs = sorted({*self.measured, *self.logged})
        return {
            "examined": {
                run: {"steps": list(self.measured.get(run, ())), "losses": run in self.logged} for run in runs
            },
            "not_examined": [
                {"place": log_unchecked.place, "why": log_unchecked.why, "problem": log_unchecked.problem}
                for log_unchecked in self.unseen
            ],
        }


@dataclass(slots=True)
class UncheckedLog:
    """Remembers between visits what a sidecar could not check; `new` returns each reason once."""

    waiting: dict[str, str] = field(default_factory=dict)
    reported: dict[str, str] = field(default_factory=dict)
    faulty: dict[str, str] = field(default_factory=dict)
    """Existing checkpoints that could not be measured, and why."""
    losses: dict[str, str] = field(default_factory=dict)
    """Runs whose loss history cannot be read, and why."""
    now: tuple[Unchecked, ...] = ()

    def take(self, unread: Mapping[str, str], waiting: Mapping[str, str], stuck: frozenset[str]) -> None:
        """Take what the latest visit found."""
        unchecked = [Unchecked(place, why) for place, why in unread.items()]
        unchecked += [Unchecked(f"{run} losses", why) for run, why in self.losses.items()]
        unchecked += [Unchecked(uri, why) for uri, why in self.faulty.items()]
        unchecked += [
            Unchecked(uri, why, uri in stuck) for uri, why in waiting.items() if uri not in self.faulty
        ]
        self.now = tuple(unchecked)

    def new(self) -> list[Unchecked]:
        """Return the problems that are new or have changed, and the solved ones, with an empty reason."""
        now = {log_unchecked.place: log_unchecked.why for log_unchecked in self.now if log_unchecked.problem}
        changed = [
            log_unchecked
            for log_unchecked in self.now
            if log_unchecked.problem and self.reported.get(log_unchecked.place) != log_unchecked.why
        ]
        changed += [Unchecked(place, "", problem=False) for place in self.reported if place not in now]
        self.reported = now
        return changed
