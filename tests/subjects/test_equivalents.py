"""What a feature is in simpler numbers: the table that holds it against them, and the page that shows it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist

from tests.page.conftest import made_study
from toposcope import neural_persistence
from toposcope.subjects.weights.page.part import tables
from toposcope.subjects.weights.tables.equivalents import equivalents, median_interval
from toposcope.topology import rips, summaries


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


def test_rows_without_the_simpler_number_give_no_table() -> None:
    generator = np.random.default_rng(0)
    values = measured([generator.normal(size=(9, 9)) for _ in range(6)])
    del values["weight_variance"]
    assert equivalents(rows(values)).empty


def test_rows_without_shuffles_have_the_rest() -> None:
    generator = np.random.default_rng(0)
    values = measured([generator.normal(size=(9, 9)) for _ in range(6)])
    del values["neural_persistence_shuffled"]
    (row,) = equivalents(rows(values)).itertuples()
    assert row.r2 > 0.5
    assert np.isnan([row.r2_shuffled, row.excess]).all()


def of_clouds(count: int) -> pd.DataFrame:
    """Return rows of the clouds of `count` matrices that change over 12 checkpoints, one of them unevenly."""
    generator = np.random.default_rng(0)
    parts = []
    for k in range(count):
        points = generator.normal(size=(40, 6))
        clouds = [scale * points for scale in generator.uniform(1, 3, 12)]
        if k == 0:  # four clusters move apart, and their points come together, each by itself
            centres = np.repeat(generator.normal(size=(4, 6)), 10, axis=0)
            apart, wide = generator.uniform(5, 20, 12), generator.uniform(0.1, 2, 12)
            clouds = [u * centres + v * points for u, v in zip(apart, wide, strict=True)]
        distance = np.array([pdist(cloud).mean() for cloud in clouds])
        total = np.array([summaries(rips(cloud)[0])["total"] for cloud in clouds])
        parts.append(
            rows({"mean_pairwise_distance": distance}, f"w{k}").assign(probe="baselines", filtration="")
        )
        parts.append(rows({"h0_total": total}, f"w{k}").assign(probe="rips", filtration="euclidean"))
    return pd.concat(parts, ignore_index=True)


def test_the_total_of_h0_is_held_against_the_mean_distance() -> None:
    (row,) = equivalents(of_clouds(7)).itertuples()
    assert (row.feature, row.simpler, row.matrices) == ("h0_total", "mean distance of the rows", 7)
    assert row.r2 == pytest.approx(1)
    assert row.r2_changes == pytest.approx(1)
    assert row.least < 0.9  # the one of the clusters
    assert row.low == row.least  # with seven matrices the interval ends at the smallest and the largest
    assert row.high == row.most


def test_few_matrices_have_no_interval() -> None:
    (row,) = equivalents(of_clouds(3)).itertuples()
    assert np.isnan([row.low, row.high]).all()


def test_the_interval_of_a_median_contains_it_as_often_as_it_says() -> None:
    generator = np.random.default_rng(0)
    for n in (6, 11, 30):
        intervals = [median_interval(pd.Series(generator.exponential(size=n))) for _ in range(2000)]
        inside = np.mean([low <= np.log(2) <= high for low, high in intervals])
        assert inside > 0.945


def test_the_path_is_held_against_the_sum_of_its_steps() -> None:
    length = np.array([np.nan, 1.0, 2.0, 1.0, 3.0, 0.5, 2.0, 4.0])
    path = {"trajectory_step_length": length, "trajectory_h0_total": np.r_[0, np.nancumsum(length)[1:]]}
    (row,) = equivalents(rows(path, "model").assign(probe="trajectory", scope="trajectory")).itertuples()
    assert (row.simpler, row.checkpoints) == ("length of the path", 7)
    assert row.r2 == pytest.approx(1)
    assert row.r2_changes == pytest.approx(1)


def test_deep_graph_persistence_is_held_against_its_spread_and_its_shuffles() -> None:
    deep = np.linspace(0.3, 0.5, 8)
    values = {
        "deep_graph_persistence": deep, "deep_graph_persistence_spread": 1 - deep,
        "deep_graph_persistence_shuffled": 1.02 * deep,
    }  # fmt: skip
    (row,) = equivalents(rows(values).assign(probe="deep_graph_persistence", filtration="")).itertuples()
    assert row.r2 == pytest.approx(1)
    assert row.excess == pytest.approx(0.02)


def test_the_page_shows_each_feature_beside_its_simpler_number() -> None:
    study = made_study()
    generator = np.random.default_rng(0)
    tails = np.linspace(30, 3, 12)
    of_weights = rows(measured([generator.standard_t(df, (60, 40)) for df in tails]))
    every = pd.concat([study.features, of_weights, of_clouds(7)], ignore_index=True)
    shown = {table.name: table for table in tables(replace(study, features=every))}
    table = shown["equivalents"]
    assert list(shown).index("equivalents") == list(shown).index("families") + 1
    by_label = {row[0]: row for row in table.rows}
    assert list(by_label) == ["neural persistence", "H0 total"]
    assert by_label["H0 total"][2:5] == ("mean distance of the rows", "7", "1.00")
    assert by_label["H0 total"][5].startswith("[0.")
    assert by_label["neural persistence"][2] == "std of |w| / largest |w|"
    assert by_label["neural persistence"][-1].endswith("%")
    assert "R²" in table.caption
    twice = pd.concat([every, of_weights.assign(filtration="seed004")], ignore_index=True)
    shown = {table.name: table for table in tables(replace(study, features=twice))}
    first = [row[0] for row in shown["equivalents"].rows]
    assert first == ["neural persistence, by network", "neural persistence, by matrix", "H0 total"]
    assert not next(table for table in tables(study) if table.name == "equivalents").rows
