"""The weight-space paper again: its tables beside those of the same runs here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toposcope.core.errors import InputError
from toposcope.studies import deep_persistence
from toposcope.studies.claims import claims_section
from toposcope.studies.sections import Section
from toposcope.studies.seed004 import tables
from toposcope.studies.seed004.claims import claims
from toposcope.studies.seed004.corpora import corpora
from toposcope.studies.seed004.rows import read_rows, write_rows
from toposcope.studies.seed004.runs import MeasuredRuns, measure
from toposcope.studies.seed004.seeds import AcrossSeeds
from toposcope.studies.seed004.seeds import tables as over_seeds
from toposcope.studies.versions import versions


def reproduce(
    runs: str | Path | Sequence[str], folder: str | Path, *, jobs: int = 1, quiet: bool = False
) -> list[Section]:
    """Measure `runs` (run folders or step files); return the paper's claims judged, then Tables 1 to 7.

    Parameters
    ----------
    runs
        A folder with the five runs.
    folder
        Receives the rows, with their schema, and the stores; what it already holds is not measured again.

    Raises
    ------
    InputError
        If a run's size is not one of the paper's, or it has no losses.
    """
    from toposcope.core.progress import busy

    measured = measure(runs, Path(folder) / "stores", jobs=jobs, quiet=quiet)
    write_rows(measured, Path(folder))
    with busy("making the tables", quiet=quiet):
        return sections(measured)


def from_rows(path: str | Path) -> list[Section]:
    """Judge the claims from a file of rows, without weights, or from the files of a folder side by side.

    Raises
    ------
    InputError
        When there is no file of rows.
    """
    path = Path(path)
    if not path.is_dir():
        return sections(read_rows(path))
    files = sorted(path.glob("*.csv"))
    if not files:
        raise InputError(f"{path} holds no file of rows (CSV)")
    if len(files) == 1:
        return sections(read_rows(files[0]))
    return [*corpora({file.stem: AcrossSeeds(read_rows(file)) for file in files}), versions()]


def sections(measured: MeasuredRuns) -> list[Section]:
    """Return the claims judged, and the tables; those about single draws only if there are draws."""
    across = AcrossSeeds(measured)
    drawn = len(measured.draws) > 0
    return [
        claims_section(claims(across)),
        *(over_seeds(across) if across.seeds > 1 else ()),
        tables.models(measured),
        *([tables.persistence(measured, "h0")] if drawn else ()),
        tables.neural_persistence(measured),
        *([tables.persistence(measured, "h1")] if drawn else ()),
        tables.forecasts(measured),
        tables.phases(measured),
        *([tables.scaling(measured)] if drawn else ()),
        tables.verdict(measured),
        *([deep_persistence.section(measured.deep)] if measured.deep is not None else ()),
        versions(),
    ]
