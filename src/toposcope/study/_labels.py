"""Names and kinds of the columns of a series table, as their probes declared them."""

from __future__ import annotations

from collections.abc import Iterable

from toposcope.core.types import Kind
from toposcope.study.catalogue import leading
from toposcope.study.table import SeriesTable


class Labels:
    """Label, kind and place of every feature column of one series table."""

    def __init__(self, series: SeriesTable) -> None:
        self._series = series
        known_columns = series.catalogue.drop_duplicates("column")
        self._baselines = frozenset(known_columns.loc[known_columns["kind"] == Kind.BASELINE, "column"])
        self.plain = len(known_columns) > 0 and self._baselines.issuperset(known_columns["column"])
        """Whether there are columns, and no topology among them."""
        chosen = list(known_columns.loc[known_columns["primary"].astype(bool), "column"])
        self._primary = leading(chosen, known_columns, most=len(chosen))

    def label(self, column: str) -> str:
        """Return the name of a feature or a target."""
        return self._series.label(column)

    def baseline(self, column: str) -> bool:
        """Return whether a column is a norm, a spectrum or a size, and no topology."""
        return column in self._baselines

    def primary(self) -> list[str]:
        """Return the columns that were declared primary before any run was measured, topology first."""
        return self._primary

    def leading(self, columns: Iterable[str], most: int = 16) -> list[str]:
        """Return at most `most` of the columns: the primary ones, then what fills the rest."""
        return leading(columns, self._series.catalogue, most=most)
