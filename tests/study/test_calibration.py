"""The calibration: the packaged rates are those that a fresh simulation gives."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.analysis_rates import packed
from toposcope.statistics.trends._nulls import NULLS
from toposcope.statistics.trends.calibration import (
    TESTS,
    VERDICT,
    _packaged,
    as_matrix,
    calibration_matrix,
    case_rates,
    known_rates,
    nearest_grid,
    simulated_cases,
    true_rates,
)
from toposcope.statistics.trends.held_out_nulls import HELD_OUT_NULLS
from toposcope.statistics.trends.preregistered_nulls import PREREGISTERED_NULLS

GRIDS = {name: steps for name, (steps, _) in _packaged().items()}
KNOWN_LIBERAL = {("154 Pythia", "saws of nine checkpoints")}
"""Where the rate is above 7% beyond its error; docs/statistics.md names it."""


def test_the_packaged_verdict_is_liberal_only_where_the_documentation_says_so() -> None:
    liberal = set()
    for name in GRIDS:
        table = known_rates(name)
        mine = table[(table["kind"] != "planted") & (table["test"] == VERDICT)]
        assert set(mine["case"]) == {*NULLS, *HELD_OUT_NULLS, *PREREGISTERED_NULLS}
        high = mine["rate"] > 0.07 + 2 * mine["error"]
        liberal |= {(name, case) for case in mine.loc[high, "case"]}
    assert liberal == KNOWN_LIBERAL
    assert set(true_rates()) == set(TESTS)


def test_every_packaged_grid_says_how_many_pairs_it_rests_on() -> None:
    assert {"26 even", "51 even", "51, 12 missing", "48 log", "154 Pythia", "14 log"} <= set(GRIDS)
    for name, steps in GRIDS.items():
        table = known_rates(name)
        assert (table.loc[table["test"] == VERDICT, "draws"] >= 1000).all()
        assert (table["n"] == len(steps)).all()
        assert (table["error"] <= 0.5 / np.sqrt(table["draws"]) + 1e-12).all()


def test_the_packaged_power_is_near_that_of_the_trend_test_it_replaced() -> None:
    found = as_matrix(known_rates("51 even"), "planted")[VERDICT]
    # with no learning rate in the table, and what is refused counted as not found
    assert found["r = 0.5 in white noise"] > 0.81
    assert found["r = 0.5 in random-walk noise"] > 0.81
    assert found["r = 0.7 in random-walk noise"] > 0.93


def test_a_grid_is_its_own_nearest_and_spacing_matters_as_much_as_number() -> None:
    for name, steps in GRIDS.items():
        assert nearest_grid(steps * 7.0 + 3.0) == name
    assert nearest_grid(np.arange(19) * 500.0).endswith("even")
    assert nearest_grid(3.0 ** np.arange(16)).endswith("log")


def test_cases_simulated_one_by_one_are_those_of_one_run() -> None:
    steps, names = np.arange(14) * 100.0, ["AR(1) 0.5", "reflected random walks"]
    whole = calibration_matrix(steps, nulls=names, draws=30, planted=(0.5,))
    cases = simulated_cases(names, (0.5,))
    apart = [row for case in reversed(cases) for row in case_rates(steps, *case, draws=30)]
    assert sorted(apart, key=str) == sorted(whole.itertuples(index=False, name=None), key=str)


def test_packing_keeps_the_rates() -> None:
    steps = GRIDS["51 even"]
    import json

    table = json.loads(packed({"x": (steps, known_rates())}))["grids"]["x"]
    assert table["steps"] == steps.tolist()
    assert np.array_equal(np.ravel(table["rates"]), known_rates()["rate"].to_numpy())


@pytest.mark.slow
def test_a_fresh_simulation_agrees_with_the_packaged_rates() -> None:
    names = ["random walks", "power laws + 3% noise"]
    fresh = as_matrix(calibration_matrix(np.arange(51) * 100.0, nulls=names, draws=1000, planted=()))
    packaged = as_matrix(known_rates()).loc[names, fresh.columns]
    assert np.abs(fresh - packaged).to_numpy().max() < 0.2  # 100 pairs of the tests beside the verdict's
