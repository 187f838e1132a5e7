from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from benchmarks.decision_rules import WITH_TOPOLOGY, by_both, by_certainty, by_topology, diminishing_returns
from benchmarks.regret import regret_summary, regret_table
from toposcope.cli.main import main
from toposcope.forecasting import curve_from_metrics, forecast
from toposcope.forecasting.auto import Auto
from toposcope.forecasting.decision.advice import (
    CONTINUE,
    SCALE,
    STOP,
    Option,
    advise,
    by_loss,
    weigh,
)
from toposcope.forecasting.families import LastValue
from toposcope.logs.curve import level_and_slope, level_error
from toposcope.synthetic import Spectrum, SyntheticRecipe, simulate


@pytest.fixture(scope="module")
def synthetic():
    recipe = SyntheticRecipe(Spectrum(1.5, 1.25, 256), steps=1000, outputs=4)
    runs = [simulate(recipe, width=width) for width in (4, 8, 16, 32, 64)]
    return [
        curve_from_metrics(run.run, run.metrics, parameters=run.parameters, schedule=recipe.plan())
        for run in runs
    ]


@pytest.mark.slow
def test_default_never_regrets_more_than_going_on_and_less_on_synthetic_truth(synthetic):
    table = regret_table(synthetic, (0.1, 0.3, 0.6), rules=WITH_TOPOLOGY)
    mean = regret_summary(table).set_index("rule")["mean_regret"]
    assert mean["loss (default)"] < mean["always continue"]
    assert (table["regret"] >= -1e-12).all()


def test_a_saturated_run_with_a_big_budget_is_left(synthetic):
    run, others = synthetic[1], [synthetic[0], *synthetic[3:]]
    budget = 20.0 * run.horizon * synthetic[2].parameters
    advice = advise(run.seen(800), others, budget=budget, larger=synthetic[2].parameters)
    assert advice.action in (SCALE, STOP)
    actions = {option.action: option for option in advice.options}
    assert actions[STOP].spent == 0.0
    assert actions[CONTINUE].steps <= 200


def test_options_that_cannot_be_judged_say_why(synthetic):
    seen = synthetic[0].seen(300)
    options = {o.action: o for o in weigh(seen, [], budget=10.0, larger=10**9, method=LastValue())}
    assert options[SCALE].status == "failed"
    assert "at least 3" in options[SCALE].reason
    assert np.isnan(options[SCALE].loss)


def test_topological_rule_waits_for_diminishing_returns(synthetic):
    steps = np.arange(0, 1001, 25)
    rising = pd.DataFrame({"step": steps, "neural_persistence": 0.3 + 1e-4 * steps})
    flat = rising.assign(neural_persistence=0.5 - 0.2 * np.exp(-steps / 30))
    assert diminishing_returns(synthetic[0]) is None
    assert diminishing_returns(replace(synthetic[0], features=rising)) is False
    assert diminishing_returns(replace(synthetic[0], features=flat)) is True
    seen = replace(synthetic[0], features=rising).seen(600)
    options = weigh(seen, synthetic[1:], budget=1e6, larger=10**4)
    assert by_topology(options, seen)[0] == CONTINUE
    assert by_both(options, seen)[0] == CONTINUE


def test_the_default_takes_the_least_expected_cost_and_the_cautious_rule_waits(synthetic):
    sure = Option(CONTINUE, 1.0, 0.9, 1.1, 0.06, 1.0, 1.01, 100.0)
    likely = Option(SCALE, 0.95, 0.8, 1.1, 0.1, 1.0, 0.9595, 50.0)
    worse = Option(STOP, 1.2, 1.2, 1.2, 0.0, 0.0, 1.2, 0.0)
    assert by_loss([sure, likely, worse], synthetic[0])[0] == SCALE
    assert by_certainty([sure, likely, worse], synthetic[0])[0] == CONTINUE
    certain = replace(likely, sigma=0.01)
    assert by_certainty([replace(sure, sigma=0.01), certain, worse], synthetic[0])[0] == SCALE
    assert by_loss([sure, replace(likely, status="failed"), worse], synthetic[0])[0] == CONTINUE
    assert by_loss([worse], synthetic[0])[0] == CONTINUE
    assert by_loss([replace(sure, status="degenerate"), likely, worse], synthetic[0])[0] == CONTINUE
    assert by_loss([], synthetic[0]) == (
        CONTINUE,
        "its own end cannot be forecast with an interval, so no option is compared with it",
    )


@pytest.mark.parametrize("rows", [9, 200])
def test_advice_has_the_interval_of_the_forecast_and_leaves_no_run_without_one(rows):
    step = np.arange(10, 10 * rows + 1, 10)
    log = pd.DataFrame({"step": step, "loss": 1.5 + 3 / np.sqrt(step / 10)})
    seen = curve_from_metrics("alone", log, horizon=8000, parameters=10**6)
    made = forecast(Auto(), seen)
    on = weigh(seen, (), budget=1e10, larger=2 * 10**6)[0]
    assert (on.loss, on.low, on.high) == pytest.approx((made.final, made.low, made.high), nan_ok=True)
    advice = advise(seen, (), budget=1e10, larger=2 * 10**6)
    assert advice.action == CONTINUE
    if rows == 9:
        assert (made.status, on.status) == ("degenerate", "degenerate")
        assert "cannot be forecast with an interval" in advice.why
    else:
        assert advice.why == "stopping now is not expected to cost less; a larger model could not be judged"


def test_the_last_value_of_a_run_just_begun_is_no_mean_of_all_it_had():
    step = np.arange(10, 101, 10)
    log = pd.DataFrame({"step": step, "loss": 1.5 + 3 / np.sqrt(step / 10)})
    seen = curve_from_metrics("begun", log, horizon=10_000)
    assert LastValue().predict(seen).final == pytest.approx(log["loss"].iloc[-2:].mean())


def test_siblings_on_the_bought_schedule_are_read_at_their_end(synthetic):
    recipe = SyntheticRecipe(Spectrum(1.5, 1.25, 256), steps=500, outputs=4)
    short = [simulate(recipe, width=width) for width in (4, 8, 16)]
    ended = [curve_from_metrics(f"short {r.width}", r.metrics, parameters=r.parameters) for r in short]
    seen, larger = synthetic[3].seen(300), synthetic[4].parameters
    given = {"budget": 500.0 * larger, "larger": larger, "method": LastValue()}
    scale = weigh(seen, [*synthetic[:3], *ended], **given)[2]
    law = np.polyfit(np.log([c.parameters for c in ended]), np.log([c.final_loss() for c in ended]), 1)
    assert scale.loss == pytest.approx(np.exp(np.polyval(law, np.log(larger))))
    assert scale.reason == ""
    on_the_way = weigh(seen, synthetic[:3], **given)[2]
    assert "middle of the siblings' schedules" in on_the_way.reason


def test_regret_is_of_the_larger_model_as_it_would_be_trained(synthetic):
    shared = regret_table(synthetic, (0.3,), multiples=(1.0,))
    own = regret_table(synthetic, (0.3,), multiples=(1.0,), retrained=lambda larger, steps: 1e-9)
    assert (own["best"] == SCALE).all()
    assert (own.loc[own["action"] == CONTINUE, "regret"] > 1e3).all()
    assert (shared["regret"] < 1e3).all()
    families = pd.concat([shared.assign(family="x"), shared.assign(family="y")])
    summary = regret_summary(families).set_index("rule")
    assert (summary["units"] == 2).all()
    assert summary.loc["always continue", "effect"] == 0.0
    assert summary.loc["loss (default)", "low"] == pytest.approx(summary.loc["loss (default)", "mean_regret"])


def test_stopping_is_as_unsure_as_the_smoothed_loss():
    step, errors, held = np.arange(1.0, 501.0), [], []
    clean = 2.0 + 3.0 * step**-0.5
    for seed in range(200):
        noisy = clean * np.exp(np.random.default_rng(seed).normal(0, 0.01, 500))
        level, error = level_and_slope(step, noisy)[0], level_error(step, noisy)
        errors.append(error)
        held.append(abs(level - np.log(clean[-1])) < 1.645 * error)
    assert 0.85 <= np.mean(held) <= 0.99
    quiet = level_error(step, clean * np.exp(np.random.default_rng(0).normal(0, 0.001, 500)))
    assert quiet < 0.3 * np.mean(errors)


def test_stop_has_an_interval(synthetic):
    stop = weigh(synthetic[1].seen(300), synthetic[2:], budget=1e6, larger=10**4)[1]
    assert stop.action == STOP
    assert stop.low < stop.loss < stop.high


def run_command(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code, capsys.readouterr()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Three finished runs and one that stopped at step 60 of 200."""
    import pyarrow.parquet as pq

    from toposcope.store.schema import METRICS
    from toposcope.synthetic import write_family

    root = tmp_path_factory.mktemp("family")
    recipe = SyntheticRecipe(Spectrum(1.5, 1.25, 64), steps=200, outputs=4, checkpoints=3)
    for width in (4, 8, 16, 32):
        path = write_family(
            root / ("begun" if width == 32 else "finished"), recipe, simulate(recipe, width=width)
        )
    part = path / "metrics" / "steps_000000_000201.parquet"
    table = pq.read_table(part).slice(0, 61)
    assert table.schema.equals(METRICS)
    part.unlink()
    pq.write_table(table, path / "metrics" / "steps_000000_000061.parquet")
    return root


def test_command_forecasts_an_unfinished_run_from_its_siblings(folders, capsys):
    code, printed = run_command(
        [
            "forecast",
            str(folders / "begun"),
            "--siblings",
            str(folders / "finished"),
            "--horizon",
            "200",
            "--json",
        ],
        capsys,
    )
    assert code == 0, printed.err
    result = json.loads(printed.out)
    rows = {row["method"]: row for row in result["forecasts"]}
    assert rows["auto"]["status"] == "ok"
    assert rows["auto"]["low"] < rows["auto"]["final_loss"] < rows["auto"]["high"]
    assert rows["path transfer"]["status"] == "failed"
    assert "at least 6" in rows["path transfer"]["reason"]


@pytest.mark.slow
def test_command_scores_finished_runs(folders, capsys):
    code, printed = run_command(["forecast", str(folders / "finished"), "--cuts", "0.5"], capsys)
    assert code == 0, printed.err
    assert "Every run forecast from the others" in printed.out
    assert "The largest run (width0016-seed0) from the smaller ones" in printed.out


def test_command_advises(folders, capsys):
    arguments = [
        "forecast",
        str(folders / "begun"),
        "--siblings",
        str(folders / "finished"),
        "--horizon",
        "200",
    ]
    code, printed = run_command([*arguments, "--advise", "--budget", "1e9", "--json"], capsys)
    assert code == 0, printed.err
    advice = json.loads(printed.out)["advice"][0]
    assert advice["action"] in (CONTINUE, STOP, SCALE)
    assert {o["action"] for o in advice["options"]} == {CONTINUE, STOP, SCALE}


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--advise"], "--advise: it needs --budget"),
        (["--level", "2"], "--level 2: not a confidence level"),
        (["--cuts", "a"], "not a list of numbers"),
        (["--schedule", "absent.csv"], "no such file"),
        (["--horizon", "3"], "horizon 3 is before its last logged step"),
    ],
)
def test_command_names_the_remedy(folders, capsys, extra, message):
    code, printed = run_command(["forecast", str(folders / "finished"), *extra], capsys)
    assert code == 2
    assert message in " ".join(printed.err.split())


def test_all_that_advice_lacks_is_asked_for_at_once(tmp_path, capsys):
    step = np.arange(10, 2001, 10)
    pd.DataFrame({"step": step, "loss": 1.5 + 3 / np.sqrt(step)}).to_csv(tmp_path / "run.csv", index=False)
    given = ["forecast", str(tmp_path / "run.csv"), "--horizon", "4000", "--advise", "--budget", "1e9"]
    size, tokens = (
        "its number of parameters (--parameters)",
        "the number of tokens in a step (--tokens-per-step)",
    )
    for more, asked in (
        ((), f"{size} and {tokens} are"),
        (("--parameters", "1000"), f"{tokens} is"),
        (("--tokens-per-step", "100"), f"{size} is"),
    ):
        code, printed = run_command([*given, *more], capsys)
        assert code == 2
        assert f"run run: {asked} not stated, so FLOP cannot be counted; give " in printed.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--budget", "nan"), "--budget nan: not a finite number above 0; give one"),
        (("--budget", "inf"), "--budget inf: not a finite number above 0; give one"),
        (("--budget", "1e9", "--tokens-per-step", "-1"), "--tokens-per-step -1: not a finite"),
        (("--budget", "1e9", "--tokens-per-step", "nan"), "--tokens-per-step nan: not a finite"),
        (("--budget", "1e9", "--larger", "-5"), "--larger -5: not a finite"),
        (("--budget", "1e9", "--larger", "2"), "--larger 2: run "),
    ],
)
def test_advice_asks_for_numbers_that_can_be(folders, capsys, options, message):
    given = [
        "forecast",
        str(folders / "begun"),
        "--siblings",
        str(folders / "finished"),
        "--advise",
        *options,
    ]
    if "--tokens-per-step" not in options:
        given += ["--tokens-per-step", "100"]
    code, printed = run_command(given, capsys)
    assert code == 2
    assert message in printed.err
    assert printed.err.strip().count("\n") == 0
