"""The studies by name: those of the package, and those that installed packages bring."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from toposcope.core.plugins import brought_with_names, leave_out
from toposcope.studies.study import Reproduction

GROUP = "toposcope.studies"
"""The entry points under which an installed package names its studies: objects of `Reproduction`."""

OWN: Mapping[str, str] = {
    "seed001": "seed001",
    "seed003": "seed003",
    "seed004": "seed004",
    "scale": "scale",
    "landscape": "landscape",
    "grokking": "grokking",
    "synthetic": "synthetic",
    "public-runs": "public_runs",
    "claims": "reexamined",
}
"""Name -> folder, in the order in which the studies are listed; each has a `STUDY` in its `study.py`."""


def studies() -> dict[str, Reproduction]:
    """Return every study by its name; one of a package whose name is taken is left out with a message."""
    studies_by_name = {
        name: importlib.import_module(f"toposcope.studies.{folder}.study").STUDY
        for name, folder in OWN.items()
    }
    for name, study in brought_with_names(GROUP, Reproduction):
        if studies_by_name.setdefault(name, study) is not study:
            leave_out(f"{GROUP}: the name {name!r} is taken; the study of a package is left out")
    return studies_by_name
