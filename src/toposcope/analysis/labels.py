"""What the columns of a series table are called and what kind they are, as their probes declared it."""

from __future__ import annotations

from collections.abc import Iterable

from toposcope.analysis.table import SeriesTable
from toposcope.figures.names import is_baseline, leading, readable_name

BASELINE = "baseline"
TOPOLOGY = "topology"


class Labels:
    """Label, kind and place of every feature column of one series table.

    Until the catalogue carries declarations, the fixed lists of `toposcope.figures.names` answer.
    """

    def __init__(self, series: SeriesTable) -> None:
        self._catalogue = series.catalogue.drop_duplicates("column").set_index("column")

    def label(self, column: str) -> str:
        """Return what a feature or a target is called."""
        return self._said(column, "label") or readable_name(column)

    def baseline(self, column: str) -> bool:
        """Return whether a column is a norm, a spectrum or a size, and no topology."""
        kind = self._said(column, "kind")
        return kind == BASELINE if kind else is_baseline(column)

    def primary(self) -> list[str]:
        """Return the columns that were declared primary before any run was looked at."""
        if "primary" in self._catalogue:
            return list(self._catalogue.index[self._catalogue["primary"].astype(bool)])
        return leading(self._catalogue.index, most=60)

    def leading(self, columns: Iterable[str], most: int = 16) -> list[str]:
        """Return at most `most` of the columns that were declared primary, in their declared order."""
        present = set(columns)
        return [column for column in self.primary() if column in present][:most]

    def _said(self, column: str, what: str) -> str | None:
        if what not in self._catalogue or column not in self._catalogue.index:
            return None
        found = self._catalogue.at[column, what]
        return str(found) if isinstance(found, str) and found else None
