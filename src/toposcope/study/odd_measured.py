"""The odd runs of a store or a study: by losses, measurements, and matrices that stand still."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from toposcope.core.types import Normalization, Scope
from toposcope.logs.facts import Stated, size_of, stated
from toposcope.runs.odd import Member, OddRuns, odd_among
from toposcope.runs.odd_members import Changed, curve_by_step, odd_of_tables
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
    from toposcope.study.table import SeriesTable

_LOSSES = (("heldout_loss",), ("loss_smooth", "loss"))
"""The losses of a study that are compared: of the training loss the smoothed one where there is one."""
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
    series: SeriesTable, primary: Sequence[str], features: pd.DataFrame, metrics: pd.DataFrame
) -> OddRuns:
    """Return which measured runs are not like their siblings, by their losses and the primary features.

    `primary` are the columns of those features; `features` and `metrics` are the store's. Both are empty for
    a table made elsewhere.
    """
    losses = [next((n for n in names if n in series.values), "") for names in _LOSSES]
    rows = series.runs.drop_duplicates("run").set_index("run", drop=False).to_dict("index")
    moved = matrices_changed(features) if len(series.run_names) > FEWEST else {}
    members = []
    for run in series.run_names:
        row, own = rows.get(run, {}), series.of_run(run)
        lost, measured = (
            {series.label(column): curve_by_step(own, column) for column in columns if column}
            for columns in (losses, primary)
        )
        facts = Stated(run, stated(row), size_of(row.get("parameters")))
        members.append(Member(facts, lost, measured, moved.get(run, {})))
    return odd_among(members, metrics if len(metrics) else None)


def changed_of_store(store: Store) -> Changed:
    """Return a function from a run of a store to its matrices that ever changed; the store is read once."""
    made: list[dict[str, dict[str, bool]]] = []

    def changed(run: str) -> Mapping[str, bool]:
        if not made:
            made.append(matrices_changed(store.features(feature=[feature for _, feature in _STILL])))
        return made[0].get(run, {})

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
    found: dict[str, dict[str, bool]] = {}
    for run, name, did in zip(spans["run"], spans["name"], moved, strict=True):
        own = found.setdefault(str(run), {})
        own[str(name)] = own.get(str(name), False) or bool(did)
    return found
