"""The wide series table: from long feature rows and per-step metrics to one row per checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd

from toposcope.core.errors import InputError, did_you_mean
from toposcope.core.types import Kind, Scope, Use
from toposcope.core.wording import renaming
from toposcope.store.draws import counted, over_draws
from toposcope.study._role_means import with_columns, with_role_means
from toposcope.study.catalogue import CATALOGUE, describe, labels_in, leads_in, named_leads
from toposcope.study.derived import with_derived
from toposcope.study.efficiency import SMOOTH, add_targets, averaged
from toposcope.study.targets import join_targets, own_losses, own_targets, target_labels

KEYS = ("run", "step")
LOGGED = ("loss", "heldout_loss", "gap", "efficiency", "efficiency_flop")
"""Targets that a log gives."""
_READ = (
    "run", "step", "probe", "scope", "name", "role", "layer", "filtration", "draw", "feature", "value",
    "status",
)  # fmt: skip
"""The columns read from long rows: copying notes, times and hashes again and again would be slow."""


@dataclass(frozen=True)
class SeriesTable:
    """Features and targets of every checkpoint, side by side.

    `values` and `spread` have one row per (run, step), sorted: each feature's mean over its draws and their
    standard deviation; `draws` has in the same rows how many draws gave a value, for columns that were
    drawn. `catalogue` describes each feature column;
    `targets` names the target columns; `runs` has the columns of the store's runs table and may be empty.
    `problems` lists in words what was merged or left out; `repeated` has, for each run, the number of rows
    that repeated a step and were averaged. `own` are the targets from feature rows, and `losses` those of
    them that are the logarithm of a quality, each with the quality's label and unit. `left_out` maps the
    columns of a plain table that are functions of another column to that column; `undeclared` are the
    features that no probe declares.
    """

    values: pd.DataFrame
    spread: pd.DataFrame
    catalogue: pd.DataFrame
    targets: tuple[str, ...]
    runs: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["run"]))
    problems: tuple[str, ...] = ()
    repeated: dict[str, int] = field(default_factory=dict)
    own: tuple[str, ...] = ()
    losses: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    undeclared: tuple[str, ...] = ()
    draws: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(KEYS)))

    @cached_property
    def names(self) -> frozenset[str]:
        """Names given by the user, which are printed unchanged: runs, and undeclared columns."""
        ours = {*target_labels(), *self.catalogue["feature"]}
        targets = [target for target in self.targets if target not in ours]
        return frozenset([*map(str, self.values["run"].unique()), *self.undeclared, *targets])

    @property
    def default_targets(self) -> list[str]:
        """The targets that are tested unless others are named: those of a log, and the rows' own losses."""
        return [name for name in (*LOGGED, *self.losses) if name in self.targets]

    @property
    def run_names(self) -> list[str]:
        """The runs, smallest model first where sizes are known."""
        names = list(dict.fromkeys(self.values["run"]))
        size = self.parameters()
        return sorted(names, key=lambda run: size.get(run, 0))

    def columns(self, *, scope: str | None = None, probe: str | None = None) -> list[str]:
        """Return the feature columns, optionally of one scope (see `series_table`) or one probe."""
        keep = self.catalogue
        if scope is not None:
            keep = keep[keep["scope"] == scope]
        if probe is not None:
            keep = keep[keep["probe"] == probe]
        return list(keep["column"])

    def leads(self, use: Use, about: str | None = None) -> list[str]:
        """Return the leading feature columns of a use in order: of one kind of study, or of all."""
        return [column for column in leads_in(self.catalogue, use, about) if column in self.values]

    def label(self, column: str) -> str:
        """Return the name of a feature's or a target's column in figures and tables."""
        return self._labels.get(column, column)

    @cached_property
    def _labels(self) -> dict[str, str]:
        return labels_in(self.catalogue)

    def feature_label(self, probe: str, feature: str) -> str:
        """Return the name of a feature of the whole model."""
        mine = (self.catalogue["probe"] == probe) & (self.catalogue["feature"] == feature)
        columns = self.catalogue.loc[mine, "column"]
        return self.label(str(columns.iloc[0]) if len(columns) else feature)

    def of_run(self, run: str) -> pd.DataFrame:
        """Return the rows of one run, by step."""
        return self._by_run.get(run, self.values.iloc[:0])

    @cached_property
    def _by_run(self) -> dict[str, pd.DataFrame]:
        return {str(run): rows.reset_index(drop=True) for run, rows in self.values.groupby("run", sort=False)}

    def parameters(self) -> dict[str, int]:
        """Return run -> number of trainable parameters, for the runs that state it."""
        if "parameters" not in self.runs:
            return {}
        sized_runs = self.runs.dropna(subset=["parameters"])
        return {
            run: int(n) for run, n in zip(sized_runs["run"], sized_runs["parameters"], strict=True) if n > 0
        }


def series_table(
    features: pd.DataFrame,
    metrics: pd.DataFrame | None = None,
    runs: pd.DataFrame | None = None,
    *,
    smooth: int = SMOOTH,
    targets: pd.DataFrame | None = None,
    catalogue: pd.DataFrame | None = None,
) -> SeriesTable:
    """Join long feature rows with metrics into one row per (run, step).

    A store of representations brings targets of its own, `log_perplexity` and `probe_accuracy`; the rows they
    come from have the scope "quality" and nulls the scope "null", so that neither is tested as a feature. Of
    several layers a run's last one keeps its name, such as "hidden", and stands for the model; the others are
    "hidden.0", ... of scope "layer". Rows under other settings (scope "setting") stay outside.

    Parameters
    ----------
    features
        Long rows with at least run, step, probe, feature, value; name, role, layer, filtration, draw and
        status as in the store. Draws are averaged, their sample standard deviation kept in `spread`;
        failed and degenerate rows count as missing. A role mean is added where a probe has matrices of
        that role but wrote no mean itself.
    metrics
        Per-step loss, held-out loss, weight norm (the store's metrics table); joined at the exact step.
    runs
        The store's runs table; its `parameters` are needed for the per-FLOP efficiency.
    smooth
        Logged steps averaged for `loss_smooth`.
    targets
        Further targets, as `read_targets` returns them.
    catalogue
        What the probes declare, as `Store.catalogue` returns it: labels, units, kinds, nulls, and what is
        derived from the rows. Without it every feature is called as it is written and counts as topology.

    Raises
    ------
    InputError
        If a needed column is absent, no row is left, or no target fits a checkpoint.

    Examples
    --------
    >>> rows = pd.DataFrame({"run": "a", "step": [0, 0, 100], "probe": "rips", "name": "pooled",
    ...     "role": "model", "feature": "h0_total", "value": [1.0, 3.0, 4.0], "draw": [0, 1, 0]})
    >>> table = series_table(rows)
    >>> table.values["rips/pooled/h0_total"].tolist()
    [2.0, 4.0]
    """
    rows = with_derived(_checked(features), catalogue)
    return _joined(rows, metrics, runs, smooth=smooth, targets=targets, catalogue=catalogue)


def of_derived(
    features: pd.DataFrame,
    metrics: pd.DataFrame | None,
    runs: pd.DataFrame | None,
    *,
    targets: pd.DataFrame | None,
    catalogue: pd.DataFrame | None,
) -> SeriesTable:
    """Return `series_table` of rows that have their derived features already (`with_derived`)."""
    return _joined(_checked(features), metrics, runs, smooth=SMOOTH, targets=targets, catalogue=catalogue)


def _joined(
    rows: pd.DataFrame,
    metrics: pd.DataFrame | None,
    runs: pd.DataFrame | None,
    *,
    smooth: int,
    targets: pd.DataFrame | None,
    catalogue: pd.DataFrame | None,
) -> SeriesTable:
    """Return the series table of checked rows, derived features among them."""
    rows = _named_by_layer(rows)
    infinite = rows[np.isinf(rows["value"])]
    rows["value"] = rows["value"].mask(np.isinf(rows["value"]))
    rows = with_role_means(with_columns(rows))
    good = counted(rows)
    if good.empty:
        raise InputError("features: no finite value is left; check the status and note of the rows")
    means = _over_draws(good)
    columns = describe(rows, catalogue, means[2].max())
    values, spread, draws = (
        wide_table.reindex(columns=list(columns["column"])).reset_index() for wide_table in means
    )
    runs = pd.DataFrame(columns=["run"]) if runs is None else runs.reset_index(drop=True)
    values, spread, names, problems = add_targets(values, spread, metrics, runs, smooth=smooth)
    odd = infinite.groupby(["probe", "feature"], sort=True).size()
    problems += tuple(f"{p}/{f}: {n:,} infinite values count as missing" for (p, f), n in odd.items())
    table = with_targets(
        SeriesTable(values, spread, columns, names, runs, problems, draws=draws),
        own_targets(rows, catalogue),
    )
    extra_targets = table.targets[len(names) :]
    declared = set() if catalogue is None else set(catalogue["feature"])
    undeclared = tuple(name for name in dict.fromkeys(columns["feature"]) if name not in declared)
    table = replace(
        table, own=extra_targets, losses=own_losses(extra_targets, catalogue), undeclared=undeclared
    )
    return table if targets is None else with_targets(table, targets)


def _over_draws(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Return means, standard deviations and numbers of draws: a row per (run, step), a column per column."""
    keys = rows["column"].cat  # codes: their groups are found faster than those of names
    means = over_draws(rows.assign(column=keys.codes), [*KEYS, "column"])
    means["column"] = keys.categories[means["column"]]
    means = means.set_index([*KEYS, "column"])
    return [means[name].unstack("column").sort_index() for name in ("value", "sd", "n")]


def with_targets(table: SeriesTable, targets: pd.DataFrame) -> SeriesTable:
    """Return the table with further targets, as `read_targets` returns them; what does not fit is a problem.

    Raises
    ------
    InputError
        When no row fits a checkpoint, or a target has the name of another column.
    """
    values, names, problems = join_targets(table.values, targets, table.targets)
    return replace(
        table,
        values=values,
        targets=(*table.targets, *names),
        problems=(*table.problems, *problems),
    )


def from_frame(
    frame: pd.DataFrame,
    *,
    features: Sequence[str] | None = None,
    targets: Sequence[str] = ("loss",),
    runs: pd.DataFrame | None = None,
) -> SeriesTable:
    """Wrap a wide table that was not made here: columns run, step, features and targets.

    A repeated (run, step) is averaged and an infinite value counts as missing; `problems` lists both. A
    missing `run` column means one run. `features` defaults to every numeric column that is neither a key nor
    a target.

    Raises
    ------
    InputError
        If the table has no rows, `step`, a named feature or a named target is absent or not a number, or a
        step is missing or negative.

    Examples
    --------
    >>> frame = pd.DataFrame({"step": [0, 1, 2], "loss": [3.0, 2.0, 1.5], "my_feature": [0.1, 0.2, 0.4]})
    >>> from_frame(frame).columns()
    ['my_feature']
    """
    frame = frame.copy()
    if "run" not in frame:
        frame["run"] = "run"
    _need(frame, ("run", "step", *targets, *(features or ())), "the table")
    if features is None:
        other = {"run", "step", "tokens", "weight_norm", "learning_rate", *targets}
        numeric = frame.select_dtypes("number").columns
        features = [str(column) for column in numeric if column not in other]
    extra = [
        name for name in ("tokens", "weight_norm", "learning_rate") if name in frame and name not in features
    ]
    lead = list(dict.fromkeys([*extra, *targets]))
    frame, problems = _numbers(frame, list(dict.fromkeys([*lead, *features])))
    frame, repeated = averaged(frame)
    problems += [f"run {run}: {n} repeated rows of a step, averaged" for run, n in repeated.items()]
    catalogue = pd.DataFrame({"column": list(features)})
    for name, value in (
        ("probe", "table"),
        ("filtration", ""),
        ("scope", "model"),
        ("name", "model"),
        ("role", "model"),
        ("layer", pd.NA),
        ("draws", 1),
        ("status", "ok"),
        ("unit", ""),
        ("kind", str(Kind.TOPOLOGY)),
        ("null_of", ""),
        ("primary", True),  # the user named them
    ):
        catalogue[name] = value
    catalogue["feature"] = catalogue["label"] = catalogue["column"]
    catalogue["about"], catalogue["leads"] = "", named_leads(features)
    values = frame[[*KEYS, *lead, *features]]
    spread = values[list(KEYS)].copy()
    runs = pd.DataFrame(columns=["run"]) if runs is None else runs
    keys = catalogue[list(CATALOGUE)]
    named = tuple(features)
    return SeriesTable(
        values, spread, keys, tuple(targets), runs, tuple(problems), repeated, undeclared=named
    )


def _numbers(frame: pd.DataFrame, columns: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """Return run, step and these columns as numbers, infinite ones as missing; say how many were."""
    if frame.empty:
        raise InputError("the table has no rows; give one row per checkpoint")
    numbers = frame[["run"]].reset_index(drop=True)
    for name in ("step", *columns):
        given = frame[name].reset_index(drop=True)
        numbers[name] = pd.to_numeric(given, errors="coerce")
        text = given[numbers[name].isna() & given.notna()]
        if len(text):
            raise InputError(
                f"the table: column {name!r} has {text.iloc[0]!r} in row {text.index[0] + 1}, which is not "
                "a number; correct it or leave it empty"
            )
    bad = ~(np.isfinite(numbers["step"]) & (numbers["step"] >= 0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"the table: step {numbers['step'][row]} in row {row + 1} is missing, infinite or negative; give "
            "every row the step of its checkpoint, 0 or more"
        )
    problems = []
    for name in columns:
        infinite = np.isinf(numbers[name].to_numpy(float, na_value=np.nan))
        if infinite.any():
            problems.append(f"column {name}: {int(infinite.sum()):,} infinite values count as missing")
            numbers[name] = numbers[name].astype(float).mask(infinite)
    return numbers, problems


def _checked(features: pd.DataFrame) -> pd.DataFrame:
    """Return the long rows that may be columns, with every column of `_READ`."""
    _need(features, ("run", "step", "probe", "feature", "value"), "features")
    rows = features[[column for column in _READ if column in features]].copy()
    for column, default in (("name", "model"), ("role", "model"), ("filtration", ""), ("status", "ok")):
        rows[column] = rows[column].fillna(default) if column in rows else default
    rows.loc[rows["name"] == "", "name"] = "model"
    for column in ("layer", "draw"):
        if column not in rows:
            rows[column] = np.nan
    rows["scope"] = rows["scope"].fillna(str(Scope.MODEL)) if "scope" in rows else _scopes(rows)
    rows["value"] = pd.to_numeric(rows["value"], errors="coerce").astype(float)
    return rows[~rows["scope"].isin([Scope.SETTING, Scope.TENSOR])]


def _scopes(rows: pd.DataFrame) -> pd.Series:
    """Return the scopes of rows that were not read from a store and do not state them."""
    scope = pd.Series(str(Scope.MODEL), index=rows.index, dtype=object)
    scope[rows["name"] == str(Scope.POOLED)] = str(Scope.POOLED)
    scope[rows["layer"].notna()] = str(Scope.LAYER)
    scope[rows["role"] != "model"] = str(Scope.MATRIX)
    scope[rows["name"] == str(Scope.ROLE)] = str(Scope.ROLE)
    return scope


def _named_by_layer(rows: pd.DataFrame) -> pd.DataFrame:
    """Give every layer but a run's last a name of its own, or layers would be averaged; mark the inner."""
    rows = rows.assign(inner=False)
    layers = (rows["scope"] == Scope.LAYER) & rows["layer"].notna()
    if not layers.any():
        return rows
    last = rows.loc[layers].groupby(["run", "probe", "name"])["layer"].transform("max")
    inner = layers & (rows["layer"] < last.reindex(rows.index))
    rows["inner"] = inner
    numbers = rows.loc[inner, "layer"].astype(int).astype(str)
    rows.loc[inner, "name"] = rows.loc[inner, "name"].astype(str) + "." + numbers
    return rows


def _need(frame: pd.DataFrame, columns: Sequence[str], what: str) -> None:
    missing = [column for column in columns if column not in frame]
    if missing:
        have = ", ".join(map(str, list(frame.columns)[:12]))
        near = did_you_mean(missing[0], frame.columns)
        raise InputError(
            f"{what}: column {missing[0]!r} is missing (it has {have}); add it, or say which one it is: "
            f"{renaming('COLUMN', missing[0])}{near}"
        )
