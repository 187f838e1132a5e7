"""A finished log is judged from both sides: what came back is noticed, and each thing is said once."""

from __future__ import annotations

import numpy as np
import pandas as pd

import toposcope as ts
from tests.check.written import diverging, spiked
from toposcope.rules.registry import assess


def law(n=400, seed=0, noise=0.01):
    step = np.arange(1, n + 1)
    shaken = np.exp(noise * np.random.default_rng(seed).standard_normal(n))
    return (1.6 + 3 * (step * 400 / n) ** -0.5) * shaken


def table(loss, **columns):
    return pd.DataFrame({"step": np.arange(1, len(loss) + 1) * 10, "loss": loss, **columns})


def test_one_spike_early_in_a_short_log_is_noticed_by_check_and_left_out_by_the_forecast():
    loss = law(48)
    loss[10] += 2.0
    found = ts.check(table(loss))
    (run,) = found.runs
    assert (found.level, found.ok) == ("all right", True)
    (remark,) = run.judgement.noticed
    assert (remark.kind, remark.level, remark.step, remark.passed) == ("loss spike", "noticed", 110, 120)
    assert "loss spike at step 110 (loss is " in str(found)
    made = ts.forecast(table(loss), horizon=2000)
    assert any("1 glitch left out" in note and "at step 110" in note for note in made.own[0].notes)
    assert [one.step for one in made.judgements["run"].noticed] == [110]


def test_a_dip_is_noticed_as_well_and_a_last_loss_that_is_not_back_is_none_that_passed():
    loss = law(60)
    loss[30] /= 4
    (dip,) = assess(table(loss))
    assert (dip.kind, dip.level, dip.step) == ("loss dip", "noticed", 310)
    high = law(60)
    high[-1] *= 2
    assert not [one for one in assess(table(high)) if one.level == "noticed"]


def test_a_spike_that_the_alarm_names_is_said_once():
    (run,) = ts.check(table(spiked())).runs
    (noticed,) = run.judgement.noticed
    assert "was expected" in noticed.sentence


def test_many_losses_that_stand_out_are_one_remark():
    loss = law(2000)
    loss[100::50] *= 1.6
    (noticed,) = assess(table(loss))
    assert noticed.sentence.startswith("38 losses stood out, the farthest at step ")


def test_a_drift_is_part_of_the_rise_that_the_whole_log_shows():
    (run,) = ts.check(table(diverging(800))).runs
    kinds = [one.kind for one in run.judgement.grounds]
    assert kinds[0] == "diverging"
    assert "loss drift" not in kinds


def test_a_loss_that_diverges_while_the_held_out_loss_falls_may_be_another_objective():
    loss = law()
    loss[300:] *= np.linspace(1, 3, 100)
    held = np.where(np.arange(400) % 10 == 0, law(seed=1, noise=0.002), np.nan)
    (remark,) = [one for one in assess(table(loss, val_loss=held)) if one.level != "noticed"]
    assert (remark.kind, remark.level) == ("another objective", "look")
    assert "while the held-out loss fell from" in remark.sentence
    flat = np.where(np.arange(400) > 300, held[300], held)
    assert [one.kind for one in assess(table(loss, val_loss=flat))] == ["diverging"]
    assert [one.kind for one in assess(table(loss))] == ["diverging"]


def test_the_page_says_of_a_spike_what_check_and_forecast_say():
    loss = law(48)
    loss[10] += 2.0
    log = table(loss).assign(mine=np.linspace(0, 1, 48) ** 2)
    on = ts.analyze(log).findings["on"]
    assert [(one["kind"], one["step"]) for one in on.numbers["passed"]] == [("loss spike", 110)]
    first = ts.analyze(log).findings.first
    assert any(
        "it never diverged or stalled; loss spike at step 110, back to normal" in c.text for c in first.checks
    )
    calm = ts.analyze(table(law(48)).assign(mine=np.linspace(0, 1, 48) ** 2)).findings.first
    assert any("it never diverged, spiked or stalled" in c.text for c in calm.checks)
