"""How a sweep's end is told, whichever command started it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from toposcope.cli.output import print_json, print_table

if TYPE_CHECKING:
    from toposcope.sweep import SweepReport


def exit_code(report: SweepReport) -> int:
    """Return 1 when the report lists anything that went wrong, else 0."""
    return 1 if report.failures or report.problems or report.findings else 0


def show_sweep(report: SweepReport, out: Path, *, as_json: bool) -> None:
    """Print what was measured, what failed and what the audit found."""
    failed = [{"run": f.run, "step": f.step, "probe": f.probe, "note": f.note} for f in report.failures]
    if as_json:
        print_json(
            {
                "store": str(out),
                "measured": report.done,
                "present": report.skipped,
                "failed": failed,
                "problems": report.problems,
                "findings": report.findings,
                "seconds": report.seconds,
            }
        )
        return
    present = f", {report.skipped} were there already" if report.skipped else ""
    count = f"{report.done} units measured{present}, {len(failed)} failed"
    click.echo(f"{out}: {count}, in {report.seconds:.1f} s")
    if failed:
        rows = [list(line.values()) for line in failed]
        print_table("Failed twice; repeat the command to try again", ("run", "step", "probe", "why"), rows)
    if report.findings:
        columns = ("run", "step", "fault", "tensor", "message")
        rows = [[finding[column] for column in columns] for finding in report.findings]
        print_table("The audit found", columns, rows)
    for problem in report.problems:
        click.echo(problem)
