"""`toposcope check`: whether runs are all right, and where their loss will end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from toposcope.cli.output import (
    json_option,
    naming_part_faults,
    pattern_option,
    plain,
    print_json,
    renamed,
    say,
    step_pattern_option,
    without_option,
)
from toposcope.core.errors import InputError

if TYPE_CHECKING:
    from toposcope.core.tabular import Table
    from toposcope.runs import Check

    Written: TypeAlias = tuple[int, int, frozenset[int]]


@click.command("check")
@click.argument("targets", nargs=-1, required=True, metavar="LOG|DIR|STORE...")
@click.option("--horizon", type=int, help="Step at which the runs will end.")
@click.option(
    "--schedule",
    type=click.Path(path_type=Path),
    help="Planned learning rate: a CSV file with columns step and lr.",
)
@click.option(
    "--siblings",
    multiple=True,
    metavar="STORE_OR_RUN",
    help="More finished runs to learn from, besides the given runs that reached their end. Can be repeated.",
)
@click.option(
    "--column", help="Column of the loss to judge.  [default: the training loss, or else the held-out loss]"
)
@pattern_option
@click.option(
    "--rename", multiple=True, metavar="OLD=NEW", help="Rename a column of a table. Can be repeated."
)
@without_option
@step_pattern_option
@click.option("--level", type=float, default=0.9, show_default=True, help="Confidence of the intervals.")
@click.option("--follow", is_flag=True, help="Keep reading; print a line whenever the answer changes.")
@click.option(
    "--every", type=float, default=10.0, show_default=True, help="Seconds between two readings with --follow."
)
@click.option(
    "--to", multiple=True, metavar="KIND:WHERE",
    help="Also send the verdict on each run to tensorboard:FOLDER, wandb:PROJECT, mlflow:ADDRESS or "
    "trackio:PROJECT. Can be repeated.",
)  # fmt: skip
@json_option
@naming_part_faults("targets")
def command(
    targets: tuple[str, ...],
    horizon: int | None,
    schedule: Path | None,
    siblings: tuple[str, ...],
    column: str | None,
    rename: tuple[str, ...],
    pattern: str | None,
    without: tuple[str, ...],
    step_pattern: str | None,
    level: float,
    follow: bool,
    every: float,
    to: tuple[str, ...],
    as_json: bool,
) -> int:
    """Say whether each run is all right, and forecast its final loss.

    LOG is a training log, in any format that toposcope reads. DIR is a folder of logs or of checkpoints.
    STORE is a folder that `toposcope weights` or another measuring command wrote. The command only reads; it
    writes nothing, except to the trackers that --to names.

    The verdict on a run is: all right, look or stop; without a log, it is not judged. It rests on the
    losses, on the loss alarms of `toposcope watch`, and on an audit of the checkpoints in DIR. The final
    loss is the forecast of `toposcope forecast`.

    The exit code is 0 when every run is all right. It is 1 when the verdict on a run is look or stop, when
    it is not judged, or when an input cannot be read. It is 2 when nothing could be read. Ctrl-C ends
    --follow.
    """
    if not every > 0:
        raise InputError("too short", argument="every", value=every, remedy="give seconds above 0")
    send = _sender(to)

    def look() -> Check:
        from toposcope.api import check

        return check(
            list(targets), siblings=list(siblings), schedule=schedule, horizon=horizon, column=column,
            rename=renamed(rename), pattern=pattern, step_pattern=step_pattern, level=level,
            without=without,
        )  # fmt: skip

    if follow:
        return _follow(look, targets, every, send, as_json=as_json)
    answer = look()
    if as_json:
        print_json(answer.to_dict())
    else:
        show(answer)
    return 0 if send(answer) and answer.ok else 1


def _sender(to: Sequence[str]) -> Callable[[Check], bool]:
    """Return what sends an answer to the trackers that were named, and returns whether all of them took it.

    The trackers are opened before the check. One that is down is a problem, which ends no check.
    """
    if not to:
        return lambda answer: True
    from toposcope.watch.sinks import open_sink
    from toposcope.watch.sinks.verdicts import send_verdicts

    sinks = [open_sink(text, "to") for text in to]

    def send(answer: Check) -> bool:
        problems = [problem for sink in sinks if (problem := send_verdicts(answer, sink))]
        for problem in problems:
            say(f"problem: {problem}", err=True)
        return not problems

    return send


def show(found: Check) -> None:
    """Print the answer, for many runs a table if it fits, then the grounds; a run is told once."""
    table = _table_that_fits(found) if found.tabular else None
    first, *rest = found.lines_beside(table=table is not None)
    say(first)
    if table is not None:
        table.show()
    for line in rest:
        say(line, err=line.startswith(("problem: ", "note: ")))


def _table_that_fits(check: Check) -> Table | None:
    from toposcope.core.tabular import of_cells

    table = of_cells("", *check.cells)
    return table if table.fits() else None


def _follow(
    look: Callable[[], Check],
    targets: tuple[str, ...],
    every: float,
    send: Callable[[Check], bool],
    *,
    as_json: bool,
) -> int:
    """Check again whenever a file was written; print a line, and send it, when the answer changes."""
    last_answer: Check | None = None
    seen: list[Written] | None = None
    try:
        while True:
            written = _written(targets)
            if last_answer is None or written is None or written != seen:
                seen = written
                answer = _again(look, last_answer)
                if answer.differs(last_answer):
                    last_answer = answer  # the exit code is that of the last answer
                    click.echo(json.dumps(plain(answer.to_dict())) if as_json else answer.line)
                    send(answer)
            time.sleep(every)
    except KeyboardInterrupt:
        return 0 if last_answer is not None and last_answer.ok else 1


def _written(targets: tuple[str, ...]) -> list[Written] | None:
    """Return a value that changes when a target is written to; None if files vanish meanwhile."""
    from toposcope.watch.losses import last_written

    try:
        return [last_written(Path(target)) for target in targets if Path(target).exists()]
    except OSError:
        return None


def _again(look: Callable[[], Check], before: Check | None) -> Check:
    """Check again; keep the earlier answer if a file cannot be read at the moment."""
    try:
        return look()
    except (InputError, OSError):
        if before is None:
            raise
        return before
