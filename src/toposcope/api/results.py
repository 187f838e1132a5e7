"""What the public functions return: objects that answer when they are printed, with tables and figures."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from toposcope.types import Normalization, Scope

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from toposcope.analysis.analysis import Analysis
    from toposcope.sources import AuditFinding

_ROUNDING = 1e-6
"""Relative difference below which two numbers of a comparison are one number twice."""
_MOST_KINDS = 6
"""Kinds of matrices that a comparison names in its line."""


@dataclass(frozen=True)
class Audit:
    """What an audit of a series found: `findings`, and `table` with a row for each of them."""

    checkpoints: int
    runs: int
    findings: tuple[AuditFinding, ...]

    @property
    def table(self) -> pd.DataFrame:
        """The findings as a table: run, step, fault, tensor, message."""
        import pandas as pd

        names = ["run", "step", "fault", "tensor", "message"]
        return pd.DataFrame([dataclasses.asdict(one) for one in self.findings]).reindex(columns=names)

    def __repr__(self) -> str:
        """Return the answer, then the first findings."""
        seen = f"{self.checkpoints} checkpoints of {self.runs} runs"
        if not self.findings:
            return f"{seen}: nothing found"
        first = [f"{f.run} step {f.step}: {f.fault}: {f.message}" for f in self.findings[:5]]
        return "\n".join([f"{seen}: {len(self.findings)} findings; the first:", *first])

    def _repr_html_(self) -> str:
        return (
            f"<p><strong>{escape(repr(self).splitlines()[0])}</strong></p>{self.table.to_html(index=False)}"
        )


@dataclass(frozen=True)
class Comparison:
    """Two checkpoints side by side: `table` has a row for each matrix and feature, second minus first."""

    first: str
    second: str
    table: pd.DataFrame

    @property
    def changed(self) -> tuple[str, ...]:
        """The matrices in which some number of their own differs by more than twice the noise of its draws.

        What is scaled by the whole network's maximum is none: one other matrix moves it in all of them.
        """
        own = (self.table["scope"] == Scope.MATRIX) & (self.table["filtration"] != Normalization.NETWORK)
        rows = self.table[own & (self.table["status"] == "ok")]
        size = rows[["first", "second"]].abs().max(axis=1).fillna(0.0).clip(lower=1e-3)
        beyond = rows["difference"].abs() > 2 * rows["standard_error"].fillna(0.0) + _ROUNDING * size
        return tuple(dict.fromkeys(rows.loc[beyond, "name"].astype(str)))

    @property
    def headline(self) -> str:
        """What changed in one line: how many of the matrices, and what they are."""
        matrices = self.table.loc[self.table["scope"] == "matrix", "name"].nunique()
        found = self.changed
        said = f"{len(found)} of {matrices} matrices differ beyond twice the noise of the draws"
        if not found:
            return said
        kinds = list(dict.fromkeys(_kind(name) for name in found))
        more = f" and {len(kinds) - _MOST_KINDS} more kinds" if len(kinds) > _MOST_KINDS else ""
        return f"{said}: {', '.join(kinds[:_MOST_KINDS])}{more}"

    def plot(self) -> Figure:
        """Draw the differences layer by layer."""
        from toposcope.figures.comparison import comparison

        return comparison(self.table, first=self.first, second=self.second)

    def __repr__(self) -> str:
        """Return what changed, and between what."""
        return (
            f"{self.headline}\n{self.second} minus {self.first}; .table has the numbers, .plot() draws them"
        )

    def _repr_html_(self) -> str:
        return f"<p><strong>{escape(repr(self))}</strong></p>{self.table.head(40).to_html(index=False)}"


def _kind(name: str) -> str:
    """Return what a matrix is whatever its layer: "model.layers.3.attn.q_proj.weight" is a q_proj."""
    parts = [part for part in name.split(".") if part != "weight" and not part.isdigit()]
    return parts[-1] if parts else name


@dataclass(frozen=True)
class Report:
    """A written page: its path, the analysis behind it, and what of the logs was left out."""

    page: Path
    analysis: Analysis
    problems: tuple[str, ...]

    def __repr__(self) -> str:
        """Return the headline of every part, and where the page is."""
        return "\n".join([*(found.headline for found in self.analysis.all_findings), f"open {self.page}"])

    def _repr_html_(self) -> str:
        return f"{self.analysis._repr_html_()}<p><a href='{escape(str(self.page))}'>the page</a></p>"
