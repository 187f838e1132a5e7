"""The command of a further subject, made from its request."""

from __future__ import annotations

from pathlib import Path

import click

from toposcope.cli.output import json_option
from toposcope.cli.requests import request_options
from toposcope.cli.sweeping import Sweeping, carried_out, out_option, sweep_options
from toposcope.subjects.subject import Subject


def command_of(subject: Subject) -> click.Command:
    """Return the command that measures a subject's features of every checkpoint into a store."""
    assert subject.request is not None
    request = subject.request

    @click.command(subject.name, help=_help(subject))
    @click.argument("series", nargs=-1, required=True)
    @out_option
    @request_options(request)
    @click.option("--diagrams", is_flag=True, help="Also store the persistence diagrams.")
    @sweep_options
    @json_option
    def command(
        series: tuple[str, ...],
        out: Path,
        settings: dict[str, object],
        diagrams: bool,
        sweeping: Sweeping,
        as_json: bool,
    ) -> int:
        from toposcope.api.measurement import Measurement

        wanted = request(**settings)
        execution = sweeping.execution(keep_diagrams=diagrams)
        probes = subject.probes(wanted)
        checkpoints = sweeping.open(series)
        measurement = Measurement(checkpoints, probes, subject.recipe(wanted))
        return carried_out(measurement, checkpoints, out, sweeping, execution, as_json=as_json)

    return command


def _help(subject: Subject) -> str:
    return (
        f"{subject.title}\n\nSERIES are run folders, folders of runs or of steps, model folders, files or "
        "hub addresses. The results go to a store. If the command is interrupted, repeat it: it continues."
    )
