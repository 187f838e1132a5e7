"""A log that lies with checkpoints is theirs in every command: check, weights, report, forecast and watch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from tests.check.dialects import nanogpt
from tests.check.written import checkpoints, falling, megatron, modded
from toposcope.cli.main import main
from toposcope.sources import _logs_beside as logs_beside
from toposcope.store import Store


def typed(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    captured = capsys.readouterr()
    return ended.value.code, captured.out, captured.err


def measured(folder: Path, out: Path, capsys, *more) -> tuple[Store, str]:
    """Return the store of a folder's weights, and what was said on the way."""
    _, _, said = typed(capsys, "weights", folder, "--out", out, "--features", "baselines", *more)
    return Store.open(out), said


def test_a_store_has_the_losses_and_the_plan_of_the_log_beside_the_checkpoints(tmp_path, capsys):
    run = checkpoints(tmp_path / "run")
    (run / "train.log").write_text(megatron(falling()))
    store, said = measured(run, tmp_path / "store", capsys)
    assert "losses from run/train.log, recognised as Megatron-LM" in said
    assert said.count("train.log") == 1
    assert store.metrics()["loss"].notna().sum() == 400
    checked = ts.check(run).runs[0]
    of_store = ts.check(tmp_path / "store").runs[0]
    assert (of_store.level, of_store.horizon, of_store.loss) == (checked.level, 1000, checked.loss)
    mine, theirs = checked.forecast, of_store.forecast
    assert (mine.final, mine.low, mine.high) == pytest.approx((theirs.final, theirs.low, theirs.high))
    made = ts.forecast(run).table.iloc[0]
    assert made["final_loss"] == pytest.approx(mine.final)


def test_each_of_several_runs_has_its_own_and_two_logs_are_none(tmp_path, capsys):
    for i, name in enumerate(("a", "b", "c")):
        checkpoints(tmp_path / "runs" / name)
        (tmp_path / "runs" / name / "train.log").write_text(modded(falling(seed=i)))
    (tmp_path / "runs" / "c" / "second.log").write_text(modded(falling(seed=9)))
    series = ts.open_series(tmp_path / "runs")
    ends = {run: series.metrics(run)["loss"].tolist()[-1:] for run in series.names}
    assert ends == {
        "a": pytest.approx([falling(seed=0)[-1]], abs=1e-5),
        "b": pytest.approx([falling(seed=1)[-1]], abs=1e-5),
        "c": [],
    }
    assert set(series.logs()) == {"a", "b"}
    assert ts.open_series(tmp_path / "runs", logs=False).logs() == {}


def test_a_log_that_is_named_is_read_instead(tmp_path, capsys):
    run = checkpoints(tmp_path / "run")
    (run / "train.log").write_text(modded(falling()))
    other = tmp_path / "other.csv"
    pd.DataFrame({"step": [0, 100], "heldout_loss": [5.0, 4.0]}).to_csv(other, index=False)
    store, said = measured(run, tmp_path / "store", capsys, "--losses", other)
    assert "train.log" not in said
    assert store.metrics()["loss"].notna().sum() == 0
    assert store.metrics()["heldout_loss"].dropna().tolist() == [5.0, 4.0]


def test_losses_of_a_run_of_its_own_are_not_mixed_with_a_log(tmp_path):
    run = checkpoints(tmp_path / "run")
    rows = [{"step": s, "loss": 3.0} for s in range(50)]
    (run / "training_log.json").write_text(json.dumps(rows))
    (run / "train.log").write_text(modded(falling()))
    series = ts.open_series(run)
    assert len(series.metrics("run")) == 50
    assert series.logs() == {}


def test_a_watch_reads_the_log_that_grows_beside_the_checkpoints(tmp_path, capsys):
    run = checkpoints(tmp_path / "run", (0, 100))
    log = run / "train.log"
    words = ("watch", run, "--once", "--rest", 0, "--out", tmp_path / "store", "--features", "updates")
    log.write_text("number of parameters: 0.01M\n")  # the trainer has not logged its first loss yet
    assert "no loss of run" in typed(capsys, *words)[1]
    loss = falling()
    log.write_text(nanogpt(loss[:200]))
    (run / "config.json").write_text(json.dumps({"max_steps": 1000}))
    assert "log: run: losses from run/train.log, recognised as nanoGPT" in typed(capsys, *words)[1]
    log.write_text(nanogpt(loss))
    _, out, _ = typed(capsys, *words)
    assert "losses from" not in out
    known = Store.open(tmp_path / "store")
    assert known.metrics()["loss"].notna().sum() == 400
    assert ts.check(known).runs[0].horizon == ts.check(run).runs[0].horizon == 1000


def test_a_report_of_checkpoints_with_a_log_has_the_verdict_of_the_check(tmp_path, capsys):
    run = checkpoints(tmp_path / "run")
    lost = np.where(np.arange(400) >= 360, np.nan, falling())
    (run / "train.log").write_text(modded(lost))
    measured(run, tmp_path / "store", capsys)
    page = ts.report(tmp_path / "store", tmp_path / "report").page.with_name("report.md").read_text()
    ground = ts.check(run).runs[0].judgement.grounds[0].sentence
    assert ground in page.split("\n## ")[0]


def test_the_first_line_of_a_watch_has_the_ground_of_a_check_without_an_alarm(tmp_path, capsys):
    run = checkpoints(tmp_path / "run", (0, 100))
    loss = falling()
    loss[120:] = loss[119] + 0.01 * np.random.default_rng(4).standard_normal(280)
    (run / "train.log").write_text(modded(loss))
    (ground,) = ts.check(run).runs[0].judgement.grounds
    code, out, _ = typed(
        capsys, "watch", run, "--once", "--rest", 0, "--out", tmp_path / "store", "--features", "updates"
    )
    assert (code, ground.kind) == (1, "plateau")
    assert out.splitlines()[0] == f"no alarm in 2 checkpoints of 1 run, but look: run: {ground}"


@pytest.mark.parametrize("steps", [range(600, 601), range(200, 2001, 200)])
def test_a_run_without_a_log_has_the_losses_of_its_checkpoints_beside_a_run_with_one(tmp_path, steps):
    torch = pytest.importorskip("torch")
    for run, at in (("one", range(100, 401, 100)), ("two", steps)):
        (tmp_path / run).mkdir()
        for step in at:
            weight = torch.full((8, 8), 1.0) + 1e-3 * step * torch.eye(8)
            state = {"model": {"w.weight": weight}, "iter_num": step, "best_val_loss": 2 + 40 / step**0.5}
            torch.save(state, tmp_path / run / f"ckpt_{step}.pt")
    table = pd.DataFrame({"step": np.arange(1, 61), "loss": falling(60)})
    table.to_csv(tmp_path / "one" / "log.csv", index=False)
    runs = {str(one["run"]): one for one in ts.check(tmp_path).to_dict()["runs"]}
    (log,) = (one for name, one in runs.items() if name.endswith("one/log.csv"))
    (stated,) = (one for name, one in runs.items() if name.endswith("two"))
    assert (log["losses"], log["checkpoints"]) == (60, 4)
    assert (stated["losses"], stated["checkpoints"], stated["step"]) == (len(steps), len(steps), steps[-1])


def test_a_file_that_is_no_log_is_read_once_while_it_stays_as_it_is(tmp_path, monkeypatch):
    checkpoints(tmp_path, range(1, 4))
    (tmp_path / "notes.txt").write_text("a sample of the model\n")
    read: list[str] = []
    whole = logs_beside.read_log
    monkeypatch.setattr(logs_beside, "read_log", lambda path: read.append(path.name) or whole(path))
    for _ in range(3):
        series = ts.open_series(tmp_path)
        assert not series.metrics(series.runs[0].run)["loss"].notna().any()
    assert read.count("notes.txt") == 1
    (tmp_path / "notes.txt").write_text("another sample of the model\n")
    series = ts.open_series(tmp_path)
    series.metrics(series.runs[0].run)
    assert read.count("notes.txt") == 2
