"""Describes the columns of a series table by the declarations of their probes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from toposcope.core.types import About, Kind, Normalization, Scope, Status, Use
from toposcope.study.targets import target_labels
from toposcope.subjects.catalogue import completed

CATALOGUE = (
    "column", "probe", "filtration", "scope", "name", "role", "layer", "feature", "draws", "status",
    "label", "unit", "kind", "null_of", "primary", "about", "leads",
)  # fmt: skip
DECLARED = (
    "probe", "feature", "label", "unit", "kind", "null_of", "primary", "description", "scopes", "filtrations",
    "aggregate", "excess_of", "per_log_step_of",
)  # fmt: skip
"""The columns of the store's catalogue, a line for each feature that a probe declares."""

_WIDE = (Scope.MODEL, Scope.POOLED, Scope.TRAJECTORY)
_STATUS = tuple(map(str, Status))
_BASELINES_SHOWN = 3
"""One in this many leading columns is a baseline, if there are enough."""
_ORDER = {"model": 0, "role": 1, "matrix": 2}


def column_key(
    *,
    probe: str,
    feature: str,
    filtration: str = "",
    scope: str = Scope.MODEL,
    name: str = "model",
    role: str = "model",
) -> str:
    """Return the column key of a feature (see the package's documentation).

    >>> column_key(probe="rips", filtration="euclidean", scope="pooled", name="pooled", feature="h0_total")
    'rips/euclidean/pooled/h0_total'
    >>> column_key(probe="baselines", scope="role", role="mlp", feature="stable_rank")
    'baselines/role=mlp/stable_rank'
    """
    where = f"role={role}" if scope == Scope.ROLE else ("" if name == "model" else name)
    return "/".join(part for part in (probe, filtration, where, feature) if part)


def label_of(column: str, catalogue: pd.DataFrame) -> str:
    """Return the name of a feature's column, or of a target, in figures and tables.

    `catalogue` is `SeriesTable.catalogue`.

    >>> about = pd.DataFrame({"column": ["rips/euclidean/pooled/h0_total"], "label": ["H0 total (pooled)"]})
    >>> label_of("rips/euclidean/pooled/h0_total", about), label_of("heldout_loss", about)
    ('H0 total (pooled)', 'held-out loss')
    >>> label_of("my_score", about)
    'my_score'
    """
    return labels_in(catalogue).get(column, column)


def labels_in(catalogue: pd.DataFrame) -> dict[str, str]:
    """Return the name that every column and target has in figures and tables, if it has one.

    A target may have the name of its feature. Of several labels the shortest is taken.
    """
    named: dict[str, str] = {}
    for key in ("column", "feature"):
        shortest: dict[str, str] = {}
        if key in catalogue:
            for column, label in zip(map(str, catalogue[key]), map(str, catalogue["label"]), strict=True):
                if column not in shortest or len(label) < len(shortest[column]):
                    shortest[column] = label
        named = {**shortest, **named}
    return {**named, **target_labels()}


def leading(columns: Iterable[str], catalogue: pd.DataFrame, most: int = 16) -> list[str]:
    """Return at most `most` of the columns: the confirmatory family first, topology before baselines.

    The rest is filled with columns for the whole model: every feature's first column before its second, the
    probes in turn, each in the order of its declarations. No column is chosen for what its numbers say.

    >>> about = pd.DataFrame({"column": ["b", "a", "n"], "kind": ["baseline", "topology", "null"],
    ...                       "primary": [False, True, False], "scope": ["model", "model", "null"],
    ...                       "probe": "p", "feature": ["b", "a", "n"]})
    >>> leading(["n", "b", "a"], about)
    ['a', 'b']
    """
    lines = catalogue[catalogue["column"].isin(list(columns))].drop_duplicates("column")
    lines = lines[lines["kind"].isin([Kind.TOPOLOGY, Kind.BASELINE])]
    whole = lines["primary"].astype(bool) | (lines["scope"] == "model")
    lines = lines[whole] if whole.any() else lines
    baseline = lines["kind"] == Kind.BASELINE
    topology = lines[~baseline]
    again = topology.groupby(["probe", "feature"], sort=False).cumcount()
    turn = again.groupby([topology["probe"], again], sort=False).cumcount()
    primary = topology["primary"].astype(bool)
    rest = pd.DataFrame({"again": again, "turn": turn})[~primary].sort_values(
        ["again", "turn"], kind="stable"
    )
    topology = topology.loc[[*topology.index[primary], *rest.index]]
    baselines = min(int(baseline.sum()), max(most // _BASELINES_SHOWN, most - len(topology)))
    return [*topology["column"].head(most - baselines), *lines.loc[baseline, "column"].head(baselines)]


def leads_in(catalogue: pd.DataFrame, use: Use, about: str | None = None) -> list[str]:
    """Return the leading columns of a use, in the order of their places; with `about`, of one kind of study.

    >>> table = pd.DataFrame({"column": ["a", "b"], "about": "weights", "leads": [{"end": 2}, {"end": 1}]})
    >>> leads_in(table, Use.END), leads_in(table, Use.END, "gradients")
    (['b', 'a'], [])
    """
    lines = catalogue if about is None else catalogue[catalogue["about"] == about]
    chosen = [
        (leads[use], place, column)
        for place, (column, leads) in enumerate(zip(lines["column"], lines["leads"], strict=True))
        if use in leads
    ]
    return [str(column) for _, _, column in sorted(chosen)]


def leading_features(declared: pd.DataFrame, use: Use) -> list[dict[Hashable, Any]]:
    """Return the lines of a store's catalogue that lead in a use, in the order of their places."""
    lines = declared[[any(_lead(lead)[0] == use for lead in leads) for leads in declared["leads"]]]
    return sorted(lines.to_dict("records"), key=lambda line: dict(map(_lead, line["leads"]))[use])


def column_of(catalogue: pd.DataFrame, probe: str, feature: str) -> str:
    """Return the column that represents a feature for the whole model; "" if it was not measured.

    >>> table = pd.DataFrame({"column": ["r/a/x", "r/b/x"], "probe": "r", "feature": "x", "scope": "model"})
    >>> column_of(table.assign(leads=[{}, {"end": 1}]), "r", "x"), column_of(table.assign(leads=""), "r", "y")
    ('r/b/x', '')
    """
    mine = (catalogue["probe"] == probe) & (catalogue["feature"] == feature) & (catalogue["scope"] == "model")
    lines = catalogue[mine]
    first = lines[lines["leads"].map(bool)]
    lines = first if len(first) else lines
    return str(lines["column"].iloc[0]) if len(lines) else ""


def is_baseline(column: str, catalogue: pd.DataFrame) -> bool:
    """Return whether a column is a norm, spectral or other baseline and no topology."""
    return bool((catalogue.loc[catalogue["column"] == column, "kind"] == Kind.BASELINE).any())


def nulls_by_feature(catalogue: pd.DataFrame, probe: str) -> dict[str, str]:
    """Return the name of the null of each feature of a probe whose null was measured.

    >>> about = pd.DataFrame({"column": ["p/x", "p/y"], "feature": ["x", "y"], "null_of": ["", "p/x"]})
    >>> nulls_by_feature(about.assign(probe="p"), "p")
    {'x': 'y'}
    """
    of = dict(zip(catalogue["column"], catalogue["feature"], strict=True))
    mine = catalogue[(catalogue["probe"] == probe) & (catalogue["null_of"] != "")]
    return {of[column]: null for column, null in zip(mine["null_of"], mine["feature"], strict=True)}


def describe(rows: pd.DataFrame, declared: pd.DataFrame | None, draws: pd.Series) -> pd.DataFrame:
    """Return the catalogue of the columns of some rows (with `column`, `part` and `inner`), the widest first.

    `scope` is "model" for everything that stands for the whole model (a pooled cloud, the trajectory, a run's
    last layer), else "role", "layer" (the inner ones), "matrix" or "head"; the kinds that are not tested have
    their own: "null", "quality", "noise". A feature that no probe declares is called as it is written and
    counts as topology. Where nothing is declared at all (`declared` None), every column of the whole model is
    primary: whoever brings a table chose its columns. `draws` has for each column the most draws that gave a
    value at one checkpoint.
    """
    columns = _with_declarations(_gathered(rows), declared)
    columns["label"] = _labels(columns)
    columns["primary"] = columns["column"].isin(_confirmatory(columns, declared))
    columns["about"], columns["leads"] = _led(columns, declared)
    columns["draws"] = columns["column"].map(draws).fillna(1).astype(int)
    columns["scope"] = _scope(columns)
    columns["null_of"] = _null_columns(columns)
    rank = columns["scope"].map(_ORDER).fillna(3)
    columns = columns.iloc[np.argsort(rank.to_numpy(), kind="stable")].reset_index(drop=True)
    return columns[list(CATALOGUE)]


def _gathered(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one line for each column: where it comes from, and its worst status."""
    rows = rows.assign(
        _worst=rows["status"].map({s: i for i, s in enumerate(_STATUS)}).fillna(len(_STATUS) - 1),
    )
    columns = rows.drop_duplicates("part").drop_duplicates("column")
    columns = columns[["column", "probe", "filtration", "scope", "name", "role", "feature"]]
    counted = rows.groupby("column", sort=False, observed=True).agg(
        layer=("layer", "first"),
        inner=("inner", "first"),
        _worst=("_worst", "max"),
    )
    columns = columns.join(counted, on="column").reset_index(drop=True)
    columns["column"] = columns["column"].astype(str)
    columns["status"] = [_STATUS[int(i)] for i in columns.pop("_worst")]
    return columns


def _with_declarations(columns: pd.DataFrame, declared: pd.DataFrame | None) -> pd.DataFrame:
    lines = pd.DataFrame(columns=list(DECLARED)) if declared is None else declared[list(DECLARED)]
    lines = lines.assign(_place=range(len(lines)))
    columns = columns.merge(lines, on=["probe", "feature"], how="left", validate="many_to_one")
    is_declared = columns["label"].notna()
    columns["label"] = columns["label"].where(is_declared, columns["feature"].astype(str))
    for name, value in (("unit", ""), ("kind", str(Kind.TOPOLOGY)), ("null_of", ""), ("aggregate", "")):
        columns[name] = columns[name].astype(object).where(is_declared, value)
    columns["primary"] = columns["primary"].astype(object).where(is_declared, False).astype(bool)
    for name in ("scopes", "filtrations"):
        columns[name] = [
            tuple(given) if is_known else ()
            for given, is_known in zip(columns[name], is_declared, strict=True)
        ]
    # in the order of the declarations, the undeclared last: a probe's first feature is shown first
    places = [
        (place, _place(scopes, scope), _place(filtrations, filtration))
        for place, scopes, scope, filtrations, filtration in zip(
            columns["_place"].fillna(len(lines)), columns["scopes"], columns["scope"], columns["filtrations"],
            columns["filtration"], strict=True,
        )
    ]  # fmt: skip
    return columns.iloc[sorted(range(len(columns)), key=places.__getitem__)].reset_index(drop=True)


SPELT: Mapping[str, str] = {Normalization.MATRIX: "by matrix", Normalization.NETWORK: "by network"}
"""Plain names, for labels, of filtrations that a store calls by a paper's code name."""


def _led(columns: pd.DataFrame, declared: pd.DataFrame | None) -> tuple[pd.Series, pd.Series]:
    """Return the subject of each column and the uses in which it leads: one column of each feature."""
    lines = completed(declared)[["probe", "feature", "scopes", "filtrations", "about", "leads"]]
    at = ["probe", "feature", "scope", "filtration", "inner"]
    both = columns[at].merge(lines, on=["probe", "feature"], how="left")
    leading = both[~both["inner"] & (both["leads"].str.len() > 0)]
    places = {
        place: (_place(tuple(scopes), scope), _place(tuple(filtrations), filtration))
        for place, scopes, scope, filtrations, filtration in leading[
            ["scopes", "scope", "filtrations", "filtration"]
        ].itertuples(name=None)
    }
    first = both.loc[sorted(places, key=places.__getitem__)].drop_duplicates(["probe", "feature"])
    leads_by_row = first["leads"].map(lambda lines: dict(map(_lead, lines)))
    leads = leads_by_row.reindex(both.index).map(
        lambda lead_map: lead_map if isinstance(lead_map, dict) else {}
    )
    about = both["about"].fillna(str(About.WEIGHTS))
    return about.set_axis(columns.index), leads.set_axis(columns.index)


def named_leads(names: Iterable[str]) -> pd.Series:
    """Return the uses of columns measured elsewhere under the names of the package's own features.

    >>> named_leads(["h0_total", "mine"])[1]
    {}
    """
    lines = completed(None).drop_duplicates("feature")
    leads_by_name = {
        feature: dict(map(_lead, leads))
        for feature, leads in zip(lines["feature"], lines["leads"], strict=True)
    }
    return pd.Series([leads_by_name.get(name, {}) for name in names], dtype=object)


def _lead(text: str) -> tuple[str, int]:
    use, _, place = text.partition("=")
    return use, int(place)


def _labels(columns: pd.DataFrame) -> list[str]:
    """Return each column's label: the feature's, and in brackets what distinguishes the column."""
    several = columns.groupby(["probe", "feature"])["filtration"].transform("nunique") > 1
    labels = []
    for line, ambiguous in zip(columns.to_dict("records"), several, strict=True):
        spelt = SPELT.get(line["filtration"], line["filtration"])
        remarks = [spelt] if ambiguous or len(line["filtrations"]) > 1 else []
        remarks += _where(line)
        labels.append(f"{line['label']} ({', '.join(remarks)})" if remarks else str(line["label"]))
    return labels


def _where(line: dict) -> list[str]:
    if line["scope"] == Scope.ROLE:
        return ["mean of heads"] if Scope.HEAD in line["scopes"] else [str(line["role"])]
    if line["scope"] == Scope.LAYER:
        return [f"layer {int(line['layer'])}"] if line["inner"] else []
    if line["name"] == "model":
        return []
    if line["scope"] == Scope.MODEL:
        return [f"{line['aggregate']} of {line['name']}".removeprefix(" of ")]
    return [str(line["name"])]


def _confirmatory(columns: pd.DataFrame, declared: pd.DataFrame | None) -> set[str]:
    """Return the columns of the confirmatory family: the one that represents each primary feature.

    Of its scopes and filtrations that is the first that was measured. Where no null of an excess was
    measured, the feature itself takes the excess's place.
    """
    if declared is None:
        return set(columns.loc[(_scope(columns) == "model"), "column"])
    outer = columns[~columns["inner"]]
    by_feature = dict(iter(outer.groupby(["probe", "feature"], sort=False)))
    chosen: set[str] = set()
    for line in declared[declared["primary"].astype(bool)].to_dict("records"):
        mine = by_feature.get((line["probe"], line["feature"]))
        if mine is None:
            mine = by_feature.get((line["probe"], line["excess_of"]))
        if mine is None:
            continue
        mine = _first(mine, "scope", tuple(line["scopes"]) or tuple(Scope))
        mine = _first(mine, "filtration", tuple(line["filtrations"]))
        chosen |= set(mine["column"])
    return chosen


def _first(lines: pd.DataFrame, name: str, order: tuple[str, ...]) -> pd.DataFrame:
    """Return the lines whose `name` comes first in the order; names outside it come last."""
    best = min(lines[name], key=lambda value: (_place(order, value), value))
    return lines[lines[name] == best]


def _place(order: tuple[str, ...], value: str) -> int:
    return order.index(value) if value in order else len(order)


def _scope(columns: pd.DataFrame) -> np.ndarray:
    scope = columns["scope"].astype(str).to_numpy(object)
    scope = np.where(columns["scope"].isin([*map(str, _WIDE)]), "model", scope)
    scope = np.where((columns["scope"] == Scope.LAYER) & ~columns["inner"], "model", scope)
    separate = columns["kind"].isin([Kind.NULL, Kind.QUALITY, Kind.NOISE])
    return np.where(separate, columns["kind"], scope)


def _null_columns(declared_columns: pd.DataFrame) -> list[str]:
    """Return the feature column of each null; "" for a column that is no null or whose feature is missing."""
    at = ["probe", "filtration", "name", "role"]
    columns = {
        (*place, feature): column
        for *place, feature, column in declared_columns[[*at, "feature", "column"]].itertuples(index=False)
    }
    return [
        columns.get((*place, null_of), "") if null_of else ""
        for *place, null_of in declared_columns[[*at, "null_of"]].itertuples(index=False)
    ]
