"""What the columns of a series table are, read from the probes' declarations."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.columns import catalogue_of
from toposcope.study import studies, table
from toposcope.study.catalogue import is_baseline, leading
from toposcope.study.derived import with_derived
from toposcope.study.table import series_table
from toposcope.subjects.catalogue import own_catalogue
from toposcope.subjects.roster import subject_of

BASE = {"run": "a", "step": 0, "name": "model", "role": "model", "filtration": "", "value": 1.0}


def _table(*rows):
    return series_table(pd.DataFrame([{**BASE, **row} for row in rows]), catalogue=own_catalogue())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "label"),
    [
        ("rips/euclidean/pooled/h0_total", "H0 total (pooled)"),
        ("rips/euclidean/layers/h0_total", "H0 total (sum of layers)"),
        ("baselines/layers/stable_rank", "stable rank (mean of layers)"),
        ("distances/weights/layers/wasserstein1_np", "W1 to previous weight diagram (mean of layers)"),
        ("neural_persistence/rieck/neural_persistence", "neural persistence (by network)"),
        ("baselines/role=mlp/stable_rank", "stable rank (mlp)"),
        ("representations/euclidean/hidden/h1_count", "H1 count"),
        ("representations/euclidean/hidden/h0_mean", "H0 mean"),
        ("gradient_rips/euclidean/pooled/h0_total", "gradients: H0 total (pooled)"),
        ("gradient_baselines/weight_norm", "gradients: norm"),
    ],
)
def test_labels_say_what_a_column_is(column, label):
    found = catalogue_of([column]).set_index("column")
    assert found.loc[column, "label"] == label


def test_rates_divide_by_the_log_of_the_ratio_of_steps():
    rows = [
        {**BASE, "step": step, "probe": "representations", "name": "hidden", "layer": 1, "value": 6.0,
         "feature": "wasserstein1_h1"}
        for step in (0, 1, 8, 64)
    ]  # fmt: skip
    found = with_derived(pd.DataFrame(rows), own_catalogue())
    rates = found[found["feature"] == "wasserstein1_h1_rate"].set_index("step")
    assert list(rates.index) == [8, 64]
    np.testing.assert_allclose(rates["value"], 6.0 / np.log(8.0))


def test_a_study_derives_its_features_once(monkeypatch):
    at = {"probe": "representations", "name": "hidden", "layer": 1, "filtration": "euclidean"}
    rows = [
        {**BASE, **at, "scope": "layer", "step": step, "feature": feature, "draw": draw, "status": "ok"}
        for step in (0, 10)
        for feature, draw in (("h1_total", None), ("h1_total_null", 0))
    ]
    calls = []

    def counted(*given):
        calls.append(given)
        return with_derived(*given)

    for module in (studies, table):
        monkeypatch.setattr(module, "with_derived", counted)
    runs = pd.DataFrame({"run": ["a"], "family": "f", "parameters": [1_000]})
    subject = subject_of("representations")
    study = studies.study_of_rows(subject, pd.DataFrame(rows), None, runs, catalogue=own_catalogue())
    assert "h1_total_excess" in set(study.series.catalogue["feature"])
    assert len(calls) == 1


def test_an_excess_is_the_value_minus_the_mean_of_its_null():
    at = {"probe": "representations", "name": "hidden", "layer": 1, "filtration": "euclidean"}
    table = _table(
        {**at, "feature": "h1_total", "value": 7.0},
        *(
            {**at, "feature": "h1_total_null", "value": value, "draw": draw}
            for draw, value in enumerate((1.0, 3.0))
        ),
    )
    line = table.catalogue.set_index("feature").loc["h1_total_excess"]
    assert table.values[line["column"]].tolist() == [5.0]
    assert (line["label"], line["unit"], line["primary"]) == ("H1 total − Gaussian cloud", "distance", True)
    null = table.catalogue.set_index("feature").loc["h1_total_null"]
    assert (null["kind"], null["scope"]) == ("null", "null")
    assert null["null_of"] == "representations/euclidean/hidden/h1_total"
    assert not table.catalogue.set_index("feature").loc["h1_total", "primary"]


def test_without_a_null_the_feature_takes_the_place_of_its_excess():
    at = {"probe": "representations", "name": "hidden", "layer": 1, "filtration": "euclidean"}
    table = _table({**at, "feature": "h1_entropy"}, {**at, "feature": "h1_max"})
    assert table.catalogue.loc[table.catalogue["primary"], "feature"].tolist() == ["h1_entropy"]


def test_one_column_speaks_for_a_primary_feature():
    columns = [
        f"{probe}/{where}"
        for probe, wheres in {
            "neural_persistence": ("seed004/neural_persistence", "rieck/neural_persistence",
                                   "seed004/role=mlp/neural_persistence"),
            "rips": ("euclidean/pooled/h0_total_scaled", "euclidean/layers/h0_total_scaled",
                     "euclidean/role=mlp/h0_total_scaled", "euclidean/pooled/h0_total"),
            "baselines": ("layers/stable_rank",),
        }.items()
        for where in wheres
    ]  # fmt: skip
    found = catalogue_of(columns)
    assert found.loc[found["primary"], "column"].tolist() == [columns[0], columns[3]]
    found = catalogue_of([column for column in columns if "pooled" not in column and "seed004" not in column])
    assert found.loc[found["primary"], "column"].tolist() == [columns[1], columns[4]]


def test_some_six_features_of_every_family_are_primary_and_none_is_a_baseline():
    declared = own_catalogue()
    family = declared[declared["primary"]]
    assert set(family["kind"]) == {"topology"}
    weights = ~family["probe"].str.startswith(("gradient_", "representations"))
    assert family[weights].groupby("probe")["feature"].agg(list).to_dict() == {
        "neural_persistence": ["neural_persistence", "neural_persistence_excess"],
        "rips": ["h0_total_scaled", "h1_total_scaled"],
        "trajectory": ["trajectory_h0_total", "trajectory_ph_dimension"],
        "sharpness": ["critical_sharpness"],
        "curvature": ["top_eigenvalue"],
        "surface": ["minima", "average_persistence"],
        "moment_persistence": [
            "momentum_persistence", "momentum_persistence_excess", "scaled_momentum_persistence",
            "scaled_momentum_persistence_excess",
        ],
    }  # fmt: skip
    assert len(family[family["probe"] == "representations"]) == 6
    assert (declared["null_of"] != "").sum() == (declared["kind"] == "null").sum()


def test_topology_leads_and_baselines_follow():
    columns = [
        "baselines/layers/rankme",
        "rips/euclidean/pooled/h0_total",
        "rips/euclidean/pooled/h1_total_scaled",
    ]
    found = catalogue_of(columns)
    assert leading(columns, found) == [columns[2], columns[1], columns[0]]
    assert leading(columns, found, most=1) == [columns[2]]
    assert [is_baseline(column, found) for column in columns] == [True, False, False]


def test_what_no_probe_declares_is_shown_under_its_own_name():
    row = {**BASE, "probe": "mine", "feature": "row_spread"}
    line = _table(row).catalogue.iloc[0]
    assert (line["label"], line["kind"], line["primary"]) == ("row_spread", "topology", False)
    brought = series_table(pd.DataFrame([row, {**row, "role": "mlp", "name": "w"}])).catalogue
    assert brought.set_index("scope")["primary"].to_dict() == {"model": True, "role": False, "matrix": False}
