"""What is said of the losses is one thing: once, on and on, on the page, by a check; a log's plan is kept."""

import html
import json
import os

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

import toposcope as ts
from tests.check.written import diverging, falling, jsonl, spiked
from toposcope.api import check
from toposcope.core.observations import AuditFinding
from toposcope.core.types import Row
from toposcope.logs.metrics import tidy
from toposcope.rules.registry import assess, place
from toposcope.rules.replaying import replay
from toposcope.runs.curves import curve_of
from toposcope.store import Store, Unit
from toposcope.watch.coverage import not_judged
from toposcope.watch.first_line import Lead
from toposcope.watch.journal import Journal
from toposcope.watch.loss_health import HealthWatch, health_of, logs_of, with_passed
from toposcope.watch.losses import LossFile
from toposcope.watch.page.answers import losses, named_rules, stages
from toposcope.watch.page.live import Live
from toposcope.watch.page.show import fragment
from toposcope.watch.replay import replays_by_run
from toposcope.watch.run_watch import RunWatch
from toposcope.watch.watching import Watching, WatchOptions
from toposcope.watch.watchman import Watchman


def _save(run, step):
    run.mkdir(exist_ok=True)
    weights = np.random.default_rng(step).normal(size=(12, 10)).astype(np.float32)
    save_file({"layers.0.mlp.fc1.weight": weights}, run / f"step_{step:06d}.safetensors")


def _watching(tmp_path, loss):
    _save(tmp_path / "run", 10)
    log = tmp_path / "log.jsonl"
    log.write_text(jsonl(loss))
    options = WatchOptions(features=["updates"], rest=0, losses=LossFile(log), out=tmp_path / "store")
    return Watching(tmp_path / "run", options)


@pytest.mark.parametrize("loss", [falling(), diverging(), spiked()], ids=["falling", "diverging", "spiked"])
def test_one_look_a_watch_that_goes_on_the_page_and_a_check_say_one_thing(tmp_path, loss):
    told = []
    with _watching(tmp_path, loss) as watching:
        watching.go_on(told.extend, 0.0, passes=1)
        once = watching.once()
        page, live = losses(watching.store), Live(watching.store.path)
    live.visit()
    painted = fragment("alarms", live, page) + fragment("answer", live, page)
    (checked,) = check(str(tmp_path / "log.jsonl")).runs
    grounds = {one.kind for one in checked.judgement.grounds}
    kinds = [one.remark.kind for one in once.health]
    tests = {event.data["test"] for event in once.alarms}
    assert set(kinds) <= grounds <= {*kinds, *tests}
    assert {place(one) for one in tests} <= {place(one) for one in grounds}, "a drift is part of its rise"
    assert [event.data["kind"] for event in told if event.kind == "health"] == kinds
    assert [one["said"] for one in page["health"]] == [one.remark.named for one in once.health]
    assert all(one.remark.named.split(";")[0] in painted for one in once.health)
    noticed = [one.step for one in checked.judgement.noticed]
    assert [event.step for event in once.passed] == noticed
    assert [event.step for event in told if event.kind == "passed"] == noticed
    assert [at[2] for at in page["passed"]] == noticed
    assert ("Back to normal: " in painted) == bool(noticed)
    assert (once.ok, 'class="headline alarm"' in painted) == (
        checked.level != "stop",
        checked.level == "stop",
    )


def test_one_look_judges_each_log_once(tmp_path, monkeypatch):
    """Of the run "short" no curve can be made: its symptoms come from its rows."""
    store = Store.create(tmp_path / "store", recipe={})
    long = pd.DataFrame({"run": "long", "step": np.arange(1, 401), "loss": diverging()})
    store.write_metrics(pd.concat([long, pd.DataFrame({"run": "short", "step": [1], "loss": [3.0]})]))
    asked = []

    def counted(metrics, **given):
        asked.extend(metrics["run"].unique())
        return assess(metrics, **given)

    monkeypatch.setattr("toposcope.runs.log_results.assess", counted)
    gathered = []

    def gathering(run, **named):
        gathered.append(run.name)
        return curve_of(run, **named)

    monkeypatch.setattr("toposcope.runs.curves.curve_of", gathering)
    with Watching(store.path, WatchOptions(target_loss=1.0)) as watching:
        once = watching.once()
    assert {one.run for one in once.health} <= set(once.judgements) == {"long", "short"}
    assert sorted(asked) == sorted(gathered) == ["long", "short"]


def test_an_answer_replays_each_log_once(tmp_path, monkeypatch):
    """A replay takes a second for 100,000 rows: the judgement alone and that among the findings share it."""
    store = Store.create(tmp_path / "store", recipe={})
    store.write_metrics(pd.DataFrame({"run": "a", "step": np.arange(1, 401), "loss": spiked()}))
    row = [Row("a", step, "baselines", "weight_norm", 2.0, name="model") for step in range(0, 401, 40)]
    for one in row:
        store.write(Unit("a", one.step, "baselines", 1, str(one.step)), [one])
    asked = []

    def replayed(table, **settings):
        asked.append(len(table))
        return replay(table, **settings)

    monkeypatch.setattr("toposcope.rules.replaying.replay", replayed)
    with Watching(store.path) as watching:
        assert watching.once().passed
    assert len(asked) == 1
    _, *said = stages(store.path, named_rules(""))
    assert len(asked) == 2
    assert said[0]["parts"]


BETWEEN = 1.462
"""A spike of this height is an alarm without a target (from 1.4564 on), and none with one (1.4674)."""


def alarmed_by(judgement):
    """Return whether a watch would have raised an alarm: it expected another loss."""
    return any("was expected" in one.sentence for one in judgement.noticed)


def test_a_watch_with_a_target_and_a_fresh_process_raise_the_same_alarms(tmp_path):
    """A target takes a share of the rate, so the other levels are lower than without one."""
    target = 0.1
    store = Store.create(tmp_path / "store", recipe={})
    store.write_metrics(tidy(pd.DataFrame({"step": range(1, 401), "loss": spiked(times=BETWEEN)}), "a"))
    with Watching(store.path, WatchOptions(target_loss=target)) as watching:
        once = watching.once()
    assert [one.data["test"] for one in (*once.alarms, *once.passed)] == []
    assert not alarmed_by(once.judgements["a"])
    (checked,) = check(str(store.path)).runs
    assert not alarmed_by(checked.judgement)
    assert [one.kind for one in checked.judgement.noticed] == ["loss spike"], "it is seen from both sides"
    with Watching(store.path) as watching:  # the same store, now without a target
        again = watching.once()
    assert [one.data["test"] for one in again.passed] == ["loss spike"]
    (checked,) = check(str(store.path)).runs
    assert alarmed_by(checked.judgement)
    assert [one.kind for one in checked.judgement.noticed] == ["loss spike"]


def test_each_store_is_judged_with_the_target_of_its_own_watch(tmp_path):
    """Two runs with the same losses: the one without a target has an alarm, in every command and order."""
    losses = pd.DataFrame({"step": range(1, 401), "loss": spiked(times=BETWEEN)})
    states = {
        step: {"w": np.random.default_rng(step).normal(size=(8, 6))} for step in (0, 100, 200, 300, 400)
    }
    aimed, plain = tmp_path / "aimed", tmp_path / "plain"
    for path in (aimed, plain):
        ts.measure(ts.open_series({path.name: states}, losses=losses), path, features="baselines")
    with Watching(aimed, WatchOptions(target_loss=0.1)) as watching:
        watching.once()
    for stores in ([aimed], [plain], [aimed, plain], [plain, aimed]):
        alarmed = ["plain"] if plain in stores else []
        names = [path.name for path in stores]
        made = ts.forecast([str(path) for path in stores], horizon=2000).judgements
        assert [run for run in names if alarmed_by(made[run])] == alarmed
        runs = check([str(path) for path in stores]).runs
        assert [one.run for one in runs if alarmed_by(one.judgement)] == alarmed
        replays = replays_by_run(stores)
        assert [run for run in names if replays(losses, run)] == alarmed
        study = ts.analyze([str(path) for path in stores]).studies[0]
        rows = {str(run): of_run for run, of_run in study.log.metrics.groupby("run")}
        noticed = {
            run: study.from_logs.judgement(study.judge, of_run, "loss", None) for run, of_run in rows.items()
        }
        assert [run for run in names if alarmed_by(noticed[run])] == alarmed


def test_the_audit_is_read_once_and_coverage_reads_the_losses_once(tmp_path, monkeypatch):
    with _watching(tmp_path, spiked()) as watching:
        watching.visit()
        read = []
        for name in ("audited", "metrics"):
            whole = getattr(Store, name)
            monkeypatch.setattr(
                Store, name, lambda store, *given, whole=whole, name=name, **span: (
                    read.append(name), whole(store, *given, **span)
                )[1],
            )  # fmt: skip
        not_judged(watching.store, watching.watchman.journal.read(), 0.1)
        assert read == ["metrics"]
        for answer in (watching.once, lambda: losses(watching.store)):
            read.clear()
            answer()
            assert read.count("audited") == 1


def test_an_alarm_passes_by_the_rows_alone(tmp_path, monkeypatch):
    """No alarm is replayed: an alarm of the journal passes, whatever a replay of the log would raise."""
    store = Store.create(tmp_path / "store", recipe={})
    store.write_metrics(tidy(pd.DataFrame({"step": range(1, 401), "loss": spiked()}), "a"))
    alarms = Watchman(store.path).judge()
    assert [one.data["test"] for one in alarms] == ["loss spike"]
    monkeypatch.setattr(RunWatch, "metrics", None)
    _, (passed,) = with_passed(alarms, logs_of(store))
    assert (passed.step, passed.data["passed"]) == (201, 209)
    (event,) = HealthWatch(store).visit(alarms)
    assert (event.kind, event.data["passed"]) == ("passed", 209)


def _standing_still():
    steps = np.arange(1, 401)
    return 3.0 * np.exp(-0.0002 * np.log2(steps)) * (1 + np.random.default_rng(0).normal(0, 1e-5, 400))


@pytest.mark.parametrize("audited", [False, True])
@pytest.mark.parametrize(
    ("loss", "lead"),
    [
        (falling(), Lead.NOTHING), (diverging(), Lead.ALARM), (spiked(), Lead.NOTHING),
        (_standing_still(), Lead.VERDICT), (spiked()[:202], Lead.ALARM),
    ],
    ids=["falling", "diverging", "passed", "plateau", "spike"],
)  # fmt: skip
def test_the_first_line_of_the_page_is_about_what_a_watch_answers(tmp_path, loss, lead, audited):
    store = Store.create(tmp_path / "store", recipe={})
    store.write_metrics(tidy(pd.DataFrame({"step": np.arange(1, len(loss) + 1), "loss": loss}), "a"))
    if audited:
        store.write_audit("runs", [AuditFinding("a", 7, "w", "holds NaN", fault="non-finite")])
        lead = Lead.PROBLEM if lead in (Lead.NOTHING, Lead.VERDICT) else lead
    with Watching(store.path) as watching:
        once = watching.once()
    assert once.first.lead is lead
    live = Live(store.path)
    live.visit()
    painted = html.unescape(fragment("answer", live, losses(store)))
    assert ('class="headline alarm"' in painted) == once.first.acts == (not once.ok)
    assert once.first.said in painted
    assert once.first.said in once.line


def test_culprits_that_came_later_are_shown_at_their_alarm(tmp_path):
    store = Store.create(tmp_path / "store", recipe={})
    journal, moved = Journal.of(store.path), {"name": "layers.0.mlp", "sentence": "norm 1 -> 9"}
    for run, test in (("a", "loss spike"), ("b", "loss drift")):
        journal.append("alarm", run, 5, test=test, sentence=f"a {test}", culprits=[], last_good=None)
    journal.append("notice", "a", 5, culprits=[moved], last_good=4, alarm="loss spike", test="what moved")
    live = Live(store.path)
    live.visit()
    drift, spike = live.alarms()
    assert (spike.test, spike.culprits, spike.last_good) == ("loss spike", (moved,), 4)
    assert (drift.test, drift.culprits) == ("loss drift", ())


def test_what_came_and_what_went_is_told_once(tmp_path):
    store = Store.create(tmp_path / "store", recipe={})
    rows = pd.DataFrame({"run": "a", "step": np.arange(1, 401), "loss": diverging()})
    store.write_metrics(rows)
    now = [0.0]
    watch = HealthWatch(store, clock=lambda: now[0])

    def told():
        return [(event.data["kind"], event.data["sentence"]) for event in watch.visit([])]

    first = told()
    assert [kind for kind, _ in first] == [one.remark.kind for one in health_of(logs_of(store))]
    assert first
    assert told() == []
    store.write_metrics(rows.assign(loss=falling()))
    assert told() == [(kind, f"{kind}: over") for kind, _ in first]


def test_a_log_states_the_plan_of_the_run_beside_it(tmp_path):
    state = {"global_step": 200, "max_steps": 400, "log_history": []}
    loss = falling()
    state["log_history"] = [{"step": step, "loss": float(loss[step - 1])} for step in range(1, 201)]
    log = tmp_path / "trainer_state.json"
    log.write_text(json.dumps(state))
    _save(tmp_path / "run", 10)
    options = WatchOptions(features=["updates"], rest=0, losses=LossFile(log), out=tmp_path / "store")
    with Watching(tmp_path / "run", options) as watching:
        watching.once()
        stored = check(watching.store.path)
    assert Store.open(tmp_path / "store").run("run").config["planned_steps"] == 400
    assert stored.runs[0].horizon == check(str(log)).runs[0].horizon == 400


@pytest.mark.parametrize("beside", ["hparams.yaml", "ckpt.pt", "none"])
def test_a_watch_reads_the_plan_beside_the_log_that_a_check_reads(tmp_path, beside):
    logs = tmp_path / "logs"
    logs.mkdir()
    log = logs / "metrics.csv"
    log.write_text("step,train_loss\n" + "".join(f"{s},{1.5 + 30 / s}\n" for s in range(10, 201, 10)))
    if beside == "hparams.yaml":
        (logs / beside).write_text("max_steps: 400\n")
    elif beside == "ckpt.pt":
        import torch

        torch.save(
            {"model": {"w": torch.ones(2, 2)}, "iter_num": 1, "config": {"max_iters": 400}}, logs / beside
        )
    _save(tmp_path / "run", 10)
    options = WatchOptions(features=["updates"], rest=0, losses=LossFile(log), out=tmp_path / "store")
    with Watching(tmp_path / "run", options) as watching:
        watching.once()
        (stored,) = check(watching.store.path).runs
    (read,) = check(str(log)).runs
    assert stored.horizon == read.horizon == (None if beside == "none" else 400)


def test_a_plan_of_the_runs_own_files_is_left_as_it_is(tmp_path):
    log = tmp_path / "trainer_state.json"
    log.write_text(json.dumps({"max_steps": 400, "log_history": [{"step": 10, "loss": 2.0}]}))
    _save(tmp_path / "run", 10)
    (tmp_path / "run" / "config.json").write_text(json.dumps({"max_steps": 900}))
    options = WatchOptions(features=["updates"], rest=0, losses=LossFile(log), out=tmp_path / "store")
    with Watching(tmp_path / "run", options) as watching:
        watching.once()
    config = Store.open(tmp_path / "store").run("run").config
    assert config.get("planned_steps") == (None if config.get("max_steps") == 900 else 400)


def test_a_restart_does_not_tell_an_alarm_again(tmp_path):
    with _watching(tmp_path, spiked()) as watching:
        assert [one.data["test"] for one in watching.once().passed] == ["loss spike"]
    assert Watchman(tmp_path / "store").judge() == []


@pytest.mark.parametrize("kept", [True, False], ids=["same size and time", "shorter"])
def test_a_log_is_read_again_when_another_file_takes_its_place(tmp_path, kept):
    log, other = tmp_path / "log.csv", tmp_path / "other.csv"
    log.write_text("step,loss\n10,5.00\n20,4.00\n")
    other.write_text("step,loss\n10,3.00\n20,2.00\n" if kept else "step,loss\n10,3.0\n")
    before = log.stat()
    read = LossFile(log)
    own = pd.DataFrame({"run": pd.Series(dtype=str), "step": pd.Series(dtype=int)})
    assert read.joined(own, "a")["loss"].tolist() == [5.0, 4.0]
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(log)
    assert (log.stat().st_size == before.st_size, log.stat().st_mtime_ns) == (kept, before.st_mtime_ns)
    assert read.joined(own, "a")["loss"].tolist() == ([3.0, 2.0] if kept else [3.0])


def test_a_column_that_comes_after_its_steps_loss_is_copied(tmp_path):
    from toposcope.core.types import RunRecord
    from toposcope.store import Store
    from toposcope.watch.losses import LossCopy

    store = Store.create(tmp_path / "s", recipe={})
    store.write_runs([RunRecord("a")])
    copy = LossCopy(store)
    copy.copy(tidy([{"step": 3, "loss": 2.0}], "a"), "a", after=-1)
    copy.copy(tidy([{"step": 3, "grad_norm": 1.0}], "a"), "a", after=-1)
    (row,) = store.metrics().to_dict("records")
    assert (row["step"], row["loss"], row["grad_norm"]) == (3, 2.0, 1.0)
