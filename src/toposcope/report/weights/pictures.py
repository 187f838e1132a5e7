"""The report's figures, drawn from a study: name, picture, caption."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from toposcope.analysis.groups import sizes
from toposcope.analysis.study import Study
from toposcope.analysis.subjects import H0
from toposcope.analysis.verdicts import judged
from toposcope.figures import (
    correlations,
    forecast,
    gradients,
    layers,
    loss_against_h0,
    loss_curves,
    neural_persistence,
    overview,
    scaling,
    vietoris_rips,
)


def figures(study: Study) -> Iterator[tuple[str, Figure]]:
    """Draw every figure on weights, in reading order."""
    features, metrics, runs = study.features, study.metrics, study.runs
    h0, cloud, filtration = study.column(H0), study.cloud, study.filtration
    main = study.finals[study.finals["quantity"].isin(study.fits["quantity"])]
    yield (
        "overview",
        overview.draw(
            features,
            metrics,
            runs,
            main,
            study.fits,
            study.series.catalogue,
            filtration=filtration,
            quantity=h0,
            name=cloud,
        ),
    )
    yield "loss", loss_curves.draw(metrics, runs)
    yield "neural_persistence", neural_persistence.draw(features, runs, filtration=filtration)
    yield "vietoris_rips", vietoris_rips.draw(features, runs, name=cloud)
    notes = rho_notes(study.leading, runs, target=study.target, column=h0)
    yield "loss_against_h0", loss_against_h0.draw(features, metrics, runs, name=cloud, notes=notes)
    yield "correlations", _correlations(study)
    yield "forecast", forecast.draw(study.forecasts)
    yield "scaling", scaling.draw(main, study.fits, runs, study.series.catalogue)
    yield "layers", layers.draw(features, runs, filtration=filtration)


def gradient_figures(study: Study) -> Iterator[tuple[str, Figure]]:
    """Draw the figures on gradients."""
    yield "gradients", gradients.draw(study.features, study.runs)
    yield "gradient_correlations", _correlations(study)


def table_figures(study: Study) -> Iterator[tuple[str, Figure]]:
    """Draw what a table without a store's rows has the numbers for."""
    if study.target:
        yield "table_correlations", _correlations(study)
    if study.forecasts["error"].notna().any():
        yield "table_forecast", forecast.draw(study.forecasts)


def _correlations(study: Study) -> Figure:
    return correlations.draw(judged(study), study.runs, study.series.catalogue, target=study.target)


def rho_notes(trends: pd.DataFrame, runs: pd.DataFrame, *, target: str, column: str) -> pd.DataFrame:
    """Return, for each size, its rank correlation raw and of departures as text, the mean over its seeds.

    Columns run (the first of the size) and text.
    """
    rows = trends[(trends["target"] == target) & (trends["column"] == column)]
    notes = []
    for group in sizes(runs):
        raw, partial = (
            rows.loc[rows["run"].isin(group.runs), ["spearman", "departure_rho"]].astype(float).mean()
        )
        if np.isfinite(raw):
            given = f"\ndepartures {_number(partial)}" if np.isfinite(partial) else ""
            seeds = f"\nmeans of {len(group.runs)} seeds" if len(group.runs) > 1 else ""
            notes.append((group.runs[0], f"ρ {_number(raw)}{given}{seeds}"))
    return pd.DataFrame(notes, columns=["run", "text"])


def _number(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")
