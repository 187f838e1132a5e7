"""`toposcope watch`: follow a run from beside it, and say when something breaks, and where."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toposcope.cli.output import json_option, print_json, say
from toposcope.cli.sweeping import renamed, step_pattern_option
from toposcope.errors import InputError

if TYPE_CHECKING:
    from toposcope.monitor.journal import Event
    from toposcope.monitor.losses import LossFile
    from toposcope.monitor.sidecar import Budget, Sidecar
    from toposcope.monitor.sight import Sight
    from toposcope.monitor.sinks import Sink
    from toposcope.store import Store

PUBLISHED = "toposcope.papers.published:PUBLISHED"
"""What `toposcope.analyze` hands down; by name, since the page answers in a process of its own."""
_SHOWN = ("alarm", "notice", "segment", "vanished", "skipped", "unseen", "waiting", "measured")


@click.command("watch")
@click.argument("target", metavar="DIR|STORE", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="The store.  [default: DIR-watch, beside DIR]")
@click.option("--every", type=float, default=10.0, show_default=True, help="Seconds between looks, at least.")
@click.option(
    "--cpu-share", type=float, default=0.25, show_default=True, help="Share of one core to use, on average."
)
@click.option(
    "--bytes-per-step", type=int, help="Weights measured at each step; above it matrices take turns."
)
@click.option(
    "--features",
    default="cheap,updates",
    show_default=True,
    help="What to measure, as for `toposcope weights`.",
)
@click.option("--diagrams", is_flag=True, help="Keep the persistence diagrams, too.")
@click.option(
    "--rest",
    type=float,
    default=5.0,
    show_default=True,
    help="Seconds without a change after which a file counts as complete.",
)
@click.option(
    "--losses",
    type=click.Path(path_type=Path),
    help="A log that grows beside the checkpoints, as its trainer writes it; a TensorBoard folder, too.",
)
@click.option(
    "--rename",
    multiple=True,
    metavar="OLD=NEW",
    help="Rename a column of --losses: val=heldout_loss; repeat.",
)
@step_pattern_option
@click.option("--target-loss", type=float, help="Alarm when the forecast says that a run will not get there.")
@click.option(
    "--sink", "sinks", multiple=True, metavar="KIND:WHERE",
    help="Send summaries to tensorboard:FOLDER, wandb:PROJECT, mlflow:ADDRESS or trackio:PROJECT.",
)  # fmt: skip
@click.option("--wait", is_flag=True, help="Wait for DIR where it does not exist yet.")
@click.option("--once", is_flag=True, help="Look once and stop; exit 1 when an alarm or a problem is listed.")
@click.option("--port", type=int, help="Serve the live page there, on 127.0.0.1; 0 takes a free port.")
@click.option(
    "--host", help="Serve it at another address, for other machines, behind a token that is printed."
)
@json_option
def command(
    target: Path,
    out: Path | None,
    every: float,
    cpu_share: float,
    bytes_per_step: int | None,
    features: str,
    diagrams: bool,
    rest: float,
    losses: Path | None,
    rename: tuple[str, ...],
    step_pattern: str | None,
    target_loss: float | None,
    sinks: tuple[str, ...],
    wait: bool,
    once: bool,
    port: int | None,
    host: str | None,
    as_json: bool,
) -> int:
    """Follow DIR, a folder that any trainer writes checkpoints into; the trainer needs no line for it.

    Each checkpoint is measured once it is complete, and kept, by links or a copy, until the next one has been
    compared with it. DIR may be empty, but must exist unless --wait is given. --once says what was looked at,
    and exits with 1 for what could not be. A STORE that an earlier watch made goes on; one that a sweep made
    is looked at for alarms only. With --json every event is one JSON object on a line; with --once --json the
    answer is one object.
    """
    from toposcope.monitor.losses import LossFile
    from toposcope.monitor.sidecar import Budget, alone
    from toposcope.monitor.sinks import open_sink
    from toposcope.sources.labels import step_pattern as stated

    budget = Budget(cpu_share=cpu_share, bytes_per_step=bytes_per_step)
    if not every > 0:
        raise InputError(f"every is {every:g}; give seconds above 0")
    if once and port is not None:
        raise InputError(f"--once looks once and --port {port} serves on: leave one of them out")
    if host is not None and port is None:
        raise InputError(f"--host {host} needs --port, the port of the page there")
    if port is not None:
        from toposcope.monitor.page.serve import check_installed

        check_installed()
    if rename and losses is None:
        raise InputError("--rename says what a column of --losses is; give --losses FILE as well")
    opened = [open_sink(text) for text in sinks]
    history = None if losses is None else LossFile(losses, renamed(rename))
    folder, place = _places(target, out, wait=wait)
    with ExitStack() as stack:
        stack.enter_context(stated(step_pattern))
        store = _store(place, folder)
        try:
            stack.enter_context(alone(store.path))
        except InputError:
            if port is None:
                raise
            return _page_only(store.path, port, host)
        stack.enter_context(_page(store.path, port, host))
        _be_small(budget.cpu_share)
        sidecar = _sidecar(folder, store, features, budget, rest, history, diagrams=diagrams)
        watch = _Watch(store, sidecar, rest, as_json=as_json, target=target_loss, sinks=tuple(opened))
        if once:
            return watch.once()
        watch.go_on(budget.pause, every)
    return 0


@contextmanager
def _page(store: Path, port: int | None, host: str | None) -> Iterator[None]:
    """Serve the page while the block runs, where a port was given."""
    if port is None:
        yield
        return
    from toposcope.monitor.page.serve import HOST, beside

    with beside(store, port, host=host or HOST, published=PUBLISHED) as address:
        click.echo(f"page: {address}", err=True)
        yield


def _page_only(store: Path, port: int, host: str | None) -> int:
    """Serve the page of a store that another process, a training perhaps, watches into."""
    from toposcope.monitor.page.serve import HOST, serve

    click.echo(f"{store}: another process watches into it; this one shows the page only", err=True)

    def told(address: str) -> None:
        click.echo(f"page: {address}", err=True)

    serve(store, port, host=host or HOST, published=PUBLISHED, say=told)
    return 0


def _places(target: Path, out: Path | None, *, wait: bool) -> tuple[Path | None, Path]:
    """Return the folder to follow, None for a store that nobody watched, and the store's place."""
    from toposcope.monitor.journal import Journal
    from toposcope.store.manifest import MANIFEST

    if (target / MANIFEST).is_file():
        started = [event for event in Journal.of(target).read() if event.kind == "started"]
        folder = started[-1].data.get("folder") if started else None  # a Monitor follows none
        return (Path(folder) if folder else None), target
    if not target.exists() and not wait:
        raise InputError(f"{target} does not exist; with --wait the watch waits until it does")
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file; give the folder that the trainer writes into, or a store")
    folder = target.resolve()
    return folder, out or folder.with_name(f"{folder.name}-watch")


def _store(place: Path, folder: Path | None) -> Store:
    from toposcope.probes.weights.options import WeightOptions
    from toposcope.store import Store

    if folder is not None and (place.resolve() == folder or folder in place.resolve().parents):
        raise InputError(f"--out {place} lies in the folder that is watched; choose one outside it")
    if folder is None:
        return Store.open(place)
    return Store.create(place, recipe=WeightOptions().recipe())


def _sidecar(
    folder: Path | None,
    store: Store,
    features: str,
    budget: Budget,
    rest: float,
    losses: LossFile | None,
    *,
    diagrams: bool,
) -> Sidecar | None:
    from toposcope.monitor.follow import Follower
    from toposcope.monitor.sidecar import Sidecar
    from toposcope.probes.registry import weight_probes
    from toposcope.probes.weights.options import WeightOptions

    if folder is None:
        return None
    options = WeightOptions()
    probes = weight_probes([name.strip() for name in features.split(",")], options)
    return Sidecar(
        Follower(folder, rest=rest, patience=max(60.0, rest)),
        store,
        probes,
        budget=budget,
        split=options.split,
        losses=losses,
        keep_diagrams=diagrams,
    )


def _be_small(cpu_share: float) -> None:
    """Take one thread, and a low priority unless a whole core was given: the trainer is not disturbed."""
    from toposcope.kernels.threads import one_thread

    one_thread()
    if cpu_share < 1:
        os.nice(10)


@dataclass
class _Watch:
    """One pass after the other: look, judge, tell."""

    store: Store
    sidecar: Sidecar | None
    rest: float
    as_json: bool
    target: float | None = None
    sinks: tuple[Sink, ...] = ()
    audited: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        from toposcope.monitor.sinks.summaries import Forwarder
        from toposcope.monitor.watchman import Watchman

        self.watchman = Watchman(self.store.path, target=self.target)
        self.forwarder = Forwarder(self.store.path, self.sinks)

    def pass_once(self) -> list[Event]:
        """Look for checkpoints, measure them, and judge what is new."""
        events = self.sidecar.look() if self.sidecar is not None else []
        events = [*events, *self.watchman.judge()]
        self.forwarder.forward()
        return events

    def new_findings(self) -> list[str]:
        """Return what the audit found and this process has not said yet."""
        new = [one for one in map(str, self.store.audited()) if one not in self.audited]
        self.audited.update(new)
        return new

    def once(self) -> int:
        """Do one pass, after the files have had time to rest, and print the answer."""
        from toposcope.analysis.symptoms import BROKEN
        from toposcope.monitor.coverage import not_judged
        from toposcope.monitor.spoken import symptoms_of, with_passed

        events = self.pass_once()
        if self.sidecar is not None and self.sidecar.settling:
            time.sleep(self.rest)
            events += self.pass_once()
        journal, sight = self.watchman.journal.read(), self._sight()
        alarms = with_passed(self.store, [event for event in journal if event.kind == "alarm"])
        symptoms = symptoms_of(self.store)
        health = [f"{run}: {symptom}" for run, symptom in symptoms]
        broken = [said for said, (_, one) in zip(health, symptoms, strict=True) if one.kind in BROKEN]
        audited = [str(one) for one in self.store.audited()]
        problems = [*broken, *_problems(events), *sight.problems, *audited]
        unjudged = not_judged(self.store, journal, self.target)
        if self.as_json:
            print_json(
                {
                    "answer": sight.answer(alarms, problems),
                    "store": str(self.store.path),
                    "alarms": [_told(event) for event in alarms],
                    "problems": problems,
                    "health": health,
                    "audit": audited,
                    **sight.told(),
                    "not_judged": unjudged,
                    "events": [_told(event) for event in events],
                    "false_alarms": self.watchman.stated(),
                }
            )
        else:
            say(sight.answer(alarms, problems))
            for event in [*alarms, *(event for event in events if event.kind not in ("alarm", "unseen"))]:
                _print(event)
            parts = (
                ("health", health),
                ("not looked at", sight.problems),
                ("audit", audited),
                ("not judged", unjudged),
            )
            for name, sentence in ((name, sentence) for name, said in parts for sentence in said):
                say(f"{name}: {sentence}")
        return 1 if alarms or problems else 0

    def _sight(self) -> Sight:
        """Return what was looked at and what was not."""
        from toposcope.monitor.sight import Sight

        return Sight.of(self.store) if self.sidecar is None else self.sidecar.sight

    def go_on(self, pause: Callable[[float, float, float], float], every: float) -> None:
        """Pass after pass until interrupted, within the budget."""
        click.echo(f"watching into {self.store.path}; {self.watchman.stated()}", err=True)
        while True:
            began, cpu = time.monotonic(), time.process_time()
            for event in self.pass_once():
                if self.as_json:
                    click.echo(event.line(), nl=False)
                else:
                    _print(event)
            for finding in [] if self.as_json else self.new_findings():
                click.echo(f"audit: {finding}")
            time.sleep(pause(time.process_time() - cpu, time.monotonic() - began, every))


def _problems(events: list[Event]) -> list[str]:
    found = [
        f"{event.run} step {event.step}: {why}"
        for event in events
        if event.kind == "measured"
        for why in event.data["problems"]
    ]
    return found + [
        f"{event.run} step {event.step}: {event.kind}, {event.data['why']}"
        for event in events
        if event.kind == "vanished"
    ]


def _told(event: Event) -> dict[str, object]:
    data = {key: value for key, value in event.data.items() if key not in ("files", "held")}
    return {"kind": event.kind, "run": event.run, "step": event.step, "at": event.at} | data


def _print(event: Event) -> None:
    if event.kind not in _SHOWN or (event.kind == "unseen" and not event.data["why"]):
        return
    where = f"{event.run} step {event.step}" if event.step is not None else event.run
    data = event.data
    what = data.get("sentence") or data.get("why") or ""
    if event.kind == "measured":
        what = f"{data['units']} units in {data['seconds']} s"
        what += f"; a part of the tensors: {len(data['sampled'])}" if data["sampled"] else ""
        what += "".join(f"; {why}" for why in data["problems"])
    if event.kind == "segment":
        what = f"goes on from an earlier checkpoint of {data['of']}"
    kind = "not looked at" if event.kind == "unseen" else event.kind
    where = where or (data["place"] if event.kind == "unseen" and data["place"] not in what else "")
    say(f"{kind}: {where}: {what}" if where else f"{kind}: {what}")
    if event.kind == "alarm" and data.get("next"):
        say(f"next: {data['next']}", "    ")
    if data.get("quiet"):
        say(str(data["quiet"]), "    ")
    for line in data.get("culprits", [])[:5]:
        say(f"{line['name']}: {line['sentence']}", "    ")
