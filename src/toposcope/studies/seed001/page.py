"""The research plan, carried out: four hypotheses and three success criteria, judged one by one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toposcope.studies.claims import claims_section
from toposcope.studies.sections import Section
from toposcope.studies.seed001 import tables
from toposcope.studies.seed001.claims import claims
from toposcope.studies.seed001.runs import measure
from toposcope.studies.versions import versions


def reproduce(
    runs: str | Path | Sequence[str], folder: str | Path, *, jobs: int = 1, quiet: bool = False
) -> list[Section]:
    """Measure the family's runs; return the judged hypotheses of the plan, then the tables behind them.

    Parameters
    ----------
    runs
        A folder with the runs of the recipe `seed001`, any number of seeds of each size.
    folder
        Receives the stores; what it already holds is not measured again.

    Raises
    ------
    InputError
        When a checkpoint cannot be measured, or the runs keep no losses.
    """
    from toposcope.core.progress import busy

    measured = measure(runs, Path(folder), jobs=jobs, quiet=quiet)
    with busy("testing the hypotheses", quiet=quiet):
        return [
            claims_section(claims(measured)),
            tables.models(measured),
            tables.persistence(measured),
            tables.correlations(measured),
            tables.changes(measured),
            tables.scaling(measured),
            tables.forecasts(measured),
            tables.sizes_and_seeds(measured),
            versions(),
        ]
