"""What neural persistence is: the table that holds it against the spread of |w| over its maximum."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from toposcope import neural_persistence
from toposcope.subjects.weights.tables.equivalents import equivalents


def rows(values: dict[str, np.ndarray], name: str = "w") -> pd.DataFrame:
    """Return long rows of one matrix at steps 0, 1, ..."""
    return pd.DataFrame(
        [
            {
                "run": "a", "step": step, "probe": "neural_persistence", "scope": "matrix", "name": name,
                "filtration": "rieck", "draw": np.nan, "feature": feature, "value": value, "status": "ok",
            }
            for feature, series in values.items()
            for step, value in enumerate(series)
        ]
    )  # fmt: skip


def measured(matrices: list[np.ndarray]) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(1)
    shuffled = [generator.permutation(w.ravel()).reshape(w.shape) for w in matrices]
    return {
        "neural_persistence": np.array([neural_persistence(w) for w in matrices]),
        "neural_persistence_shuffled": np.array([neural_persistence(w) for w in shuffled]),
        "weight_variance": np.array([np.var(np.abs(w)) / np.abs(w).max() ** 2 for w in matrices]),
    }


def test_matrices_without_structure_are_explained_by_their_spread() -> None:
    generator = np.random.default_rng(0)
    tails = np.linspace(30, 3, 12)  # of Student's t: ever heavier, so that the maximum grows over the spread
    (row,) = equivalents(rows(measured([generator.standard_t(df, (60, 40)) for df in tails]))).itertuples()
    assert row.matrices == 1
    assert row.checkpoints == 12
    assert row.r2 > 0.9
    assert row.r2_shuffled > 0.9
    assert row.excess < 0.02


def test_a_structure_that_grows_is_not() -> None:
    """One row takes the large entries while the entries stay the same: only their order changes."""
    generator = np.random.default_rng(0)
    entries = generator.standard_t(4, 60 * 40)
    matrices = []
    for share in np.linspace(0, 1, 12):
        order = generator.permutation(entries)
        chosen = int(share * 40)
        largest = np.argsort(-np.abs(order))[:chosen]
        order[np.arange(chosen)], order[largest] = order[largest].copy(), order[np.arange(chosen)].copy()
        matrices.append(order.reshape(60, 40))
    values = measured(matrices)
    # the spread is the same at every step but for rounding, so it can explain nothing
    values["weight_variance"] += 1e-6 * generator.normal(size=12)
    (row,) = equivalents(rows(values)).itertuples()
    assert row.r2 < 0.5


def test_fewer_than_five_checkpoints_are_left_out() -> None:
    generator = np.random.default_rng(0)
    assert equivalents(rows(measured([generator.normal(size=(9, 9)) for _ in range(4)]))).empty


@pytest.mark.parametrize("column", ["weight_variance", "neural_persistence_shuffled"])
def test_rows_without_the_simpler_number_give_no_table(column: str) -> None:
    generator = np.random.default_rng(0)
    values = measured([generator.normal(size=(9, 9)) for _ in range(6)])
    del values[column]
    assert equivalents(rows(values)).empty
