"""The report's figures, drawn from a study: name, picture, caption."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from toposcope.figures import (
    correlations,
    forecast,
    layers,
    loss_against_h0,
    loss_curves,
    neural_persistence,
    overview,
    scaling,
    vietoris_rips,
)
from toposcope.figures.series import sizes
from toposcope.report.parts import Picture, drawn
from toposcope.report.weights.captions import captions
from toposcope.report.weights.study import H0, Study


def pictures(study: Study) -> Iterator[Picture]:
    """Draw every figure of the part, in reading order."""
    return drawn(_figures(study), captions(study))


def _figures(study: Study) -> Iterator[tuple[str, Figure]]:
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
    notes = rho_notes(study.trends, runs, target=study.target, column=h0)
    yield "loss_against_h0", loss_against_h0.draw(features, metrics, runs, name=cloud, notes=notes)
    yield "correlations", correlations.draw(study.trends, runs, study.series.catalogue, target=study.target)
    yield "forecast", forecast.draw(study.forecasts)
    yield "scaling", scaling.draw(main, study.fits, runs, study.series.catalogue)
    yield "layers", layers.draw(features, runs, filtration=filtration)


def rho_notes(trends: pd.DataFrame, runs: pd.DataFrame, *, target: str, column: str) -> pd.DataFrame:
    """Return, for each size, its raw and partial rank correlation as text, the mean over its seeds.

    Columns run (the first of the size) and text.
    """
    rows = trends[(trends["target"] == target) & (trends["column"] == column)]
    notes = []
    for group in sizes(runs):
        raw, partial = (
            rows.loc[rows["run"].isin(group.runs), ["spearman", "partial_step"]].astype(float).mean()
        )
        if np.isfinite(raw):
            given = f"\ngiven step {_number(partial)}" if np.isfinite(partial) else ""
            seeds = f"\nmeans of {len(group.runs)} seeds" if len(group.runs) > 1 else ""
            notes.append((group.runs[0], f"ρ {_number(raw)}{given}{seeds}"))
    return pd.DataFrame(notes, columns=["run", "text"])


def _number(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")
