"""What a comparison of weights answers: an object that prints its answer, with tables and a figure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toposcope.core.answered import Tables, answered
from toposcope.core.forms import listed
from toposcope.core.observations import AuditFinding
from toposcope.core.types import Normalization, Scope
from toposcope.sources.names import kind_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from toposcope.study.findings import Finding
    from toposcope.sweep.parting import SeriesParting

_ROUNDING = 1e-6
"""Two numbers of a comparison count as equal below this relative difference."""
_FAR = 5.0
"""Matrices that moved this many times as far as the rest are named on their own."""
_MOST_KINDS = 6
"""Kinds of matrices that a comparison names in its line."""
_UNRELATED = 0.1
"""Below this median cosine of their matrices, two series share under 1% of what their weights are."""
_LAYERS = {"mlp": "mlp layers", "attention": "attention layers", "head": "heads", "embedding": "embeddings",
           "norm": "norms"}  # fmt: skip
"""The name of the matrices of each role; those of no known role are named themselves."""


@dataclass(frozen=True)
class Comparison:
    """Two checkpoints compared: `table` has a row for each matrix and feature, second minus first.

    `moved` has for each matrix how far its weights moved: name, role, change, in parts of the first's norm,
    and the cosine of the angle between the two.
    `parting` is the step up to which two series are equal; None if only checkpoints were given. `faults` say
    why a fine-tune cannot be used: values that are not finite, or the weights of the base.
    """

    first: str
    second: str
    table: pd.DataFrame
    moved: pd.DataFrame
    parting: SeriesParting | None = None
    faults: tuple[AuditFinding, ...] = ()

    @property
    def changed(self) -> tuple[str, ...]:
        """The matrices with a feature of their own that differs by more than twice the noise of its draws.

        A feature that is divided by the maximum of the whole network does not count, because one other matrix
        changes it in all matrices.
        """
        rows_meant = (self.table["scope"] == Scope.MATRIX) & (
            self.table["filtration"] != Normalization.NETWORK
        )
        rows = self.table[rows_meant & (self.table["status"] == "ok")]
        size = rows[["first", "second"]].abs().max(axis=1).fillna(0.0).clip(lower=1e-3)
        beyond = rows["difference"].abs() > 2 * rows["standard_error"].fillna(0.0) + _ROUNDING * size
        return tuple(dict.fromkeys(rows.loc[beyond, "name"].astype(str)))

    @property
    def foremost(self) -> tuple[str, ...]:
        """The changed matrices that moved over five times as far as all others, in order.

        The distance is that between the two diagrams of a matrix's weights. The result is empty if there is
        no such gap.
        """
        from toposcope.subjects.weights.features import WEIGHTS_MOVED

        rows = self.table[self.table["feature"] == WEIGHTS_MOVED.name].set_index("name")["difference"]
        far = rows[rows.index.isin(self.changed)].sort_values(ascending=False)
        if len(far) < 2 or not far.iloc[-1] > 0:
            return ()
        ratio = far.to_numpy()[:-1] / far.to_numpy()[1:]
        largest_gap = int(ratio.argmax()) + 1
        return (
            tuple(name for name in self.changed if name in far.index[:largest_gap])
            if ratio.max() > _FAR
            else ()
        )

    @property
    def same_run(self) -> str:
        """A line with the step up to which two series are equal; "" if only checkpoints were given."""
        return "" if self.parting is None else f"Same run? {self.parting.sentence}\n"

    @property
    def ok(self) -> bool:
        """Whether neither has a fault and all of their matrices were compared."""
        return not self.faults and not self.unmatched

    @property
    def problems(self) -> list[str]:
        """What is wrong with either, and which matrices were not compared."""
        return [
            *map(str, self.faults),
            *(f"{name} is not in both, or differs in shape" for name in self.unmatched),
        ]

    def farthest(self, most: int) -> list[str]:
        """Return the matrices whose weights moved farthest, in parts of their norm, the farthest first."""
        ordered = self.moved.sort_values("change", ascending=False, kind="stable")
        return [str(name) for name in ordered["name"][:most]]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        table = self.table.astype(object).where(self.table.notna(), None)
        return {
            "compared": "weights", "answer": self.line, "ok": self.ok, "problems": self.problems,
            "first": self.first, "second": self.second,
            "beyond_noise": self.beyond_noise, "changed": list(self.changed),
            "parting": None if self.parting is None else dataclasses.asdict(self.parting),
            "faults": [dataclasses.asdict(fault) for fault in self.faults],
            "moved": self.moved.to_dict("records"), "rows": table.to_dict("records"),
        }  # fmt: skip

    @property
    def matrices(self) -> int:
        """The number of matrices of the two."""
        return int(self.table.loc[self.table["scope"] == Scope.MATRIX, "name"].nunique())

    @property
    def line(self) -> str:
        """What changed most, in one sentence: the kinds of layers by the mean change of their matrices."""
        from toposcope.api.tuned import in_words

        if self.faults:
            whose = " and ".join(dict.fromkeys(fault.run for fault in self.faults))
            return f"a fault of {whose}: {in_words(self.faults)}"
        by_role = self.moved.groupby("role", sort=False)["change"]
        means = by_role.mean().sort_values(ascending=False, kind="stable")
        moved = int((self.moved["change"] > 0).sum())
        if not moved:
            return f"no common matrix changed{self._alone}" if self._alone else "no matrix changed"
        if self.unrelated:
            return f"the two have nothing in common: {self._angle}{self._alone}"
        if len(self.moved) == 1:
            (alone,) = self.moved.to_dict("records")
            return f"{alone['name']} changed by {_percent(float(alone['change']))} of its norm{self._alone}"
        kinds = [(self._named(str(role)), _percent(float(mean))) for role, mean in means.items()]
        rest = "".join(f", {name} by {change}" for name, change in kinds[1:])
        of = f"all {moved:,}" if moved == len(self.moved) else f"{moved:,} of {len(self.moved):,}"
        most, change = kinds[0]
        sentence = f"{most} changed most, by {change} of their norm{rest} (means; {of} matrices changed)"
        return sentence + self._alone

    @property
    def unrelated(self) -> bool:
        """Whether the weights are as unlike as those of two models that were trained apart."""
        cosines = self.moved["cosine"].dropna().abs()
        return bool(len(cosines)) and float(cosines.median()) < _UNRELATED

    @property
    def _angle(self) -> str:
        cosine = float(self.moved["cosine"].median())
        count = self.moved["cosine"].notna().sum()
        matrices = f"{count:,} matri{'x' if count == 1 else 'ces'}"
        unlike = "their weights are as unlike as those of separate models"
        return f"{unlike} (median cosine {cosine:.2f} of {matrices})"

    def _named(self, role: str) -> str:
        """Return what the matrices of a role are called: by their kind, or the one that moved farthest."""
        if role in _LAYERS:
            return _LAYERS[role]
        mine = self.moved[self.moved["role"].astype(str) == role]
        first = str(mine.sort_values("change", ascending=False, kind="stable")["name"].iloc[0])
        return first if len(mine) == 1 else f"{first} and {len(mine) - 1:,} more"

    @property
    def unmatched(self) -> tuple[str, ...]:
        """The matrices that only one of the two has, or has in another shape."""
        moved_names = set(self.moved["name"])
        names = self.table.loc[self.table["scope"] == Scope.MATRIX, "name"]
        return (
            ()
            if self.faults
            else tuple(str(name) for name in dict.fromkeys(names) if name not in moved_names)
        )

    @property
    def _alone(self) -> str:
        """How many matrices were not compared, as an end of a sentence; "" where all were."""
        many = len(self.unmatched)
        return f"; {many:,} of {self.matrices:,} matrices are not in both, or differ in shape" if many else ""

    @property
    def beyond_noise(self) -> str:
        """The number of matrices that differ beyond the noise of the draws, and their kinds."""
        differing = self.changed
        sentence = (
            f"{len(differing):,} of {self.matrices:,} matrices differ beyond twice the noise of the draws"
        )
        if not differing:
            return sentence
        far = self.foremost
        first = (
            f"; {len(far):,} of them moved over {_FAR:g} times as far as the rest: {_kinds(far)}"
            if far
            else ""
        )
        return f"{sentence}: {_kinds(differing)}{first}"

    @property
    def tables(self) -> Tables:
        """`table`, under the name "differences", and `moved`."""
        return Tables(differences=lambda: self.table, moved=lambda: self.moved)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The matrices that differ beyond twice the noise of the draws, and the number of all."""
        from toposcope.study.findings import Finding

        changed = self.changed
        numbers = {"first": self.first, "second": self.second, "matrices": self.matrices, "changed": changed}
        return (
            Finding("changed", "differ" if changed else "alike", numbers, test="twice the standard error"),
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw how far each matrix moved, in parts of its norm, as the first line says; return the axes."""
        from toposcope.subjects.weights.figures.comparison import draw_moved

        return draw_moved(self.moved, ax)

    def figure(self) -> Figure:
        """Draw the differences matrix by matrix: two features, and the distance between the weights."""
        from toposcope.subjects.weights.figures.comparison import comparison

        return comparison(self.table, first=self.first, second=self.second)

    def __repr__(self) -> str:
        """Return what changed, and between what."""
        return (
            f"{self.line}\n{self.beyond_noise}\n{self.same_run}"
            f"{self.second} minus {self.first}; .table has the numbers, .plot() draws them"
        )

    def _repr_html_(self) -> str:
        if self.faults:
            return answered(repr(self))
        far = self.moved.sort_values("change", ascending=False, kind="stable").round({"change": 4})
        return answered(repr(self), far[["name", "role", "change"]], self.plot)


def _percent(share: float) -> str:
    """Return a share in percent.

    >>> _percent(0.1234), _percent(2e-5), _percent(5.83), _percent(float("inf"))
    ('12%', '0.002%', '583%', 'more than all')
    """
    if share == float("inf"):
        return "more than all"
    return f"{100 * share:.0f}%" if share >= 0.1 else f"{100 * share:.2g}%"


def _kinds(names: Sequence[str]) -> str:
    """Return what matrices are, each kind once, the first few by name."""
    kinds = list(dict.fromkeys(kind_of(name) for name in names))
    what = f"more kind{'s' * (len(kinds) > _MOST_KINDS + 1)}"
    return listed(kinds, most=_MOST_KINDS, last=", ", what=what)
