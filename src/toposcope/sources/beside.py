"""Weights in the folder of a run that are none of its checkpoints: a best one, the last one, an average."""

from __future__ import annotations

import os
from pathlib import Path

from toposcope.core.errors import SourceError
from toposcope.files.blobs import LocalFolder
from toposcope.files.formats.ranks import rank_of
from toposcope.files.formats.registry import is_weights_file
from toposcope.files.formats.sharded import part_of
from toposcope.files.labels import is_copy, step_of, step_of_file
from toposcope.sources.entries import is_checkpoint
from toposcope.sources.series import Series


def weights_beside(series: Series, run: str) -> list[str]:
    """Return the names of the files and folders of weights beside a run's checkpoints; links do not count.

    A checkpoint that is the run's folder itself has nothing beside it.
    """
    folder = next((Path(one.uri) for one in series.runs if one.run == run), Path())
    places = {Path(one.uri) for one in series}
    if "://" in str(folder) or not folder.is_dir() or not any(one.parent == folder for one in places):
        return []
    real = {os.path.realpath(place) for place in places}  # which takes a link to itself, too
    try:
        names = sorted(one.name for one in folder.iterdir() if os.path.realpath(one) not in real)
        return [name for name in names if _is_beside(folder / name, places)]
    except OSError:  # the files change while they are listed
        return []


def _is_beside(place: Path, checked: set[Path]) -> bool:
    if place.is_file():
        stem = place.name.rsplit(".", 1)[0]
        counted = step_of_file(stem) is not None and not is_copy(stem)
        parts = rank_of(place.name) is not None or part_of(place.name) is not None
        return is_weights_file(place.name) and not counted and not parts
    if place.name.startswith((".", "_")) or step_of(place.name) is not None:
        return False
    if any(place in one.parents for one in checked):
        return False
    try:
        return is_checkpoint(LocalFolder(place))
    except (SourceError, OSError):
        return False
