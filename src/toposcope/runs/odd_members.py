"""The runs that are compared with their siblings, from their logs.

`check`, `audit`, `watch` and `analyze` all make their members here, so that they judge alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
import pandas as pd

from toposcope.logs.facts import Stated, size_of, stated
from toposcope.runs.contents import Changed, Measured, not_known
from toposcope.runs.odd import Member, OddRuns, odd_of
from toposcope.statistics.odd import FEWEST

Rows: TypeAlias = Callable[[str], pd.DataFrame]
"""Returns by its name the rows of a run with every column of its log; empty where there are none."""

_LOGGED = {"loss": "loss", "heldout_loss": "held-out loss"}


def odd_of_tables(metrics: pd.DataFrame, runs: pd.DataFrame, changed: Changed = not_known) -> OddRuns:
    """Return which runs of a log are not like their siblings.

    Parameters
    ----------
    metrics
        Columns run, step, any of loss and heldout_loss, and whatever else the log holds.
    runs
        Columns run and, where known, parameters and config, as a store has them.
    changed
        Says of a run which of its matrices ever changed.
    """
    return odd_of(members_of(metrics, runs, changed))


def members_of(
    metrics: pd.DataFrame,
    runs: pd.DataFrame,
    changed: Changed = not_known,
    named: Mapping[str, str] | None = None,
    *,
    rows: Rows | None = None,
    measured: Measured | None = None,
) -> list[Member]:
    """Return the runs of a log with their losses at its own steps, and what their files state.

    A run that went back to an earlier checkpoint is one member, which has the name of its latest part.
    `named` are the runs that count, each with its name; None means all. `rows` has every column of the log of
    a run; by default those of `metrics`. `measured` are the features of the runs by subject.
    """
    logged = list(map(str, metrics["run"].unique())) if len(metrics) else []
    listed = list(map(str, runs["run"])) if "run" in runs else []
    names = [run for run in dict.fromkeys([*listed, *logged]) if named is None or run in named]
    records = {str(row["run"]): row for row in runs.to_dict("records")} if "run" in runs else {}
    tables = {str(run): part for run, part in metrics.groupby("run", sort=False)} if len(metrics) else {}
    features = measured() if measured is not None and len(names) > FEWEST else {}
    members = []
    for parts in _parts(names):
        last, member_rows = parts[-1], _joined(partial(rows_of, tables), parts)
        curves = {
            label: curve_by_step(member_rows, column)
            for column, label in _LOGGED.items()
            if column in member_rows
        }
        record: Mapping[object, object] = records.get(last, {})
        name, size = last if named is None else named[last], size_of(record.get("parameters"))
        members.append(
            Member(
                Stated(name, stated(record), size),
                {label: curve for label, curve in curves.items() if len(curve)},
                {subject: of_runs[last] for subject, of_runs in features.items() if last in of_runs},
                {matrix: moved for part in parts for matrix, moved in changed(part).items()},
                partial(_joined, rows or partial(rows_of, tables), parts),
            )
        )
    return members


def rows_of(tables: Mapping[str, pd.DataFrame], run: str) -> pd.DataFrame:
    """Return the rows of a run; none where it has no table."""
    return tables[run] if run in tables else pd.DataFrame({"step": []})


def _parts(names: Sequence[str]) -> list[list[str]]:
    """Return for each run its parts in their order: a~2 is where a went on from an earlier checkpoint.

    >>> _parts(["a", "a~2", "b"])
    [['a', 'a~2'], ['b']]
    """
    parts_by_run: dict[str, list[str]] = {}
    for name in names:
        base = re.sub(r"~\d+$", "", name)
        parts_by_run.setdefault(base if base in names else name, []).append(name)
    return list(parts_by_run.values())


def _joined(rows: Rows, parts: Sequence[str]) -> pd.DataFrame:
    """Return the rows of a run as it is now: a part holds up to where the next one begins."""
    run_rows = rows(parts[0])
    for part in parts[1:]:
        later = rows(part)
        run_rows = (
            pd.concat([run_rows[run_rows["step"] < later["step"].min()], later]) if len(later) else run_rows
        )
    return run_rows


def curve_by_step(rows: pd.DataFrame, column: str) -> pd.Series:
    """Return the finite values of a column by step."""
    finite = rows[np.isfinite(rows[column].to_numpy(float, na_value=np.nan)) & rows["step"].notna()]
    return finite.set_index("step")[column].astype(float)
