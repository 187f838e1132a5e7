"""`toposcope demo`: from nothing to a report in a few minutes."""

from __future__ import annotations

from pathlib import Path

import click

from toposcope.cli.output import json_option, print_json, show_first


@click.command("demo")
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder for the runs, the store and the report.",
)
@click.option("--jobs", type=int, help="Number of processes.  [default: one per core]")
@json_option
def command(out: Path, jobs: int | None, as_json: bool) -> int:
    """Train five small language models on text that comes with Python, measure them and write the report.

    This takes minutes on two cores and downloads nothing. If the command is interrupted, repeat it: it
    resumes.
    """
    from toposcope.studies.demo import run_demo
    from toposcope.training.api import default_jobs

    jobs = default_jobs() if jobs is None else jobs
    demo = run_demo(out, jobs=jobs, quiet=as_json, say=lambda text: click.echo(text, err=True))
    if as_json:
        print_json(
            {
                "answer": demo.analysis.line,
                "page": str(demo.page),
                "store": str(demo.store),
                "runs": str(demo.runs),
                "problems": demo.problems,
            }
        )
        return 0 if demo.ok else 1
    for problem in demo.problems:
        click.echo(problem, err=True)
    show_first(demo.analysis)
    click.echo(f"open {demo.page}")
    return 0 if demo.ok else 1
