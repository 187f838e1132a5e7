"""Which of several runs is odd: planted ones are found and named, healthy groups are left alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

import toposcope as ts
from toposcope.cli.main import main
from toposcope.core.wording import typed_options
from toposcope.logs.facts import Stated
from toposcope.runs.odd import Member, odd_among
from toposcope.statistics.odd import odd_runs
from toposcope.study.findings.base import Finding
from toposcope.study.findings.words import said
from toposcope.study.study import page_of

STEPS = np.arange(1, 41) * 10.0


def healthy(runs: int, seed: int) -> np.ndarray:
    """Losses (runs, steps) of seeds that differ by half a percent, and by noise."""
    g = np.random.default_rng(seed)
    curve = 2.0 + 4.0 * STEPS**-0.4
    return curve * (1.0 + 0.005 * g.standard_normal((runs, 1))) + 0.01 * g.standard_normal((runs, len(STEPS)))


def table(losses: np.ndarray, **columns: object) -> pd.DataFrame:
    """A table of runs s0, s1, ..."""
    parts = [pd.DataFrame({"run": f"s{i}", "step": STEPS, "loss": row}) for i, row in enumerate(losses)]
    return pd.concat(parts, ignore_index=True).assign(**columns)


@pytest.mark.calibration
@pytest.mark.parametrize("runs", [pytest.param(4, marks=pytest.mark.sample), 5, 10])
def test_a_group_of_healthy_runs_has_an_odd_one_in_five_percent(runs: int) -> None:
    found = [bool(odd_runs({"loss": healthy(runs, seed)}, STEPS)) for seed in range(400)]
    assert np.mean(found) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


@pytest.mark.calibration
def test_offsets_that_last_keep_their_part_of_the_level_exactly() -> None:
    rate = []
    for seed in range(600):
        g = np.random.default_rng(seed)
        rate.append(bool(odd_runs({"a": g.standard_normal((6, 1)) * np.ones(20)}, np.arange(20.0))))
    assert 0.01 < np.mean(rate) < 0.055  # 3% for the whole curve


LONG = np.arange(1, 161) * 10.0


def long_seeds(runs: int, seed: int) -> np.ndarray:
    """Losses (runs, 160) of seeds half a percent apart, that wander a little, with noise."""
    g = np.random.default_rng([runs, seed])
    wander = 0.0005 * np.cumsum(g.standard_normal((runs, 160)), axis=1) / np.sqrt(10)
    apart = 0.005 * g.standard_normal((runs, 1)) + wander + 0.004 * g.standard_normal((runs, 160))
    return (2.0 + 4.0 * LONG**-0.4) * np.exp(apart)


def end_apart(losses: np.ndarray, g: np.random.Generator) -> None:
    losses[2, 136:] *= 1.025


def end_noisy(losses: np.ndarray, g: np.random.Generator) -> None:
    losses[2, 136:] *= np.exp(0.02 * g.standard_normal(24))


def six_spikes(losses: np.ndarray, g: np.random.Generator) -> None:
    losses[2, g.choice(np.arange(10, 160, 5), 6, replace=False)] *= 1.4


@pytest.mark.parametrize(
    ("plant", "by", "least"),
    [(end_apart, "end", 0.9), (end_noisy, "noise", 0.8), (six_spikes, "spikes", 0.9)],
)
def test_what_a_whole_curve_hides_is_found_among_ten(plant, by: str, least: float) -> None:
    """Each was found in 0 to 4% of groups: a mean over twelve stretches hides two of them."""
    found = []
    for seed in range(25):
        losses = long_seeds(10, seed)
        plant(losses, np.random.default_rng(seed))
        found.append({(one.run, one.by) for one in odd_runs({"loss": losses}, LONG)})
    assert np.mean([(2, by) in one for one in found]) >= least


@pytest.mark.calibration
@pytest.mark.parametrize("runs", [4, 5, 10])
def test_long_healthy_seeds_have_an_odd_one_in_five_percent(runs: int) -> None:
    found = [bool(odd_runs({"loss": long_seeds(runs, seed)}, LONG)) for seed in range(300)]
    assert np.mean(found) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)


def test_the_answer_says_that_a_run_leaves_the_others_at_its_end() -> None:
    losses = long_seeds(10, 1)
    end_apart(losses, np.random.default_rng(1))
    members = [Member(Stated(f"s{i}", {}), {"loss": pd.Series(row, LONG)}) for i, row in enumerate(losses)]
    (odd,) = odd_among(members).found
    assert odd.run == "s2"
    assert "it leaves them over the last 15% of the steps" in odd.sentence


def test_two_odd_runs_do_not_hide_each_other() -> None:
    losses = healthy(10, 3)
    losses[[2, 7]] *= 1.2
    found = odd_runs({"loss": losses}, STEPS)
    assert {one.run for one in found} == {2, 7}
    assert all(one.p <= 0.05 for one in found)


def test_a_spike_is_no_oddity_and_equal_runs_are_alike() -> None:
    losses = healthy(5, 4)
    losses[1, 20] *= 3.0
    assert odd_runs({"loss": losses}, STEPS) == ()
    assert odd_runs({"loss": np.ones((5, 40))}, STEPS) == ()
    assert odd_runs({"loss": healthy(3, 0)}, STEPS) == ()


def test_the_setting_that_differs_is_named_and_a_size_is_no_oddity() -> None:
    losses = healthy(6, 5)
    losses[4, 20:] += 0.5
    losses[5] -= 0.8

    def member(i: int) -> Member:
        facts = {"learning rate": "0.018" if i == 4 else "0.003", "task": "lm"}
        return Member(Stated(f"s{i}", facts, 2e6 if i == 5 else 1e6), {"loss": pd.Series(losses[i], STEPS)})

    found = odd_among([member(i) for i in range(6)])
    assert [one.run for one in found.found] == ["s4"]
    assert found.compared == 5
    assert found.found[0].differs == ("learning rate is 6 x theirs",)
    assert found.found[0].since is not None
    assert 180 <= found.found[0].since <= 240


@pytest.mark.parametrize(("runs", "words"), [(6, "1 run has"), (7, "2 runs have")])
def test_runs_that_were_not_compared_are_counted_in_words(runs: int, words: str) -> None:
    numbers = {"compared": 5, "runs": runs, "fewest": 3, "level": 0.05, "features": False, "odd": []}
    found = said(Finding("odd", "alike", numbers), subject="table", topology="columns", target="loss")
    assert words + " fewer than 3 siblings" in found.limits


@pytest.mark.parametrize(("p", "words"), [(0.02, "in 2% of groups"), (0.0002, "in less than 0.1% of groups")])
def test_the_ground_of_an_odd_run_is_how_often_chance_goes_as_far(p: float, words: str) -> None:
    one = {
        "run": "s3",
        "sentence": "not like its siblings",
        "p": p,
        "frozen": [],
        "differs": [],
        "since": None,
    }
    numbers = {"compared": 5, "runs": 5, "odd": [one], "leave_out": "--without s3"}
    found = said(Finding("odd", "odd", numbers), subject="table", topology="columns", target="loss")
    assert found.ground.startswith(f"By chance, a run lies this far from its siblings {words}")


def test_a_run_that_ends_early_is_compared_up_to_its_end() -> None:
    losses = healthy(5, 6)
    losses[2, 10:] += 0.6
    members = [
        Member(Stated(f"s{i}", {}), {"loss": pd.Series(row, STEPS).iloc[: 25 if i == 0 else None]})
        for i, row in enumerate(losses)
    ]
    assert [one.run for one in odd_among(members).found] == ["s2"]


def test_check_and_analyze_say_one_thing_of_one_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    losses = healthy(5, 7)
    losses[3] *= 1.15
    path = tmp_path / "five.csv"
    frame = table(losses)
    g = np.random.default_rng(1)
    frame["norm"] = np.log(frame["step"]) + 0.05 * g.standard_normal(len(frame))
    frame.to_csv(path, index=False)
    checked = ts.check(path)
    ground = next(one for one in checked.runs[0].judgement.grounds if one.kind == "odd run")
    assert checked.runs[0].run == "s3"
    assert ground.sentence.startswith("not like its 4 siblings: loss ")
    findings = ts.analyze(path).findings
    assert findings["odd"].strength == "odd"
    assert [one["run"] for one in findings["odd"].numbers["odd"]] == ["s3"]
    assert findings.headline == f"Run s3 is {ground.sentence}."
    with pytest.raises(SystemExit) as ended:
        main(["check", str(path), "--json"])
    assert ended.value.code == 1
    told = json.loads(capsys.readouterr().out)
    assert "odd run" in {one["kind"] for run in told["runs"] for one in run["grounds"]}


def test_check_of_healthy_runs_names_none(tmp_path: Path) -> None:
    path = tmp_path / "five.csv"
    table(healthy(5, 8)).to_csv(path, index=False)
    assert not any(g.kind == "odd run" for one in ts.check(path).runs for g in one.judgement.grounds)


def test_another_learning_rate_is_named_across_groups() -> None:
    losses = healthy(5, 9)
    losses[1] *= 1.1
    frame = table(losses)
    frame["mine"] = np.sqrt(frame["step"])
    found = ts.analyze(frame).all_findings
    assert found[0]["odd"].numbers["odd"][0]["run"] == "s1"


def exit_code(*words: str) -> int:
    """What a command ends with."""
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert isinstance(ended.value.code, int)
    return ended.value.code


ADVICE = re.compile(r"leave\s+it\s+out:\s+--without\s+(\S+?)\.?(?=\s|$)")


@pytest.mark.parametrize("command", [
    ["check"], ["analyze"], pytest.param(["report", "--out", "REPORT"], marks=pytest.mark.slow)
])  # fmt: skip
def test_the_advice_to_leave_a_run_out_works_as_printed(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.chdir(tmp_path)
    losses = healthy(6, 1)
    losses[3] *= 1.15
    table(losses).assign(mine=1.0).to_csv("six.csv", index=False)
    name, *options = command
    exit_code(name, "six.csv", *options)
    found = ADVICE.search(capsys.readouterr().out)
    assert found is not None
    assert found[1] == "s3"
    exit_code(name, "six.csv", *options, "--without", found[1])
    told = capsys.readouterr()
    assert "siblings" not in told.out or "none of 5 runs is unlike its siblings" in told.out
    assert "s3 (on request)" in told.out or "left out on request: s3" in told.err
    if name == "report":
        for page in ("index.html", "report.md"):
            assert "Left out: run s3 (on request)" in Path("REPORT", page).read_text().replace("\\", "")


@pytest.mark.parametrize("command", ["check", "analyze", "report"])
@pytest.mark.parametrize(
    ("gone", "says"), [(["s9"], "name one of s0, s1"), ([f"s{i}" for i in range(4)], "keep at least one run")]
)
def test_leaving_out_what_is_not_there_is_one_line(
    command: str, gone: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "four.csv"
    table(healthy(4, 1)).assign(mine=1.0).to_csv(path, index=False)
    options = ["--out", str(tmp_path / "report")] if command == "report" else []
    words = [word for run in gone for word in ("--without", run)]
    assert exit_code(command, str(path), *options, *words) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert len(told.err.strip().splitlines()) == 1
    assert "--without" in told.err
    assert says in told.err


def test_python_leaves_a_run_out_as_the_commands_do(tmp_path: Path) -> None:
    frame = table(healthy(5, 2)).assign(mine=1.0)
    rest = ts.analyze(frame, without="s2")
    assert rest.studies[0].series.run_names == ["s0", "s1", "s3", "s4"]
    assert "run s2 (on request)" in rest._repr_html_()
    assert rest.findings.as_data()["without"] == ["s2"]
    assert ts.report(frame, tmp_path / "page", without=["s2"]).analysis.studies[0].without == ("s2",)
    found = ts.check(frame, without=["s2"])
    assert {one.run for one in found.runs} == {"s0", "s1", "s3", "s4"}
    with pytest.raises(ValueError, match="there is no such run"):
        ts.check(frame, without="s7")


@pytest.mark.parametrize("judge", [ts.check, ts.analyze])
def test_python_reads_how_python_leaves_a_run_out(judge: Callable[[pd.DataFrame], object]) -> None:
    losses = healthy(6, 1)
    losses[3] *= 1.15
    found = judge(table(losses).assign(mine=1.0))
    assert "leave it out: `without='s3'`" in repr(found)
    assert "--without" not in repr(found)


def test_audit_names_the_odd_run_and_its_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    losses = healthy(5, 7)
    losses[3] *= 1.15
    g = np.random.default_rng(2)
    for i, row in enumerate(losses):
        folder = tmp_path / "runs" / f"s{i}"
        folder.mkdir(parents=True)
        for step in (100, 400):
            save_file({"fc.weight": g.standard_normal((8, 8))}, folder / f"step_{step:06d}.safetensors")
        log = [{"step": int(step), "loss": float(loss)} for step, loss in zip(STEPS, row, strict=True)]
        (folder / "training_log.json").write_text(json.dumps(log))
        rate = 0.006 if i == 3 else 0.001
        (folder / "config.json").write_text(json.dumps({"learning_rate": rate, "seed": i}))
    found = ts.audit(tmp_path / "runs")
    assert [one.run for one in found.odd] == ["s3"]
    assert "s3 is not like its 4 siblings: loss " in repr(found)
    assert found.odd[0].differs == ("learning rate is 6 x theirs",)
    assert exit_code("audit", str(tmp_path / "runs"), "--json") == 1
    assert [one["run"] for one in json.loads(capsys.readouterr().out)["odd"]] == ["s3"]
    (tmp_path / "runs" / "s3").rename(tmp_path / "s3")
    assert ts.audit(tmp_path / "runs").odd == ()


def test_a_forecast_leaves_a_run_out_and_advice_says_so_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "five.csv"
    table(healthy(5, 3)).assign(planned_steps=800).to_csv(path, index=False)
    words = ["forecast", str(path), "--horizon", "800", "--without", "s2"]
    assert exit_code(*words, "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert {one["run"] for one in made["forecasts"]} == {"s0", "s1", "s3", "s4"}
    assert exit_code(*words) == 0
    told = capsys.readouterr()
    assert "note: left out on request: s2" in told.err
    assert "s2" not in told.out
    assert exit_code("forecast", str(path), "--without", "s7") == 2
    assert "there is no such run; name one of s0, s1" in capsys.readouterr().err
    found = ts.forecast(path, horizon=800, without="s2")
    assert {curve.run for curve in found.unfinished} == {"s0", "s1", "s3", "s4"}
    broken = table(healthy(5, 3)).assign(mine=1.0)
    rising = (broken["run"] == "s1") & (broken["step"] > 300)
    broken.loc[rising, "loss"] += 0.05 * (broken.loc[rising, "step"] - 300)
    broken.to_csv(path, index=False)
    ill = ts.analyze(path, without="s2").findings["on"].numbers["command"]
    assert ill.endswith("without=['s2'])")


def test_the_command_of_a_page_leaves_the_same_runs_out() -> None:
    with typed_options():
        assert page_of(["store"], ["s1", "my run"]).endswith("--without s1 --without 'my run'")
        assert "--without" not in page_of(["store"])
