"""`toposcope audit`: look for errors in a series of checkpoints."""

from __future__ import annotations

import dataclasses

import click

from toposcope.cli.output import json_option, print_json, print_table, say, step_pattern_option
from toposcope.cli.sweeping import STEPS_HELP


@click.command("audit")
@click.argument("series", nargs=-1, required=True)
@click.option("--revisions", help="Revisions of a hub series to read: a name or a pattern such as 'step*'.")
@click.option("--steps", help=STEPS_HELP)
@click.option("--cheap", is_flag=True, help="Faster: read only the headers and a sample of each tensor.")
@click.option("--newest", is_flag=True, help="Judge only the newest checkpoint, against the one before it.")
@step_pattern_option
@json_option
def command(
    series: tuple[str, ...],
    revisions: str | None,
    steps: str | None,
    cheap: bool,
    newest: bool,
    step_pattern: str | None,
    as_json: bool,
) -> int:
    """Look for damaged, scaled, replaced, identical or misplaced checkpoints, and for odd runs.

    A run is odd if it is unlike the other seeds of its size.

    SERIES are run folders, folders of runs or of steps, model folders, files or hub addresses.

    The exit code is 1 when a fault is found, and 0 when there are only remarks.
    """
    from toposcope.api import audit
    from toposcope.core.answered import counted
    from toposcope.sources import open_series
    from toposcope.sources.opening import hint

    opened = open_series(list(series), revisions=revisions, steps=steps, step_pattern=step_pattern)
    if not as_json and (advice := hint(opened)):
        click.echo(f"note: {advice}", err=True)
    left_out = opened.left_out()
    answer = audit(opened, cheap=cheap, newest=newest, quiet=as_json)
    findings, first = answer.findings, answer.line
    if not findings:
        nothing = "no fault of a checkpoint found" if answer.apart or answer.odd else answer.nothing_found
        first = f"{counted(answer.checkpoints, answer.runs)} {'sampled' if cheap else 'read'}: {nothing}"
    if as_json:
        print_json(
            {
                "answer": first,
                "series": list(series),
                "checkpoints": len(opened),
                "groups": [{"label": group.label, "runs": list(group.runs)} for group in answer.groups],
                "findings": [{**dataclasses.asdict(f), "remark": f.is_remark} for f in findings],
                "coverage": answer.coverage.to_dict() if answer.coverage else None,
                "resume": [state.to_dict() for state in answer.resume],
                "adapters": [
                    {**dataclasses.asdict(adapter), "shares": adapter.shares} for adapter in answer.adapters
                ],
                "odd": [dataclasses.asdict(odd_run) for odd_run in answer.odd],
                "left_out": left_out,
            }
        )
        return 0 if answer.ok else 1
    if answer.apart:
        say(answer.apart)
    say(first)
    if answer.coverage is not None:
        for line in answer.coverage.lines_with_count:
            say(line)
    for line in answer.resume_lines:
        say(line)
    for title, part in (("Findings", answer.faults), ("Remarks", answer.remarks)):
        if part:
            rows = [(f.run, f.step, f.fault, f.tensor, f.message) for f in part]
            print_table(title, ("run", "step", "fault", "tensor", "what"), rows)
    for adapter in answer.adapters:
        say(f"{adapter.run} step {adapter.step:,}: {adapter.sentence}")
    for odd in answer.odd:
        say(f"{odd.run} is {odd.sentence}")
    if left_out:
        say(f"Not measured as weights: {left_out}")
    return 0 if answer.ok else 1
