"""`toposcope watch`: follow a run from beside it, and say when something breaks, and where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toposcope.cli.output import json_option, pattern_option, print_json, renamed, say, step_pattern_option
from toposcope.core.errors import InputError
from toposcope.core.wording import option

if TYPE_CHECKING:
    from toposcope.watch.journal import Event

PUBLISHED = "toposcope.published.rules:PUBLISHED"
"""What `toposcope.analyze` passes on; by name, since the page answers in a process of its own."""


@click.command("watch")
@click.argument("target", metavar="DIR|STORE", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder of the store.  [default: DIR-watch, beside DIR]"
)
@click.option(
    "--every",
    type=float,
    default=10.0,
    show_default=True,
    help="Least number of seconds between two readings.",
)
@click.option(
    "--cpu-share", type=float, default=0.25, show_default=True, help="Share of one core to use, on average."
)
@click.option(
    "--bytes-per-step",
    type=int,
    help="Bytes of weights to measure at each step. If a checkpoint has more, its matrices take turns.",
)
@click.option(
    "--features",
    default="cheap,updates",
    show_default=True,
    help="What to measure, as for `toposcope weights`.",
)
@click.option("--diagrams", is_flag=True, help="Also store the persistence diagrams.")
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
    help="Training log that grows, as its trainer writes it, or a TensorBoard folder.  [default: the log "
    "beside checkpoints that have no losses]",
)
@pattern_option
@click.option(
    "--rename",
    multiple=True,
    metavar="OLD=NEW",
    help="Rename a column of --losses: val=heldout_loss. Can be repeated.",
)
@step_pattern_option
@click.option(
    "--target-loss", type=float, help="Alarm if the forecast says that a run will not reach this loss."
)
@click.option(
    "--sink", "sinks", multiple=True, metavar="KIND:WHERE",
    help="Send summaries to tensorboard:FOLDER, wandb:PROJECT, mlflow:ADDRESS or trackio:PROJECT.",
)  # fmt: skip
@click.option("--wait", is_flag=True, help="Wait until DIR exists.")
@click.option("--once", is_flag=True, help="Read once, print the answer, and stop.")
@click.option("--port", type=int, help="Serve the live page on this port of 127.0.0.1; 0 takes a free one.")
@click.option(
    "--host",
    help="Serve the live page at this address, for other machines; it prints the token that they need.",
)
@click.option(
    "--token",
    is_flag=True,
    help="Ask for a token on 127.0.0.1, too, where every user of this machine can read the page.",
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
    pattern: str | None,
    step_pattern: str | None,
    target_loss: float | None,
    sinks: tuple[str, ...],
    wait: bool,
    once: bool,
    port: int | None,
    host: str | None,
    token: bool,
    as_json: bool,
) -> int:
    """Follow a run while it trains: measure its new checkpoints, and say what breaks, and where.

    DIR is a folder that any trainer writes checkpoints into; the trainer needs no change. DIR may be empty.
    Each checkpoint is measured when it is complete. The command keeps it, by links or a copy, until it has
    compared the next one with it.

    STORE is a store instead. A store that an earlier watch made is continued. Any other store is only
    searched for alarms.

    The exit code of --once is 0 if there is no alarm and no problem and the verdict on every run is all
    right; else it is 1. --json prints one JSON object for every event; with --once it prints one object,
    the answer.
    """
    from toposcope.core.progress import busy
    from toposcope.files.labels import step_pattern as stated
    from toposcope.watch.budget import Budget
    from toposcope.watch.losses import LossFile
    from toposcope.watch.sinks import open_sink
    from toposcope.watch.watching import AnotherWatchError, Watching, WatchOptions, be_small

    budget = Budget(cpu_share=cpu_share, bytes_per_step=bytes_per_step)
    _refuse(every, port, host, rename, losses, once=once, token=token)
    if pattern is not None and losses is None:
        raise InputError(
            f"it reads the lines of {option('losses')}, which is not given", argument="pattern",
            remedy=f"give {option('losses')} FILE as well",
        )  # fmt: skip
    options = WatchOptions(
        sinks=[open_sink(text) for text in sinks],
        losses=None if losses is None else LossFile(losses, renamed(rename), pattern),
        out=out, features=tuple(features.split(",")), budget=budget, rest=rest, diagrams=diagrams,
        target_loss=target_loss, wait=wait,
    )  # fmt: skip
    with ExitStack() as stack:
        stack.enter_context(stated(step_pattern))
        try:
            watching = stack.enter_context(Watching(target, options))
        except AnotherWatchError as error:
            if port is None:
                raise
            return _page_only(error.store, port, host, ask=token)
        stack.enter_context(_page(watching.store.path, port, host, ask=token))
        be_small(budget.cpu_share)
        if once:
            with busy("reading the checkpoints"):
                answer = watching.once()
            if as_json:
                print_json(answer.to_dict())
            else:
                for line, indent in answer.lines:
                    say(line, indent)
            return 0 if answer.ok else 1
        click.echo(f"watching into {watching.store.path}; {watching.watchman.stated()}", err=True)
        if left_out := watching.watchman.journal.left_out:
            path = watching.watchman.journal.path
            click.echo(
                f"{path}: lines left out because they are no events of a watch: {left_out:,}", err=True
            )
        watching.go_on(_as_json if as_json else _as_text, every)
    return 0


def _refuse(
    every: float,
    port: int | None,
    host: str | None,
    rename: tuple[str, ...],
    losses: Path | None,
    *,
    once: bool,
    token: bool,
) -> None:
    """Raise InputError for options that make no sense together, before anything is written."""
    if not every > 0:
        raise InputError("too short", argument="every", value=every, remedy="give seconds above 0")
    if once and port is not None:
        raise InputError(
            f"it stops after one reading, but {option('port')} {port} keeps a page open",
            argument="once",
            remedy="leave one of them out",
        )
    if host is not None and port is None:
        raise InputError(
            "it needs a port",
            argument="host",
            value=host,
            remedy=f"give {option('port')}, the port of the page there",
        )
    if token and port is None:
        raise InputError(
            "there is no page", argument="token", remedy=f"give {option('port')}, the port of the page"
        )
    if port is not None:
        from toposcope.watch.page.serve import HOST, check_free, check_installed

        check_installed()
        check_free(host or HOST, port)
    if rename and losses is None:
        raise InputError(
            f"it renames a column of {option('losses')}, which is not given",
            argument="rename",
            remedy=f"give {option('losses')} FILE as well",
        )


def _as_json(events: Sequence[Event]) -> None:
    for event in events:
        click.echo(event.line(), nl=False)


def _as_text(events: Sequence[Event]) -> None:
    from toposcope.watch.watch_answer import lines_of_visit

    for line, indent in lines_of_visit(events):
        say(line, indent)


@contextmanager
def _page(store: Path, port: int | None, host: str | None, *, ask: bool) -> Iterator[None]:
    """Serve the page while the block runs, where a port was given."""
    if port is None:
        yield
        return
    from toposcope.watch.page.serve import HOST, beside

    with beside(store, port, host=host or HOST, published=PUBLISHED, ask=ask) as address:
        click.echo(f"page: {address}", err=True)
        yield


def _page_only(store: Path, port: int, host: str | None, *, ask: bool) -> int:
    """Serve the page of a store that another process, such as a training, writes into."""
    from toposcope.watch.page.serve import HOST, serve

    click.echo(f"{store}: another process writes into it, so this one only shows the page", err=True)

    def announce(address: str) -> None:
        click.echo(f"page: {address}", err=True)

    serve(store, port, host=host or HOST, published=PUBLISHED, say=announce, ask=ask)
    return 0
