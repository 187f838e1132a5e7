"""The features of a store or a table that forecasts may read, and the curves with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from toposcope.core.types import Scope, Use
from toposcope.forecasting.base import Forecaster
from toposcope.logs import Log
from toposcope.logs.copies import copies
from toposcope.logs.curve import Curve
from toposcope.logs.described import canonical_name, metric_columns, recorded
from toposcope.logs.features import features_of
from toposcope.logs.remarks import Remark
from toposcope.logs.run import Run
from toposcope.logs.schedule import Schedule
from toposcope.rules.registry import assess as assess_log
from toposcope.runs.curves import Problem, curve_of, without_infinities
from toposcope.store import Store
from toposcope.store.draws import counted, is_counted, over_draws
from toposcope.study.catalogue import leading_features
from toposcope.study.convergence import without_unconverged
from toposcope.study.forecasts._vectors import VECTORS, vector_table
from toposcope.study.forecasts.topology import FeatureTransfer
from toposcope.study.table import series_table
from toposcope.subjects.catalogue import completed
from toposcope.subjects.weights.features import RIPS

NORMS = ("weight_norm", "grad_norm")
MOST_FEATURES = 12
"""Columns of a plain table that become features, in the order of their names."""

_GRADIENT_WINDOW = 100
"""Logged gradient norms that are averaged."""


def with_features(log: Log, column: str, store: Store | None) -> tuple[Log, list[Problem]]:
    """Return a log whose runs have the features that forecasts may read, and what was left out of them.

    They are a store's measurements, the further columns of a table, or else the norms in the log.
    """
    if store is not None:
        catalogue = store.catalogue()
        features = store.features()
        wide = feature_columns(features, store.diagrams(probe=RIPS), catalogue) if len(features) else None
        runs, problems = _featured(log.runs, wide, catalogue)
        return replace(log, runs=runs), [*_infinite(features), *problems]
    if not log.taken:  # a series of checkpoints: its log has the store's columns alone
        runs, problems = _featured(log.runs, None, None)
        return replace(log, runs=runs), problems
    table = pd.concat([run.table for run in log.runs], ignore_index=True)
    name = canonical_name(column)
    wide, notes = features_of(table, table[["run", *metric_columns(table, name)]], name, copies)
    runs, problems = _featured(log.runs, wide, None)
    return replace(log, runs=runs, assumed=(*log.assumed, *notes)), problems


def gather_curves(
    metrics: pd.DataFrame,
    runs: pd.DataFrame,
    *,
    features: pd.DataFrame | None = None,
    diagrams: pd.DataFrame | None = None,
    wide: pd.DataFrame | None = None,
    horizon: int | None = None,
    schedules: Mapping[str, Schedule] | None = None,
    column: str = "loss",
    catalogue: pd.DataFrame | None = None,
    replaced: Mapping[str, pd.DataFrame] | None = None,
    assess: Callable[..., Sequence[Remark]] = assess_log,
) -> tuple[list[Curve], list[Problem]]:
    """Build one curve per run of the tables (the store's columns); what cannot be built is a problem.

    Features come from the store's long rows (`features`, with `diagrams`) or from a table that is `wide`
    already: run, step and one column each. `catalogue` is what the store's probes declare: their confirmatory
    features are candidates, too. Horizon, schedule and remarks are those of `runs.curves.curve_of`;
    `replaced` has the rows of runs that a restart replaced.
    """
    problems: list[Problem] = []
    records = {str(row["run"]): row for row in runs.to_dict("records")} if len(runs) else {}
    if wide is None and features is not None and len(features):
        wide = feature_columns(features, diagrams, catalogue)
        problems += _infinite(features)
    listed = [
        replace(recorded(str(run), rows, records.get(str(run), {})), replaced=(replaced or {}).get(str(run)))
        for run, rows in metrics.groupby("run", sort=False)
    ]
    featured, more = _featured(listed, wide, catalogue)
    problems += more
    curves: list[Curve] = []
    for run in featured:
        plan = (schedules or {}).get(run.name)
        curve, wrong = curve_of(run, column=column, horizon=horizon, schedule=plan, assess=assess)
        problems += wrong
        curves += [] if curve is None else [curve]
    return curves, problems


def _featured(
    runs: Sequence[Run], wide: pd.DataFrame | None, catalogue: pd.DataFrame | None
) -> tuple[tuple[Run, ...], list[Problem]]:
    """Give each run its rows of the wide features, with the norms in its log; without any, norms alone."""
    problems: list[Problem] = []
    if wide is None or not len(wide):
        metrics = [run.table.assign(run=run.name) for run in runs]
        wide = _at_some_steps(pd.concat(metrics, ignore_index=True)) if metrics else None
    else:
        wide, problems = without_infinities(wide)
    if wide is None:
        return tuple(runs), problems
    runs_with_features = []
    for run in runs:
        features_of_run = _with_norms(wide, run.table, run.name)
        runs_with_features.append(
            replace(run, features=features_of_run, topology=topology_in(features_of_run.columns, catalogue))
        )
    return tuple(runs_with_features), problems


def feature_columns(
    features: pd.DataFrame, diagrams: pd.DataFrame | None, catalogue: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return run, step and the leading features of forecasts under short names, with images and landscapes.

    If a probe names no such feature, its confirmatory features come under their column keys.
    """
    features, _ = without_unconverged(features)
    model = counted(features[features["role"] == "model"])
    wanted = _short_names(model, catalogue)
    keys = pd.MultiIndex.from_frame(model[["probe", "scope", "feature"]])
    short = pd.Series([wanted.get(key) for key in keys], index=model.index)
    used = model.assign(short=short).dropna(subset=["short"])
    filtrations = used.groupby("short")["filtration"].agg(lambda values: sorted(set(values))[0])
    used = used[used["filtration"] == used["short"].map(filtrations)]
    means = over_draws(used, ["run", "step", "short"])
    wide = means.pivot(index=["run", "step"], columns="short", values="value").reset_index()
    wide.columns.name = None
    further = _declared(features, catalogue, known=set(_leading_probes(catalogue)))
    if further is not None:
        wide = wide.merge(further, on=["run", "step"], how="outer") if len(wide) else further
    if diagrams is not None and len(diagrams):
        for kind in VECTORS:
            table = vector_table(diagrams, kind)
            wide = wide.merge(table, on=["run", "step"], how="left") if len(table.columns) > 2 else wide
    return wide


def topology_in(columns: Collection[str], catalogue: pd.DataFrame | None = None) -> tuple[str, ...]:
    """Return the columns that are declared as topology for forecasts.

    >>> topology_in(["mine", "h0_total", "neural_persistence"])
    ('neural_persistence', 'h0_total')
    """
    lines = leading_features(completed(catalogue), Use.FORECAST)
    names = [name for line in lines for name in (line["feature"], f"{line['probe']}/{line['feature']}")]
    return tuple(name for name in dict.fromkeys(names) if name in columns)


def _leading_probes(catalogue: pd.DataFrame | None) -> list[str]:
    return [line["probe"] for line in leading_features(completed(catalogue), Use.FORECAST)]


def _short_names(model: pd.DataFrame, catalogue: pd.DataFrame | None) -> dict[tuple[str, str, str], str]:
    """Return (probe, scope, feature) -> short name of the leading features of forecasts."""
    measured = set(model[["probe", "scope", "feature"]].drop_duplicates().itertuples(index=False, name=None))
    names_by_feature: dict[tuple[str, str, str], str] = {}
    for line in leading_features(completed(catalogue), Use.FORECAST):
        probe, feature = line["probe"], line["feature"]
        scopes = tuple(line["scopes"]) or tuple(Scope)
        places = ((probe, str(scope), feature) for scope in scopes)
        at = next((place for place in places if place in measured), None)
        if at is not None:
            names_by_feature[at] = (
                feature if feature not in names_by_feature.values() else f"{probe}/{feature}"
            )
    return names_by_feature


def _declared(
    features: pd.DataFrame, catalogue: pd.DataFrame | None, *, known: set[str]
) -> pd.DataFrame | None:
    """Return run, step and the confirmatory columns of the probes that are not `known`; None without any."""
    if catalogue is None:
        return None
    declared = catalogue[catalogue["primary"].astype(bool) & ~catalogue["probe"].isin(known)]
    rows = features[features["probe"].isin(declared["probe"])]
    if not is_counted(rows).any():
        return None
    table = series_table(rows, catalogue=catalogue)
    chosen = list(table.catalogue.loc[table.catalogue["primary"], "column"])
    return table.values[["run", "step", *chosen]] if chosen else None


def _infinite(features: pd.DataFrame) -> list[Problem]:
    """Return how many values of each feature were left out because they are infinite."""
    rows = features[(features["role"] == "model") & np.isinf(pd.to_numeric(features["value"]))]
    counts = rows.groupby(["run", "feature"], sort=False).size()
    return [
        Problem(str(run), f"{count:,} infinite values of {feature!r} left out", left_out=False)
        for (run, feature), count in counts.items()
    ]


def _at_some_steps(metrics: pd.DataFrame) -> pd.DataFrame | None:
    """Return (run, step) of 51 logged steps per run, for the norms of runs without measurements."""
    if not any(name in metrics and metrics[name].notna().any() for name in NORMS):
        return None
    steps = metrics[["run", "step"]].dropna().drop_duplicates().sort_values(["run", "step"])
    chosen = [
        rows.iloc[np.unique(np.linspace(0, len(rows) - 1, 51).astype(int))]
        for _, rows in steps.groupby("run")
    ]
    return pd.concat(chosen, ignore_index=True) if chosen else None


def _with_norms(wide: pd.DataFrame, rows: pd.DataFrame, run: str) -> pd.DataFrame:
    run_rows = wide[wide["run"] == run].drop(columns="run").sort_values("step").reset_index(drop=True)
    logged = rows.sort_values("step").drop_duplicates("step").set_index("step")
    if "weight_norm" in logged and logged["weight_norm"].notna().any():
        run_rows["weight_norm"] = logged["weight_norm"].reindex(run_rows["step"]).to_numpy()
    if "grad_norm" in logged and logged["grad_norm"].notna().any():
        smooth = logged["grad_norm"].rolling(_GRADIENT_WINDOW, min_periods=1).mean()
        run_rows["grad_norm"] = smooth.reindex(run_rows["step"]).to_numpy()
    return run_rows


def topological_methods(
    curves: list[Curve], published: Callable[[Collection[str]], Sequence[Forecaster]]
) -> list[Forecaster]:
    """Return the methods of the ablation: every way in which topology can enter, and the same with norms.

    Only those that some run has features for; `published` returns the rules of papers that these columns
    allow.
    """
    columns = {name for curve in curves for name in curve.features.columns}
    methods: list[Forecaster] = []
    declared = (name for curve in curves for name in curve.topology)
    rates = tuple(name for name in dict.fromkeys((*topology_in(columns), *declared)) if name in columns)
    norms = tuple(name for name in NORMS if name in columns)
    vectors = tuple(f"{kind}_h" for kind in VECTORS)
    others = tuple(
        sorted(c for c in columns - {"step", *rates, *norms} if not c.startswith(vectors))
    )[:MOST_FEATURES]  # fmt: skip
    for label, block in (("topology", rates), ("features", others)):
        if block:
            methods.append(FeatureTransfer(label, block))
            methods.append(FeatureTransfer(f"saturating {label}", block, "saturation"))
    if norms:
        methods.append(FeatureTransfer("norms", norms))
    for kind in VECTORS:
        block = tuple(sorted(name for name in columns if name.startswith(f"{kind}_h")))
        if block:
            methods += [FeatureTransfer(f"{kind}s", block, "vector", model) for model in ("ridge", "pls")]
    return [*methods, *published(columns)]
