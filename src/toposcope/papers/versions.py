"""The versions that a study's numbers were made with."""

from __future__ import annotations

import platform
from importlib import metadata

from toposcope.papers.sections import Section

_PACKAGES = ("toposcope", "numpy", "scipy", "numba", "pandas", "gudhi", "torch")


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
