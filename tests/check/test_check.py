"""`toposcope.check`: every kind of input, every level, and the sentences."""

from __future__ import annotations

import html
import math
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from tests.check.written import (
    DIALECTS,
    checkpoints,
    diverging,
    falling,
    lost,
    modded,
    spiked,
    table,
    trainer_state,
    write,
)
from toposcope.core.errors import InputError


def only(found):
    (run,) = found.runs
    return run


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize(
    ("loss", "level", "kind"),
    [
        (falling(), "all right", ""),
        (diverging(), "stop", "diverging"),
        (lost(), "stop", "not finite"),
        (spiked(), "all right", ""),
    ],
)
def test_a_run_is_judged_alike_in_every_dialect(name, loss, level, kind, tmp_path):
    plan = None if name.startswith(("nanogpt", "records", "table")) else 1000
    run = only(ts.check(write(tmp_path / name, DIALECTS[name](loss, 1000))))
    assert (run.level, run.horizon, run.step, run.ended) == (level, plan, 400, False)
    assert [one.kind for one in run.judgement.grounds][:1] == ([kind] if kind else [])
    assert run.losses == int(np.isfinite(loss).sum())
    assert run.line.startswith(f"{level}: {name} at step 400")
    assert (run.forecast is None) == (plan is None)


def test_the_answer_of_a_sound_run_says_how_far_it_is_and_where_it_ends(tmp_path):
    file = write(tmp_path / "train.log", modded(falling()))
    found = ts.check(file)
    assert re.fullmatch(
        r"all right: train\.log at step 400 of 1,000 \(loss 2\.2\d*\) may end between 2\.\d+ and "
        r"\d\.\d+ without a plan of the learning rate \(near 2\.\d+ if the rate stays as it is; "
        r"right in 93% of tests on 212 real runs\)",
        found.line,
    )
    first, ground, limits, unseen, read = str(found).splitlines()
    assert first == found.line
    assert ground == "Checked: 400 losses; no problem was found."
    assert limits.startswith(
        "Limits: The forecast assumes that the run goes on to step 1,000. Without a plan of "
        "the learning rate, quote "
    )
    assert unseen == (
        "Not checked: gradient norm (not logged), learning rate (not logged), checkpoints (a log alone was "
        "given; give the folder that holds them)."
    )
    assert read == "Log: recognised as modded-nanogpt: step from 'step', loss from 'train_loss'."
    assert found.ok


@pytest.mark.parametrize("name", ["modded.log", "table.csv"])
def test_the_forecast_is_that_of_forecast(name, tmp_path):
    file = write(tmp_path / name, DIALECTS[name](falling(), 1000))
    horizon = None if name == "modded.log" else 1000
    mine = only(ts.check(file, horizon=horizon)).forecast
    row = ts.forecast(file, horizon=horizon).table.iloc[0]
    assert mine is not None
    assert (mine.final, mine.low, mine.high) == (row.final_loss, row.low, row.high)
    assert mine.low < 2 + 5 * 1000**-0.5 < mine.high


@pytest.mark.slow
def test_with_a_plan_of_the_rate_the_interval_is_one_of_nine_in_ten(tmp_path):
    step = np.arange(1, 401)
    pd.DataFrame({"step": step, "loss": falling(), "lr": 1e-4}).to_csv(tmp_path / "a.csv", index=False)
    pd.DataFrame({"step": [1, 1000], "lr": [1e-4, 1e-4]}).to_csv(tmp_path / "plan.csv", index=False)
    found = ts.check(tmp_path / "a.csv", schedule=tmp_path / "plan.csv")
    assert re.search(r"of 1,000 .* should end near 2\.\d+ \(9 in 10: 2\.\d+ to 2\.\d+\)$", found.line)
    row = ts.forecast(tmp_path / "a.csv", schedule=tmp_path / "plan.csv").table.iloc[0]
    assert only(found).forecast.final == row.final_loss


def test_the_level_of_the_interval_is_said(tmp_path):
    step = np.arange(1, 1001)
    rows = [pd.DataFrame({"run": f"s{i}", "step": step, "loss": falling(1000, seed=i)}) for i in range(4)]
    file = write(tmp_path / "new.log", modded(falling(seed=9)))
    line = ts.check(file, siblings=pd.concat(rows), level=0.95).line
    assert re.search(r"should end near 2\.\d+ \(95 in 100: 2\.\d+ to 2\.\d+\)$", line)


def test_a_run_without_a_stated_end_says_how_to_get_a_forecast(tmp_path):
    found = ts.check(write(tmp_path / "a.csv", table(falling())))
    assert found.line.endswith(
        "has no problem so far; its last step is unknown, so give `horizon` STEP for a forecast"
    )
    assert only(found).horizon is None
    assert only(ts.check(tmp_path / "a.csv", horizon=1000)).horizon == 1000


def test_a_run_that_has_ended_says_so(tmp_path):
    found = ts.check(write(tmp_path / "a.log", modded(falling(), plan=400)))
    assert (
        found.line
        == f"all right: a.log at step 400 of 400 (loss {falling()[-1]:.4g}) has reached its last step"
    )
    assert only(found).forecast is None
    assert only(found).ended


def test_a_spike_that_passed_is_counted_and_one_that_has_not_is_looked_at(tmp_path):
    passed = ts.check(write(tmp_path / "a.log", modded(spiked())))
    assert passed.level == "all right"
    assert "Noticed, but no action is needed: loss spike at step 201 (loss is 5.8" in str(passed)
    assert "back to normal by step 209." in str(passed)
    fresh = ts.check(write(tmp_path / "b.log", modded(spiked(at=400))))
    assert fresh.level == "look"
    assert re.search(
        r"^look: b\.log .*: loss spike at step 400 .*, not back yet; look at the batch", fresh.line
    )
    assert "End: it may end between" in str(fresh)


def test_a_run_that_broke_says_what_to_do_and_what_a_healthy_run_would_do(tmp_path):
    found = ts.check(write(tmp_path / "a.log", modded(diverging())))
    assert found.line.startswith("stop: a.log at step 400 of 1,000 (loss 4.5")
    ground = only(found).judgement.grounds[0]
    assert ground.kind == "diverging"
    assert found.line.endswith(f": {ground.sentence}; {ground.remedy}")
    assert ground.remedy.startswith("go back to a checkpoint before step")
    assert "\nEnd: it would end near 2.2 without this problem" in str(found)
    assert "without this problem" in str(found)
    none = ts.check(write(tmp_path / "b.log", modded(np.full(50, np.nan))))
    assert none.line == (
        "stop: b.log at step 50 (loss nan): none of the 50 losses is finite; start again, with a lower rate"
    )


def test_few_losses_are_too_early_and_say_what_was_not_looked_at(tmp_path):
    early = ts.check(write(tmp_path / "a.log", modded(falling(4))))
    assert early.line.endswith("only 4 losses are logged: too few to judge; look again later")
    later = ts.check(write(tmp_path / "b.log", modded(falling(16))))
    assert later.level == "all right"
    assert later.line.endswith(" cannot be forecast yet: no interval can be given")
    assert "loss spikes (need 25 losses), plateaus and small rises (need 40 losses" in str(later)
    wide = ts.check(write(tmp_path / "d.log", modded(falling(30, noise=2.0), plan=60)))
    assert " cannot be forecast yet: its final loss may be anything from " in wide.line
    assert "told from" not in str(ts.check(write(tmp_path / "c.log", modded(falling(40)))))


def test_several_runs_stand_worst_first(tmp_path):
    step = np.arange(1, 401)
    runs = {"a": falling(), "b": spiked(at=400), "c": diverging(), "d": falling(seed=2)}
    rows = [pd.DataFrame({"run": run, "step": step, "loss": loss}) for run, loss in runs.items()]
    pd.concat(rows).to_csv(tmp_path / "runs.csv", index=False)
    found = ts.check(tmp_path / "runs.csv")
    assert [one.run for one in found.runs] == ["c", "b", "a", "d"]
    assert [one.level for one in found.runs] == ["stop", "look", "all right", "all right"]
    assert found.line == ("stop: 1 of 4 runs to stop (runs.csv: c), 1 to look at (runs.csv: b), 2 all right")
    assert [line.split(":")[0] for line in found.lines[1:3]] == ["stop", "  Also"]
    assert found.table["answer"].tolist() == ["stop", "look", "all right", "all right"]
    assert set(found.tables["grounds"]["run"]) == {"runs.csv: c", "runs.csv: b"}
    again = ts.check([write(tmp_path / f"{run}.log", modded(loss)) for run, loss in runs.items()])
    assert [one.name for one in again.runs] == ["c.log", "b.log", "a.log", "d.log"]


def test_steps_that_are_epochs_are_judged_and_not_forecast(tmp_path):
    for most in (0.9, 4.0):
        rows = pd.DataFrame({"epoch": most * np.arange(1, 401) / 400, "loss": diverging()})
        rows.to_csv(tmp_path / "a.csv", index=False)
        for horizon in (None, 10):
            run = only(ts.check(tmp_path / "a.csv", horizon=horizon))
            assert (run.level, run.step, run.forecast, run.ended) == ("stop", most, None, False)
    rows.assign(loss=falling()).to_csv(tmp_path / "a.csv", index=False)
    assert ts.check(tmp_path / "a.csv", horizon=10).line.endswith("because its steps are not whole numbers")


@pytest.mark.parametrize(
    ("rows", "level", "says"),
    [
        ({"loss": 0.0}, "look", "400 rows with a loss not above 0 left out"),
        ({"loss": 2.0}, "look", "since step"),
        ({"loss": np.inf}, "stop", "none of the 400 losses is finite"),
        ({"loss": np.where(np.arange(400) == 300, np.inf, falling())}, "look", "not finite"),
        ({"loss": falling()[::-1], "step": np.arange(400)[::-1]}, "all right", "at step 399 "),
        ({"loss": falling(), "step": np.arange(400) // 4}, "all right", "at step 99 "),
        ({"loss": falling(), "step": np.arange(400) * 10.0**12}, "all right", "at step 399,000,000,000,000 "),
        ({"loss": falling(), "lr": np.inf, "grad_norm": np.inf}, "look", "gradient norm is not finite"),
        ({"loss": np.where(np.arange(400) % 10, np.nan, falling()), "lr": 1e-3}, "all right", "step 399 "),
    ],
)
def test_odd_columns_are_judged(rows, level, says):
    found = ts.check(pd.DataFrame({"step": np.arange(400), **rows}))
    assert found.level == level
    assert says in found.line


def test_two_runs_written_into_one_text_are_both_judged(tmp_path):
    file = write(tmp_path / "a.log", modded(falling()) + modded(diverging()))
    assert [(one.run, one.level) for one in ts.check(file).runs] == [("a-2", "stop"), ("a-1", "all right")]


def test_a_held_out_loss_is_judged_where_there_is_no_other(tmp_path):
    text = table(diverging()).replace("loss", "val_loss", 1)
    found = ts.check(write(tmp_path / "a.csv", text))
    assert found.level == "stop"
    assert "heldout_loss from 'val_loss'" in str(found)
    both = pd.DataFrame({"step": np.arange(1, 401), "loss": falling(), "val_loss": diverging()})
    both.to_csv(tmp_path / "b.csv", index=False)
    trained = ts.check(tmp_path / "b.csv")
    assert trained.level == "look"
    assert "the held-out loss rose" in trained.line
    both.loc[both.index % 60 > 0, "val_loss"] = np.nan
    both.to_csv(tmp_path / "few.csv", index=False)
    assert "overfitting (needs 8 held-out losses)" in str(ts.check(tmp_path / "few.csv"))
    chosen = ts.check(tmp_path / "b.csv", column="heldout_loss")
    assert chosen.level == "look"
    assert "while the training loss fell" in chosen.line


def test_a_column_is_renamed_and_a_wrong_name_is_an_error(tmp_path):
    text = table(falling()).replace("loss", "mine", 1)
    file = write(tmp_path / "a.csv", text)
    assert only(ts.check(file, rename={"mine": "loss"})).losses == 400
    with pytest.raises(InputError, match="no column 'loss' among step, mine"):
        ts.check(file)
    with pytest.raises(InputError, match=r"`rename=\{'mime': '\.\.\.'\}`: no such column"):
        ts.check(file, rename={"mime": "loss"})


def test_tables_are_taken_from_python_and_answer_as_files_do(tmp_path):
    rows = pd.DataFrame({"step": np.arange(1, 401), "loss": diverging().round(5)})
    mine = ts.check(rows)
    file = ts.check(write(tmp_path / "a.csv", table(diverging())))
    assert mine.line == file.line.replace("a.csv", "the table")


def test_siblings_are_the_same_given_or_checked_too(tmp_path):
    ended = [write(tmp_path / f"s{i}.log", modded(falling(1000, seed=i) * (1 + 0.02 * i))) for i in range(4)]
    file = write(tmp_path / "new.log", modded(falling(seed=9)))
    alone = only(ts.check(file)).forecast
    beside = only(ts.check(file, siblings=ended)).forecast
    among = next(one for one in ts.check([*ended, file]).runs if one.run == "new").forecast
    assert (among.final, among.low, among.high) == (beside.final, beside.low, beside.high)
    assert among.high < alone.high
    assert beside.interval_from == "4 held-out siblings"
    row = ts.forecast(file, siblings=ended).table.iloc[0]
    assert (beside.final, beside.low, beside.high) == (row.final_loss, row.low, row.high)


def test_a_folder_of_logs_names_what_is_none(tmp_path):
    write(tmp_path / "runs" / "a" / "x.log", modded(falling()))
    write(tmp_path / "runs" / "y.log", modded(diverging()))
    write(tmp_path / "runs" / "config.json", '{"a": 1}')
    write(tmp_path / "runs" / "broken.csv", "a,b\n1,2\n2,2\n3,1\n")
    write(tmp_path / "runs" / ".hidden.log", modded(lost()))
    found = ts.check(tmp_path / "runs")
    assert [(one.name, one.level) for one in found.runs] == [
        ("runs/y.log", "stop"), ("runs/a/x.log", "all right"),
    ]  # fmt: skip
    (problem,) = found.problems
    assert "broken" in problem
    assert found.notes == ("left out because they are not logs: runs/config.json",)
    assert not found.ok
    assert "; 1 problem with the input, listed below" in found.line


def test_checkpoints_beside_a_log_are_audited(tmp_path):
    write(checkpoints(tmp_path / "run") / "train.log", modded(falling()))
    sound = only(ts.check(tmp_path / "run"))
    assert (sound.level, sound.checkpoints, sound.horizon) == ("all right", 5, 1000)
    assert "400 losses and 5 checkpoints; no problem was found" in sound.grounds[0]
    cut = tmp_path / "run" / "step_300.safetensors"
    cut.write_bytes(cut.read_bytes()[:400])
    hurt = only(ts.check(tmp_path / "run"))
    assert hurt.level == "look"
    assert hurt.line.count("\n") == 0
    assert "checkpoint at step 300: " in hurt.line
    assert "the file has 400" in hurt.line


def test_weights_that_are_not_finite_at_the_end_mean_stop(tmp_path):
    from safetensors.numpy import save_file

    run = checkpoints(tmp_path / "run")
    write(run / "train.log", modded(falling()))
    save_file({"fc.weight": np.full((16, 16), np.nan, np.float32)}, run / "step_400.safetensors")
    found = ts.check(run)
    assert found.level == "stop"
    holds = "checkpoint at step 400: fc.weight holds NaN or infinite values"
    assert found.line.endswith(f"{holds}; go back to step 300")
    cut = run / "step_300.safetensors"  # the one before it cannot be read
    cut.write_bytes(cut.read_bytes()[:400])
    assert f"{holds}; go back to step 200" in ts.check(run).line


def test_checkpoints_without_a_loss_are_no_run_that_is_all_right(tmp_path):
    bare = checkpoints(tmp_path / "run")
    found = ts.check(bare)
    assert found.line == "not judged: no log of run with 5 checkpoints; put its log into the folder"
    assert not found.ok
    log = write(tmp_path / "elsewhere" / "train.log", modded(falling()))
    both = only(ts.check([bare, log]))
    assert (both.level, both.checkpoints, both.losses) == ("all right", 5, 400)


def test_a_folder_of_transformers_is_read_with_its_plan_and_its_checkpoints(tmp_path):
    for count in (200, 400):
        trainer_state(tmp_path / "run", falling()[:count])
    run = only(ts.check(tmp_path / "run"))
    assert (run.level, run.horizon, run.step, run.checkpoints) == ("all right", 1000, 400, 2)
    assert "learning rate (not logged)" not in run.unseen
    alone = tmp_path / "alone"
    write(
        alone / "trainer_state.json",
        (tmp_path / "run" / "checkpoint-400" / "trainer_state.json").read_text(encoding="utf-8"),
    )
    assert only(ts.check(alone)).horizon == 1000


def test_an_offline_wandb_folder_is_read(tmp_path):
    from tests.logs.test_dialects import wandb_file

    rows = [{"train/loss": float(x), "train/global_step": s} for s, x in enumerate(diverging(), 1)]
    folder = tmp_path / "wandb" / "offline-run-1-abc123"
    folder.mkdir(parents=True)
    (folder / "run-abc123.wandb").write_bytes(wandb_file(rows, "bold-sun-1"))
    run = only(ts.check(tmp_path / "wandb"))
    assert (run.level, run.run, run.step) == ("stop", "bold-sun-1", 400)


@pytest.mark.slow  # torch
def test_a_tensorboard_folder_is_read(tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    for name, loss in (("a", falling()), ("b", diverging())):
        with SummaryWriter(tmp_path / name) as writer:
            for step, value in enumerate(loss, 1):
                writer.add_scalar("train/loss", value, step)
    found = ts.check(tmp_path)
    assert [(one.run, one.level) for one in found.runs] == [("b", "stop"), ("a", "all right")]


def test_a_store_is_read_with_what_its_audit_found(tmp_path):
    series = ts.open_series(
        {"a": {step: {"fc.weight": np.vander(range(1, 5)) * (1 + step)} for step in (0, 200, 400)}},
        losses=pd.DataFrame({"step": np.arange(1, 401), "loss": falling()}),
    )
    store = ts.measure(series, tmp_path / "store", features=["baselines"])
    run = only(ts.check(store))
    assert (run.run, run.losses, run.checkpoints) == ("a", 400, 3)
    assert run.level == ("look" if store.audited() else "all right")
    hurt = {
        step: {"fc.weight": np.full((4, 4), value)} for step, value in ((0, 1.0), (200, 1.0), (400, np.nan))
    }
    frame = pd.DataFrame({"step": np.arange(1, 401), "loss": falling()})
    other = ts.measure(ts.open_series({"b": hurt}, losses=frame), tmp_path / "hurt", features=["baselines"])
    assert other.audited()
    assert only(ts.check(tmp_path / "hurt")).level == "stop"


def test_a_schedule_that_contradicts_the_log_is_a_ground(tmp_path):
    write(tmp_path / "plan.csv", "step,lr\n1,0.1\n300,0.01\n")
    found = ts.check(write(tmp_path / "a.log", modded(falling())), schedule=tmp_path / "plan.csv")
    assert found.level == "look"
    assert "its schedule ends at step 300, the run at 400" in found.line
    broken = ts.check(write(tmp_path / "b.log", modded(diverging())), schedule=tmp_path / "plan.csv")
    assert broken.level == "stop"  # what is wrong with the plan hides nothing


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.log", b"", "is empty"),
        ("a.log", b"hello\nworld\n", "no line names a step and a loss"),
        ("a.log", bytes(range(256)) * 9, "neither a store nor a log"),
        ("a.csv", b"a,b\n1,2\n", "no column 'step'"),
        ("a.parquet", b"PAR1 and then nothing", "a.parquet"),
        ("a.jsonl", b'{"step": 1, "lo', "a.jsonl"),
        ("trainer_state.json", b'{"log_history": 7}', "trainer_state"),
        ("a.safetensors", b"12345678901234567890", "a.safetensors"),
    ],
)
def test_what_is_no_log_is_one_line_and_a_named_problem_beside_others(name, content, says, tmp_path):
    bad = tmp_path / name
    bad.write_bytes(content)
    good = write(tmp_path / "good.log", modded(falling()))
    with pytest.raises(InputError, match=says) as caught:
        ts.check(bad)
    assert "\n" not in str(caught.value)
    both = ts.check([bad, good])
    assert [one.name for one in both.runs] == ["good.log"]
    assert says in both.problems[0]
    assert not both.ok


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"level": 1.5}, "level 1.5"),
        ({"horizon": 0}, "horizon 0: no run can end there; give the step"),
        ({"siblings": "/nowhere.log"}, "nowhere"),
        ({"column": "nosuch"}, "nosuch"),
    ],
)
def test_an_option_without_meaning_is_one_line(options, says, tmp_path):
    file = write(tmp_path / "a.log", modded(falling()))
    with pytest.raises(InputError, match=says):
        ts.check(file, **options)


def test_nothing_to_check_is_an_error(tmp_path):
    with pytest.raises(InputError, match="name a log, a folder or a store"):
        ts.check([])
    with pytest.raises(InputError, match="contains no log, no checkpoint and no store"):
        ts.check(tmp_path)
    with pytest.raises(InputError, match="no such file or folder"):
        ts.check(tmp_path / "nothing")


def test_the_result_is_shown_drawn_and_given_as_plain_data(tmp_path):
    found = ts.check([write(tmp_path / f"{x}.log", modded(f)) for x, f in (("a", falling()), ("b", lost()))])
    shown = html.unescape(re.sub(r"<[^>]+>", "", found._repr_html_()))
    assert shown.startswith(found.line)
    assert found.plot().has_data()
    plain = found.to_dict()
    assert plain["answer"] == found.line
    assert [one["level"] for one in plain["runs"]] == ["stop", "all right"]
    assert math.isnan(plain["runs"][0]["loss"])
    assert plain["runs"][1]["forecast"]["final_loss"] == found.runs[1].forecast.final
    assert [one.strength for one in found.findings] == ["stop", "all right"]


@pytest.mark.parametrize(
    ("then", "now", "differs"),
    [
        (falling()[:390], falling(), False),
        (falling()[:390], lost(), True),
        (falling()[:200], spiked(), True),
        (spiked()[:300], spiked(), False),
        (falling()[:4], falling(), True),
        (falling(), falling() / 2, True),
    ],
)
def test_an_answer_differs_by_level_grounds_and_end(then, now, differs, tmp_path):
    before, after = (ts.check(write(tmp_path / "a.log", modded(loss))) for loss in (then, now))
    assert after.differs(before) == differs
    assert before.differs(None)


def test_a_log_is_checked_without_torch_and_without_what_draws_or_compiles(tmp_path):
    file = write(tmp_path / "a.log", modded(falling()))
    script = (
        "import sys; from toposcope.cli.main import main\n"
        "try: main(['check', sys.argv[1]])\n"
        "except SystemExit as end: print('ended', end.code)\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    call = [sys.executable, "-c", script, str(file)]
    out = subprocess.run(call, capture_output=True, text=True, check=True).stdout.splitlines()
    assert out[0].startswith("all right: a.log")
    assert out[-2] == "ended 0"
    loaded = set(out[-1].split())
    assert "numpy" in loaded
    assert not loaded & {"torch", "transformers", "matplotlib", "sklearn", "gudhi"}


@pytest.mark.slow
def test_forty_public_logs_are_answered(shared_data):
    logs = shared_data / "logs" / "parameter_golf"
    if not logs.is_dir():
        pytest.skip(f"{logs} is absent")
    found = ts.check(logs)
    assert len(found.runs) == 40
    assert found.problems == ()
    assert all(one.line.startswith(f"{one.level}: ") and "\n" not in one.line for one in found.runs)
    assert all(one.forecast is not None or one.ended for one in found.runs)
    assert all(one.horizon is not None for one in found.runs)


# -- what check and forecast say alike


@pytest.mark.parametrize("name", DIALECTS)
def test_check_and_forecast_have_one_rule_for_where_a_run_ends(name, tmp_path):
    """A log that states its end is forecast by both; of one that does not, both ask for it in one way."""
    file = write(tmp_path / name, DIALECTS[name](falling(), 1000))
    run = only(ts.check(file))
    made = ts.forecast(file)
    assert [curve.horizon for curve in made.unfinished] == ([run.horizon] if run.horizon else [])
    if run.horizon is None:
        assert "last step is unknown" in run.line
        assert "last step of this run is unknown" in made.too_few
        assert "`horizon` STEP" in run.line
        assert "`horizon` STEP" in made.too_few


@pytest.mark.parametrize("count", [30, 400, 2500])
def test_one_wrong_last_loss_asks_for_a_look_and_no_stop(count):
    loss = falling(count)
    loss[-1] *= 3
    table = pd.DataFrame({"step": np.arange(1, count + 1), "loss": loss})
    assert only(ts.check(table)).level == "look"


def test_each_run_of_a_folder_has_the_log_beside_its_checkpoints(tmp_path):
    for name in ("a", "b", "c"):
        write(checkpoints(tmp_path / "runs" / name) / "train.log", modded(falling()))
    cut = tmp_path / "runs" / "b" / "step_300.safetensors"
    cut.write_bytes(cut.read_bytes()[:400])
    found = ts.check(tmp_path / "runs")
    assert [(run.name, run.level, run.checkpoints, run.losses) for run in found.runs] == [
        ("runs/b/train.log", "look", 5, 400),
        ("runs/a/train.log", "all right", 5, 400),
        ("runs/c/train.log", "all right", 5, 400),
    ]
    assert "checkpoint at step 300: " in found.runs[0].line


def test_a_log_of_the_name_of_a_run_is_its_log_and_two_that_differ_are_none(tmp_path):
    for name in ("a", "b"):
        checkpoints(tmp_path / "runs" / name)
    write(tmp_path / "runs" / "logs" / "a.log", modded(falling()))
    for seed, file in enumerate(("one.log", "two.log")):
        write(tmp_path / "runs" / "b" / file, modded(falling(seed=seed)))
    found = {run.name: (run.checkpoints, run.losses) for run in ts.check(tmp_path / "runs").runs}
    assert found == {
        "runs/logs/a.log": (5, 400),
        "runs: b": (5, 0),
    }


def test_the_odd_seed_of_a_table_is_found_beside_other_logs(tmp_path):
    step = np.arange(1, 401)
    seeds = {f"s{i}": falling() + 0.02 * np.sin(0.01 * step + i) for i in range(5)}
    seeds["s4"] = seeds["s4"] + np.where(step > 200, 0.3, 0.0)
    rows = pd.concat([pd.DataFrame({"run": run, "step": step, "loss": loss}) for run, loss in seeds.items()])
    rows.to_csv(tmp_path / "seeds.csv", index=False)
    (alone,) = [run for run in ts.check(tmp_path / "seeds.csv").runs if run.level == "look"]
    for i in range(4):
        write(tmp_path / f"other{i}.log", modded(falling() + i))
    (beside,) = [run for run in ts.check(tmp_path).runs if run.level == "look"]
    assert (beside.run, beside.grounds) == (alone.run, alone.grounds)


@pytest.mark.parametrize("others", [1, 3])
def test_an_unfinished_run_learns_from_the_finished_ones_that_are_checked_too(others, tmp_path):
    """`check` said another interval than `forecast` of the same logs."""
    done = [
        write(tmp_path / f"done{i}.log", modded(falling(seed=i) * (1 + 0.01 * i), plan=400))
        for i in range(others)
    ]
    begun = write(tmp_path / "begun.log", modded(falling(200, seed=9) * 1.005, plan=400))
    alone = only(ts.check(begun)).forecast
    (one,) = [run for run in ts.check([*done, begun]).runs if run.run == "begun"]
    table = ts.forecast([*done, begun]).table.set_index("run")
    row = table.loc["begun"]
    assert (one.forecast.final, one.forecast.low, one.forecast.high) == (row.final_loss, row.low, row.high)
    assert one.forecast.final != alone.final
    given = only(ts.check(begun, siblings=done)).forecast
    assert (one.forecast.final, one.forecast.low, one.forecast.high) == (given.final, given.low, given.high)


def test_a_sibling_that_diverged_teaches_nothing(tmp_path):
    broken = write(tmp_path / "broken.log", modded(diverging(), plan=400))
    begun = write(tmp_path / "begun.log", modded(falling(200, seed=9), plan=400))
    alone = only(ts.check(begun)).forecast
    (one,) = [run for run in ts.check([broken, begun]).runs if run.run == "begun"]
    assert (one.forecast.final, one.forecast.low) == (alone.final, alone.low)
    assert any("broken.log" in limit for limit in one.limits)


def test_it_is_said_that_forecast_learns_from_whole_logs_without_a_stated_end(tmp_path):
    rows = pd.DataFrame({"step": np.arange(1, 401), "loss": falling(seed=1)})
    rows.to_csv(tmp_path / "whole.csv", index=False)
    begun = write(tmp_path / "begun.log", modded(falling(300), plan=400))
    said = "forecast and report also learn from a run whose log states no end"
    assert any(said in note for note in ts.check([str(tmp_path / "whole.csv"), begun]).notes)
    assert not any("also learn" in note for note in ts.check(begun).notes)


@pytest.mark.parametrize("share", [0.15, 0.3, 0.45])
def test_a_run_that_ended_on_a_plateau_says_so_first(share, tmp_path):
    loss, last = falling(1000), int(share * 1000)
    loss[last:] = loss[last - 1] + 0.01 * np.random.default_rng(8).standard_normal(1000 - last)
    found = only(ts.check(write(tmp_path / "flat.log", modded(loss, plan=1000))))
    assert found.level == "all right"
    assert re.search(
        r"has reached its last step; since step 501 the loss hardly moves: .*; next time, let", found.line
    )
    assert not any("hardly moves" in ground for ground in found.grounds)
    sound = only(ts.check(write(tmp_path / "sound.log", modded(falling(1000), plan=1000))))
    assert sound.line.endswith("has reached its last step")


def test_runs_that_do_not_belong_together_are_named_in_the_first_line(tmp_path):
    rows = [
        {"run": f"{tokenizer}{seed}", "tokenizer": tokenizer, "planned_steps": plan, "step": s, "loss": x}
        for times, tokenizer, plan in ((1, "characters", 400), (2, "bpe", 800))
        for seed in (1, 2)
        for s, x in enumerate(times * falling(seed=seed), 1)
    ]
    file = tmp_path / "both.csv"
    pd.DataFrame(rows).to_csv(file, index=False)
    found = ts.check(file)
    assert found.line.endswith("4 of 4 runs (2 finished, 2 under way); not all belong together, see below")
    assert [run.horizon for run in found.runs] == [400, 400, 800, 800]
    (note,) = [note for note in found.notes if "belong" in note]
    assert "characters (both.csv: characters1, both.csv: characters2); bpe (" in note
    alone = ts.check(file, without=["bpe1", "bpe2"])
    assert "belong" not in alone.line
    assert [run.horizon for run in ts.check(pd.DataFrame(rows)).runs] == [400, 400, 800, 800]


@pytest.mark.parametrize(
    ("runs", "said"), [(2, []), (5, ["Noticed over all runs, but no action is needed: 1 thing"])]
)
def test_what_was_noticed_is_told_once(tmp_path, runs, said):
    """Two runs told a spike in a sentence, and then `Noticed: 1 passing events over all runs`."""
    paths = [write(tmp_path / f"r{seed}.log", modded(falling(seed=seed))) for seed in range(runs - 1)]
    paths.append(write(tmp_path / "spiked.log", modded(spiked())))
    lines = [line for line in ts.check(paths).lines if line.startswith("Noticed")]
    assert [line.partition(".")[0] for line in lines] == said
