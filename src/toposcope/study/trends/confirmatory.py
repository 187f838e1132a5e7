"""Which rows carry the verdict: a few features named before any run is looked at."""

from __future__ import annotations

from collections.abc import Sequence

from toposcope.study.table import SeriesTable


def primary_columns(table: SeriesTable, columns: Sequence[str] | None = None) -> list[str]:
    """Return the columns over which the verdict is corrected.

    They are those that the catalogue calls `primary`. `columns`, where given, restricts them, and where none
    of those named is primary, naming them is the choice.
    """
    found = list(table.catalogue.loc[table.catalogue["primary"].astype(bool), "column"])
    if columns is None:
        return found
    named = [column for column in columns if column in set(found)]
    return named or list(columns)
