"""The parts that all sweeping commands share: checkpoints, processes, and the report at the end."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toposcope.cli.output import PATTERN, STEP_PATTERN, print_json, print_table, renamed, say
from toposcope.cli.requests import as_option, options_from
from toposcope.core.errors import InputError
from toposcope.core.observations import Observation
from toposcope.core.repeats import together
from toposcope.core.wording import free_place, option, recommended

if TYPE_CHECKING:
    import pandas as pd

    from toposcope.api.measurement import Measurement
    from toposcope.api.plans import Plan
    from toposcope.sources.series import Series
    from toposcope.subjects.measurement import Opening
    from toposcope.sweep import Execution, SweepReport
    from toposcope.sweep.expect import Expectation

STEPS_HELP = (
    "Which checkpoints to read: log (evenly spaced in log step), first, last, A:B (from A to B, both "
    "included), A:B:EVERY (A, A + EVERY, ... up to B), or a list of steps such as 0,1000."
)


class StoreOption(click.Option):
    """The store that a sweep writes: required, except with --plan, which writes nothing."""

    def process_value(self, ctx: click.Context, value: object) -> object:
        """Return the place; without one, a plan is that of a store that does not exist yet."""
        if ctx.params.get("plan") and self.value_is_missing(value):
            return free_place("store")
        return super().process_value(ctx, value)


out_option = click.option(
    "--out",
    cls=StoreOption,
    required=True,
    type=click.Path(path_type=Path),
    help="Folder of the store. It is created if it does not exist. --plan needs none.",
)
split_option = click.option("--split", help="Part of the data set to read.  [default: validation]")
tokenizer_option = click.option(
    "--tokenizer",
    type=click.Path(exists=True, path_type=Path),
    help="Tokenizer for models whose folder has none.",
)
device_option = click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweeping:
    """Which checkpoints a sweep takes and where it runs, as typed; each field is an option of the command."""

    step_pattern: str | None = as_option(**STEP_PATTERN)
    rename: tuple[str, ...] = as_option(
        multiple=True, metavar="OLD=NEW",
        help="Rename a column of --losses: val=heldout_loss. Can be repeated.",
    )  # fmt: skip
    pattern: str | None = as_option(**PATTERN)
    plan: bool = as_option(
        is_flag=True,
        help="Print the time, the memory and what the result can show, then stop. Nothing is written.",
    )
    yes: bool = as_option(is_flag=True, help="Start without asking even if it will take more than a day.")
    losses: str | None = as_option(
        type=click.Path(exists=True),
        help="Training log to join, in any format that `toposcope` reads: text, table, TensorBoard folder.  "
        "[default: the log beside checkpoints that have no losses]",
    )
    revisions: str | None = as_option(
        help="Revisions of a hub series to measure: a name or a pattern such as 'step*'."
    )
    steps: str | None = as_option(help=STEPS_HELP)
    jobs: int | None = as_option(
        type=int, help="Number of processes.  [default: one per core where that is faster]"
    )
    shard: str = as_option(
        default="1/1", show_default=True, metavar="I/N",
        help="Do only part I of N. Start the other parts elsewhere with the same --out.",
    )  # fmt: skip
    ray: str | None = as_option(
        metavar="ADDRESS",
        help="Run on the Ray cluster at this address. The cluster must be able to write to --out.",
    )
    no_audit: bool = as_option(is_flag=True, help="Skip the search for damaged or misplaced checkpoints.")

    def open(self, series: Sequence[str], *, split: str = "table") -> Series:
        """Return the chosen checkpoints of a series."""
        from toposcope.sources import open_series

        return open_series(
            list(series),
            revisions=self.revisions,
            steps=self.steps,
            losses=self.losses,
            split=split,
            step_pattern=self.step_pattern,
            rename=renamed(self.rename),
            pattern=self.pattern,
        )

    def opening(self, series: Sequence[str]) -> Opening:
        """Return what opens a series when it is called, once for each way to split fused matrices."""

        @functools.cache
        def find(*, split: str = "table") -> Series:
            return self.open(series, split=split)

        return find

    def agree(self, series: Series) -> Callable[[Expectation], None]:
        """Return what `sweep` asks first: over an hour it names a cheaper way, over a day it needs a yes.

        Raises
        ------
        InputError
            Raised by the returned function: more than a day, without `--yes` or a yes at a terminal.
        """

        def ask(expectation: Expectation) -> None:
            from toposcope.sweep.expect import is_long, must_ask

            if not is_long(expectation.seconds):
                return
            cheaper = self._cheaper(series, expectation)
            long = expectation.span
            click.echo(f"This takes {long}. Cheaper: {cheaper}", err=True)
            if not must_ask(expectation.seconds) or self.yes:
                return
            if sys.stdin.isatty() and click.confirm("Start it?", err=True):
                return
            raise InputError(
                f"this sweep takes {long}: repeat it with {option('yes')}, or measure less: {cheaper}"
            )

        return ask

    def _cheaper(self, series: Series, expectation: Expectation) -> str:
        """Return the command as it was typed with fewer steps, and what that takes.

        Steps at powers of two if these are at most three quarters of all and take less than a day, else the
        last.
        """
        from toposcope.core.progress import duration
        from toposcope.sweep.expect import must_ask

        choice, share = "log", self._share(series, "log")
        if self.steps is not None or share > 0.75 or must_ask(expectation.seconds * share):
            choice, share = "last", self._share(series, "last")
        typed = click.get_current_context().find_root().obj or []
        command = recommended(*_without_steps(typed), "--steps", choice)
        return f"{command} (about {duration(expectation.seconds * share)})"

    def _share(self, series: Series, choice: str) -> float:
        """Return the share of the checkpoints that a choice of steps keeps."""
        from toposcope.files.labels import select

        every = {run: [at.step for at in series.of_run(run)] for run in series.names}
        return sum(len(select(steps, choice)) for steps in every.values()) / max(
            1, sum(map(len, every.values()))
        )

    def execution(self, *, keep_diagrams: bool) -> Execution:
        """Return where and how the sweep runs."""
        from toposcope.sweep import Execution, Shard

        return Execution(
            jobs=self.jobs,
            shard=Shard.parse(self.shard),
            ray=self.ray,
            keep_diagrams=keep_diagrams,
            audit=not self.no_audit,
        )


sweep_options = options_from(Sweeping, "sweeping")
"""Adds the options of a sweep to a command, which gets them as one argument, `sweeping`."""


def _without_steps(typed: Sequence[str]) -> list[str]:
    """Return a command's words without its --steps, and without --plan."""
    others, words = [], iter(typed)
    for word in words:
        if word == "--steps":
            next(words, None)
        elif word != "--plan" and not word.startswith("--steps="):
            others.append(word)
    return others


def carried_out(
    found: Measurement, series: Series, out: Path, sweeping: Sweeping, execution: Execution, *, as_json: bool
) -> int:
    """Print the plan of a measurement, or carry it out and print what was measured; return the exit code."""
    if sweeping.plan:
        return show_plan(found.plan(execution=execution), as_json=as_json)
    report = found.carry_out(out, execution=execution, agree=sweeping.agree(series))
    show_sweep(report, out, as_json=as_json)
    return exit_code(report)


def show_plan(plan: Plan, *, as_json: bool) -> int:
    """Print what a sweep will cost and what its result can tell; return the exit code."""
    if as_json:
        print_json(plan.as_data())
    else:
        for line in repr(plan).splitlines():
            say(line)
    return 0 if plan.ok else 1


def exit_code(report: SweepReport) -> int:
    """Return 1 when the report lists anything that went wrong, else 0."""
    return 1 if report.failures or report.problems or report.faults else 0


def show_sweep(
    report: SweepReport, out: Path, *, as_json: bool, tables: Mapping[str, pd.DataFrame] | None = None
) -> None:
    """Print what was measured, what failed and what the audit found; with JSON, `tables` beside it."""
    failed = [{"run": f.run, "step": f.step, "probe": f.probe, "note": f.note} for f in report.failures]
    if as_json:
        print_json(
            {
                "answer": _sentence(report, out),
                "store": str(out),
                "measured": report.done,
                "present": report.skipped,
                "failed": failed,
                "problems": report.problems,
                "findings": [asdict(finding) for finding in report.findings],
                "seconds": report.seconds,
                **{name: table.to_dict("records") for name, table in (tables or {}).items()},
            }
        )
        return
    click.echo(_sentence(report, out))
    if failed:
        merged = together(
            (Observation(f.run, f.step, f.probe, f.note) for f in report.failures), lambda f: f.tensor
        )
        named = [
            (observation.run, observation.step, observation.tensor, observation.message)
            for observation in merged
        ]
        print_table(
            "Failed twice; repeat the command to try them again", ("run", "step", "probe", "why"), named
        )
    if report.findings:
        columns = ("run", "step", "fault", "tensor", "message")
        rows = [[getattr(finding, column) for column in columns] for finding in report.findings]
        print_table("The audit found", columns, rows)
    for problem in report.problems:
        click.echo(problem)


def _sentence(report: SweepReport, out: Path) -> str:
    """Return how many measurements were made, were there and failed, and that the audit found a fault."""
    were = "was" if report.skipped == 1 else "were"
    present = f", {report.skipped} {were} there already" if report.skipped else ""
    made = (
        f"{report.done} measurement{'s' * (report.done != 1)} made{present}, {len(report.failures):,} failed"
    )
    faults = len(report.faults)
    look = f"; look at this first: the audit found {faults} fault{'s' * (faults != 1)}" if faults else ""
    return f"{out}: {made}, in {report.seconds:.1f} s{look}"
