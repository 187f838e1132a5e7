"""Of several runs that are checked together: which is not like its siblings, and by which setting."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from toposcope.core.commands import typed
from toposcope.core.errors import SourceError
from toposcope.forecasting.health.judgement import LOOK, Ground
from toposcope.sources.belonging import Stated, size_of, stated
from toposcope.statistics.odd import FEWEST
from toposcope.study.odd import Member, Odd, odd_among

if TYPE_CHECKING:
    from toposcope.api.check_sources import Looked
    from toposcope.api.checked import RunCheck
    from toposcope.sources import Series

_COLUMNS = {"loss": "loss", "heldout_loss": "held-out loss"}
_REMEDY = "compare its settings and data with theirs, or leave it out: "


def with_odd(runs: Sequence[RunCheck], looked: Sequence[Looked]) -> list[RunCheck]:
    """Return the runs, each that is not like its siblings with a ground to look at it."""
    if len(runs) <= FEWEST:
        return list(runs)
    places = {place.name: place for place in looked}
    members = [_member(one, places[one.source]) for one in runs]
    losses = [
        rows.assign(run=member.run)
        for member in members
        if len(
            rows := pd.DataFrame({"loss": member.curves.get("loss", pd.Series(dtype=float))}).reset_index(
                names="step"
            )
        )
    ]
    found = odd_among(members, pd.concat(losses, ignore_index=True) if losses else None).found
    own = Counter(one.run for one in runs)
    short = {one.name: one.run if own[one.run] == 1 else one.name for one in runs}
    grounds = {
        one.run: Ground(LOOK, "odd run", one.since, one.sentence, _REMEDY + typed("without", short[one.run]))
        for one in found
    }
    return [
        replace(one, judgement=one.judgement.beside(grounds[one.name])) if one.name in grounds else one
        for one in runs
    ]


def odd_of_series(series: Series) -> tuple[Odd, ...]:
    """Return which runs of a series are not like their siblings, by the losses that lie beside them."""
    if len(series.names) <= FEWEST:
        return ()
    members, losses = [], []
    for run in series.runs:
        try:
            rows = series.metrics(run.run)
        except SourceError:  # a finding says so
            continue
        curves = {label: _curve(rows, column) for column, label in _COLUMNS.items() if column in rows}
        curves = {label: curve for label, curve in curves.items() if len(curve)}
        row: Mapping[object, object] = dict(dataclasses.asdict(run).items())
        members.append(Member(Stated(run.run, stated(row), size_of(row.get("parameters"))), curves))
        losses.append(rows[["run", "step", "loss"]])
    filled = [table for table in losses if len(table)]
    return odd_among(members, pd.concat(filled, ignore_index=True) if filled else None).found


def _member(one: RunCheck, place: Looked) -> Member:
    """Return what is held against siblings: losses at the steps of the log, and what the files state."""
    metrics, runs = place.log.metrics, place.log.runs
    rows = metrics[metrics["run"].astype(str) == one.run] if len(metrics) else metrics
    own = runs[runs["run"].astype(str) == one.run].to_dict("records") if "run" in runs else []
    row: Mapping[object, object] = own[0] if own else {}
    curves = {label: _curve(rows, column) for column, label in _COLUMNS.items() if column in rows}
    return Member(Stated(one.name, stated(row), size_of(row.get("parameters"))), curves)


def _curve(rows: pd.DataFrame, column: str) -> pd.Series:
    finite = rows[np.isfinite(rows[column].to_numpy(float, na_value=np.nan)) & rows["step"].notna()]
    return finite.set_index("step")[column].astype(float)
