"""`toposcope report`: one page on what a store's topology says."""

from __future__ import annotations

from pathlib import Path

import click

from toposcope.cli.output import json_option, print_json


@click.command("report", short_help="Write the report of a store as one page.")
@click.argument("store", type=click.Path(path_type=Path))
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder of the report; a report there is replaced.",
)
@click.option(
    "--title", default="The topology of these training runs", show_default=True, help="Title of the page."
)
@json_option
def command(store: Path, out: Path, title: str, as_json: bool) -> int:
    """Analyse STORE and write index.html (self-contained), report.md, and each figure and table to a folder.

    The folder appears whole or not at all; a folder that holds anything but a report is left alone.
    """
    from toposcope.report import write_report

    page = write_report(store, out, title=title)
    if as_json:
        print_json({"page": str(page), "markdown": str(page.with_name("report.md"))})
    else:
        click.echo(f"{page}: open it in a browser; its Markdown twin is {page.with_name('report.md')}")
    return 0
