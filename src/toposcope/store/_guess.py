"""What a path is instead of a store, and which store or command was probably meant."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from toposcope.core import LOG_FILES, WEIGHT_FILES
from toposcope.core.report_folder import is_report, not_an_input
from toposcope.core.wording import command, free_place
from toposcope.store.manifest import MANIFEST

_LOOKED_AT = 2000
"""The largest number of entries of a folder that are listed, without subfolders, to guess what was meant."""


def what_else(path: Path) -> str:
    """Say what a path is instead of a store, and name the store or the command that was probably meant."""
    if path.is_file():
        return f"{path} is not a store but a file; a store is a folder"
    if not path.exists() and path.suffix:  # a log or a table was meant
        return f"{path}: no such file or folder; check the path"
    if not path.exists():
        example = command("weights", "SERIES", out=path)
        return f"{path} does not exist; a store is made with: {example}"
    if is_report(path):
        return not_an_input(path)
    below = sorted(manifest.parent for manifest in path.glob(f"*/{MANIFEST}"))
    if below:
        return f"{path} is not a store, but holds {'one' if len(below) == 1 else 'some'}: " + ", ".join(
            map(str, below)
        )
    if not any(path.iterdir()):
        example = command("weights", "SERIES", out=path)
        return f"{path} is not a store but an empty folder; one is made with: {example}"
    ends = {manifest_path.suffix for manifest_path in islice(path.rglob("*"), _LOOKED_AT)}
    if not ends & WEIGHT_FILES and ends & {*LOG_FILES, ".out"}:
        return f"{path} is not a store, and seems to hold logs; judge them with: {command('check', path)}"
    series = path if ends & WEIGHT_FILES else "SERIES"
    example = command("weights", series, out=free_place(f"{path.resolve().name}-store"))
    return f"{path} is not a store; one is made with: {example}"
