"""The research plan's family: weights and gradients of every checkpoint, measured and tested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from toposcope.core.errors import InputError
from toposcope.studies.measuring import refuse_failures
from toposcope.study import segment_table
from toposcope.study.analysis import analysis_of
from toposcope.study.catalogue import column_key
from toposcope.study.study import Study
from toposcope.study.table import SeriesTable
from toposcope.study.trends.verdicts import family_table, trend_table
from toposcope.subjects.weights import GRADIENT

BY_MATRIX = column_key(probe="neural_persistence", filtration="seed004", feature="neural_persistence")
H0 = column_key(probe="rips", filtration="euclidean", name="pooled", feature="h0_total_scaled")
H1 = column_key(probe="rips", filtration="euclidean", name="pooled", feature="h1_total_scaled")
GRADIENT_H0, GRADIENT_H1 = GRADIENT + H0, GRADIENT + H1
LABELS = {
    BY_MATRIX: "neural persistence",
    H0: "weights: H0 total",
    H1: "weights: H1 total",
    GRADIENT_H0: "gradients: H0 total",
    GRADIENT_H1: "gradients: H1 total",
}
"""The features by which the plan's hypotheses are judged, one for each quantity that it measures.

The clouds' totals are in units of their median distance, so a growing norm alone changes none of them."""
EFFICIENCY = "efficiency"
"""Minus the slope of the training loss on the logarithm of the tokens seen."""
LOSS = "heldout_loss"


@dataclass(frozen=True)
class MeasuredFamily:
    """The study of the family's weights, and that of its gradients if its runs keep them."""

    weights: Study
    gradients: Study | None

    @cached_property
    def parts(self) -> list[tuple[SeriesTable, list[str]]]:
        """Each table with the judged features that it has."""
        tables = [study.series for study in (self.weights, self.gradients) if study is not None]
        return [(table, [column for column in LABELS if column in table.values]) for table in tables]

    @property
    def series(self) -> SeriesTable:
        """The table of weights; it also has the losses."""
        return self.weights.series

    @cached_property
    def runs(self) -> list[str]:
        """The runs, smallest model first."""
        return self.weights.ordered

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """The test on innovations of every judged feature with the efficiency, over all runs, by feature."""
        tables = [family_table(table, targets=[EFFICIENCY], columns=columns) for table, columns in self.parts]
        return pd.concat(tables).set_index("column")

    @cached_property
    def trends(self) -> pd.DataFrame:
        """The correlations of every judged feature with the efficiency in every run, as usually reported."""
        tables = [
            trend_table(table, targets=[EFFICIENCY], columns=columns, every=True)
            for table, columns in self.parts
        ]
        return pd.concat(tables, ignore_index=True)

    @cached_property
    def bends(self) -> pd.DataFrame:
        """The changes of every judged feature in every run: see `segment_table`."""
        return pd.concat(
            [segment_table(table, columns=columns) for table, columns in self.parts], ignore_index=True
        )

    def of(self, run: str, column: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the steps and the values of a feature in a run."""
        table = next(table for table, columns in self.parts if column in table.values)
        frame = table.of_run(run)[["step", column]].dropna()
        return frame["step"].to_numpy(float), frame[column].to_numpy(float)

    def size_of(self, run: str) -> int:
        """Return the number of parameters of a run's model."""
        return self.series.parameters()[run]


def measure(
    runs: str | Path | Sequence[str], folder: Path, *, jobs: int = 1, quiet: bool = False
) -> MeasuredFamily:
    """Measure weights and gradients of every checkpoint into two stores, except what they have already.

    Raises
    ------
    InputError
        When a checkpoint cannot be measured, or the runs keep no losses.
    """
    from toposcope.sources import open_series
    from toposcope.subjects import weight_probes
    from toposcope.subjects.gradients import gradient_probes, gradient_series, has_own_batch
    from toposcope.subjects.weights import WeightOptions

    options = WeightOptions(nulls=0)
    series = open_series(runs, split=options.split)
    probes = weight_probes(["neural_persistence", "rips", "baselines"], options)
    weights = _study(series, probes, folder / "weights", options.recipe(), jobs, quiet)
    if weights.target == "":
        raise InputError("the runs keep no losses", remedy="train them with a log, or give others")
    gradients = None
    if all(has_own_batch(checkpoint) for checkpoint in series):
        probes = gradient_probes(weight_probes(["rips"], options))
        gradients = _study(
            gradient_series(series), probes, folder / "gradients", options.recipe(), jobs, quiet
        )
    return MeasuredFamily(weights, gradients)


def _study(series, probes, folder: Path, recipe, jobs: int, quiet: bool) -> Study:  # type: ignore[no-untyped-def]
    """Measure into a store and return its study."""
    from toposcope.store import Store
    from toposcope.sweep import Execution, sweep

    store = Store.create(folder, recipe=recipe)
    refuse_failures(sweep(series, probes, store, execution=Execution(jobs=jobs, quiet=quiet, audit=False)))
    return analysis_of(store).studies[0]
