"""The weight-space paper again: its tables beside what the same runs give here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toposcope.papers import seed004_tables as tables
from toposcope.papers.claims import claims_section
from toposcope.papers.sections import Section
from toposcope.papers.seed004_claims import claims
from toposcope.papers.seed004_runs import measure
from toposcope.papers.seed004_seeds import AcrossSeeds
from toposcope.papers.seed004_seeds import tables as over_seeds
from toposcope.papers.versions import versions


def reproduce(
    runs: str | Path | Sequence[str], folder: str | Path, *, jobs: int = 1, quiet: bool = False
) -> list[Section]:
    """Measure `runs` (run folders or step files); return the paper's claims judged, then Tables 1 to 7.

    Parameters
    ----------
    runs
        A folder with the five runs.
    folder
        Receives the stores; what it already holds is not measured again.

    Raises
    ------
    InputError
        When a run has another size than the paper's models, or no losses.
    """
    from toposcope.core.progress import busy

    measured = measure(runs, Path(folder), jobs=jobs, quiet=quiet)
    with busy("making the tables", quiet=quiet):
        across = AcrossSeeds(measured)
        return [
            claims_section(claims(across)),
            *(over_seeds(across) if across.seeds > 1 else ()),
            tables.models(measured),
            tables.persistence(measured, "h0"),
            tables.neural_persistence(measured),
            tables.persistence(measured, "h1"),
            tables.forecasts(measured),
            tables.phases(measured),
            tables.scaling(measured),
            tables.verdict(measured),
            versions(),
        ]
