"""`toposcope report`: one page on what a store's topology says."""

from __future__ import annotations

from pathlib import Path

import click

from toposcope.cli.output import RenamedOption, json_option, print_json, say
from toposcope.cli.sweeping import renamed


@click.command("report")
@click.argument("stores", metavar="STORE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder of the report; a report there is replaced.",
)
@click.option(
    "--title", default="The topology of these training runs", show_default=True, help="Title of the page."
)
@click.option(
    "--target",
    help="Column to explain.  [default: the held-out loss, the loss or the log perplexity]",
)
@click.option(
    "--scores",
    "targets",
    cls=RenamedOption,
    formerly=("--targets",),
    type=click.Path(path_type=Path),
    help="Scores of checkpoints to join: a table with run, step or revision, and numbers.",
)
@click.option(
    "--rename", multiple=True, metavar="OLD=NEW", help="Rename a column of a table or a log. Can be repeated."
)
@json_option
def command(
    stores: tuple[Path, ...], out: Path, title: str, target: str | None, targets: Path | None,
    rename: tuple[str, ...], as_json: bool,
) -> int:  # fmt: skip
    """Analyse STORE and write index.html (self-contained), report.md, and each figure and table to a folder.

    A store of weights and one of representations make one page of two parts. The folder appears whole or
    not at all; a folder that holds anything but a report is left alone.
    """
    from toposcope.api import report
    from toposcope.core.progress import busy

    with busy("writing the report"):
        made = report(stores, out, title=title, target=target, scores=targets, rename=renamed(rename))
    for line in made.analysis.read:
        click.echo(line, err=True)
    page, problems = made.page, made.problems
    if as_json:
        groups = [{"label": one.label, "runs": list(one.runs)} for one in made.analysis.groups]
        markdown = str(page.with_name("report.md"))
        print_json({"page": str(page), "markdown": markdown, "groups": groups, "problems": problems})
    else:
        for line in (made.analysis.apart, *(found.headline for found in made.analysis.all_findings)):
            if line:
                say(line)
        click.echo(f"{page}: open it in a browser; its Markdown twin is {page.with_name('report.md')}")
        for problem in problems:
            say(f"note: {problem}")
    return 1 if problems and targets is not None else 0
