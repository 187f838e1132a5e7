"""How much of neural persistence a simpler number already says: the spread of |w| over its maximum."""

from __future__ import annotations

import numpy as np
import pandas as pd

from toposcope.core.types import Scope
from toposcope.store.draws import counted, over_draws
from toposcope.study.own import SubjectTable
from toposcope.subjects.weights.features import (
    NEURAL_PERSISTENCE,
    PERSISTENCE,
    PERSISTENCE_SHUFFLED,
    WEIGHT_VARIANCE,
)

VARIANCE, SHUFFLED = WEIGHT_VARIANCE.name, PERSISTENCE_SHUFFLED.name
FEWEST = 5
"""The fewest checkpoints of a matrix: an R2 of four points is near 1 by chance in one case of ten."""
_KEYS = ["run", "name", "filtration", "step"]


def equivalents(features: pd.DataFrame) -> pd.DataFrame:
    """Return how much of neural persistence over training the standard deviation of |w| / max explains.

    One row for each run and normalization. Columns: run, filtration, matrices, checkpoints (median), r2 (the
    squared correlation over the checkpoints of one matrix, median of the matrices), low and high (the
    smallest and largest of them), r2_shuffled (the same of the shuffled weights, which have no structure),
    excess (median of |neural persistence - shuffled| / neural persistence).
    """
    rows = counted(features[(features["probe"] == NEURAL_PERSISTENCE) & (features["scope"] == Scope.MATRIX)])
    names = (PERSISTENCE.name, SHUFFLED, VARIANCE)
    means = {
        name: over_draws(rows[rows["feature"] == name], _KEYS).set_index(_KEYS)["value"] for name in names
    }
    wide = pd.DataFrame(means).dropna()
    of_matrices = [
        {"run": run, "filtration": filtration, **_of_matrix(part)}
        for (run, _, filtration), part in wide.groupby(level=["run", "name", "filtration"])
        if len(part) >= FEWEST and part[PERSISTENCE.name].nunique() > 1 and part[VARIANCE].nunique() > 1
    ]
    if not of_matrices:
        return pd.DataFrame()
    grouped = pd.DataFrame(of_matrices).groupby(["run", "filtration"], sort=True)
    return grouped.agg(
        matrices=("r2", "size"), checkpoints=("checkpoints", "median"), r2=("r2", "median"),
        low=("r2", "min"), high=("r2", "max"), r2_shuffled=("r2_shuffled", "median"),
        excess=("excess", "median"),
    ).reset_index()  # fmt: skip


def _of_matrix(part: pd.DataFrame) -> dict[str, float]:
    spread = np.sqrt(part[VARIANCE].to_numpy(float))
    measured, shuffled = (part[name].to_numpy(float) for name in (PERSISTENCE.name, SHUFFLED))
    return {
        "checkpoints": len(part),
        "r2": _squared_correlation(spread, measured),
        "r2_shuffled": _squared_correlation(spread, shuffled),
        "excess": float(np.median(np.abs(measured - shuffled) / measured)),
    }


def _squared_correlation(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.corrcoef(x, y)[0, 1] ** 2) if np.ptp(y) > 0 else np.nan


TABLES = (
    SubjectTable(
        name="equivalents",
        make=lambda study: equivalents(study.features),
        title="What neural persistence is: the spread of |w| over its maximum",
        note="R2 is the squared correlation over the checkpoints of a matrix: of neural persistence with the "
        "standard deviation of |w| divided by its maximum (the median of the matrices, the smallest, the "
        "largest). Near 1, neural persistence says nothing that this number does not. Shuffled weights have "
        "the same entries in another order. If their R2 is as high, the order of the weights has no part in "
        "it. The excess is the median of |neural persistence - that of the shuffled weights|, as a share.",
    ),
)
(EQUIVALENTS,) = TABLES
