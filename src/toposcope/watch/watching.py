"""The loop of a watch: visit, judge, report and rest, once or repeatedly within a budget."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.core.errors import InputError
from toposcope.core.wording import command, option
from toposcope.rules.replaying import Replays
from toposcope.store import MANIFEST, Store
from toposcope.store.manifest import kind_of_store
from toposcope.watch._sidecar import Sidecar
from toposcope.watch.budget import Budget
from toposcope.watch.checked import Checked
from toposcope.watch.coverage import not_judged
from toposcope.watch.journal import Event, Journal
from toposcope.watch.judged import judged_runs
from toposcope.watch.lock import locked
from toposcope.watch.loss_health import HealthWatch, health_of, logs_of, with_passed
from toposcope.watch.resumes import latest_answers
from toposcope.watch.sinks.summaries import Forwarder
from toposcope.watch.watch_answer import WatchAnswer
from toposcope.watch.watchman import Watchman

if TYPE_CHECKING:
    from toposcope.subjects.registry import Chosen
    from toposcope.watch.loss_health import StoredLog
    from toposcope.watch.losses import LossFile
    from toposcope.watch.sinks import Sink


@dataclass(frozen=True, kw_only=True)
class WatchOptions:
    """The settings of a watch; the fields are the options of `toposcope watch`."""

    out: Path | None = None
    features: Sequence[str] = ("cheap", "updates")
    budget: Budget = field(default_factory=Budget)
    rest: float = 5.0
    losses: LossFile | None = None
    diagrams: bool = False
    target_loss: float | None = None
    sinks: Sequence[Sink] = ()
    wait: bool = False


class Watching:
    """A folder or a store that only this process watches; close it before another process starts.

    Parameters
    ----------
    target
        A folder that a trainer writes checkpoints to, or a store. For the store of an earlier watch, the
        watch is continued.
    options
        The settings of the watch.

    Raises
    ------
    InputError
        When there is nothing to watch, an option has an impossible value, or (as `AnotherWatchError`) another
        process writes to the store.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "run"
    >>> folder.mkdir()
    >>> with Watching(folder, WatchOptions(rest=0)) as watching:
    ...     print(watching.once().line)
    nothing was checked: no checkpoint is complete yet
    """

    def __init__(self, target: Path, options: WatchOptions | None = None) -> None:
        self.options = options or WatchOptions()
        self.folder, place = _places(target, self.options.out, wait=self.options.wait)
        _refuse_unread(self.folder, self.options)
        measured = None if self.folder is None else _chosen(place, self.options)
        self.store = _store(place, self.folder, measured)
        self._stack = ExitStack()
        try:
            self._stack.enter_context(locked(self.store.path))
        except InputError as error:
            raise AnotherWatchError(str(error), self.store.path) from None
        try:
            self.sidecar = _sidecar(self.folder, self.store, self.options, measured)
            self.watchman = Watchman(self.store.path, target=self.options.target_loss)
        except BaseException:
            self._stack.close()
            raise
        self._forwarder = Forwarder(self.store.path, tuple(self.options.sinks))
        self._refusing: set[str] = set()
        self._health = HealthWatch(self.store)
        self._audited: set[str] = set()

    def __enter__(self) -> Watching:
        """Return the watch."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release the store, so that another process can watch it."""
        self._stack.close()

    def visit(self) -> list[Event]:
        """Find checkpoints, measure them, judge the new ones, and return the events."""
        return self._visit()[0]

    def _visit(self) -> tuple[list[Event], Callable[[], list[StoredLog]]]:
        """Return the events of a visit, and a function that reads the store's logs once, on first use."""
        events = self.sidecar.visit() if self.sidecar is not None else []
        logs = cache(lambda: list(logs_of(self.store)))
        events = [*events, *self.watchman.judge(logs)]
        self._forwarder.forward()
        return [*events, *self._unsent()], logs

    def _unsent(self) -> list[Event]:
        """Return an event for each tracker that has begun to refuse summaries."""
        now = self._forwarder.unsent
        new = [kind for kind in now if kind not in self._refusing]
        self._refusing = set(now)
        return [Event(time.time_ns(), "unsent", data={"sink": sink, "why": now[sink]}) for sink in new]

    def once(self) -> WatchAnswer:
        """Visit once, when the files have been unchanged for long enough, and return the answer."""
        from toposcope.study.odd_measured import odd_of_store

        events, logs = self._visit()
        if self.sidecar is not None and self.sidecar.settling:
            time.sleep(self.options.rest)
            more, logs = self._visit()
            events += more
            events = [
                event for event in events if event.kind != "unsent" or event.data["sink"] in self._refusing
            ]
        journal = self.watchman.journal.read()
        replays = Replays(self.watchman.settings.target is not None)
        alarms, audit = [event for event in journal if event.kind == "alarm"], self.store.audited()
        standing, passed = with_passed(alarms, logs(), journal)
        return WatchAnswer(
            self.store.path, tuple(standing), tuple(passed), tuple(events), tuple(health_of(logs())),
            tuple(str(finding) for finding in audit if not finding.is_remark), self._checked(),
            self._not_judged(journal), self.watchman.stated(),
            odd_of_store(self.store).found,
            judged_runs(self.store, logs(), replays, audit),
            latest_answers(journal),
        )  # fmt: skip

    def _not_judged(self, journal: Sequence[Event]) -> tuple[str, ...]:
        """Return what no alarm can judge yet."""
        log = None if self.options.losses is None else self.options.losses.path
        target = self.options.target_loss
        return tuple(not_judged(self.store, journal, target, folder=self.folder, log=log))

    def go_on(
        self, tell: Callable[[Sequence[Event]], None], every: float = 10.0, *, passes: int | None = None
    ) -> None:
        """Visit repeatedly within the budget, and report what each visit finds; `passes` limits the passes.

        Besides the journal's events it reports changes in the runs' health ("health"), odd runs ("odd run"),
        alarms that have passed ("passed"), audit findings ("audit"), and trackers that refuse summaries
        ("unsent").
        """
        number = 0
        while passes is None or number < passes:
            number += 1
            began, cpu = time.monotonic(), time.process_time()
            events, logs = self._visit()
            tell([*events, *self._beside(logs)])
            used, spent = time.process_time() - cpu, time.monotonic() - began
            time.sleep(self.options.budget.pause(used, spent, every))

    def _beside(self, logs: Callable[[], list[StoredLog]]) -> list[Event]:
        """Return the events that are not in the journal."""
        alarms = [event for event in self.watchman.journal.read() if event.kind == "alarm"]
        faults = [str(finding) for finding in self.store.audited() if not finding.is_remark]
        new = [fault for fault in faults if fault not in self._audited]
        self._audited.update(new)
        audit = [Event(time.time_ns(), "audit", data={"sentence": sentence}) for sentence in new]
        return [*self._health.visit(alarms, logs), *audit]

    def _checked(self) -> Checked:
        """Return what was checked and what was not."""
        return Checked.of(self.store) if self.sidecar is None else self.sidecar.checked


class AnotherWatchError(InputError):
    """Another process writes to the `store`."""

    def __init__(self, message: str, store: Path) -> None:
        super().__init__(message)
        self.store = store


def be_small(cpu_share: float) -> None:
    """Use one thread, and a low priority unless a whole core was granted, so the trainer is not disturbed."""
    from toposcope.core.threads import one_thread

    one_thread()
    if cpu_share < 1:
        os.nice(10)


def _places(target: Path, out: Path | None, *, wait: bool) -> tuple[Path | None, Path]:
    """Return the folder to follow (None for a store without a watch) and the path of the store."""
    if (target / MANIFEST).is_file():
        started = [event for event in Journal.of(target).read() if event.kind == "started"]
        folder = started[-1].data.get("folder") if started else None  # a Monitor follows none
        return (Path(folder) if folder else None), target
    if not target.exists() and not wait:
        raise InputError(f"{target} does not exist; with {option('wait')} the watch waits until it does")
    if target.exists() and not target.is_dir():
        look = command("check", target)
        raise InputError(
            f"{target} is a file; give the folder that the trainer writes to, or a store",
            remedy=f"for one look at a file: {look}",
        )
    folder = Path(os.path.realpath(target))
    return folder, out or folder.with_name(f"{folder.name}-watch")


def _refuse_unread(folder: Path | None, options: WatchOptions) -> None:
    """Refuse options for measuring checkpoints if no folder is followed, because nothing would use them."""
    if folder is not None:
        return
    features = None if options.features == WatchOptions.features else ",".join(options.features)
    losses = None if options.losses is None else options.losses.path
    unread = {
        "losses": losses,
        "features": features,
        "diagrams": options.diagrams or None,
        "out": options.out,
    }
    for name, value in unread.items():
        if value is not None:
            raise InputError(
                "a watch measures nothing new in a store without a watched folder; it only looks for alarms",
                argument=name,
                value=None if value is True else value,
                remedy="give the checkpoint folder instead"
                + ("" if name == "out" else f", or repeat the measurement with {option(name)}"),
            )


def _chosen(place: Path, options: WatchOptions) -> Chosen:
    """Return what is measured: the named features, or the subject of a store that is continued.

    Such a subject is measured with the settings of the store.
    """
    from toposcope.subjects.registry import chosen
    from toposcope.subjects.roster import measurable

    features = [name.strip() for name in options.features]
    if (place / MANIFEST).is_file():
        recipe = Store.open(place).recipe
        kind = kind_of_store(recipe)
        subject = measurable().get(kind)
        if subject is not None and (options.features == WatchOptions.features or features == [kind]):
            return chosen([kind], subject.request_of(recipe))
    return chosen(features)


def _store(place: Path, folder: Path | None, measured: Chosen | None) -> Store:
    if folder is not None and ((whole := Path(os.path.realpath(place))) == folder or folder in whole.parents):
        raise InputError(
            "this lies inside the watched folder",
            argument="out",
            value=place,
            remedy="choose a folder outside it",
        )
    return Store.open(place) if measured is None else Store.create(place, recipe=measured.recipe)


def _sidecar(
    folder: Path | None, store: Store, settings: WatchOptions, measured: Chosen | None
) -> Sidecar | None:
    from toposcope.watch.follow import Follower

    if folder is None or measured is None:
        return None
    return Sidecar(
        Follower(
            folder, rest=settings.rest, patience=max(60.0, settings.rest), logs=settings.losses is None
        ),
        store, measured.probes,
        budget=settings.budget, split=measured.split, losses=settings.losses, keep_diagrams=settings.diagrams,
    )  # fmt: skip
