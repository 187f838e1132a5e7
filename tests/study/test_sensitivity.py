"""The sensitivity table against numbers that were planted in the rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from toposcope.core.errors import InputError
from toposcope.subjects.representations.tables.sensitivity import sensitivity_table

STEPS = (0, 1, 2, 4, 8, 16)


def _rows(value, runs=("a", "b")):
    rows = [
        {
            "run": run, "step": step, "probe": "sensitivity", "name": f"pca{p}/texts{n}", "feature": "f",
            "draw": draw, "value": value(run, place, p, n, draw),
        }
        for run in runs for place, step in enumerate(STEPS)
        for p in (25, 50) for n in (20, 40) for draw in (0, 1)
    ]  # fmt: skip
    rows += [
        {
            "run": run,
            "step": step,
            "probe": "representations",
            "feature": "perplexity",
            "value": np.exp(-place),
        }
        for run in runs
        for place, step in enumerate(STEPS)
    ]
    return pd.DataFrame(rows)


def test_planted_spreads_come_back():
    def value(run, place, p, n, draw):
        return place + (0.5 if p == 50 else 0.0) + (2.0 if n == 40 else 0.0) + 0.1 * draw + (run == "b")

    line = sensitivity_table(_rows(value)).set_index("run").loc["a"]
    unit = np.std(np.arange(6), ddof=1)
    assert line["settings_spread"] == pytest.approx(np.std([0, 0.5, 2.0, 2.5], ddof=1) / unit)
    assert line["components_spread"] == pytest.approx(np.std([0, 0.5], ddof=1) / unit)
    assert line["texts_spread"] == pytest.approx(np.std([0, 2.0], ddof=1) / unit)
    assert line["draw_spread"] == pytest.approx(np.std([0, 0.1], ddof=1) / unit)
    assert (line["rho"], line["rho_low"], line["rho_high"]) == (-1.0, -1.0, -1.0)
    assert (line["order"], line["order_share"], line["orders"]) == ("a < b", 1.0, 1)


def test_a_number_without_meaning_moves_no_setting():
    rows = _rows(lambda run, place, p, n, draw: place + (0.5 if p == 50 else 0.0)).assign(status="ok")
    wrong = rows["probe"].eq("sensitivity") & rows["step"].eq(STEPS[-1]) & rows["draw"].eq(1)
    good = sensitivity_table(rows[~wrong])
    bad = rows.assign(value=rows["value"].mask(wrong, 1e9), status=rows["status"].mask(wrong, "degenerate"))
    pd.testing.assert_frame_equal(sensitivity_table(bad), good)


def test_a_finding_that_turns_with_the_setting_is_seen():
    def value(run, place, p, n, draw):
        return place * (1 if p == 50 else -0.5) * (1 if run == "a" else 2)

    line = sensitivity_table(_rows(value)).iloc[0]
    assert (line["rho"], line["rho_low"], line["rho_high"]) == (-1.0, -1.0, 1.0)
    assert (line["order_share"], line["orders"]) == (0.5, 2)


def test_constants_are_degenerate_and_absence_is_refused():
    line = sensitivity_table(_rows(lambda *_: 7.0)).iloc[0]
    assert (line["status"], line["reason"]) == ("degenerate", "the same at every checkpoint")
    with pytest.raises(InputError, match="no row of the probe 'sensitivity'"):
        sensitivity_table(_rows(lambda *_: 7.0).query("probe != 'sensitivity'"))
