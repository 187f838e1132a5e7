"""The odd runs among several runs that are checked together, and the settings in which they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from toposcope.core.wording import option
from toposcope.logs.remarks import LOOK, Remark
from toposcope.runs.contents import LOSSES
from toposcope.runs.odd import Member, Odd, odd_of
from toposcope.runs.odd_members import members_of, rows_of
from toposcope.statistics.odd import FEWEST

if TYPE_CHECKING:
    from toposcope.runs.contents import Contents
    from toposcope.runs.run_check import RunCheck

_REMEDY = "compare its settings and data with theirs, or leave it out: "
_SETTING = "train it again with their setting, or leave it out: "
_BETTER = "if its setting was intended, train its siblings with it, too, or leave it out: "
_FROZEN = "check which parameters it trains, or leave it out: "


def with_odd(runs: Sequence[RunCheck], contents: Sequence[Contents]) -> list[RunCheck]:
    """Return the runs, and give each odd run a ground to look at it.

    Enough runs in one place, such as the seeds of a table, are compared with each other and with nothing
    else; the runs of all other places are compared with each other.
    """
    if len(runs) <= FEWEST:
        return list(runs)
    counts = Counter(run.run for run in runs)
    short = {run.name: run.run if counts[run.run] == 1 else run.name for run in runs}
    groups = _groups(runs, contents)
    grounds = {
        odd_run.run: _ground(odd_run, short[odd_run.run])
        for group in groups
        for odd_run in odd_of(group).found
    }
    return [
        replace(run, judgement=run.judgement.beside(grounds[run.name])) if run.name in grounds else run
        for run in runs
    ]


def _groups(runs: Sequence[RunCheck], contents: Sequence[Contents]) -> list[list[Member]]:
    """Return the runs of each place with enough siblings, then the runs of all other places together."""
    by_place: list[list[Member]] = []
    rest: list[Member] = []
    for place in contents:
        named = {run.run: run.name for run in runs if run.source == place.name}
        logged = {run.name: run.table for run in place.log.runs}
        members = members_of(
            _losses(place), _listed(place, named), place.changed, named,
            rows=partial(rows_of, logged), measured=place.measured,
        )  # fmt: skip
        if len(members) > FEWEST:
            by_place.append(members)
        else:
            rest += members
    return [*by_place, rest]


def _losses(place: Contents) -> pd.DataFrame:
    """Return run, step and the losses of the runs of a place."""
    wanted = ["step", *LOSSES]
    tables = [run.table.reindex(columns=wanted).assign(run=run.name) for run in place.log.runs]
    tables = [table.dropna(axis="columns", how="all") for table in tables if len(table)]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=["run", *wanted])


def _listed(place: Contents, named: Sequence[str] | dict[str, str]) -> pd.DataFrame:
    """Return the table of the runs of a place, including those that its log does not list."""
    runs = place.log.records
    measured_runs = set(runs["run"])
    more = pd.DataFrame({"run": [run for run in named if run not in measured_runs]})
    return pd.concat([runs, more], ignore_index=True) if len(more) else runs


def _ground(odd_run: Odd, run: str) -> Remark:
    setting = _BETTER if odd_run.ends_lower else _SETTING
    remedy = _FROZEN if odd_run.p is None else setting if odd_run.differs else _REMEDY
    return Remark(LOOK, "odd run", odd_run.since, odd_run.sentence, remedy + option("without", run))
