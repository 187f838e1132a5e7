"""What every answer has, and what a report answers with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from toposcope.core.answered import Tables

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from toposcope.study.analysis import Analysis
    from toposcope.study.findings import Findings


@runtime_checkable
class Reply(Protocol):
    """The result of every public function, except numbers and diagrams of arrays.

    Printed, or shown in a notebook, its first line is the answer.
    """

    @property
    def tables(self) -> Mapping[str, pd.DataFrame]:
        """Its tables by name, each computed on first use."""

    @property
    def findings(self) -> Iterable[Any]:
        """The findings: a `Finding` with numbers for each answer, an `AuditFinding` for each fault."""

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw it, on these axes or on new ones, and return them."""

    def _repr_html_(self) -> str: ...


@dataclass(frozen=True)
class Report:
    """A written page: its path, and the analysis behind it."""

    page: Path
    analysis: Analysis

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems of the analysis: what was left out, merged or missing."""
        return self.analysis.problems

    @property
    def line(self) -> str:
        """The answer in one line."""
        return self.analysis.line

    @property
    def tables(self) -> Tables:
        """The tables of the analysis."""
        return self.analysis.tables

    @property
    def findings(self) -> Findings:
        """The findings of the first part of the page."""
        return self.analysis.findings

    @property
    def figures(self) -> dict[str, Path]:
        """The page's figures as PNG files, by name, its first chart first; each has an SVG beside it."""
        from toposcope.page.roster import on_cards

        there = {path.stem: path for path in sorted(self.page.with_name("figures").glob("*.png"))}
        first = [name for name in on_cards(s.subject for s in self.analysis.studies) if name in there]
        return {name: there[name] for name in dict.fromkeys([*first, *there])}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Show the page's first figure, and return the axes; `analysis.plot` draws the verdict."""
        from toposcope.core.drawing.rendering import show_picture

        return show_picture(next(iter(self.figures.values()), None), ax)

    def __repr__(self) -> str:
        """Return the first screen of every part, and where the page is."""
        return f"{self.analysis!r}\nopen {self.page}"

    def _repr_html_(self) -> str:
        return f"{self.analysis._repr_html_()}<p><a href='{escape(str(self.page))}'>the page</a></p>"
