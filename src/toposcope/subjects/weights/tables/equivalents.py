"""How much of a feature a simpler number already says: R2 over the checkpoints of each matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import binom

from toposcope.core.types import Feature, Scope
from toposcope.store.draws import over_draws
from toposcope.study.own import SubjectTable
from toposcope.subjects.weights.features import (
    BASELINES,
    DEEP,
    DEEP_PERSISTENCE,
    DEEP_SHUFFLED,
    DEEP_SPREAD,
    H0_ENTROPY,
    H0_SCALED,
    H0_SQUARES,
    H0_TOTAL,
    H1_TOTAL,
    MEAN_DISTANCE,
    NEURAL_PERSISTENCE,
    PARTICIPATION_RATIO,
    PERSISTENCE,
    PERSISTENCE_SHUFFLED,
    RIPS,
    STEP_LENGTH,
    TRAJECTORY,
    TRAJECTORY_H0,
    WEIGHT_VARIANCE,
)

FEWEST = 5
"""The fewest checkpoints of a matrix: an R2 of four points is near 1 by chance in one case of ten."""
_KEYS = ["run", "name", "filtration", "step"]
_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Equivalent:
    """A feature of a probe, and the simpler number that it is held against: a form of another feature."""

    probe: str
    feature: Feature
    words: str
    simpler: Feature
    of_probe: str
    form: Callable[[np.ndarray], np.ndarray] = np.asarray
    null: Feature | None = None
    scope: Scope = Scope.MATRIX


EQUIVALENTS = (
    Equivalent(NEURAL_PERSISTENCE, PERSISTENCE, "std of |w| / largest |w|", WEIGHT_VARIANCE,
               NEURAL_PERSISTENCE, np.sqrt, PERSISTENCE_SHUFFLED),
    Equivalent(DEEP_PERSISTENCE, DEEP, "std / largest |w − mean|", DEEP_SPREAD, DEEP_PERSISTENCE,
               null=DEEP_SHUFFLED),
    Equivalent(RIPS, H0_TOTAL, "mean distance of the rows", MEAN_DISTANCE, BASELINES),
    Equivalent(RIPS, H0_SQUARES, "mean distance squared", MEAN_DISTANCE, BASELINES, np.square),
    Equivalent(RIPS, H0_SCALED, "participation ratio", PARTICIPATION_RATIO, BASELINES),
    Equivalent(RIPS, H0_ENTROPY, "participation ratio", PARTICIPATION_RATIO, BASELINES),
    Equivalent(RIPS, H1_TOTAL, "mean distance of the rows", MEAN_DISTANCE, BASELINES),
    Equivalent(TRAJECTORY, TRAJECTORY_H0, "length of the path", STEP_LENGTH, TRAJECTORY, np.cumsum,
               scope=Scope.TRAJECTORY),
)  # fmt: skip
"""In reading order."""


def equivalents(features: pd.DataFrame) -> pd.DataFrame:
    """Return how much of each feature over training its simpler equivalent explains.

    One row for each feature, run and normalization. Columns: feature, run, filtration, simpler, matrices,
    checkpoints (median), r2 (the squared correlation over the checkpoints of one matrix, median of the
    matrices), low and high (the 95% interval of that median), least and most (of the matrices), r2_changes
    (the same of the changes from checkpoint to checkpoint), r2_shuffled (of the shuffled weights, which have
    no structure), excess (median of |feature - shuffled| / feature).
    """
    tables = [table for equivalent in EQUIVALENTS if not (table := _of_feature(features, equivalent)).empty]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def _of_feature(features: pd.DataFrame, equivalent: Equivalent) -> pd.DataFrame:
    measured = _series(features, equivalent.probe, equivalent.feature, equivalent.scope)
    simpler = _series(features, equivalent.of_probe, equivalent.simpler, equivalent.scope)
    if equivalent.of_probe != equivalent.probe:  # the other probe has no normalization
        simpler = simpler.droplevel("filtration")
    joined = measured.to_frame("measured").join(simpler.rename("simpler"), how="inner")
    if equivalent.null is not None:
        joined = joined.join(
            _series(features, equivalent.probe, equivalent.null, equivalent.scope).rename("shuffled")
        )
    of_matrices = [
        {"run": run, "filtration": filtration, **_of_matrix(part, equivalent)}
        for (run, _, filtration), part in joined.groupby(level=["run", "name", "filtration"])
        if len(part) >= FEWEST and part["measured"].nunique() > 1 and part["simpler"].nunique() > 1
    ]
    if not of_matrices:
        return pd.DataFrame()
    grouped = pd.DataFrame(of_matrices).groupby(["run", "filtration"], sort=True)
    table = grouped.agg(
        matrices=("r2", "size"), checkpoints=("checkpoints", "median"), r2=("r2", "median"),
        low=("r2", lambda r2: median_interval(r2)[0]), high=("r2", lambda r2: median_interval(r2)[1]),
        least=("r2", "min"), most=("r2", "max"), r2_changes=("r2_changes", "median"),
        r2_shuffled=("r2_shuffled", "median"), excess=("excess", "median"),
    ).reset_index()  # fmt: skip
    table.insert(0, "feature", equivalent.feature.name)
    table.insert(3, "simpler", equivalent.words)
    return table


def _series(features: pd.DataFrame, probe: str, feature: Feature, scope: Scope) -> pd.Series:
    rows = features[
        (features["probe"] == probe) & (features["feature"] == feature.name) & (features["scope"] == scope)
    ]
    return over_draws(rows, _KEYS).set_index(_KEYS)["value"].sort_index()


def _of_matrix(part: pd.DataFrame, equivalent: Equivalent) -> dict[str, float]:
    part = part.sort_index(level="step")
    simpler, measured = equivalent.form(part["simpler"].to_numpy(float)), part["measured"].to_numpy(float)
    agreement = {
        "checkpoints": len(part),
        "r2": _squared_correlation(simpler, measured),
        "r2_changes": _squared_correlation(np.diff(simpler), np.diff(measured)),
        "r2_shuffled": np.nan,
        "excess": np.nan,
    }
    if "shuffled" in part and (shuffled_known := part["shuffled"].notna().to_numpy()).sum() >= FEWEST:
        shuffled, whole = part["shuffled"].to_numpy(float)[shuffled_known], measured[shuffled_known]
        agreement["r2_shuffled"] = _squared_correlation(simpler[shuffled_known], shuffled)
        agreement["excess"] = float(np.median(np.abs(whole - shuffled) / whole))
    return agreement


def _squared_correlation(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.corrcoef(x, y)[0, 1] ** 2) if np.ptp(x) > 0 and np.ptp(y) > 0 else np.nan


def median_interval(values: pd.Series) -> tuple[float, float]:
    """Return the 95% interval of a median, from the order of the values alone; NaN for fewer than six.

    >>> median_interval(pd.Series([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]))
    (0.1, 0.6)
    """
    ordered = np.sort(values.dropna().to_numpy(float))
    n = len(ordered)
    outside = int(binom.ppf((1 - _LEVEL) / 2, n, 0.5)) if n else 0
    if outside < 1:
        return np.nan, np.nan
    return float(ordered[outside - 1]), float(ordered[n - outside])


TABLES = (
    SubjectTable(
        name="equivalents",
        make=lambda study: equivalents(study.features),
        title="What a feature is in simpler numbers",
        note="R² is the squared correlation of a feature with a simpler number over the checkpoints of a "
        "matrix: the median of the matrices, with its 95% interval (from six matrices on, as if they were "
        "independent), the smallest and the largest. Near 1, the feature says nothing that the number does "
        "not. Two numbers that both drift have a high R², too: the R² of changes is that of the differences "
        "from checkpoint to checkpoint. Shuffled weights have the same entries in another order. If their R² "
        "is as high, the order of the weights has no part in it. The excess is the median of |feature - that "
        "of the shuffled weights|, as a share.",
    ),
)
(EQUIVALENTS_TABLE,) = TABLES
