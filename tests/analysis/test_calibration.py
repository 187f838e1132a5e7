"""The calibration: the packaged rates are those that a fresh simulation gives."""

from __future__ import annotations

import numpy as np
import pytest

from toposcope.analysis.trends.calibration import (
    TESTS,
    VERDICT,
    as_matrix,
    calibration_matrix,
    known_rates,
    nearest_grid,
    packaged_grids,
    packed,
    true_rates,
)
from toposcope.analysis.trends.nulls import NULLS


def test_the_packaged_verdict_holds_its_level_under_every_null() -> None:
    table = known_rates()
    rates = as_matrix(table)[VERDICT]
    assert set(rates.index) == set(NULLS)
    assert rates.between(0.03, 0.07).all()
    assert (table["draws"] == 10_000).all()
    assert set(true_rates()) == set(TESTS)


def test_every_packaged_grid_has_all_nulls_and_never_a_liberal_verdict() -> None:
    grids = packaged_grids()
    assert len(grids) >= 6
    for name, steps in grids.items():
        rates = as_matrix(known_rates(name))
        assert set(rates.index) == set(NULLS)
        assert rates[VERDICT].max() <= 0.07
        assert rates["lag scan"].max() <= 0.07
        assert rates[VERDICT].min() >= (0.03 if len(steps) >= 25 else 0.0)
        assert (known_rates(name)["n"] == len(steps)).all()


def test_a_grid_is_its_own_nearest_and_spacing_matters_as_much_as_number() -> None:
    for name, steps in packaged_grids().items():
        assert nearest_grid(steps * 7.0 + 3.0) == name
    assert nearest_grid(np.arange(19) * 500.0).endswith("even")
    assert nearest_grid(3.0 ** np.arange(16)).endswith("log")


def test_packing_keeps_the_rates() -> None:
    steps = packaged_grids()["51 even"]
    import json

    table = json.loads(packed({"x": (steps, known_rates())}))["grids"]["x"]
    assert table["steps"] == steps.tolist()
    assert np.array_equal(np.ravel(table["rates"]), known_rates()["rate"].to_numpy())


@pytest.mark.slow
def test_a_fresh_simulation_agrees_with_the_packaged_rates() -> None:
    names = ["random walks", "power laws + 3% noise"]
    fresh = as_matrix(calibration_matrix(np.arange(51) * 100.0, nulls=names, draws=1000, planted=()))
    packaged = as_matrix(known_rates()).loc[names, fresh.columns]
    assert np.abs(fresh - packaged).to_numpy().max() < 0.06
