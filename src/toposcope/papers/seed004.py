"""The weight-space paper again: its tables beside what the same runs give here."""

from __future__ import annotations

import platform
from importlib import metadata
from pathlib import Path

from toposcope.papers import seed004_tables as tables
from toposcope.papers.sections import Section
from toposcope.papers.seed004_runs import measure

_PACKAGES = ("toposcope", "numpy", "scipy", "numba", "pandas", "gudhi", "torch")


def reproduce(runs: str | Path, folder: str | Path, *, jobs: int = 1, quiet: bool = False) -> list[Section]:
    """Measure `runs` (run folders or step files) and return the paper's Tables 1 to 7 beside them.

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
        return [
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


def versions() -> Section:
    """Return the versions that the numbers above were made with."""
    rows: list[tuple[object, ...]] = [("Python", platform.python_version())]
    for package in _PACKAGES:
        try:
            rows.append((package, metadata.version(package)))
        except metadata.PackageNotFoundError:
            rows.append((package, "not installed"))
    return Section(
        "Versions", ("package", "version"), tuple(rows), f"{platform.machine()}, {platform.system()}."
    )
