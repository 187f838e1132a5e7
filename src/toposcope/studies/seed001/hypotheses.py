"""The numbers by which the research plan's hypotheses are judged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from toposcope.core.seeding import rng
from toposcope.published.forecast_rules import METHODS, RIECK, error_table
from toposcope.published.phase_rules import written_rule
from toposcope.scaling import PowerLaw, fit_power_law
from toposcope.statistics.correlations import correlation, holm, ranks
from toposcope.studies.seed001.runs import BY_MATRIX, EFFICIENCY, LABELS, LOSS, MeasuredFamily

EARLY = 0.3
"""The share of training that forecasts see, as planned."""
SHUFFLES = 9999
"""The smallest p is then 1e-4."""
LOSS_ONLY, TDA_ONLY, COMBINED, _ = METHODS


@dataclass(frozen=True, slots=True)
class PersistenceRise:
    """How neural persistence moved in a run: its ends, and at how many of its checkpoints it rose."""

    run: str
    first: float
    last: float
    rises: int
    intervals: int
    rate_rho: float
    rate_p: float

    @property
    def monotone(self) -> bool:
        """Whether it rose at every checkpoint."""
        return self.rises == self.intervals


def rise_of(measured: MeasuredFamily, run: str, column: str = RIECK) -> PersistenceRise:
    """Return how a run's neural persistence moved, and how its rate of change follows the efficiency.

    The rate is the change since the checkpoint before, over the steps between; `rate_rho` is Spearman's
    correlation of its size with the efficiency at the later checkpoint, `rate_p` its usual p-value.
    """
    frame = measured.series.of_run(run)[["step", column, EFFICIENCY]]
    measured_rows = frame.dropna(subset=[column])
    values = measured_rows[column].to_numpy(float)
    change = np.diff(values)
    rate = np.abs(change) / np.diff(measured_rows["step"].to_numpy(float))
    efficiency = measured_rows[EFFICIENCY].to_numpy(float)[1:]
    both = np.isfinite(efficiency)
    rank_correlation = spearmanr(rate[both], efficiency[both])
    return PersistenceRise(
        run, float(values[0]), float(values[-1]), int((change > 0).sum()), len(change),
        float(rank_correlation.statistic), float(rank_correlation.pvalue),
    )  # fmt: skip


def diminishing_step(measured: MeasuredFamily, run: str) -> float:
    """Return the first step after its largest fall at which the held-out loss falls by a tenth of that."""
    steps, losses = measured.of(run, LOSS)
    end = written_rule(losses)[1]
    return float(steps[end]) if end is not None else float("nan")


@dataclass(frozen=True, slots=True)
class Coincidences:
    """Changes of topology against the loss's diminishing returns, over all runs and features.

    `searched` series were searched and `changed` have a change. In `met` of those, the 95% set of a change
    contains the step of diminishing returns; `expected` would contain a random step, and `p` is the share of
    random draws with at least as many.
    """

    searched: int
    changed: int
    met: int
    expected: float
    p: float


def coincidences(measured: MeasuredFamily) -> Coincidences:
    """Count the changes whose 95% set contains the run's step of diminishing returns, against chance."""
    chances, met, searched = [], 0, 0
    for (run, _), rows in measured.bends.groupby(["run", "column"], sort=False):
        searched += 1
        starts = rows[rows["segment"] > rows["segment"].min()]
        if starts.empty:
            continue
        steps, _ = measured.of(str(run), LOSS)
        low, high = starts["start_low"].to_numpy(float), starts["start_high"].to_numpy(float)
        inside = ((steps[:, None] >= low) & (steps[:, None] <= high)).any(axis=1)
        chances.append(float(inside.mean()))
        at = diminishing_step(measured, str(run))
        met += bool(((at >= low) & (at <= high)).any())
    if not chances:
        return Coincidences(searched, 0, 0, 0.0, 1.0)
    drawn = rng(name="coincidences", n=len(chances)).random((SHUFFLES, len(chances))) < np.array(chances)
    p = (1 + int((drawn.sum(axis=1) >= met).sum())) / (1 + SHUFFLES)
    return Coincidences(searched, len(chances), met, float(np.sum(chances)), p)


@dataclass(frozen=True, slots=True)
class Scaled:
    """The power law of a feature's values with the size: at the last checkpoint and before training.

    `missed` and `by_mean` are the mean absolute errors, in log, of predicting a size left out by the law of
    the others and by their mean.
    """

    column: str
    trained: PowerLaw
    untrained: PowerLaw
    missed: float
    by_mean: float


def scaled(measured: MeasuredFamily, column: str) -> Scaled:
    """Fit the law to the sizes' means over seeds, at both ends of training, at 95% over all features."""
    level = 1.0 - 0.05 / len(LABELS)
    sizes, last = _ends(measured, column, -1)
    missed, by_mean = _left_out(sizes, last)
    return Scaled(
        column,
        fit_power_law(sizes, last, level=level),
        fit_power_law(*_ends(measured, column, 0), level=level),
        missed,
        by_mean,
    )


def _ends(measured: MeasuredFamily, column: str, place: int) -> tuple[np.ndarray, np.ndarray]:
    """Return each size and the mean of its runs' values at one end."""
    ends = pd.Series({run: measured.of(run, column)[1][place] for run in measured.runs})
    means = ends.groupby([measured.size_of(run) for run in ends.index]).mean()
    return means.index.to_numpy(float), means.to_numpy(float)


def _left_out(sizes: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """Return the errors, in log, of each size left out: by the law of the others, and by their mean."""
    by_law, by_mean = [], []
    for i in range(len(sizes)):
        rest = np.arange(len(sizes)) != i
        law = fit_power_law(sizes[rest], values[rest])
        by_law.append(abs(np.log(float(law.predict(sizes[i])) / values[i])))
        by_mean.append(abs(np.log(values[rest]).mean() - np.log(values[i])))
    return float(np.mean(by_law)), float(np.mean(by_mean))


def rule_errors(measured: MeasuredFamily) -> pd.DataFrame:
    """Return the errors of the weight-space paper's rules on the held-out loss, with a column per method."""
    return error_table(measured.series, target=LOSS, column=BY_MATRIX).reset_index()


@dataclass(frozen=True, slots=True)
class Apart:
    """Whether the curves of a feature differ more between sizes than between seeds of a size.

    `within` and `between` are mean correlations of two runs' curves; `p` is the share of assignments of runs
    to sizes that separate the sizes at least as well. NaN with one seed per size.
    """

    column: str
    within: float
    between: float
    p: float
    negative: int
    positive: int


def compared_courses(measured: MeasuredFamily, column: str) -> Apart:
    """Compare the curves of a feature over training, by ranks, within sizes and across them."""
    wide = pd.DataFrame({run: pd.Series(*measured.of(run, column)[::-1]) for run in measured.runs}).dropna()
    courses = wide.to_numpy(float)
    sizes = np.array([measured.size_of(run) for run in wide.columns])
    rising = np.array([spearmanr(wide.index, courses[:, i]).statistic for i in range(courses.shape[1])])
    alike = np.stack(
        [correlation(ranks(courses), ranks(np.repeat(courses[:, [i]], courses.shape[1], axis=1)))
         for i in range(courses.shape[1])]
    )  # fmt: skip
    pairs = np.triu_indices(len(sizes), 1)
    if len(set(sizes)) == len(sizes):
        between = float(alike[pairs].mean())
        return Apart(column, np.nan, between, np.nan, int((rising < 0).sum()), int((rising > 0).sum()))

    def gap(labels: np.ndarray) -> float:
        same = labels[pairs[0]] == labels[pairs[1]]
        return float(alike[pairs][same].mean() - alike[pairs][~same].mean())

    own_gap, g = gap(sizes), rng(name="sizes dealt", column=column)
    reached = sum(gap(g.permutation(sizes)) >= own_gap - 1e-12 for _ in range(SHUFFLES))
    same = sizes[pairs[0]] == sizes[pairs[1]]
    return Apart(
        column, float(alike[pairs][same].mean()), float(alike[pairs][~same].mean()),
        (1 + reached) / (1 + SHUFFLES), int((rising < 0).sum()), int((rising > 0).sum()),
    )  # fmt: skip


def adjusted(results: list[Apart]) -> np.ndarray:
    """Return the p-values of several features after Holm's correction."""
    return holm(np.array([result.p for result in results]))
