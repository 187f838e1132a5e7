"""The words follow the numbers: each state of the findings has its sentence, and none is fixed."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest

from tests.on_page import captions, with_tables
from toposcope.page.figures import correlations, forecast, scaling
from toposcope.page.parts import _of_adapters, of_means
from toposcope.published.rules import PUBLISHED
from toposcope.study.findings import words as wording
from toposcope.study.findings.base import Finding
from toposcope.study.findings.changed import changed
from toposcope.study.net_change import half_steps
from toposcope.study.own import questions_of
from toposcope.subjects.roster import subject_of, subjects

H0 = "rips/euclidean/pooled/h0_total"
NP = "neural_persistence/seed004/neural_persistence"
NORM = "baselines/weight_norm"


def said(study, question="beyond"):
    return study.findings.said(study.findings[question])


def test_nothing_found_is_said_with_what_would_have_been_missed(study):
    found = said(study)
    assert found.act == (
        "The topology of the weights adds nothing here: none of 2 measures moves with the minibatch loss "
        "more than chance."
    )
    assert (
        "nothing beyond the trend in any of the 2 (one test each over 3 runs, Holm over 3 rows)"
        in found.ground
    )
    assert found.limits.startswith(
        "A correlation of innovations below r = 0.40 would have been missed more often than one time in five."
    )


def test_what_could_not_be_tested_is_counted_beside_what_was(study_of):
    study = study_of(verdicts={H0: "cannot tell", NP: "trend only"})
    found = said(study)
    assert found.act == (
        "Only 1 of 2 measures of the topology of the weights could be tested, and it does not move with the "
        "minibatch loss more than chance."
    )
    assert found.check.startswith(
        "only 1 of 2 measures could be tested, and it does not add to the minibatch"
    )


def test_a_title_over_mostly_untested_measures_claims_nothing_of_them(make_study):
    finding = make_study(verdicts=dict.fromkeys((H0, NP), "trend only")).findings["beyond"]
    for cannot, claims in ((0, True), (1, True), (2, False), (30, False)):
        numbers = {**finding.numbers, "tested": 2, "cannot": cannot}
        words = words_of(dataclasses.replace(finding, numbers=numbers))
        assert ("adds nothing here" in words.title) is claims
        assert ("already says it" in words.check) is claims
        assert not cannot or str(2 + cannot) in words.title


def words_of(finding):
    return wording.said(
        finding, subject=subject_of("weights"), topology="the topology of the weights", target="loss"
    )


def test_a_finding_is_named_and_counted_beside_the_baselines(study_of):
    found = said(study_of(verdicts={H0: "adds"}))
    assert found.act.startswith(
        "1 of 2 primary features of the topology of the weights moves with the minibatch loss beyond a "
        "shared trend. Plain norms and spectra do not."
    )
    assert "H0 total (pooled): r = +0.10 [−0.30, +0.50]." in found.ground


def test_a_finding_that_plain_norms_share_is_not_credited_to_topology_alone(study_of):
    found = said(study_of(verdicts={H0: "adds", NORM: "adds"}))
    assert "Plain norms and spectra do so too (1 of 1)." in found.act


@pytest.mark.parametrize("trends", [True, False])
def test_without_a_usable_test_this_design_cannot_tell(study_of, trends):
    untested = dict.fromkeys((H0, NP, NORM), "cannot tell")
    study = study_of(verdicts=untested, trends=trends, steps=(0, 100, 200))
    found = said(study)
    assert found.act.startswith(
        "It is unknown whether the topology of the weights says more than the minibatch loss"
    )
    assert "trend only" not in study.findings.as_text()
    assert "nothing" not in found.text.lower()
    if trends:
        assert found.act.endswith(": too few checkpoints.")
    caption = correlations.caption(study)
    assert "0 of 0" not in caption.can
    untested = "(no test was possible for any of the primary features)"
    assert (untested if trends else "No test was possible") in caption.can


def test_untested_features_do_not_count_as_tests(study_of):
    study = study_of(verdicts={H0: "cannot tell"})
    numbers = study.findings["beyond"].numbers
    assert (numbers["tested"], numbers["found"], numbers["cannot"]) == (1, 0, 1)
    assert "For 1 other primary feature no test was possible: too few checkpoints." in said(study).limits


def test_faults_of_the_checkpoints_lead(make_study):
    audit = pd.DataFrame(
        {"run": ["small"], "step": [300], "fault": ["identical"], "tensor": ["head"], "message": ["same"]}
    )
    found = make_study(audit=audit).findings
    assert found.lead.question == "sound"
    assert found.headline.startswith("Check the checkpoints first: the audit found 1 fault in 1 run")
    assert found.first.checks[0].mark == "!!"
    assert found.first.next.startswith(
        "Fix or leave out what the audit names, then measure again. The first is"
    )
    assert make_study().findings.lead.question == "trained"


@pytest.mark.parametrize("verdict", ["adds", "trend only", "cannot tell"])
def test_every_answer_begins_with_a_line_and_the_terminal_holds_it(study_of, verdict):
    study = study_of(verdicts=dict.fromkeys((H0, NP, NORM), verdict))
    for finding in study.findings:
        assert 0 < len(study.findings.said(finding).act.split()) <= 45
    lines = study.findings.as_text().splitlines()
    assert len(lines) <= 15
    assert max(map(len, lines)) <= 80
    assert study.findings.as_data()["answer"] == study.findings.headline == " ".join(lines).split("  ")[0]
    assert len(study.findings.headline.split()) <= 30


@pytest.mark.parametrize(
    ("verdict", "mark", "text"),
    [
        ("adds", "yes", "2 of 2 measures move with the minibatch loss beyond a shared trend"),
        (
            "trend only",
            "no",
            "the minibatch loss already says it: 2 measures tested, none adds to it (weak links, r < 0.",
        ),
        ("cannot tell", "--", "not known: too few checkpoints"),
    ],
)
def test_the_first_screen_has_four_checks_each_with_its_mark(study_of, verdict, mark, text):
    first = study_of(verdicts=dict.fromkeys((H0, NP, NORM), verdict)).findings.first
    assert [one.name for one in first.checks] == ["measurements", "training", "odd runs", "topology"]
    assert [one.mark for one in first.checks] == ["OK", "OK", "--", mark]
    assert first.checks[0].text == "39 of 39 checkpoints readable, none misplaced"
    assert first.checks[1].text == "all 3 losses fell to the end; none diverged, spiked or stalled"
    assert first.checks[2].text == "one seed per size: nothing to compare"
    assert first.checks[3].text.startswith(text)


def test_two_losses_are_both(study_of):
    first = study_of({"small": 1_000, "large": 10_000}).findings.first
    assert first.checks[1].text == "both losses fell to the end; none diverged, spiked or stalled"


def test_the_title_names_the_best_model(make_study):
    assert (
        make_study().findings.headline
        == "Three models trained without a fault; all end alike (minibatch loss 2.00)."
    )
    study = make_study()
    values = study.series.values
    values.loc[values["run"] == "large", "loss"] -= 0.5
    lower = study.findings.headline
    assert (
        lower
        == "Three models trained without a fault; the largest is best (minibatch loss 1.50, the others 2.00)."
    )
    assert (
        make_study({"small": 1_000}).findings.headline
        == "small trained without a fault (minibatch loss 2.00)."
    )


def test_seeds_of_a_size_are_ranked_by_their_mean_with_its_range(make_study):
    study = make_study(seeds=2)
    values = study.series.values
    values.loc[values["run"] == "large-seed1", "loss"] -= 0.5
    assert study.findings.headline == (
        "Six runs trained without a fault; the largest is best (minibatch loss 1.75 [1.50, 2.00] over 2 "
        "seeds, the others 2.00)."
    )


def test_of_one_size_no_seed_is_called_best(make_study):
    study = make_study({"small": 1_000}, seeds=3)
    values = study.series.values
    values.loc[values["run"] == "small-seed2", "loss"] -= 0.25
    assert study.findings.headline == ("Three runs trained without a fault (minibatch loss 1.75 to 2.00).")


def test_a_loss_that_did_not_fall_is_said_where_training_is_checked(make_study):
    study = make_study()
    metrics = study.log.metrics.copy()
    mine = metrics["run"] == "small"
    metrics.loc[mine, "loss"] = np.linspace(2.0, 2.05, int(mine.sum()))
    found = dataclasses.replace(study, log=dataclasses.replace(study.log, metrics=metrics)).findings
    assert (found["on"].numbers["read"], found["on"].numbers["fell"]) == (3, 2)


def test_the_one_thing_to_do_is_what_the_gravest_finding_asks_for(study_of):
    untested = study_of(verdicts=dict.fromkeys((H0, NP, NORM), "cannot tell"), steps=(0, 100, 200))
    assert untested.findings.first.next == (
        "To settle the 2 open features, save every 25 steps instead of 100: they have 3 values in a run, and "
        "the test needs 12."
    )
    assert study_of().findings.first.next.startswith(
        "To see whether a run is odd, train 4 seeds of a size: toposcope.train('demo', DIR, seeds="
    )
    assert study_of(verdicts={H0: "adds"}).findings.first.next.startswith(
        "See whether it holds in another seed"
    )


def test_a_command_stays_on_one_line_of_a_terminal(study):
    *_, before, command = study.findings.as_text(width=60).splitlines()
    assert before.endswith(":")
    assert command == "    toposcope.train('demo', DIR, seeds=[1, 2, 3, 4])"


@pytest.mark.slow
@pytest.mark.parametrize("verdict", ["adds", "trend only", "cannot tell"])
def test_a_blank_stands_between_two_sentences(study_of, verdict):
    for steps in ((0, 100, 200), tuple(range(0, 2000, 50))):
        made = study_of(verdicts=dict.fromkeys((H0, NP, NORM), verdict), steps=steps)
        text = " ".join(answer for _, answer in made.findings.paragraphs)
        assert not re.search(r"\w[.:;,][A-Z]", text), text


def test_what_changed_counts_runs_and_gives_ranges(study):
    text = said(study, "changed").text
    assert "3 runs of 3 model sizes (1K to 100K parameters) with 13 checkpoints each were measured" in text
    assert "The minibatch loss went from 5.00 to 2.00. H0 total (pooled) rose in 3 of 3" in text
    assert "H0 total (pooled) rose in 3 of 3 runs (from 10.01–12.01 to 20.01–24.01)" in text
    assert "H0 total / median distance (pooled) fell in 3 of 3 runs" in text


@pytest.mark.parametrize(
    ("column", "named"), [("family", ["a", "b", "c"]), ("corpus", ["gpt on a", "gpt on b"])]
)
def test_families_and_corpora_share_no_range(study, column, named):
    values = ["a", "b", "c"] if column == "family" else ["a", "a", "b"]
    mixed = dataclasses.replace(study, series=dataclasses.replace(
        study.series, runs=study.series.runs.assign(**{column: values})
    ))  # fmt: skip
    finding = changed(mixed)
    assert [one["family"] for one in finding.numbers["quality"]["ranges"]] == named
    act = study.findings.said(finding).act
    assert f"from 5.00 to 2.00 in {named[0]}, from 5.00 to 2.00 in {named[1]}" in act
    assert ("and 1 more family" in act) == (len(named) == 3)
    assert "10.01–12.01" not in act
    assert len(act.split()) <= 45


def test_a_change_within_the_noise_of_the_draws_is_no_change(make_study):
    study = make_study()
    noisy = study.series.spread.copy()
    noisy[H0] = 1e6
    object.__setattr__(study.series, "spread", noisy)
    assert "shows no clear trend in 3" in said(study, "changed").text


@pytest.mark.parametrize(("above", "where"), [(True, "above it in 3 of 3"), (False, "inside it in 3 of 3")])
def test_the_null_decides_whether_arrangement_counts(study_of, above, where):
    study = study_of(above_null=above)
    (null,) = study.findings["changed"].numbers["nulls"]
    assert (null["above"], null["below"], null["sizes"]) == ((3, 0, 3) if above else (0, 0, 3))
    assert where in said(study, "changed").text


@pytest.mark.parametrize(
    ("draws", "said_of_it"), [(2, "had 2 draws, and a band needs 3 or more"), (0, "No null")]
)
def test_a_null_of_two_draws_is_measured_and_makes_no_band(make_study, draws, said_of_it):
    study = make_study()
    features = study.features
    fewer = (features["feature"] == "neural_persistence_shuffled") & ~(features["draw"] < draws)
    few = dataclasses.replace(study, features=features[~fewer].reset_index(drop=True))
    assert few.findings["changed"].numbers["nulls"] == []
    text = said(few, "changed").text
    assert said_of_it in text
    assert ("No null was measured" in text) == (draws == 0)


def test_a_rising_loss_is_not_called_a_fall(make_study):
    study = make_study()
    study.series.values["loss"] = study.series.values["loss"].to_numpy()[::-1]
    assert "(it did not fall in 3 of 3 runs)" in said(study, "changed").text


def test_when_gives_half_way_steps_and_how_closely_they_are_known(study):
    assert half_steps(study.series, "loss").tolist() == [300.0] * 3
    assert half_steps(study.series, H0).tolist() == [900.0] * 3
    text = said(study, "when").text
    assert "The minibatch loss had made half of its change by step 300, and H0 total (pooled) by" in text
    assert "by step 900. H0 total (pooled) was later than the minibatch loss in 3 and earlier" in text
    assert "Checkpoints are 100 steps apart" in text


def test_a_curve_that_came_back_has_no_half_way_step(study):
    values = study.series.values.copy()
    step = values["step"] / values["step"].max()
    values["loss"] = 4.0 - 2.0 * np.sin(np.pi * step) - 0.1 * step
    series = dataclasses.replace(study.series, values=values)
    assert half_steps(series, "loss").empty
    back = dataclasses.replace(study, series=series)
    assert "loss had made half of its change" not in said(back, "when").act
    series = dataclasses.replace(series, values=values.assign(**{H0: values["loss"]}))
    neither = said(dataclasses.replace(study, series=series), "when")
    assert neither.act == "No curve went from one level to another, so there is no half-way step."


def test_two_checkpoints_say_nothing_about_when(study_of):
    assert "nothing can be said about when" in said(study_of(steps=(0, 100)), "when").text


def test_a_forecast_that_loses_to_its_control_needs_no_topology(study):
    text = said(study, "end").text
    assert "is off by 0.030 / 0.030 on average, against 0.400 / 0.400" in text
    assert "6 of 6 nominal 90% intervals contain the final loss" in text
    assert (
        "changes the error by +0.010 [+0.010, +0.010] / +0.010 [+0.010, +0.010]. No gain from "
        "topology is significant" in text
    )
    assert (
        "its error is 0.100 / 0.100. If the last loss replaces neural persistence, the error is "
        "0.050 / 0.050."
    ) in text
    assert "A rank test over 3 runs cannot reach p < .05 (its smallest p is 0.25)" in text


def test_a_forecast_that_topology_makes_better_is_said_to(study_of):
    better = study_of(errors={"sibling transfer + topology": 0.01}, verdicts={H0: "adds"})
    text = said(better, "end").text
    assert "−0.040 [−0.040, −0.040]" in text
    clear = "This differs from zero, after Holm's correction for all 4 comparisons"
    assert f"{clear}, at 20% (sibling transfer + topology), 50%" in text
    assert said(better).act.endswith(" Forecasts with topology beat their control.")


def test_no_forecasts_no_comparison(make_study):
    study = make_study()
    none = study.forecasts.assign(error=np.nan, status="failed", reason="2 finished runs").iloc[:1]
    without = with_tables(study, forecasts=none)
    text = said(without, "end").act
    assert text == ("Forecasts of the final loss could not be scored on these runs: 2 finished runs.")
    assert "end" not in with_tables(study, forecasts=none.iloc[:0]).findings
    assert forecast.caption(without).can == "Nothing: no forecast could be made."


def test_single_seeds_are_named_as_a_limit_and_several_are_not(study_of):
    assert "Every size was trained once" in said(study_of()).more
    assert "Every size was trained once" not in said(study_of(seeds=2)).text


def test_a_store_without_losses_relates_nothing(make_study):
    study = make_study()
    study.series.values["loss"] = float("nan")
    assert "No loss is recorded" in said(study, "changed").text
    assert study.findings.headline


def test_a_gain_that_may_be_chance_is_not_called_a_win(make_study):
    study = make_study(errors={"sibling transfer + topology": 0.04}, verdicts={H0: "adds"})
    rows = study.forecasts["method"] == "sibling transfer + topology"
    study.forecasts.loc[rows & (study.forecasts["run"] == "large"), "error"] = 0.055
    found = said(study, "end").text
    assert "No gain from topology is significant after Holm's correction for all" in found
    assert said(study).act.endswith(" Forecasts do not improve with topology.")


def test_a_run_that_diverges_is_said_first(make_study):
    study = make_study()
    sick = study.log.metrics.copy()
    late = sick["run"].eq("small") & (sick["step"] > 900)
    sick.loc[late, "loss"] += 0.01 * (sick.loc[late, "step"] - 900)
    found = dataclasses.replace(study, log=dataclasses.replace(study.log, metrics=sick)).findings
    assert found["on"].strength == "broken"
    assert found.headline.startswith("Run small: diverging: the loss rose from")
    assert found.as_text().startswith("Run small: diverging: the loss rose from")
    assert found.first.checks[1].mark == "!!"
    assert found.first.checks[1].text.startswith("small: diverging (step ")
    assert found["on"].numbers["faulty"][0]["remedy"] in found.first.next
    assert "the minibatch loss already says it" in found.first.checks[3].text
    assert len(found.as_text().splitlines()) <= 15
    assert study.findings["on"].strength == "finished"


def test_models_of_several_families_are_said_to_share_no_law(make_study):
    study = make_study()
    families = ["llama", *["gpt2"] * (len(study.runs) - 1)]
    mixed = dataclasses.replace(study, runs=study.runs.assign(family=families))
    found = mixed.findings["scale"]
    assert found.strength == "apart"
    assert mixed.findings.said(found).text == (
        "Models of 2 families (gpt2 and llama) have no common law of their size. Measure or "
        "analyse each family separately."
    )
    assert scaling.caption(mixed).cannot.startswith("How one family scales: ")


def test_norms_and_spectra_alone_are_not_called_topology(make_study):
    study = make_study()
    known = study.series.catalogue
    plain = known[known["kind"] == "baseline"]
    left = [c for c in study.series.values if c not in set(known["column"]) - set(plain["column"])]
    series = dataclasses.replace(study.series, catalogue=plain, values=study.series.values[left])
    bare = dataclasses.replace(study, series=series).findings
    assert bare.said(bare["beyond"]).act.startswith(
        (
            "The size of the weights (norms and spectra) adds nothing here",
            "It is unknown whether the size of",
        )
    )
    assert bare.title(bare["beyond"]) == "Does size add anything to the minibatch loss?"
    assert "topology" in study.findings.title(study.findings["beyond"])


def test_an_adapters_page_says_its_base(make_study):
    study = make_study()
    tuned = dataclasses.replace(study, runs=study.runs.assign(family="LoRA r=8 on org/base"))
    assert _of_adapters(tuned) == " The weights are an adapter's changes to its base: LoRA r=8 on org/base."
    assert _of_adapters(study) == ""


def test_a_log_whose_checkpoints_are_not_measured_yet_is_one_more_run(make_study):
    study = make_study()
    metrics = study.log.metrics
    more = [metrics[metrics["run"] == "small"].assign(run=name) for name in ("new", "newer")]
    runs = study.log.runs
    listed = [runs[runs["run"] == "small"].assign(run=name) for name in ("new", "newer")]
    log = dataclasses.replace(study.log, metrics=pd.concat([metrics, *more]), runs=pd.concat([runs, *listed]))
    found = dataclasses.replace(study, log=log).findings
    assert (found["on"].numbers["runs"], found["on"].numbers["read"]) == (5, 5)
    assert found["trained"].numbers["undecided"] == 0
    said = found.as_text()
    assert "cannot be judged" not in said
    assert "cannot be read" not in said


def test_a_run_on_a_plateau_is_told_where_the_forecast_stood(make_study):
    study = make_study()
    still = study.log.metrics.copy()
    flat = still["run"].eq("small")
    noise = np.random.default_rng(0).normal(0, 0.002, int(flat.sum()))
    still.loc[flat, "loss"] = 2.5 * np.exp(noise)
    found = dataclasses.replace(study, log=dataclasses.replace(study.log, metrics=still)).findings
    assert found["on"].strength == "faulty"
    assert found.lead.question == "on"
    assert found.wrong is None
    assert found.headline.startswith("Run small: plateau")


def test_a_forecast_without_the_default_method_is_unscored_with_its_reason(make_study):
    study = make_study()
    scores = study.forecasts.copy()
    default = scores["method"].isin(["auto", "sibling transfer"])
    scores.loc[default, "error"] = float("nan")
    scores.loc[default, ["status", "reason"]] = ["failed", "too few siblings"]
    found = with_tables(study, forecasts=scores).findings["end"]
    assert (found.strength, found.numbers["reason"]) == ("unscored", "too few siblings")


def test_words_need_no_bootstrap(study):
    rows = dataclasses.replace(study, given={}).strengths
    assert "spearman" in rows
    assert rows["block_low"].isna().all()
    assert set(rows["target"]) == {"loss"}


def test_captions_say_what_a_mean_over_seeds_is_taken_over(make_study):
    study = make_study(seeds=2)
    assert of_means(make_study()) == ""
    assert "all of them have." in of_means(study)
    values, last = study.series.values, int(study.series.values["step"].max())
    first = study.series.run_names[0]
    cut = values[(values["run"] != first) | (values["step"] < last)]
    ragged = dataclasses.replace(study, series=dataclasses.replace(study.series, values=cut))
    ends = int(cut.loc[cut["run"] == first, "step"].max())
    assert f"({first} ends at step {ends:,})" in of_means(ragged)
    told = captions(ragged)
    assert of_means(ragged) in told["vietoris_rips"].shows
    assert of_means(ragged) not in told["correlations"].shows


def test_surfaces_lead_where_no_loss_ranks_the_runs(make_study):
    lead = {
        "trivial": 0.25,
        "surfaces": 8,
        "minima": 3.5,
        "most": 6.0,
        "found": 15,
        "confirmed": 2,
        "masked": 0.0,
    }
    surfaces = Finding("surfaces", "rugged", {"lead": lead, "others": []})
    found = make_study().findings
    without_target = (
        dataclasses.replace(one, strength="no target") if one.question == "beyond" else
        dataclasses.replace(one, strength="still") if one.question == "changed" else one
        for one in found
    )  # fmt: skip
    asked = questions_of(subjects()["landscape"])
    findings = dataclasses.replace(found, answers=(*without_target, surfaces), questions=asked)
    assert findings.lead is surfaces
    assert findings.first.title == (
        "75% of 8 sampled surfaces have more than one minimum (mean 3.5, most 6). One half of the sequences "
        "shows 15 branches in all, and the other half confirms 2."
    )
    ranked = dataclasses.replace(found, answers=(*found, surfaces), questions=asked)
    assert ranked.lead.question == "trained"


def test_every_published_rule_is_called_in_words():
    names = [rule.name for rule in PUBLISHED.forecasters({"neural_persistence"})]
    assert set(PUBLISHED.called) == set(names)
    assert not any(":" in words or "TDA" in words for words in PUBLISHED.called.values())


def test_the_next_step_after_the_demos_runs_is_the_readers_own_run(study):
    def after(corpus):
        runs = study.runs.assign(family="demo", corpus=corpus)
        return dataclasses.replace(study, runs=runs).findings.first.next

    assert after("python-docs").startswith("Now your own run: ")
    assert after("a corpus of another study called demo") == study.findings.first.next
