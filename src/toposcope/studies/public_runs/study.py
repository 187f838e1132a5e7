"""The study of public runs: a folder of logs without known faults, its alarms, forecasts and seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toposcope.studies.study import Reproduction, StudyCall

if TYPE_CHECKING:
    from toposcope.studies.sections import Section


def sections(call: StudyCall, *, folder: Path, most: int) -> Sequence[Section]:
    """Judge alarms, forecasts and seeds on the logs in FOLDER.

    None of these runs is known to be bad. FOLDER holds logs, also in subfolders, or two tables: curves.csv
    (run, step, train_loss) and runs.csv (run, path). The page gives the false alarms of every rule and of
    plain rules, how many forecast intervals contain the final loss, the steps at which many runs spike
    together, and how far two seeds differ.
    """
    from toposcope.studies.public_runs.page import reproduce

    return reproduce(folder, most=most, quiet=call.quiet)


STUDY = Reproduction(
    "Public runs",
    "False alarms, forecasts and seeds on a folder of logs.",
    sections,
    (
        click.argument("folder", type=click.Path(path_type=Path)),
        click.option(
            "--most", type=click.IntRange(min=1), default=200, show_default=True,
            help="Largest number of runs to forecast, one of each folder.",
        ),
    ),
)  # fmt: skip
