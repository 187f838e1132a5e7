"""From rows, diagrams, runs and findings to the columns of a table."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from toposcope.core.observations import AuditFinding
from toposcope.core.types import Feature, RunRecord
from toposcope.store import schema
from toposcope.store.units import Result

if TYPE_CHECKING:
    import pandas as pd


def features(results: Sequence[Result], recipe_hash: str) -> pa.Table:
    """Return the `features` lines of some results; a value that is not finite becomes null."""
    pairs = [(result, row) for result in results for row in result.rows]
    columns: dict[str, list[object]] = {
        name: [getattr(row, name) for _, row in pairs]
        for name in (
            "run",
            "step",
            "tokens",
            "probe",
            "name",
            "layer",
            "head",
            "filtration",
            "draw",
            "feature",
            "note",
        )
    }
    columns["role"] = [str(row.role) for _, row in pairs]
    columns["scope"] = [str(row.scope) for _, row in pairs]
    columns["status"] = [str(row.status) for _, row in pairs]
    columns["value"] = [float(row.value) if math.isfinite(row.value) else None for _, row in pairs]
    columns["seconds"] = [result.seconds for result, _ in pairs]
    columns["content_hash"] = [result.unit.content_hash for result, _ in pairs]
    columns["recipe_hash"] = [recipe_hash] * len(pairs)
    return _table(columns, schema.FEATURES)


def diagrams(results: Sequence[Result], recipe_hash: str) -> pa.Table:
    """Return the `diagrams` lines of some results; deaths at infinity stay infinite."""
    pairs = [(result.unit, stored) for result in results for stored in result.diagrams]
    columns: dict[str, list[object]] = {
        name: [getattr(unit, name) for unit, _ in pairs]
        for name in ("run", "step", "tokens", "probe", "content_hash")
    }
    for name in ("name", "layer", "head", "draw"):
        columns[name] = [getattr(stored, name) for _, stored in pairs]
    for name in ("filtration", "dim", "n_vertices", "truncated_at"):
        columns[name] = [getattr(stored.diagram, name) for _, stored in pairs]
    columns["role"] = [str(stored.role) for _, stored in pairs]
    columns["scope"] = [str(stored.scope) for _, stored in pairs]
    columns["birth"] = [np.asarray(stored.diagram.birth, np.float64) for _, stored in pairs]
    columns["death"] = [np.asarray(stored.diagram.death, np.float64) for _, stored in pairs]
    columns["recipe_hash"] = [recipe_hash] * len(pairs)
    return _table(columns, schema.DIAGRAMS)


def runs(values: Iterable[RunRecord]) -> pa.Table:
    """Return the `runs` lines; `config` is kept as JSON."""
    lines = [
        {name: getattr(run, name) for name in schema.RUNS.names if name != "config"}
        | {"config": json.dumps(dict(run.config), sort_keys=True, default=str)}
        for run in values
    ]
    return pa.Table.from_pylist(lines, schema=schema.RUNS)


def findings(uri: str, values: Iterable[AuditFinding]) -> pa.Table:
    """Return the `audit` lines of the series `uri`."""
    return pa.Table.from_pylist([{"uri": uri} | asdict(value) for value in values], schema=schema.AUDIT)


def catalogue(probe: str, features: Iterable[Feature]) -> pa.Table:
    """Return the `catalogue` lines: what a probe declares, in the same order."""
    return pa.Table.from_pylist(
        [declared_line(probe, feature) for feature in features], schema=schema.CATALOGUE
    )


def catalogue_table(declared: Mapping[str, Iterable[Feature]]) -> pd.DataFrame:
    """Return what some probes declare, by name, in the form of `Store.catalogue`."""
    return pa.concat_tables(catalogue(probe, features) for probe, features in declared.items()).to_pandas()


def declared_line(probe: str, feature: Feature) -> dict[str, object]:
    """Return the line of the `catalogue` for one feature of a probe."""
    others = {name: getattr(feature, name) for name in ("null_of", "excess_of", "per_log_step_of")}
    plain = ("label", "unit", "primary", "description", "aggregate", "target", "log_target")
    return {
        "probe": probe,
        "feature": feature.name,
        **{name: getattr(feature, name) for name in plain},
        "kind": str(feature.kind),
        "about": str(feature.about),
        "leads": [f"{use}={place}" for use, place in feature.leads.items()],
        "scopes": [str(scope) for scope in feature.scopes],
        "filtrations": list(feature.filtrations),
        **{name: "" if other is None else other.name for name, other in others.items()},
    }


def _table(columns: Mapping[str, list[object]], layout: pa.Schema) -> pa.Table:
    return pa.table([pa.array(columns[field.name], field.type) for field in layout], schema=layout)
