"""Changes from layer to layer, and the effect of the settings: for hidden states only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from toposcope.core.forms import extent
from toposcope.study.findings.base import Finding, Question, sentences_in
from toposcope.study.findings.rivals import spearman
from toposcope.subjects.representations.features import CARRIED_H1
from toposcope.subjects.representations.tables.rows import PROBE, pairs
from toposcope.subjects.representations.tables.sensitivity import SENSITIVITY_TABLE

if TYPE_CHECKING:
    from toposcope.study.tables import StudyTables


def layers(study: StudyTables) -> Finding | None:
    """Strength: "described"; None where fewer than two layers were measured."""
    table = pairs(study.features) if study.has(CARRIED_H1.name, probe=PROBE) else pd.DataFrame()
    if table.empty:
        return None
    last = table[table["step"] == table.groupby("run")["step"].transform("max")]
    first = table[table["step"] == table.groupby("run")["step"].transform("min")]
    rho = np.array(
        [spearman(rows["cka"], rows["carried"]) for _, rows in table.groupby(["run", "layer"])], dtype=float
    )
    finite = rho[np.isfinite(rho)]
    numbers = {
        "carried_first": extent(first["carried"]), "carried_last": extent(last["carried"]),
        "cka_first": extent(first["cka"]), "cka_last": extent(last["cka"]), "pairs": len(finite),
        "median_rho": float(np.median(finite)) if len(finite) else None,
    }  # fmt: skip
    return Finding("layers", "described", numbers, "optimal matching of H1; Spearman's rho, no test")


def leading_settings(study: StudyTables) -> pd.DataFrame:
    """Return the sensitivity table's rows of the leading features, in their order."""
    table = study.own[SENSITIVITY_TABLE.name]
    if table.empty:
        return table
    catalogue = study.series.catalogue
    feature_of_column = catalogue[catalogue["probe"] == PROBE].set_index("column")["feature"]
    known_features = list(feature_of_column[study.labels.leading(feature_of_column.index, most=60)])
    places = table["feature"].map({name: i for i, name in reversed(list(enumerate(known_features)))})
    placed = table[places.notna()].assign(place=places)
    return placed.sort_values("place", kind="stable").drop(columns="place")


def settings(study: StudyTables) -> Finding | None:
    """Strength: "moves" where settings move some number more than training does, else "steady"."""
    table = leading_settings(study)
    with_spread = table.dropna(subset=["settings_spread"]) if len(table) else table
    if with_spread.empty:
        return None
    more = int((with_spread["settings_spread"] > 1).sum())
    turned = (
        int(((with_spread["rho_low"] < 0) & (with_spread["rho_high"] > 0)).sum())
        if "rho_low" in with_spread
        else 0
    )
    orders = with_spread.drop_duplicates("feature")
    unstable = None
    if "orders" in orders and orders["orders"].notna().any():
        unstable = int((orders["orders"] > 1).sum())
    numbers = {"pairs": len(with_spread), "more": more, "turned": turned, "unstable": unstable,
               "features": len(orders)}  # fmt: skip
    return Finding("settings", "moves" if more else "steady", numbers, "spread over settings, no test")


QUESTIONS = (
    Question(
        name="layers",
        words="What happens from layer to layer?",
        find=layers,
        sentences=sentences_in(__package__, "layers"),
    ),
    Question(
        name="settings",
        words="How far do the settings move it?",
        find=settings,
        sentences=sentences_in(__package__, "settings"),
    ),
)
