"""The report's figures, drawn from a study: name, picture, caption."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from toposcope.analysis.catalogue import nulls_by_feature
from toposcope.analysis.groups import sizes
from toposcope.analysis.study import Study
from toposcope.analysis.verdicts import judged
from toposcope.figures import (
    barcode,
    correlations,
    forecast,
    gradients,
    layers,
    loss_against_h0,
    loss_curves,
    neural_persistence,
    overview,
    scaling,
    snapshot,
    vietoris_rips,
)
from toposcope.figures.marks import bends_of
from toposcope.probes.weights.features import H0_TOTAL, NEURAL_PERSISTENCE, PERSISTENCE, RIPS
from toposcope.types import Feature


def figures(study: Study) -> Iterator[tuple[str, Figure]]:
    """Draw every figure on weights that the study has the numbers for, in reading order.

    With one checkpoint a run there is no curve: the matrices of that checkpoint stand in its place.
    """
    yield from _over_time(study) if has_curves(study) else _at_one_checkpoint(study)
    if np.isfinite(study.forecasts["error"].to_numpy(float)).any():
        yield "forecast", forecast.draw(study.forecasts)
    if study.has_sizes:
        main = study.finals[study.finals["quantity"].isin(study.fits["quantity"])]
        yield "scaling", scaling.draw(main, study.fits, study.runs, study.series.catalogue)
    if has_curves(study) and _measured(study, PERSISTENCE):
        yield "layers", layers.draw(_persistences(study, study.features))
    if len(study.diagrams):
        yield "barcode", barcode.draw(study.diagrams, _drawn_run(study))


def has_curves(study: Study) -> bool:
    """Return whether any run has more than one checkpoint."""
    return bool((study.series.values.groupby("run")["step"].nunique() > 1).any())


def _at_one_checkpoint(study: Study) -> Iterator[tuple[str, Figure]]:
    yield from _of_losses(study)
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
    yield from _of_losses(study)
    if _measured(study, PERSISTENCE):
        bends = bends_of(study.bends, study.column(NEURAL_PERSISTENCE, PERSISTENCE))
        yield (
            NEURAL_PERSISTENCE,
            neural_persistence.draw(_persistences(study, features), bends=bends, alarms=study.alarms),
        )
    if _measured(study, H0_TOTAL):
        bends_of_cloud = _rips_bends(study)
        drawn = vietoris_rips.draw(features, runs, scope=cloud, bends=bends_of_cloud, alarms=study.alarms)
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


def _persistences(study: Study, features: pd.DataFrame) -> neural_persistence.Persistences:
    null = nulls_by_feature(study.series.catalogue, NEURAL_PERSISTENCE).get(PERSISTENCE.name)
    return neural_persistence.Persistences(features, study.runs, study.filtration, null)


def _of_losses(study: Study) -> Iterator[tuple[str, Figure]]:
    if len(study.metrics) and study.metrics[["loss", "heldout_loss"]].notna().any(axis=None):
        yield "loss", loss_curves.draw(study.metrics, study.runs, symptoms=symptoms_of(study))


def symptoms_of(study: Study) -> dict[str, list[tuple[str, float]]]:
    """Return where the training log of each run falls ill or a watch raised an alarm: kind and step."""
    ill = ill_logs(study)
    names = [str(run) for run in study.metrics["run"].unique()]
    found = {run: [*ill.get(run, ()), *study.alarms.get(run, ())] for run in names}
    return {run: marks for run, marks in found.items() if marks}


def ill_logs(study: Study) -> dict[str, list[tuple[str, float]]]:
    """Return where the training log of each run falls ill, by the finding on going on: kind and step."""
    found: dict[str, list[tuple[str, float]]] = {}
    on = study.findings.get("on")
    for one in on.numbers["ill"] if on is not None else ():
        found.setdefault(one["run"], []).append((one["kind"], float(one["step"])))
    return found


def _rips_bends(study: Study) -> dict[str, pd.DataFrame]:
    """Return the changepoints of each feature of the cloud, by its name."""
    columns = {feature.name: study.column(RIPS, feature) for feature in vietoris_rips.FEATURES}
    return {name: bends_of(study.bends, column) for name, column in columns.items()}


def _drawn_run(study: Study) -> str:
    """Return the run whose bars are drawn: the largest model that kept them."""
    kept = set(study.diagrams["run"])
    return [run for run in study.ordered if run in kept][-1]


def _measured(study: Study, feature: Feature) -> bool:
    """Return whether any checkpoint has this feature: a figure of nothing is left out."""
    return any(
        np.isfinite(rows.loc[rows["feature"] == feature.name, "value"].to_numpy(float)).any()
        for rows in (study.whole, study.features)
    )


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
