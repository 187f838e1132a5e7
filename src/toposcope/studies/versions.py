"""The versions of the packages behind a study's numbers."""

from __future__ import annotations

import platform
from importlib import metadata

from toposcope.studies.sections import Section

_PACKAGES = ("toposcope", "numpy", "scipy", "numba", "pandas", "gudhi", "torch")


def versions() -> Section:
    """Return the versions of the packages behind the numbers above."""
    rows: list[tuple[object, ...]] = [("Python", platform.python_version())]
    for package in _PACKAGES:
        try:
            rows.append((package, metadata.version(package)))
        except metadata.PackageNotFoundError:
            rows.append((package, "not installed"))
    return Section(
        "Versions", ("package", "version"), tuple(rows), f"{platform.machine()}, {platform.system()}."
    )
