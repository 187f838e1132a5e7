"""`toposcope reproduce`: run a study again, and judge each of its claims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toposcope.cli.output import SuggestingGroup, json_option, print_json, print_table
from toposcope.studies.roster import studies
from toposcope.studies.study import Reproduction, StudyCall, write_page

if TYPE_CHECKING:
    from toposcope.studies.sections import Section

_COMMON = (
    click.option("--out", type=click.Path(path_type=Path), help="Folder for the results and the page."),
    click.option("--jobs", type=click.IntRange(min=1), help="Number of processes.  [default: one per core]"),
    json_option,
)
"""The options that every study has."""


def _command_of(name: str, study: Reproduction) -> click.Command:
    def run(out: Path | None, jobs: int | None, as_json: bool, **options: object) -> int:
        call = StudyCall(out=out, jobs=jobs, quiet=as_json, say=lambda line: click.echo(line, err=True))
        sections = study.sections(call, **options)
        _show(name, study, sections, call)
        return 0

    decorated: Callable[..., Any] = run
    for option in reversed((*study.options, *_COMMON)):
        decorated = option(decorated)
    return click.command(name, help=study.sections.__doc__)(decorated)


def _show(name: str, study: Reproduction, sections: Sequence[Section], call: StudyCall) -> None:
    """Print a study's sections and write its page; if there is a page, print only the claims."""
    if call.quiet:
        print_json({"study": name, "sections": [section.as_json() for section in sections]})
    else:
        for section in sections if call.out is None else sections[:1]:
            print_table(section.title, section.columns, section.rows)
            click.echo(f"{section.note}\n")
    if call.out is not None:
        call.say(f"wrote {write_page(name, study.title, sections, call.out)}")


class _Studies(SuggestingGroup):
    """The group of the studies, those of installed packages too."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the studies, in the order of the roster."""
        return list(_studies())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command that runs a study."""
        study = _studies().get(cmd_name)
        return None if study is None else _command_of(cmd_name, study)


@cache
def _studies() -> dict[str, Reproduction]:
    return studies()


@click.group("reproduce", cls=_Studies, invoke_without_command=True)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Run a study again: train missing runs, measure them, and judge each claim.

    A study's page has every claim with the source's number, the number found here, the statistic, and one of
    five judgements: holds, holds only as drift, holds but simpler numbers do better, does not hold, cannot be
    tested here. Then it shows the tables behind them. If a command was stopped, repeat it: it continues.
    """
    listed = [(name, study.title, study.summary) for name, study in _studies().items()]
    if ctx.invoked_subcommand is None and as_json:
        print_json([dict(zip(("study", "title", "summary"), row, strict=True)) for row in listed])
    elif ctx.invoked_subcommand is None:
        print_table("Studies", ("study", "of", "what it asks"), listed)
