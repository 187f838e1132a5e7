from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from tests.on_page import with_tables
from toposcope.core.tabular import of_cells
from toposcope.page import parts
from toposcope.page.appendix import MOST_LINES, failures, findings, provenance
from toposcope.page.parts import part_of
from toposcope.page.tables import forecasts_table, in_brief
from toposcope.statistics.trends.pooling import NOTHING_LEFT
from toposcope.statistics.trends.refusals import (
    FEW_DECIDE,
    ONE_PERIOD,
    ONE_STRETCH,
    SWINGS,
    TOO_FEW,
    TOO_SMOOTH,
)
from toposcope.study.finals import finals_table, fits_table
from toposcope.study.studies import chosen_target
from toposcope.study.trends.verdicts import NOTHING_SHARED, SCREENED
from toposcope.subjects.weights.subject import SUBJECT as WEIGHTS

H0 = "rips/euclidean/pooled/h0_total"


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    """Leave the figures out: these tests are about tables."""
    monkeypatch.setattr(parts, "figures_of", lambda _: ())


def tables(study):
    return dict(part_of(study).tables)


def main_target(series):
    return chosen_target(series, None, preferred=WEIGHTS.targets)


def test_finals_carry_the_interval_of_their_draws(study):
    row = study.finals.set_index(["run", "quantity"]).loc[("small", "rips/euclidean/pooled/h0_total")]
    assert row["value"] == pytest.approx(20.01)
    assert row["high"] - row["value"] == pytest.approx(4.302653 * 0.01 / np.sqrt(3), rel=1e-5)
    assert row["step"] == 1200


def test_fits_state_how_many_sizes_carry_them(make_study):
    assert set(make_study().fits["n_sizes"]) == {3}
    one = make_study({"only": 1_000}).fits
    assert (one["status"] == "failed").all()
    assert one["reason"].str.contains("law needs at least 3").all()


def test_more_seeds_are_no_more_sizes(make_study):
    fits = make_study(seeds=3).fits
    assert set(fits["n"]) == set(fits["n_sizes"]) == {3}


def test_families_share_no_law(make_study):
    finals = make_study({"a": 1_000, "b": 10_000, "c": 100_000, "d": 1_000_000}).finals
    assert fits_table(finals)["exponent"].notna().any()
    mixed = fits_table(
        finals.assign(family=finals["run"].map({"a": "gpt", "b": "gpt", "c": "rnn", "d": "rnn"}))
    )
    assert mixed["exponent"].isna().all()
    assert mixed["spearman"].isna().all()
    assert set(mixed["status"]) == {"failed"}
    assert (
        mixed["reason"].str.startswith("2 families (gpt, rnn) do not share a law; fit each separately").all()
    )


def test_a_run_of_unknown_size_has_finals_but_no_part_in_a_fit(make_study):
    study = make_study({"small": 1_000, "medium": 10_000, "unknown": 0})
    finals = finals_table(study.series, ["loss"])
    assert finals["parameters"].tolist() == [0, 1_000, 10_000] or set(finals["parameters"]) == {
        0,
        1_000,
        10_000,
    }
    assert fits_table(finals)["n"].tolist() == [2]


def test_the_target_is_held_out_loss_only_when_every_run_has_it(make_study):
    study = make_study()
    assert main_target(study.series) == "loss"
    study.series.values["heldout_loss"] = 1.0
    object.__setattr__(study.series, "targets", (*study.series.targets, "heldout_loss"))
    assert main_target(study.series) == "heldout_loss"
    study.series.values.loc[study.series.values["run"] == "small", "heldout_loss"] = np.nan
    assert main_target(study.series) == "loss"


def test_the_verdict_stands_first_and_says_over_how_many_rows_it_was_corrected(make_study):
    made = tables(make_study(verdicts={H0: "adds"}))
    table = made["families"]
    assert next(iter(made)) == "families"
    assert table.rows[0] == (
        "H0 total (pooled)", "13", "+0.10", "[−0.30, +0.50]", "0", "1", "0.40", "+0.05", "adds", "",
    )  # fmt: skip
    assert [row[-2] for row in table.rows] == ["adds", "trend only", "trend only"]
    assert "Holm's method over 3 rows" in table.caption


def test_trend_rows_print_what_the_table_says(study):
    table = tables(study)["trends"]
    assert sum(span for _, span in table.groups) == len(table.columns) - 1
    row = next(row for row in table.rows if row[:2] == ("H0 total (pooled)", "small"))
    assert row[2:6] == ("13", "−0.90", "1e−05", "[−1.00, +0.10]")
    assert row[-4:] == ("+0.10", "[−0.30, +0.50]", "0", "0.2")
    assert [row[1] for row in table.rows[:3]] == ["small", "medium", "large"]
    assert table.frame is not None
    assert {"naive_low", "walk_p", "partial_step", "effective_n"} <= set(table.frame)


def test_forecasts_are_paired_each_with_its_control(study):
    rows = {row[:2]: row for row in tables(study)["forecasts"].rows}
    assert rows[("20%", "paper's rule, both")] == (
        "20%", "paper's rule, both", "0.1000", "+0.1000", "3 of 3", "+0.0500 [+0.0500, +0.0500]", "3", "",
    )  # fmt: skip
    assert rows[("50%", "sibling transfer + topology")][5] == "+0.0100 [+0.0100, +0.0100]"
    assert {rows[("20%", m)][5] for m in ("auto", "sibling transfer", "last value")} == {"–"}


def test_the_table_of_forecasts_calls_every_rule_in_words(study):
    methods = [row[1] for row in tables(study)["forecasts"].rows]
    assert "paper's rule, loss alone" in methods
    assert not any(":" in method for method in methods)


def test_runs_that_could_not_be_forecast_are_listed_with_their_reason(study):
    lost = pd.DataFrame([{"run": "large", "method": "auto", "status": "failed", "reason": "too short"}])
    scores = pd.concat([study.forecasts, lost.reindex(columns=study.forecasts.columns)])
    table = forecasts_table(with_tables(study, forecasts=scores))
    assert table.rows[-1] == ("–", "large", "–", "–", "–", "–", "0", "too short")


def test_runs_are_listed_smallest_first_with_first_and_last_values(study):
    table = tables(study)["runs"]
    assert [row[0] for row in table.rows] == ["small", "medium", "large"]
    assert table.rows[0][1:6] == ("1,000", "1", "13", "1,200", "5.000 → 2.000")


def test_tables_with_nothing_to_say_are_left_out(make_study):
    assert set(tables(make_study(trends=False, errors={}))) == {"runs", "scaling"}


def test_seeds_have_their_table_where_there_are_any(make_study):
    assert "replicates" not in tables(make_study())
    rows = tables(make_study(seeds=2))["replicates"].rows
    expected = ("H0 total (pooled)", "small", "2", "−0.80", "[−0.90, −0.70]", "+0.100", "0.5", "1", "0.17")
    assert rows[0] == expected


def test_failures_are_listed_once_for_all_their_steps(make_study):
    study = make_study()
    study.features.loc[[0, 1], ["status", "note", "value"]] = ["failed", "not finite", np.nan]
    study.features.loc[[0, 1], "feature"] = "failed"
    study.features.loc[1, "step"] = 700
    assert failures(study.features) == (
        ("small", "0 and 1 more", "neural_persistence: model", "failed", "not finite"),
    )


def test_long_lists_are_cut_and_the_rest_is_counted(make_study):
    audit = pd.DataFrame(
        {"run": "small", "step": range(100), "fault": "identical", "tensor": None, "message": "same"}
    )
    found = findings(make_study(audit=audit).audit)
    assert len(found) == MOST_LINES + 1
    assert found[-1][0] == "and 40 more"
    assert found[0] == ("small", "0", "identical", "", "same")


def test_provenance_flattens_the_recipe(study):
    assert ("recipe: points", "200") in provenance(study.provenance, study.runs)
    assert ("recipe: without", "none") in provenance(study.provenance, study.runs)
    assert ("series", "runs/here") in provenance(study.provenance, study.runs)


@pytest.mark.parametrize(
    "reason",
    [
        "no shared movement beyond trend; 2 of 5 runs too smooth",
        "both turn at steps 100 to 200, the learning rate is unknown",
        ONE_PERIOD,
        SWINGS,
        "moves with the minibatch loss where both spike",
        "a reason that a later version of the test may give",
    ],
)
def test_why_a_row_has_its_verdict_takes_at_most_five_words(make_study, reason):
    study = make_study()
    given = with_tables(study, families=study.families.assign(reason=reason))
    table = tables(given)["families"]
    assert table.columns[-1] == "why"
    assert {len(row[-1].split()) <= 5 for row in table.rows} == {True}
    assert all(row[-1] for row in table.rows)
    assert set(table.frame["reason"]) == {reason}, "the file has it in full"


@pytest.mark.parametrize(
    "reason",
    [
        TOO_FEW, FEW_DECIDE, TOO_SMOOTH, ONE_PERIOD, ONE_STRETCH, SWINGS, NOTHING_LEFT, NOTHING_SHARED,
        SCREENED.format(5), "constant series: no correlation is defined", "rests on steps 100–200 alone",
    ],
)  # fmt: skip
def test_no_reason_of_the_test_is_cut_off(reason):
    assert len(in_brief(reason).split()) <= 5
    assert not in_brief(reason).endswith("…")


@pytest.mark.parametrize("width", [50, 80, 120])
def test_a_compact_table_keeps_every_cell_in_the_terminals_width(width, capsys):
    rows = [
        ("neural persistence − shuffled (by matrix)", "−0.13", "[−0.62, +0.53]", "1", "cannot tell"),
        ("H0 total", "+0.01", "[−0.19, +0.27]", "0.04", "adds"),
    ]
    of_cells("x", ("feature", "r", "95%", "Holm p", "verdict"), rows).show(width=width, compact=True)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= width
    assert all(word in printed for word in ("neural", "(by", "+0.01", "0.04", "adds", "tell"))
    if width > 50:
        assert all(word in printed for row in rows for cell in row for word in cell.split())
        (line,) = (line.strip() for line in printed.splitlines() if "H0 total" in line)
        assert re.split(r"\s{2,}", line) == list(rows[1])
