"""The calibration: the packaged rates are those that a fresh simulation gives."""

from __future__ import annotations

import numpy as np
import pytest

from toposcope.analysis.calibration import (
    TESTS,
    VERDICT,
    as_matrix,
    calibration_matrix,
    known_rates,
    true_rates,
)
from toposcope.analysis.nulls import NULLS


def test_the_packaged_verdict_holds_its_level_under_every_null() -> None:
    table = known_rates()
    rates = as_matrix(table)[VERDICT]
    assert set(rates.index) == set(NULLS)
    assert rates.between(0.03, 0.07).all()
    assert (table["draws"] == 10_000).all()
    assert set(true_rates()) == set(TESTS)


@pytest.mark.slow
def test_a_fresh_simulation_agrees_with_the_packaged_rates() -> None:
    names = ["random walks", "power laws + 3% noise"]
    fresh = as_matrix(calibration_matrix(np.arange(51) * 100.0, nulls=names, draws=1000, planted=()))
    packaged = as_matrix(known_rates()).loc[names, fresh.columns]
    assert np.abs(fresh - packaged).to_numpy().max() < 0.06
