"""The odd runs of a store or a study: by losses, measurements, and matrices that stand still."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from toposcope.core.types import Normalization, Scope
from toposcope.runs.odd import OddRuns, odd_of
from toposcope.runs.odd_members import Changed, curve_by_step, members_of, odd_of_tables, rows_of
from toposcope.statistics.odd import FEWEST
from toposcope.subjects.weights.features import (
    BASELINES,
    MATRIX_NORM,
    NEURAL_PERSISTENCE,
    PERSISTENCE,
    UPDATE_NORM,
    UPDATES,
)

if TYPE_CHECKING:
    from toposcope.store import Store
    from toposcope.study.study_rows import StudyRows
    from toposcope.study.table import SeriesTable

_STILL = ((UPDATES, UPDATE_NORM.name), (BASELINES, MATRIX_NORM.name), (NEURAL_PERSISTENCE, PERSISTENCE.name))
"""Features of single matrices without draws, by probe: they are constant if the matrix is."""
_ROUNDING = 1e-12
"""Two sums of the same values may differ by this share, by rounding."""


def odd_of_store(store: Store) -> OddRuns:
    """Return which runs of a store are not like their siblings, by its current contents.

    >>> import tempfile
    >>> from toposcope.store import Store
    >>> odd_of_store(Store.create(tempfile.mkdtemp() + "/store", recipe={})).found
    ()
    """
    metrics, runs = store.metrics(), store.runs()
    if len(runs) <= FEWEST and metrics["run"].nunique() <= FEWEST:
        return OddRuns((), 0, len(runs))
    return odd_of_tables(metrics, runs, changed_of_store(store))


def odd_of_measured(
    series: SeriesTable, primary: Sequence[str], features: pd.DataFrame, log: StudyRows | None, subject: str
) -> OddRuns:
    """Return which runs of a study are not like their siblings: what `check` says of the same source.

    `primary` are the columns of the primary features of `subject`, and `features` the store's rows, which are
    empty for a log. The further columns of a log count only if it has no loss: `check` does not read them.
    """
    metrics = pd.DataFrame(columns=["run", "step"]) if log is None else log.metrics
    runs = series.runs if log is None else log.runs
    run_names = set(map(str, runs["run"])) if "run" in runs else set()
    listed = pd.concat(
        [runs, pd.DataFrame({"run": [run for run in series.run_names if run not in run_names]})]
    )
    moved = matrices_changed(features) if len(series.run_names) > FEWEST else {}
    rows = metrics if log is None or log.logged is None else log.logged
    tables = {str(run): part for run, part in rows.groupby("run", sort=False)}
    of_log = log is not None and not len(features)
    measured = {} if of_log else {subject: measured_curves(series, primary)}
    members = members_of(
        metrics,
        listed,
        lambda run: moved.get(run, {}),
        rows=partial(rows_of, tables),
        measured=lambda: measured,
    )
    return odd_of(members)


def measured_curves(series: SeriesTable, primary: Sequence[str]) -> dict[str, dict[str, pd.Series]]:
    """Return the primary features of each run by their labels, each a series by step."""
    return {
        run: {series.label(column): curve_by_step(series.of_run(run), column) for column in primary}
        for run in series.run_names
    }


def changed_of_store(store: Store) -> Changed:
    """Return a function from a run of a store to its matrices that ever changed; the store is read once."""
    changes: list[dict[str, dict[str, bool]]] = []

    def changed(run: str) -> Mapping[str, bool]:
        if not changes:
            changes.append(matrices_changed(store.features(feature=[feature for _, feature in _STILL])))
        return changes[0].get(run, {})

    return changed


def matrices_changed(features: pd.DataFrame) -> dict[str, dict[str, bool]]:
    """Return for every run whether each of its matrices ever changed over the checkpoints.

    Parameters
    ----------
    features
        Rows as a store has them. What counts is the norm of the update, the norm and the neural persistence
        of each matrix, at `LEAST_CHECKPOINTS` or more; a matrix that has none of these is left out.

    Examples
    --------
    >>> rows = [
    ...     {"run": "a", "step": step, "probe": "baselines", "scope": "matrix", "name": name, "value": value,
    ...      "filtration": "", "feature": "frobenius_norm"}
    ...     for step in (0, 10, 20)
    ...     for name, value in (("fc1", 3.0), ("fc2", 4.0 + step))
    ... ]
    >>> matrices_changed(pd.DataFrame(rows))
    {'a': {'fc1': False, 'fc2': True}}
    """
    if not len(features):
        return {}
    from toposcope.sources.unchanged import LEAST_CHECKPOINTS  # imports readers that a log does not need

    mine = features["scope"].isin([str(Scope.MATRIX)]) & features["value"].notna()
    mine &= ~features["filtration"].isin([str(Normalization.NETWORK)])
    mine &= features["feature"].isin([feature for _, feature in _STILL])
    rows = features[mine]
    kind = pd.Series(list(zip(rows["probe"], rows["feature"], strict=True)), index=rows.index, dtype=object)
    per = rows[kind.isin(_STILL)].groupby(["run", "name", "feature"], sort=False)["value"]
    spans = per.agg(["min", "max", "count"]).reset_index()
    updates = spans["feature"] == UPDATE_NORM.name
    spans = spans[spans["count"] >= LEAST_CHECKPOINTS - updates.astype(int)]
    differ = spans["max"] - spans["min"] > _ROUNDING * spans["max"].abs()
    moved = differ.where(spans["feature"] != UPDATE_NORM.name, spans["max"] > 0)
    changed_by_run: dict[str, dict[str, bool]] = {}
    for run, name, did in zip(spans["run"], spans["name"], moved, strict=True):
        run_changes = changed_by_run.setdefault(str(run), {})
        run_changes[str(name)] = run_changes.get(str(name), False) or bool(did)
    return changed_by_run
