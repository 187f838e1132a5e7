"""An unfinished run's end stands where people look: in the answer, as `toposcope forecast` has it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from tests.watch.page.conftest import Growing
from toposcope.core.forms import near

STEP = np.arange(10, 2001, 10)


def log(run: str, rise: float, until: int) -> pd.DataFrame:
    loss = rise + 4 * STEP**-0.4
    table = pd.DataFrame({"run": run, "step": STEP, "loss": loss * np.exp(0.002 * np.sin(STEP * rise))})
    return table[table["step"] <= until].assign(mine=lambda rows: np.sqrt(rows["step"]))


@pytest.fixture(scope="module")
def family() -> pd.DataFrame:
    ended = [log(f"run{i}", 1.0 + 0.2 * i, 2000) for i in range(4)]
    return pd.concat([*ended, log("young", 1.5, 1000)])


def test_an_unfinished_run_has_its_forecast_in_the_answer(family):
    found = ts.analyze(family).findings
    one = ts.forecast(family).table.set_index("run").loc["young"]
    (ahead,) = found["on"].numbers["ahead"]
    assert ahead["final"] == pytest.approx(one["final_loss"])
    assert ahead["interval"] == pytest.approx([one["low"], one["high"]])
    said = found.said(found["on"])
    band = f"{one['final_loss']:.4g} [{one['low']:.4g}, {one['high']:.4g}]"
    assert said.act.startswith(f"Run young, at step 1,000 of 2,000, is expected to end at a loss of {band} (")
    assert f"{100 * ahead['level']:.0f}% interval" in said.act
    assert ("not verified" in said.act) == ahead["coverage"].startswith("not")
    assert ("right in 93% of tests on 212 real runs" in said.act) == ahead["coverage"].startswith("93%")
    assert said.next == ""  # a table in memory has no name that a command could take
    assert "1 of 5 runs is not finished: young." in said.limits
    final, low, high = near(one["final_loss"], one["low"], one["high"])
    known = (
        "not verified for runs like this"
        if ahead["coverage"].startswith("not")
        else f"right in {ahead['coverage']}"
    )
    way, range_ = ("should", f"9 in 10: {low} to {high}")
    if not ahead["sure"]:  # no nine in ten are claimed where they were not verified, as in a check
        way, range_ = ("may", f"{low} to {high}; {known}")
    ends = f"{way} end near {final} ({range_})."
    assert found.headline == f"young (step 1,000 of 2,000) {ends}"
    assert "1 of 5 runs is not finished" in found.first.checks[1].text


def test_the_page_and_a_check_name_one_step_of_a_run(family):
    """The held-out loss is logged ten steps after the last training loss."""
    late = pd.DataFrame({"run": ["young"], "step": [1010], "heldout_loss": [1.6]})
    rows = pd.concat([family, late], ignore_index=True)
    (ahead,) = ts.analyze(rows).findings["on"].numbers["ahead"]
    (checked,) = [one for one in ts.check(rows).runs if one.run == "young"]
    assert (ahead["step"], checked.step) == (1010, 1010)


@pytest.mark.parametrize("last", [1000, 2000])
def test_a_loss_that_is_not_the_last_one_says_its_step(tmp_path, last):
    """The checkpoints may end before the training: the loss at the last of them is not its final loss."""
    made = Growing(tmp_path / "store")
    made.runs("a", steps=2000)
    made.losses("a", 2000)
    for step in range(0, last + 1, 200):
        made.checkpoint("a", step)
    title = ts.analyze(made.path).findings.headline
    loss = made.store.metrics("a").set_index("step")["loss"][last]
    assert f"minibatch loss {loss:.3g}" in title or f"minibatch loss {loss:.4g}" in title
    assert ("at step 1,000" in title) == (last == 1000)


def test_a_finished_family_has_none(family):
    found = ts.analyze(family[family["run"] != "young"]).findings
    assert (found["on"].strength, found["on"].numbers["ahead"]) == ("finished", [])


def test_runs_of_another_family_lend_nothing(family):
    apart = family.assign(family=np.where(family["run"].isin(["run0", "young"]), "gpt2", "llama"))
    table = ts.forecast(apart, horizon=2000).table.set_index("run")
    alone = family[family["run"].isin(["run0", "young"])]
    expected = ts.forecast(alone, horizon=2000).table.set_index("run")
    assert table.loc["young", "final_loss"] == pytest.approx(expected.loc["young", "final_loss"])
    assert "left out" in table.loc["young", "reason"]
    assert ": run1, run2, run3" in table.loc["young", "reason"]
    assert "left out" not in expected.loc["young", "reason"]


def test_a_run_without_a_known_end_is_not_finished(family):
    """Its rate follows no sibling's: no card may say that every run is finished."""
    rate = 1e-3 * (0.55 + 0.45 * np.cos(np.pi * family["step"] / 2000))
    own = family.assign(lr=np.where(family["run"] == "young", 1e-3 * 1.001 ** -family["step"], rate))
    found = ts.analyze(own).findings
    on = found["on"]
    assert (on.strength, on.numbers["running"], on.numbers["finished"]) == ("running", ["young"], 4)
    assert [one["run"] for one in on.numbers["endless"]] == ["young"]
    assert "end unknown" in found.said(on).act


@pytest.mark.parametrize("until", [1000, 1500])
def test_the_cards_of_a_run_that_goes_on_agree(family, until):
    """The one that forecasts its end stands beside one on how well that could be scored, not on whether."""
    few = family[family["run"].isin(["run0"])]
    found = ts.analyze(pd.concat([few, log("young", 1.5, until)])).findings
    assert found["on"].strength == "running"
    assert "not finished" not in found.said(found["end"]).text


def test_a_run_that_cannot_be_forecast_yet_leads_no_page():
    """A page said that it should end near a loss, without an interval, where a check said that it cannot."""
    step = np.arange(0, 601, 10)
    rows = [
        {"run": run, "step": s, "loss": 2 + 3 * (s + 20) ** -0.4, "mine": np.sin(s)}
        for run, last in (("whole", 600), ("begun", 60))
        for s in step[step <= last]
    ]
    made = ts.analyze(pd.DataFrame(rows))
    table = ts.forecast(pd.DataFrame(rows)).table.set_index("run")
    assert np.isnan(table.loc["begun", "low"])
    assert made.findings["on"].numbers["ahead"] == []
    assert "end near" not in made.findings.headline
    assert "1 of 2 runs is not finished" in made.findings.said(made.findings["on"]).act
