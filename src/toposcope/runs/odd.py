"""Finds the run that differs from its siblings: since which step, in what, and with which settings.

A run is odd by its curves (`statistics.odd`), or by a rule: one of its matrices never changed, although it
changed in its siblings. A frozen layer hardly affects a loss, so the curves alone do not find it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from toposcope.core.forms import listed
from toposcope.logs.belonging import kin
from toposcope.logs.facts import SETTINGS, Stated
from toposcope.runs._odd_settings import logged_differences
from toposcope.statistics.odd import END, FEWEST, MOST_PART, NOISE, SPIKES, OddRun, odd_runs

_BY = {
    END: "it leaves them over the last 15% of the steps",
    NOISE: "it is noisier than they are over the last 15% of the steps",
    SPIKES: "it has more spikes than they have",
}
"""What sets a run apart by the tests that are not of its level."""
_NAMED = 2
"""Quantities, and settings of the log, that the sentence names."""


def _no_log() -> pd.DataFrame:
    return pd.DataFrame({"step": []})


@dataclass(frozen=True, slots=True)
class Member:
    """A run with what its files state; its losses by label, each a series by step.

    `features` are measured quantities: for each subject, series by label. `changed` says of each matrix
    whether it ever changed over the checkpoints; empty where that is not known. `logged` returns the rows of
    its log with every column: it is called only for an odd run and its siblings.
    """

    stated: Stated
    losses: Mapping[str, pd.Series]
    features: Mapping[str, Mapping[str, pd.Series]] = field(default_factory=dict)
    changed: Mapping[str, bool] = field(default_factory=dict)
    logged: Callable[[], pd.DataFrame] = _no_log

    @property
    def run(self) -> str:
        """The run's name."""
        return self.stated.run

    def curves(self, subject: str | None) -> Mapping[str, pd.Series]:
        """Return the losses, then the features of a subject, if one is given."""
        return self.losses if subject is None else {**self.losses, **self.features.get(subject, {})}


@dataclass(frozen=True, slots=True)
class Beside:
    """A quantity at the last common step: the odd run's value, and the range of its siblings'."""

    label: str
    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the value and the range."""
        low, high = f"{self.low:.4g}", f"{self.high:.4g}"
        theirs = low if low == high else f"{low} to {high}"
        return f"{self.label} {self.value:.4g} (theirs {theirs})"


@dataclass(frozen=True, slots=True)
class Odd:
    """A run that is not like its `siblings`: its p, since which step, by what, and what differs in its files.

    `since` is None if the run did not stay apart until the end; `at_once` is true if it differed from the
    first common step on. `frozen` are matrices that never changed and did in the siblings; `p` is None where
    nothing else sets the run apart, since that rule involves no chance. `by` says in words what other than
    its level sets it apart.
    """

    run: str
    siblings: tuple[str, ...]
    p: float | None
    since: float | None
    beside: tuple[Beside, ...]
    differs: tuple[str, ...]
    at_once: bool = False
    frozen: tuple[str, ...] = ()
    by: str = ""

    @property
    def sentence(self) -> str:
        """What is odd about it, without its name.

        >>> loss = Beside("loss", 5.47, 5.16, 5.25)
        >>> Odd("s13", ("s1", "s2", "s3"), 0.001, 20.0, (loss,), ("learning rate is 6 x theirs",)).sentence
        'not like its 3 siblings: loss 5.47 (theirs 5.16 to 5.25), different since step 20; its learning \
rate is 6 x theirs'
        """
        parts = [
            *self._still,
            *([self.by] if self.by else []),
            *(str(difference) for difference in self.beside[:_NAMED]),
        ]
        if self.since is not None:
            parts.append(
                "different from the start" if self.at_once else f"different since step {self.since:,.0f}"
            )
        shown = f": {', '.join(parts)}" if parts else ""
        why = f"; its {listed(self.differs)}" if self.differs else ""
        return f"not like its {len(self.siblings):,} siblings{shown}{why}"

    @property
    def ends_lower(self) -> bool:
        """Whether every loss that makes it odd ends below those of all siblings."""
        losses = [beside for beside in self.beside if "loss" in beside.label]
        return bool(losses) and all(beside.value < beside.low for beside in losses)

    @property
    def _still(self) -> list[str]:
        if not self.frozen:
            return []
        what = f"more matri{'ces' if len(self.frozen) > 2 else 'x'}"
        named = listed(self.frozen, most=1, what=what)
        return [f"{named} never changed (theirs did)"]


@dataclass(frozen=True, slots=True)
class OddRuns:
    """The odd runs, the oddest first; the number of runs compared with siblings, and of all runs."""

    found: tuple[Odd, ...]
    compared: int
    runs: int

    def of(self, runs: Collection[str]) -> OddRuns:
        """Return the same for those that are, or have their siblings, among these runs."""
        mine = tuple(odd_run for odd_run in self.found if {odd_run.run, *odd_run.siblings} & set(runs))
        return replace(self, found=mine)


def odd_of(members: Sequence[Member]) -> OddRuns:
    """Return which of some runs are not like their siblings: the one judgement of every command.

    The losses and the matrices that never changed come first. Runs that these do not set apart are compared
    by their measured features, too, a subject at a time. So what is said of a run by its losses does not
    depend on whether anything was measured. Where the files do not say which runs belong together, their
    losses do.
    """
    tables = [
        pd.DataFrame({"step": curve.index, "loss": curve.to_numpy()}).assign(run=member.run)
        for member in members
        if (curve := member.losses.get("loss")) is not None and len(curve)
    ]
    losses = pd.concat(tables, ignore_index=True) if tables else None
    judged = odd_among(members, losses)
    odd, compared = list(judged.found), judged.compared
    for subject in dict.fromkeys(subject for member in members for subject in member.features):
        apart = {odd_run.run for odd_run in odd}
        rest = [replace(member, changed={}) for member in members if member.run not in apart]
        measured = odd_among(rest, losses, subject=subject)
        odd += measured.found
        compared = max(compared, measured.compared)
    return OddRuns(tuple(sorted(odd, key=lambda odd_run: odd_run.p or 0.0)), compared, len(members))


def odd_among(
    members: Sequence[Member], losses: pd.DataFrame | None = None, *, subject: str | None = None
) -> OddRuns:
    """Return which runs are not like their siblings: runs of one size, task, corpus and tokenizer.

    They are compared by their losses, and by the features of a `subject` if one is given. `losses` has run,
    step and loss, for runs whose files do not state what sets them apart.
    """
    by_name = {member.run: member for member in members}
    odd_ones: list[Odd] = []
    compared = 0
    for names in kin([member.stated for member in members], losses):
        group = [by_name[name] for name in names]
        if len(group) <= FEWEST:
            continue
        curves, steps = _common(group, subject)
        if not curves and sum(bool(member.changed) for member in group) <= FEWEST:
            continue
        compared += len(group)
        odd = {odd_run.run: odd_run for odd_run in odd_runs(curves, steps)} if curves else {}
        frozen = _frozen(group)
        others = [i for i in range(len(group)) if i not in odd and i not in frozen]
        for i in (*odd, *(i for i in frozen if i not in odd)):
            odd_ones.append(
                _described(group, i, others, frozen.get(i, ()), _Apart(odd.get(i), curves, steps))
            )
    return OddRuns(tuple(sorted(odd_ones, key=lambda odd_run: odd_run.p or 0.0)), compared, len(members))


def _frozen(group: Sequence[Member]) -> dict[int, tuple[str, ...]]:
    """Return which runs, by place, have matrices that never changed, and did in their siblings.

    A matrix counts that is known of more than `FEWEST` runs and unchanged in at most one of `MOST_PART`: one
    that nobody trains, such as a frozen embedding, is not odd.
    """
    names_by_member: dict[int, list[str]] = {}
    for name in dict.fromkeys(name for member in group for name in member.changed):
        stating = [i for i, member in enumerate(group) if name in member.changed]
        still = [i for i in stating if not group[i].changed[name]]
        if len(stating) > FEWEST and len(still) <= max(len(stating) // MOST_PART, 1):
            for i in still:
                names_by_member.setdefault(i, []).append(name)
    return {i: tuple(names) for i, names in names_by_member.items()}


@dataclass(frozen=True, slots=True)
class _Apart:
    """The deviation of a run's curves, None if there is none; the curves (runs, steps) of its group."""

    one: OddRun | None
    curves: Mapping[str, np.ndarray]
    steps: np.ndarray


def _described(
    group: Sequence[Member], at: int, others: Sequence[int], frozen: tuple[str, ...], by_curves: _Apart
) -> Odd:
    """Return an odd run of a group with its last values and the others', and what differs in its files."""
    mine, siblings, one = group[at], [group[i] for i in others], by_curves.one
    beside = []
    for name in sorted(one.where if one else (), key=lambda name: name not in group[0].losses):
        last = by_curves.curves[name][:, -1]  # losses first
        theirs = last[list(others)]
        beside.append(Beside(name, float(last[at]), float(theirs.min()), float(theirs.max())))
    since = one.since if one else None
    return Odd(
        mine.run, tuple(sibling.run for sibling in siblings), one.p if one else None, since, tuple(beside),
        _differing(mine, siblings), at_once=since is not None and since <= by_curves.steps[0],
        frozen=frozen, by=_BY.get(one.by, "") if one else "",
    )  # fmt: skip


def _common(group: Sequence[Member], subject: str | None = None) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the curves (runs, steps) of the quantities that all runs have, at the steps that all share.

    A quantity that shares no step with the others is left out.
    """
    columns: dict[str, list[pd.Series]] = {}
    steps: pd.Index | None = None
    every = [member.curves(subject) for member in group]
    for name in every[0]:
        mine = [curves.get(name, pd.Series(dtype=float)) for curves in every]
        mine = [curve[~curve.index.duplicated(keep="last")] for curve in mine]
        shared = mine[0].index
        for curve in mine[1:]:
            shared = shared.intersection(curve.index)
        both = shared if steps is None else steps.intersection(shared)
        if len(both):
            columns[name], steps = mine, both
    if steps is None:
        return {}, np.empty(0)
    at = steps.sort_values()
    curves = {
        name: np.stack([curve.loc[at].to_numpy(float) for curve in mine]) for name, mine in columns.items()
    }
    return curves, at.to_numpy(float)


def _differing(member: Member, siblings: Sequence[Member]) -> tuple[str, ...]:
    """Return in words the settings in which a run differs: by its files, then by its log."""
    stated = _stated_differences(member.stated, [sibling.stated for sibling in siblings])
    logged = logged_differences(member.logged(), [sibling.logged() for sibling in siblings], stated)
    return (*stated.values(), *map(str, logged[:_NAMED]))


def _stated_differences(member: Stated, others: Sequence[Stated]) -> dict[str, str]:
    """Return the settings of its files in which a run differs from most of the others, each in words."""
    differences = {}
    for name in SETTINGS:
        theirs = Counter(other.facts[name] for other in others if name in other.facts)
        if not theirs or name not in member.facts:
            continue
        common, _ = theirs.most_common(1)[0]
        if member.facts[name] != common:
            differences[name] = f"{name} is {_against(member.facts[name], common)}"
    return differences


def _against(mine: str, theirs: str) -> str:
    try:
        ratio = float(mine) / float(theirs)
    except (ValueError, ZeroDivisionError):
        return f"{mine} (theirs {theirs})"
    return f"{ratio:.3g} x theirs"
