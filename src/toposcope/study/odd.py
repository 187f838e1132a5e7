"""Which run is not like its siblings, since which step, by what, and which of its settings differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from toposcope.core.forms import listed
from toposcope.sources.belonging import SETTINGS, Stated, kin, size_of, stated
from toposcope.statistics.odd import FEWEST, OddRun, odd_runs

if TYPE_CHECKING:
    from toposcope.study.study import Study

_LOSSES = (("heldout_loss",), ("loss_smooth", "loss"))
"""The losses that are compared: of the training loss the smoothed one where there is one."""
_NAMED = 2
"""Quantities that the sentence names."""


@dataclass(frozen=True, slots=True)
class Member:
    """A run with what its files state; its losses and features by label, each a series by step."""

    stated: Stated
    losses: Mapping[str, pd.Series]
    features: Mapping[str, pd.Series] = field(default_factory=dict)

    @property
    def run(self) -> str:
        """The run's name."""
        return self.stated.run

    @property
    def curves(self) -> dict[str, pd.Series]:
        """The losses, then the features."""
        return {**self.losses, **self.features}


@dataclass(frozen=True, slots=True)
class Beside:
    """A quantity at the last common step: the odd run's value, and the range of its siblings'."""

    label: str
    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the value beside the range."""
        low, high = f"{self.low:.4g}", f"{self.high:.4g}"
        theirs = low if low == high else f"{low} to {high}"
        return f"{self.label} {self.value:.4g} (theirs {theirs})"


@dataclass(frozen=True, slots=True)
class Odd:
    """A run that is not like its `siblings`: its p, since which step, by what, and what differs in its files.

    `since` is None where the run did not stay apart up to the end; `at_once` says that it was so from the
    first common step on.
    """

    run: str
    siblings: tuple[str, ...]
    p: float
    since: float | None
    beside: tuple[Beside, ...]
    differs: tuple[str, ...]
    at_once: bool = False

    @property
    def sentence(self) -> str:
        """What is odd about it, without its name.

        >>> loss = Beside("loss", 5.47, 5.16, 5.25)
        >>> Odd("s13", ("s1", "s2", "s3"), 0.001, 20.0, (loss,), ("learning rate is 6 x theirs",)).sentence
        'not like its 3 siblings: loss 5.47 (theirs 5.16 to 5.25), apart since step 20; its learning rate is \
6 x theirs'
        """
        parts = [str(one) for one in self.beside[:_NAMED]]
        if self.since is not None:
            parts.append("apart from the start" if self.at_once else f"apart since step {self.since:,.0f}")
        shown = f": {', '.join(parts)}" if parts else ""
        why = f"; its {listed(self.differs)}" if self.differs else ""
        return f"not like its {len(self.siblings)} siblings{shown}{why}"


@dataclass(frozen=True, slots=True)
class OddRuns:
    """The odd runs, the oddest first, and how many runs were held against siblings, of how many."""

    found: tuple[Odd, ...]
    compared: int
    runs: int

    def of(self, runs: Collection[str]) -> OddRuns:
        """Return the same for those that are, or have their siblings, among these runs."""
        mine = tuple(one for one in self.found if {one.run, *one.siblings} & set(runs))
        return replace(self, found=mine)


def odd_among(members: Sequence[Member], losses: pd.DataFrame | None = None) -> OddRuns:
    """Return which of some runs are not like their siblings: runs of one size, task, corpus and tokenizer.

    `losses` has run, step and loss, for runs whose files do not state what sets them apart.
    """
    by_name = {member.run: member for member in members}
    found: list[Odd] = []
    compared = 0
    for names in kin([member.stated for member in members], losses):
        group = [by_name[name] for name in names]
        curves, steps = _common(group)
        if len(group) <= FEWEST or not curves:
            continue
        compared += len(group)
        odd = odd_runs(curves, steps)
        others = [i for i in range(len(group)) if i not in {one.run for one in odd}]
        found += [_described(one, group, others, curves, steps) for one in odd]
    return OddRuns(tuple(sorted(found, key=lambda one: one.p)), compared, len(members))


def _described(
    one: OddRun,
    group: Sequence[Member],
    others: Sequence[int],
    curves: Mapping[str, np.ndarray],
    steps: np.ndarray,
) -> Odd:
    """Return an odd run of a group with its last values beside the others', and what differs in its files."""
    beside = []
    for name in sorted(one.where, key=lambda name: name not in group[0].losses):  # losses first
        last = curves[name][:, -1]
        theirs = last[list(others)]
        beside.append(Beside(name, float(last[one.run]), float(theirs.min()), float(theirs.max())))
    mine, siblings = group[one.run], [group[i] for i in others]
    return Odd(
        mine.run, tuple(sibling.run for sibling in siblings), one.p, one.since, tuple(beside),
        _differing(mine.stated, [sibling.stated for sibling in siblings]),
        at_once=one.since is not None and one.since <= steps[0],
    )  # fmt: skip


def odd_of_study(study: Study) -> OddRuns:
    """Return which runs of a study are not like their siblings, by their losses and the primary features."""
    series = study.series
    losses = [next((n for n in names if n in series.values), "") for names in _LOSSES]
    primary = study.labels.primary()
    rows = series.runs.drop_duplicates("run").set_index("run", drop=False).to_dict("index")
    members = [
        Member(
            Stated(run, stated(row := rows.get(run, {})), size_of(row.get("parameters"))),
            *(
                {series.label(column): _of_column(series.of_run(run), column) for column in columns if column}
                for columns in (losses, primary)
            ),
        )
        for run in series.run_names
    ]
    return odd_among(members, study.metrics if len(study.metrics) else None)


def _of_column(rows: pd.DataFrame, column: str) -> pd.Series:
    known = rows[np.isfinite(rows[column].to_numpy(float, na_value=np.nan))]
    return known.set_index("step")[column].astype(float)


def _common(group: Sequence[Member]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the curves (runs, steps) of what all runs have, at the steps that all have of all of it.

    A quantity that shares no step with the others is left out.
    """
    found: dict[str, list[pd.Series]] = {}
    steps: pd.Index | None = None
    for name in group[0].curves:
        mine = [member.curves.get(name, pd.Series(dtype=float)) for member in group]
        mine = [one[~one.index.duplicated(keep="last")] for one in mine]
        shared = mine[0].index
        for one in mine[1:]:
            shared = shared.intersection(one.index)
        both = shared if steps is None else steps.intersection(shared)
        if len(both):
            found[name], steps = mine, both
    if steps is None:
        return {}, np.empty(0)
    at = steps.sort_values()
    curves = {name: np.stack([one.loc[at].to_numpy(float) for one in mine]) for name, mine in found.items()}
    return curves, at.to_numpy(float)


def _differing(one: Stated, others: Sequence[Stated]) -> tuple[str, ...]:
    """Return in which settings a run differs from what most of the others state, in words."""
    found = []
    for name in SETTINGS:
        theirs = Counter(other.facts[name] for other in others if name in other.facts)
        if not theirs or name not in one.facts:
            continue
        usual, _ = theirs.most_common(1)[0]
        if one.facts[name] != usual:
            found.append(f"{name} is {_against(one.facts[name], usual)}")
    return tuple(found)


def _against(mine: str, theirs: str) -> str:
    try:
        ratio = float(mine) / float(theirs)
    except (ValueError, ZeroDivisionError):
        return f"{mine} (theirs {theirs})"
    return f"{ratio:.3g} x theirs"
