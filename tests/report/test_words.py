"""The words follow the numbers: each state of the findings has its sentence, and none is fixed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from toposcope.report.counts import half_steps, verdict_counts
from toposcope.report.weights import forecasts
from toposcope.report.weights.facts import above_null
from toposcope.report.weights.words import answer

H0 = "rips/euclidean/pooled/h0_total"


def test_nothing_found_is_said_with_what_would_have_been_missed(study):
    said = answer(study)
    assert said.headline == (
        "Topology moved during training, but nothing shows that it tells more than the loss curve."
    )
    assert "In none of 6 feature-run pairs" in said.adds
    assert "below about 0.40 would not have been seen" in said.adds


def test_a_finding_is_named_and_counted_beside_the_baselines(make_study):
    said = answer(make_study(verdicts={H0: "adds"}))
    assert said.headline.startswith(
        "Some topology moves with the loss beyond their shared trend (3 of 6 tests)"
    )
    assert "finds something in 3 of 6 feature-run pairs (H0 total (pooled))" in said.adds
    assert "None of 3 pairs of plain norms and spectra does." in said.adds


def test_a_finding_that_plain_norms_share_is_not_credited_to_topology_alone(make_study):
    said = answer(make_study(verdicts={H0: "adds", "baselines/weight_norm": "adds"}))
    assert "So do 3 of 3 pairs of plain norms and spectra" in said.adds


@pytest.mark.parametrize("trends", [True, False])
def test_without_a_usable_test_nothing_is_concluded(make_study, trends):
    untested = dict.fromkeys(
        (H0, "neural_persistence/seed004/neural_persistence", "baselines/weight_norm"), "untested"
    )
    said = answer(make_study(verdicts=untested, trends=trends, steps=(0, 100, 200)))
    assert "cannot be concluded" in said.headline
    assert "no run has enough checkpoints" in said.adds


def test_untested_features_do_not_count_as_tests(make_study):
    study = make_study(verdicts={H0: "untested"})
    counted = verdict_counts(study.trends, study.target, study.series.catalogue)
    assert (counted.tested, counted.found, counted.untested) == (3, 0, 3)


def test_what_changed_counts_runs_and_gives_ranges(study):
    said = answer(study).changed
    assert "3 runs of 3 model sizes (1K to 100K parameters) with 13 checkpoints each were measured" in said
    assert "The minibatch loss went from 5.00 to 2.00 nats per token." in said
    assert (
        "H0 total persistence of the weight cloud rose in 3 of 3 runs (last over first checkpoint: 2.00)"
        in said
    )
    assert "With distances divided by their median it fell in 3 of 3 runs" in said


def test_a_change_within_the_noise_of_the_draws_is_no_change(make_study):
    study = make_study()
    noisy = study.series.spread.copy()
    noisy[H0] = 1e6
    object.__setattr__(study.series, "spread", noisy)
    assert "did not move beyond the noise of its random subsamples in 3" in answer(study).changed


@pytest.mark.parametrize(("above", "words"), [(True, "lies above the band"), (False, "In none of 3 sizes")])
def test_the_null_decides_whether_arrangement_counts(make_study, above, words):
    study = make_study(above_null=above)
    assert above_null(study) == ((3, 0, 3) if above else (0, 0, 3))
    assert words in answer(study).changed


def test_a_rising_loss_is_not_called_a_fall(make_study):
    study = make_study()
    study.series.values["loss"] = study.series.values["loss"].to_numpy()[::-1]
    assert "(it did not fall in 3 of 3 runs)" in answer(study).changed


def test_when_gives_half_way_steps_and_how_closely_they_are_known(study):
    assert half_steps(study.series, "loss").tolist() == [300.0] * 3
    assert half_steps(study.series, H0).tolist() == [900.0] * 3
    said = answer(study).when
    assert "Half of the loss's change was done by step 300, half of H0's by step 900." in said
    assert "H0 was later than the loss in 3 and earlier in 0 of 3 runs." in said
    assert "Checkpoints are 100 steps apart" in said


def test_two_checkpoints_say_nothing_about_when(make_study):
    assert "nothing can be said about when" in answer(make_study(steps=(0, 100))).when


def test_a_forecast_that_loses_to_its_control_needs_no_topology(study):
    said = answer(study).adds
    assert "is off by 0.030 / 0.030 nats on average over 3 runs, against 0.400 / 0.400" in said
    assert "6 of 6 intervals of 90% held" in said
    assert (
        "change the error by +0.010 [+0.010, +0.010] / +0.010 [+0.010, +0.010]: topology adds nothing" in said
    )
    assert "off by 0.100 / 0.100, with the last loss in its place by 0.050 / 0.050" in said
    assert "A rank test over 3 runs cannot reach p < .05 (its smallest p is 0.25)" in said


def test_a_forecast_that_topology_makes_better_is_said_to(make_study):
    better = make_study(errors={"sibling transfer + topology": 0.01}, verdicts={H0: "adds"})
    said = answer(better)
    assert "-0.040 [-0.040, -0.040]".replace("-", "−") in said.adds
    assert "clear of zero, all cuts taken together, at 20% (sibling transfer + topology), 50%" in said.adds
    assert said.headline.endswith("and forecasts with topology beat their control.")


def test_no_forecasts_no_comparison(make_study):
    study = make_study()
    none = study.forecasts.assign(error=np.nan, status="failed", reason="2 finished runs").iloc[:1]
    said = forecasts.sentence(none)
    assert said == "The final loss could not be forecast from other runs: 2 finished runs."
    assert forecasts.sentence(none.iloc[:0]) == "The final loss could not be forecast from other runs."
    assert forecasts.caption(none).can == "Nothing: no forecast could be made."


def test_single_seeds_are_named_as_a_limit_and_several_are_not(make_study):
    assert "Every size was trained once" in answer(make_study()).adds
    assert "Every size was trained once" not in answer(make_study(seeds=2)).adds


def test_a_store_without_losses_relates_nothing(make_study):
    study = make_study()
    study.series.values["loss"] = float("nan")
    said = answer(study)
    assert "No loss is recorded" in said.changed
    assert not pd.isna(said.headline)


def test_a_gain_that_may_be_chance_is_not_called_a_win(make_study):
    study = make_study(errors={"sibling transfer + topology": 0.04}, verdicts={H0: "adds"})
    rows = study.forecasts["method"] == "sibling transfer + topology"
    study.forecasts.loc[rows & (study.forecasts["run"] == "large"), "error"] = 0.055
    said = answer(study)
    assert "topology adds nothing to the forecast that these runs could show" in said.adds
    assert said.headline.endswith("but forecasts do not profit from it.")
