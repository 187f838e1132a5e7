"""The weight-space paper again: its runs measured by the conventions of its code and by those of its text."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from toposcope.core.errors import InputError
from toposcope.published.forecast_rules import NEURAL_PERSISTENCE
from toposcope.study import series_table, trend_table
from toposcope.study.catalogue import column_key
from toposcope.study.table import SeriesTable

H0 = column_key(probe="rips", filtration="euclidean", name="pooled", feature="h0_total")
H1 = column_key(probe="rips", filtration="euclidean", name="pooled", feature="h1_total")
TEXT_H0 = column_key(probe="rips", filtration="euclidean", name="layers", feature="h0_total")
TEXT_H1 = column_key(probe="rips", filtration="euclidean", name="layers", feature="h1_total")
_FEATURES = ("neural_persistence", "rips")


@dataclass(frozen=True)
class MeasuredRuns:
    """One run per size: by the preset `seed004`, by the text's definitions, and the pooled clouds by draw.

    `draws` has columns run, step, draw, h0_total, h1_total, loss; it is empty if only rows were read.
    `models` maps each run, smallest first, to what the paper prints about its model; `trends` has the
    drift-corrected statistics of the preset's features. `replicates` has the runs of all seeds, by the
    preset, and `sizes` the size of each; `text` also has the runs of all seeds.
    `deep` has the deep graph persistence of all runs; None if only rows were read.
    """

    preset: SeriesTable
    text: SeriesTable
    draws: pd.DataFrame
    models: Mapping[str, Mapping[str, Any]]
    trends: pd.DataFrame
    replicates: SeriesTable
    sizes: Mapping[str, int]
    problems: tuple[str, ...] = ()
    deep: SeriesTable | None = None

    def losses(self, run: str) -> np.ndarray:
        """Return the minibatch loss at every checkpoint of a run."""
        return self.preset.of_run(run)["loss"].to_numpy(dtype=np.float64)


@lru_cache(maxsize=1)
def printed() -> Mapping[str, Any]:
    """Return the numbers that the paper prints, as text with their digits."""
    return tomllib.loads((resources.files(__package__) / "numbers.toml").read_text("utf-8"))


def measure(
    runs: str | Path | Sequence[str], folder: Path, *, jobs: int = 1, quiet: bool = False
) -> MeasuredRuns:
    """Sweep the runs by the preset, by the text's definitions and for the repair, and join the losses."""
    from toposcope.core.types import Normalization
    from toposcope.sources import open_series
    from toposcope.studies import deep_persistence
    from toposcope.subjects.weights import WeightOptions
    from toposcope.subjects.weights import preset as preset_options

    text = WeightOptions(
        preset="text",
        nulls=0,
        confounds=False,
        conventions=(Normalization.NETWORK,),
        clouds=("matrix",),
        without=("ln", "emb"),
    )
    by_preset, problems = _swept(runs, folder / "seed004", preset_options("seed004"), jobs, quiet)
    by_text, more = _swept(runs, folder / "text", text, jobs, quiet)
    features, _, _ = by_preset
    measured = joined(series_table(*by_preset), series_table(*by_text), problems=(*problems, *more))
    draws = _draws(features[features["run"].isin(measured.models)], measured.preset)
    deep = deep_persistence.measure(open_series(runs), folder / "deep", jobs=jobs, quiet=quiet)
    return replace(measured, draws=draws, deep=deep)


def joined(replicates: SeriesTable, text: SeriesTable, *, problems: Sequence[str] = ()) -> MeasuredRuns:
    """Join the runs of all seeds, by the preset and by the text's definitions; without draws.

    Raises
    ------
    InputError
        If a run's size is not one of the paper's, or a checkpoint has no loss.
    """
    run_rows = replicates.runs
    every = _models(run_rows)
    _check_losses(replicates, every)
    models = _first_seeds(every, run_rows)
    preset = _of_runs(replicates, models)
    trends = trend_table(preset, targets=["loss"], columns=[NEURAL_PERSISTENCE, H0, H1], every=True)
    draws = pd.DataFrame(columns=["run", "step", "draw", "h0_total", "h1_total", "loss"])
    return MeasuredRuns(
        preset, text, draws, models, trends, replicates,
        {run: int(model["parameters"]) for run, model in every.items()}, tuple(problems),
    )  # fmt: skip


def _first_seeds(models: Mapping[str, Mapping[str, Any]], runs: pd.DataFrame) -> dict[str, Mapping[str, Any]]:
    """Return one run for each size, that with the smallest seed: the paper's tables have one run per size."""
    seeds = runs.set_index("run")["seed"] if "seed" in runs else pd.Series(dtype=float)
    chosen: dict[int, str] = {}
    for run, model in models.items():
        size = int(model["parameters"])
        if size not in chosen or seeds.get(run, 0) < seeds.get(chosen[size], 0):
            chosen[size] = run
    return {run: models[run] for run in chosen.values()}


def _of_runs(table: SeriesTable, runs: Iterable[str]) -> SeriesTable:
    """Return the rows of some runs."""
    selected = list(runs)
    return replace(
        table,
        values=table.values[table.values["run"].isin(selected)].reset_index(drop=True),
        spread=table.spread[table.spread["run"].isin(selected)].reset_index(drop=True),
        draws=table.draws[table.draws["run"].isin(selected)].reset_index(drop=True),
        runs=table.runs[table.runs["run"].isin(selected)].reset_index(drop=True),
    )


Tables = tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]


def _swept(
    runs: str | Path | Sequence[str], folder: Path, options: Any, jobs: int, quiet: bool
) -> tuple[Tables, tuple[str, ...]]:
    """Return the features, metrics and runs of a sweep, and its problems."""
    from toposcope.sources import open_series
    from toposcope.store import Store
    from toposcope.subjects import weight_probes
    from toposcope.sweep import Execution, sweep

    series = open_series(runs, split=options.split)
    _models(pd.DataFrame({"run": run.run, "parameters": run.parameters} for run in series.runs))
    store = Store.create(folder, recipe=options.recipe())
    execution = Execution(jobs=jobs, quiet=quiet)
    report = sweep(series, weight_probes(_FEATURES, options), store, execution=execution)
    failed = [f"{f.run} step {f.step:,}, {f.probe}: {f.note}" for f in report.failures]
    messages = [finding.message for finding in report.findings]
    return (store.features(), store.metrics(), store.runs()), (*failed, *report.problems, *messages)


def _models(runs: pd.DataFrame) -> dict[str, Mapping[str, Any]]:
    """Return run -> the paper's model of that size, smallest first."""
    printed_models = printed()["models"]
    models_by_run: dict[str, Mapping[str, Any]] = {}
    for run, parameters in runs.sort_values("parameters")[["run", "parameters"]].itertuples(index=False):
        if str(parameters) not in printed_models:
            sizes = ", ".join(printed_models)
            raise InputError(f"run {run} has {parameters:,} parameters; the paper's models have {sizes}")
        models_by_run[str(run)] = {"parameters": int(parameters), **printed_models[str(parameters)]}
    return models_by_run


def _check_losses(table: SeriesTable, models: Mapping[str, object]) -> None:
    for run in models:
        frame = table.of_run(run)
        if "loss" not in frame or not np.isfinite(frame["loss"].to_numpy(dtype=np.float64)).all():
            raise InputError(f"run {run} has checkpoints without a loss: keep its training log beside them")


def _draws(features: pd.DataFrame, preset: SeriesTable) -> pd.DataFrame:
    """Return the pooled totals of every draw; a cloud that was not subsampled counts as one draw."""
    pooled = features[(features["scope"] == "pooled") & features["feature"].isin(["h0_total", "h1_total"])]
    wide = pooled.assign(draw=pooled["draw"].fillna(0).astype(int)).pivot_table(
        index=["run", "step", "draw"], columns="feature", values="value"
    )
    losses = preset.values.set_index(["run", "step"])["loss"]
    return wide.reset_index().merge(losses.reset_index(), on=["run", "step"])
