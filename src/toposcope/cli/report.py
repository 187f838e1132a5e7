"""`toposcope report`: the results of a store as one page."""

from __future__ import annotations

from pathlib import Path

import click

from toposcope.cli.output import (
    json_option,
    naming_part_faults,
    pattern_option,
    print_json,
    renamed,
    say,
    show_first,
    without_option,
)


@click.command("report")
@click.argument("stores", metavar="STORE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder of the report. An earlier report in it is replaced.",
)
@click.option("--title", default="Training report", show_default=True, help="Title of the page.")
@click.option(
    "--target",
    help="Column that the measurements are compared with.  [default: the held-out loss, the loss or the log "
    "perplexity]",
)
@click.option(
    "--scores",
    "targets",
    type=click.Path(path_type=Path),
    help="Table of outside scores to join: columns run, step or revision, and numbers.",
)
@pattern_option
@click.option(
    "--rename", multiple=True, metavar="OLD=NEW", help="Rename a column of a table or a log. Can be repeated."
)
@without_option
@json_option
@naming_part_faults("stores", printed=False)
def command(
    stores: tuple[Path, ...], out: Path, title: str, target: str | None, targets: Path | None,
    rename: tuple[str, ...], pattern: str | None, without: tuple[str, ...], as_json: bool,
) -> int:  # fmt: skip
    """Analyse STORE and write the results as one page.

    The folder --out gets index.html (one self-contained file), report.md with the same text, and every
    figure and table as a file. Several stores, for example of weights and of representations, become parts
    of one page.

    The folder is written completely or not at all. If --out contains anything but a report, the command
    refuses it.

    The exit code is 1 when the page shows a fault: a run that diverges, is odd or needs attention, or a
    damaged checkpoint. It is 2 when no page was written.
    """
    from toposcope.api import report

    answer = report(
        stores,
        out,
        title=title,
        target=target,
        scores=targets,
        rename=renamed(rename),
        pattern=pattern,
        without=without,
        quiet=as_json,
    )
    for line in answer.analysis.read:
        click.echo(line, err=True)
    page, problems = answer.page, answer.problems
    if as_json:
        groups = [{"label": group.label, "runs": list(group.runs)} for group in answer.analysis.groups]
        markdown = str(page.with_name("report.md"))
        notes = list(answer.analysis.notes)
        print_json(
            {
                "answer": answer.line,
                "verdict": answer.analysis.verdict,
                "page": str(page),
                "markdown": markdown,
                "groups": groups,
                "problems": problems,
                "notes": notes,
            }
        )
    else:
        show_first(answer.analysis)
        click.echo(f"open {page} (the same as Markdown: {page.with_name('report.md')})")
        for line in (*problems, *answer.analysis.notes):
            say(f"note: {line}")
    return 1 if answer.analysis.wrong or (problems and targets is not None) else 0
