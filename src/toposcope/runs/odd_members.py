"""The runs that are compared with their siblings, from their logs.

`check`, `audit`, `watch` and `analyze` all make their members here, so that they judge alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from toposcope.logs.facts import Stated, size_of, stated
from toposcope.runs.contents import Changed, not_known
from toposcope.runs.odd import Member, OddRuns, odd_among

_LOGGED = {"loss": "loss", "heldout_loss": "held-out loss"}


def odd_of_tables(metrics: pd.DataFrame, runs: pd.DataFrame, changed: Changed = not_known) -> OddRuns:
    """Return which runs of a log are not like their siblings.

    Parameters
    ----------
    metrics
        Columns run, step and any of loss and heldout_loss.
    runs
        Columns run and, where known, parameters and config, as a store has them.
    changed
        Says of a run which of its matrices ever changed.
    """
    return odd_of(members_of(metrics, runs, changed))


def odd_of(members: Sequence[Member]) -> OddRuns:
    """Return which runs are not like their siblings; losses group them where nothing else does."""
    losses = [
        pd.DataFrame({"step": curve.index, "loss": curve.to_numpy()}).assign(run=member.run)
        for member in members
        if (curve := member.losses.get("loss")) is not None and len(curve)
    ]
    return odd_among(members, pd.concat(losses, ignore_index=True) if losses else None)


def members_of(
    metrics: pd.DataFrame,
    runs: pd.DataFrame,
    changed: Changed = not_known,
    named: Mapping[str, str] | None = None,
) -> list[Member]:
    """Return the runs of a log with their losses at its own steps, and what their files state.

    A run that went back to an earlier checkpoint is one member, which has the name of its latest part.
    `named` are the runs that count, each with its name; None means all.
    """
    logged = list(map(str, metrics["run"].unique())) if len(metrics) else []
    listed = list(map(str, runs["run"])) if "run" in runs else []
    names = [run for run in dict.fromkeys([*listed, *logged]) if named is None or run in named]
    rows = {str(row["run"]): row for row in runs.to_dict("records")} if "run" in runs else {}
    found = []
    for parts in _parts(names):
        last, own = parts[-1], _joined(metrics, parts)
        curves = {label: curve_by_step(own, column) for column, label in _LOGGED.items() if column in own}
        row: Mapping[object, object] = rows.get(last, {})
        one = Stated(last if named is None else named[last], stated(row), size_of(row.get("parameters")))
        curves = {label: curve for label, curve in curves.items() if len(curve)}
        moved = {name: moved for part in parts for name, moved in changed(part).items()}
        found.append(Member(one, curves, changed=moved))
    return found


def _parts(names: Sequence[str]) -> list[list[str]]:
    """Return for each run its parts in their order: a~2 is where a went on from an earlier checkpoint.

    >>> _parts(["a", "a~2", "b"])
    [['a', 'a~2'], ['b']]
    """
    found: dict[str, list[str]] = {}
    for name in names:
        base = re.sub(r"~\d+$", "", name)
        found.setdefault(base if base in names else name, []).append(name)
    return list(found.values())


def _joined(metrics: pd.DataFrame, parts: Sequence[str]) -> pd.DataFrame:
    """Return the rows of a run as it is now: a part holds up to where the next one begins."""
    if not len(metrics):
        return metrics
    own = metrics["run"].astype(str)
    rows = metrics[own == parts[0]]
    for part in parts[1:]:
        later = metrics[own == part]
        rows = pd.concat([rows[rows["step"] < later["step"].min()], later]) if len(later) else rows
    return rows


def curve_by_step(rows: pd.DataFrame, column: str) -> pd.Series:
    """Return the finite values of a column by step."""
    known = rows[np.isfinite(rows[column].to_numpy(float, na_value=np.nan)) & rows["step"].notna()]
    return known.set_index("step")[column].astype(float)
