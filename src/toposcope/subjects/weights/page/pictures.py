"""The report's figures, drawn from a study: name, picture, caption."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from toposcope.core.drawing import barcode
from toposcope.core.groups import sizes
from toposcope.core.types import Feature
from toposcope.page import losses
from toposcope.page.figures import correlations, forecast, scaling
from toposcope.page.notes import changepoints, drawn_run
from toposcope.study.catalogue import nulls_by_feature
from toposcope.study.study import Study
from toposcope.study.verdicts import judged
from toposcope.subjects.gradients.figures import gradients
from toposcope.subjects.weights.features import GRADIENT, H0_TOTAL, NEURAL_PERSISTENCE, PERSISTENCE, RIPS
from toposcope.subjects.weights.figures import (
    layers,
    loss_against_h0,
    neural_persistence,
    overview,
    snapshot,
    vietoris_rips,
)


def figures(study: Study) -> Iterator[tuple[str, Figure]]:
    """Draw every figure on weights that the study has the numbers for, in reading order.

    With one checkpoint a run there is no curve: the matrices of that checkpoint stand in its place.
    """
    yield from _over_time(study) if study.has_curves else _at_one_checkpoint(study)
    if study.has_curves:
        yield from gradient_curves(study)
    if np.isfinite(study.forecasts["error"].to_numpy(float)).any():
        yield "forecast", forecast.draw(study.forecasts)
    if study.has_sizes:
        main = study.finals[study.finals["quantity"].isin(study.fits["quantity"])]
        yield "scaling", scaling.draw(main, study.fits, study.runs, study.series.catalogue)
    if study.has_curves and _measured(study, PERSISTENCE):
        yield "layers", layers.draw(_persistences(study, study.features))
    if len(study.diagrams):
        yield "barcode", barcode.draw(study.diagrams, drawn_run(study))


def _at_one_checkpoint(study: Study) -> Iterator[tuple[str, Figure]]:
    yield from losses.figures(study)
    if _measured(study, PERSISTENCE):
        yield "snapshot", snapshot.draw(_persistences(study, study.features))


def _over_time(study: Study) -> Iterator[tuple[str, Figure]]:
    features, metrics, runs, cloud = study.whole, study.metrics, study.runs, study.cloud
    if shown_together(study):
        yield (
            "overview",
            overview.draw(
                features,
                metrics,
                runs,
                _fitted(study),
                study.fits,
                study.series.catalogue,
                filtration=study.filtration,
                quantity=study.column(RIPS, H0_TOTAL),
                scope=cloud,
            ),
        )
    yield from losses.figures(study)
    if _measured(study, PERSISTENCE):
        bend = changepoints(study, NEURAL_PERSISTENCE, [PERSISTENCE.name])[PERSISTENCE.name]
        drawn = neural_persistence.draw(_persistences(study, features), bends=bend, alarms=study.alarms)
        yield NEURAL_PERSISTENCE, drawn
    if _measured(study, H0_TOTAL):
        bends = changepoints(study, RIPS, [feature.name for feature in vietoris_rips.FEATURES])
        drawn = vietoris_rips.draw(features, runs, scope=cloud, bends=bends, alarms=study.alarms)
        yield "vietoris_rips", drawn
    if len(metrics) and _measured(study, H0_TOTAL):
        notes = rho_notes(study.leading, runs, target=study.target, column=study.column(RIPS, H0_TOTAL))
        yield "loss_against_h0", loss_against_h0.draw(features, metrics, runs, scope=cloud, notes=notes)
    if study.target:
        yield "correlations", _correlations(study)


def shown_together(study: Study) -> list[str]:
    """Return what the picture of the whole study shows; empty where that is less than two things."""
    found = overview.panels(
        study.whole, study.metrics, study.runs, _fitted(study), quantity=study.column(RIPS, H0_TOTAL)
    )
    return found if len(found) > 1 else []


def _fitted(study: Study) -> pd.DataFrame:
    return study.finals[study.finals["quantity"].isin(study.fits["quantity"])]


def _persistences(
    study: Study, features: pd.DataFrame, *, probe: str = NEURAL_PERSISTENCE
) -> neural_persistence.Persistences:
    null = nulls_by_feature(study.series.catalogue, probe).get(PERSISTENCE.name)
    return neural_persistence.Persistences(features, study.runs, study.filtration, null, probe)


def _measured(study: Study, feature: Feature) -> bool:
    """Return whether any checkpoint has this feature: a figure of nothing is left out."""
    return any(
        np.isfinite(rows.loc[rows["feature"] == feature.name, "value"].to_numpy(float)).any()
        for rows in (study.whole, study.features)
    )


def gradient_figures(study: Study) -> Iterator[tuple[str, Figure]]:
    """Draw the figures on gradients that the study has the numbers for; with one checkpoint its matrices."""
    persistence = GRADIENT + NEURAL_PERSISTENCE
    if not study.has_curves:
        yield from losses.figures(study)
        if study.has(PERSISTENCE.name, probe=persistence):
            yield "gradient_snapshot", snapshot.draw(_persistences(study, study.features, probe=persistence))
        return
    yield from gradient_curves(study)
    yield from losses.figures(study)
    if study.has(PERSISTENCE.name, probe=persistence):
        rows = _persistences(study, study.whole, probe=persistence)
        bend = changepoints(study, persistence, [PERSISTENCE.name])[PERSISTENCE.name]
        yield "gradient_persistence", neural_persistence.draw(rows, bends=bend)
    if study.target:
        yield "gradient_correlations", _correlations(study)
    if study.has_sizes and len(study.fits):
        yield "gradient_scaling", scaling.draw(_fitted(study), study.fits, study.runs, study.series.catalogue)


def gradient_curves(study: Study) -> Iterator[tuple[str, Figure]]:
    """Draw what was measured of gradients, alone or beside weights or representations."""
    if shown := gradients.measured(study.features):
        bends = {panel.feature.name: _bends(study, panel) for panel in shown}
        yield "gradients", gradients.draw(study.features, study.runs, bends=bends)


def _bends(study: Study, panel: gradients.GradientPanel) -> pd.DataFrame:
    return changepoints(study, panel.probe, [panel.feature.name])[panel.feature.name]


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
        mine = rows.loc[rows["run"].isin(group.runs), ["spearman", "departure_rho"]].astype(float)
        raw, partial = mine.mean(skipna=False) if len(mine) else (np.nan, np.nan)
        if np.isfinite(raw):
            given = f"\ndepartures {_number(partial)}" if np.isfinite(partial) else ""
            seeds = f"\nmeans of {len(mine)} seeds" if len(mine) > 1 else ""
            notes.append((group.runs[0], f"ρ {_number(raw)}{given}{seeds}"))
    return pd.DataFrame(notes, columns=["run", "text"])


def _number(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")
