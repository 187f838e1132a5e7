"""Everything a report is made of, as tables: read from the store once, or built by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from toposcope.analysis.finals import finals_table, fits_table
from toposcope.analysis.forecast.compare import COLUMNS, forecast_table
from toposcope.analysis.forecast.frame import Log
from toposcope.analysis.table import SeriesTable, series_table
from toposcope.analysis.trends.verdicts import default_columns
from toposcope.errors import InputError
from toposcope.report.manifest import complete_runs, manifest
from toposcope.report.target import chosen_target
from toposcope.store import Store

H0 = "rips/euclidean/pooled/h0_total"
H0_SCALED = "rips/euclidean/pooled/h0_total_scaled"
H1 = "rips/euclidean/pooled/h1_total"
NP = "neural_persistence/{}/neural_persistence"
NP_EXCESS = "neural_persistence/{}/neural_persistence_excess"

_ELSEWHERE = ("representations", "sensitivity")
"""Probes that have a part of their own."""

_EMPTY_COLUMNS = {
    "trends": ("run", "target", "column", "spearman", "partial_step", "innovation_r", "verdict"),
    "replicates": ("family", "target", "column", "seeds", "mean_rho", "low", "high", "pairing_p"),
    "phases": ("run", "column", "rule", "peak_step", "diminishing_step"),
    "segments": ("run", "column", "segment", "start_step", "end_step"),
    "forecasts": COLUMNS,
}


@dataclass(frozen=True)
class Study:
    """The tables behind a report.

    `runs`, `metrics` and `features` are the store's; `series` joins them; `trends`,
    `replicates`, `phases`, `segments` and `forecasts` come from the analysis (empty where it had nothing to
    say); `finals` and
    `fits` are quantities at the last checkpoint and their power laws in the number of parameters.
    `audit` has the findings about the checkpoints. `provenance` is shown as it is.
    """

    runs: pd.DataFrame
    metrics: pd.DataFrame
    features: pd.DataFrame
    series: SeriesTable
    trends: pd.DataFrame
    replicates: pd.DataFrame
    phases: pd.DataFrame
    segments: pd.DataFrame
    forecasts: pd.DataFrame
    finals: pd.DataFrame
    fits: pd.DataFrame
    audit: pd.DataFrame
    provenance: Mapping[str, object] = field(default_factory=dict)

    wanted: str | None = None
    """The target that was asked for."""

    @property
    def target(self) -> str:
        """The target that correlations are taken with: what was asked for, else the loss."""
        return main_target(self.series, self.wanted)

    @property
    def filtration(self) -> str:
        """The convention of neural persistence that is drawn: `seed004` where it was measured."""
        return np_filtration(self.features)

    @property
    def cloud(self) -> str:
        """The weight cloud that is drawn: `pooled` where it was measured, else the sum of `layers`."""
        rips = self.features.loc[self.features["probe"] == "rips", "name"]
        return "pooled" if (rips == "pooled").any() or not (rips == "layers").any() else "layers"

    def column(self, template: str) -> str:
        """Return a column key with this study's filtration and cloud filled in."""
        return template.format(self.filtration).replace("/pooled/", f"/{self.cloud}/")


def gather(store: Store, *, target: str | None = None, targets: pd.DataFrame | None = None) -> Study:
    """Read `store` and run the analysis on its weights and gradients; `targets` are further ones.

    Raises
    ------
    InputError
        When the store has no measured features, or not the wanted target.
    """
    features, metrics, runs = store.features(), store.metrics(), store.runs()
    if features.empty:
        raise InputError(
            f"{store.path} has no measured features; run: toposcope weights SERIES --out {store.path}"
        )
    features = features[~features["probe"].isin(_ELSEWHERE)]
    series = series_table(features, metrics, runs, targets=targets, catalogue=store.catalogue())
    results = {
        **analyse(series, target=target),
        "forecasts": forecast_table(Log(metrics, runs, features=features, catalogue=store.catalogue())),
    }
    return build(
        features,
        metrics,
        runs,
        series=series,
        audit=store.audit(),
        results=results,
        provenance=manifest(store),
        wanted=target,
    )


def build(
    features: pd.DataFrame,
    metrics: pd.DataFrame,
    runs: pd.DataFrame,
    *,
    series: SeriesTable | None = None,
    catalogue: pd.DataFrame | None = None,
    audit: pd.DataFrame | None = None,
    results: Mapping[str, pd.DataFrame] | None = None,
    provenance: Mapping[str, object] | None = None,
    wanted: str | None = None,
) -> Study:
    """Put a study together from tables; `results` holds what `analyse` returns."""
    series = series_table(features, metrics, runs, catalogue=catalogue) if series is None else series
    given = dict(results or {})
    empty = {name: pd.DataFrame(columns=list(columns)) for name, columns in _EMPTY_COLUMNS.items()}
    quantities = _quantities(series, np_filtration(features))
    finals = finals_table(series, quantities)
    return Study(
        runs=complete_runs(runs, series),
        metrics=metrics,
        features=features,
        series=series,
        finals=finals,
        fits=fits_table(finals),
        audit=pd.DataFrame() if audit is None else audit,
        provenance=provenance or {},
        wanted=wanted,
        **{name: given[name] if len(given.get(name, ())) else empty[name] for name in empty},
    )


def main_target(series: SeriesTable, wanted: str | None = None) -> str:
    """Return the wanted target, else "heldout_loss" where every run mostly has it, else "loss"."""
    return chosen_target(series, wanted, preferred=("heldout_loss", "loss")) or "loss"


def np_filtration(features: pd.DataFrame) -> str:
    """Return the convention of neural persistence that is drawn: "seed004" unless only "rieck" is there."""
    measured = features.loc[features["probe"] == "neural_persistence", "filtration"]
    return "rieck" if (measured == "rieck").any() and not (measured == "seed004").any() else "seed004"


def _quantities(series: SeriesTable, filtration: str) -> list[str]:
    wanted = [
        main_target(series), H0, NP.format(filtration), H1, H0_SCALED, NP_EXCESS.format(filtration),
    ]  # fmt: skip
    return [quantity for quantity in wanted if quantity in series.values]


def analyse(series: SeriesTable, *, target: str | None = None) -> dict[str, pd.DataFrame]:
    """Run the analysis that the report shows: trends, replicates, phases, segments.

    Trends and replicates are taken with the losses, or with `target` alone.
    """
    from toposcope import analysis

    targets = None if target is None else [main_target(series, target)]
    columns = [column for column in default_columns(series) if column not in (targets or ())]
    return {
        "trends": analysis.trend_table(series, targets=targets, columns=columns, every=True),
        "replicates": analysis.seed_table(series, targets=targets),
        "phases": analysis.phase_table(series),
        "segments": analysis.segment_table(series),
    }
