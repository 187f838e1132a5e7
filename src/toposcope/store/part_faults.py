"""Parts that are gone, altered, or were not written into the store in which they lie."""

from __future__ import annotations

import os
import time
from pathlib import Path

from toposcope.store import ledger
from toposcope.store.parts import is_part, scan

# A file is missing if so many looks, so many seconds apart, do not see it.
_LOOKS, _BETWEEN = 4, 0.25


def missing(folder: Path) -> list[str]:
    """Return the files of a table's folder that were written, are missing, and that no pack replaces.

    A file counts as missing after several looks: another process moves a file aside before it removes it, and
    puts it back if it was written again (see `remove`).
    """
    absent = _absent(folder)
    for _ in range(_LOOKS - 1):
        if not absent:
            break
        time.sleep(_BETWEEN)
        again = set(_absent(folder))
        absent = [name for name in absent if name in again]
    return absent


def _absent(folder: Path) -> list[str]:
    """Return what one look misses; the ledger is read first, so that a file written meanwhile is no miss.

    A pack that replaces any write of a file has its units, because a name stands for the units it holds. Two
    processes can write one file, the earlier write last: its number says nothing then.
    """
    names_in_ledger = ledger.of(folder)
    there, elsewhere = set(names_in_ledger.there), set(names_in_ledger.replaced)
    try:
        present = set(os.listdir(folder))
    except FileNotFoundError:
        present = set()
    return sorted(there - present - elsewhere.union(*(part.replaces for part in scan(folder))))


def strangers(folder: Path) -> list[str]:
    """Return the files of a table's folder that were not written there, such as a copy under another name."""
    try:
        present = filter(is_part, os.listdir(folder))
    except FileNotFoundError:
        return []
    footers = ledger.of(folder).footers
    return sorted(name for name in present if name not in footers)


def altered(folder: Path) -> list[str]:
    """Return the files of a table's folder whose end is not what was written, as that of another part."""
    table_ledger = ledger.of(folder)
    return sorted(
        name
        for name in table_ledger.footers
        if (folder / name).exists() and not _is_sound(table_ledger, folder / name)
    )


def _is_sound(table_ledger: ledger.Ledger, path: Path) -> bool:
    try:
        return table_ledger.is_sound(path)
    except FileNotFoundError:  # replaced by a pack this moment
        return True
