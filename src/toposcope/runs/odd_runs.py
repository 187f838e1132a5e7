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
    own = Counter(one.run for one in runs)
    short = {one.name: one.run if own[one.run] == 1 else one.name for one in runs}
    groups = _groups(runs, contents)
    grounds = {one.run: _ground(one, short[one.run]) for group in groups for one in odd_of(group).found}
    return [
        replace(one, judgement=one.judgement.beside(grounds[one.name])) if one.name in grounds else one
        for one in runs
    ]


def _groups(runs: Sequence[RunCheck], contents: Sequence[Contents]) -> list[list[Member]]:
    """Return the runs of each place with enough siblings, then the runs of all other places together."""
    by_place: list[list[Member]] = []
    rest: list[Member] = []
    for place in contents:
        named = {one.run: one.name for one in runs if one.source == place.name}
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
    known = set(runs["run"])
    more = pd.DataFrame({"run": [run for run in named if run not in known]})
    return pd.concat([runs, more], ignore_index=True) if len(more) else runs


def _ground(one: Odd, run: str) -> Remark:
    setting = _BETTER if one.ends_lower else _SETTING
    remedy = _FROZEN if one.p is None else setting if one.differs else _REMEDY
    return Remark(LOOK, "odd run", one.since, one.sentence, remedy + option("without", run))
