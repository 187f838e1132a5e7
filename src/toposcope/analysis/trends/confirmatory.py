"""Which rows carry the verdict: a few features named before any run is looked at."""

from __future__ import annotations

from collections.abc import Sequence

from toposcope.analysis.table import SeriesTable

_PRIMARY = frozenset({
    "neural_persistence/rieck/neural_persistence",
    "neural_persistence/rieck/neural_persistence_excess",
    "rips/euclidean/pooled/h0_total",
    "rips/euclidean/pooled/h0_entropy_normalized",
    "rips/euclidean/pooled/h1_total",
    "rips/euclidean/layers/h0_total",
    "trajectory/trajectory_ph_dimension",
    "trajectory/euclidean/trajectory_h0_total",
    "gradient_neural_persistence/rieck/neural_persistence",
    "gradient_rips/euclidean/pooled/h0_total",
    "gradient_rips/euclidean/pooled/h1_total",
    "representations/euclidean/hidden/h0_total",
    "representations/euclidean/hidden/h1_total",
    "representations/euclidean/hidden/h1_count",
    "representations/euclidean/hidden/h1_entropy_normalized",
    "representations/hidden/ph_dimension",
    "representations/attention/role=attention/attention_h0",
})  # fmt: skip
_PROBES = frozenset({
    "neural_persistence", "rips", "distances", "trajectory", "baselines", "vectors", "spectra",
    "gradient_neural_persistence", "gradient_rips", "gradient_baselines", "representations", "landscape",
})  # fmt: skip


def primary_columns(table: SeriesTable, columns: Sequence[str] | None = None) -> list[str]:
    """Return the columns over which the verdict is corrected.

    They are those that the catalogue calls `primary`; where it does not say, a fixed list of ours together
    with every feature of a probe or a table that is not ours. `columns`, where given, restricts them, and
    where none of those named is primary, naming them is the choice.
    """
    catalogue = table.catalogue
    if "primary" in catalogue:
        found = list(catalogue.loc[catalogue["primary"].astype(bool), "column"])
    else:  # a catalogue without declarations; the lists above serve it alone
        chosen = catalogue["column"].isin(_PRIMARY) | ~catalogue["probe"].isin(_PROBES)
        found = list(catalogue.loc[chosen & catalogue["scope"].isin(["model", "role"]), "column"])
    if columns is None:
        return found
    named = [column for column in columns if column in set(found)]
    return named or list(columns)
