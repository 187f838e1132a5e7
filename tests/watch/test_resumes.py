"""A watched run says of its newest checkpoint whether it can be resumed; a broken state is an alarm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import save_file

from toposcope.api.measurement import Measurement
from toposcope.api.plans import Plan
from toposcope.sources import open_series
from toposcope.store import Store
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.text_request import TextRequest
from toposcope.subjects.weights.measurement import of_weights
from toposcope.subjects.weights.options import WeightOptions
from toposcope.sweep import Execution
from toposcope.watch import _audits as audits
from toposcope.watch._sidecar import Sidecar
from toposcope.watch.follow import Follower
from toposcope.watch.journal import Event, Journal
from toposcope.watch.loss_health import with_passed
from toposcope.watch.page.live import Live
from toposcope.watch.page.show import fragment
from toposcope.watch.resumes import latest_answers, lines_of_answers
from toposcope.watch.watching import Watching, WatchOptions
from toposcope.watch.watchman import Watchman

torch = pytest.importorskip("torch")

OPTIONS = WeightOptions(points=20, draws=1, nulls=1)


class _Trainer:
    """Writes checkpoint-STEP folders as transformers' Trainer does: weights, optimizer.pt, scheduler.pt."""

    def __init__(self, run: Path) -> None:
        torch.manual_seed(0)
        self.run, self.step = run, 0
        self.model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 4))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: 1 / (1 + step))

    def save(self, *, state: bool = True, **change: Any) -> Path:
        """Train ten steps and write a checkpoint; `zero` empties the second moments in the file."""
        for _ in range(10):
            self.step += 1
            rows = torch.randn(8, 16)
            self.optimizer.zero_grad()
            (self.model(rows) - rows[:, :4]).square().mean().backward()
            self.optimizer.step()
            self.schedule.step()
        place = self.run / f"checkpoint-{self.step}"
        place.mkdir(parents=True)
        save_file(
            {k: v.numpy().copy() for k, v in self.model.state_dict().items()}, place / "model.safetensors"
        )
        history = {"global_step": self.step, "epoch": self.step / 100, "log_history": []}
        (place / "trainer_state.json").write_text(json.dumps(history))
        if state:
            kept = self.optimizer.state_dict()
            kept = {**kept, "state": {k: dict(v) for k, v in kept["state"].items()}}
            for one in kept["state"].values() if change.get("zero") else ():
                one["exp_avg_sq"] = torch.zeros_like(one["exp_avg_sq"])
            torch.save(kept, place / "optimizer.pt")
            torch.save(self.schedule.state_dict(), place / "scheduler.pt")
        return place


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[_Trainer, Sidecar, Watchman]:
    monkeypatch.setattr(audits, "REST", 0.0)
    store = Store.create(tmp_path / "store", recipe=OPTIONS.recipe())
    sidecar = Sidecar(Follower(tmp_path / "run", rest=0), store, weight_probes(["baselines"], OPTIONS))
    return _Trainer(tmp_path / "run"), sidecar, Watchman(store.path)


def _answers(events: list[Event]) -> list[tuple[int | None, str]]:
    return [(one.step, one.data["verdict"]) for one in events if one.kind == "resume"]


def test_each_newest_checkpoint_is_answered_once_and_a_broken_state_is_an_alarm_until_it_is_over(watched):
    trainer, sidecar, watchman = watched
    trainer.save()
    trainer.save()
    assert _answers(sidecar.visit()) == [(20, "resumable")]
    assert _answers(sidecar.visit()) == []
    assert watchman.judge() == []

    trainer.save(zero=True)
    assert _answers(sidecar.visit()) == [(30, "not resumable")]
    (alarm,) = watchman.judge()
    assert (alarm.kind, alarm.step, alarm.data["test"], alarm.data["last_good"]) == (
        "alarm", 30, "training state", 20
    )  # fmt: skip
    assert "second moments of all 4 tensors are zero" in alarm.data["sentence"]
    assert alarm.data["next"] == "keep an earlier checkpoint, and resume from step 20"
    assert "moments: does not agree" in alarm.data["quiet"]
    journal = Journal.of(sidecar.store.path)
    standing, _ = with_passed([alarm], [], journal.read())
    assert standing == [alarm]

    trainer.save()
    assert _answers(sidecar.visit()) == [(40, "resumable")]
    assert watchman.judge() == []
    standing, (passed,) = with_passed([alarm], [], journal.read())
    assert (standing, passed.data["passed"]) == ([], 40)
    assert sidecar.store.audited() == []


def test_a_restart_without_the_optimisers_state_is_an_alarm_at_its_first_checkpoint(watched):
    trainer, sidecar, watchman = watched
    trainer.save()
    trainer.save()
    sidecar.visit()
    watchman.judge()
    trainer.optimizer.state.clear()
    trainer.save()
    sidecar.visit()
    (alarm,) = watchman.judge()
    assert "the optimiser counts 10 updates, and counted 20 at step 20" in alarm.data["sentence"]
    trainer.save()  # its moments continue those of step 30
    assert _answers(sidecar.visit()) == [(40, "resumable")]


def test_a_broken_state_between_two_visits_is_an_alarm_that_has_passed(watched):
    trainer, sidecar, watchman = watched
    trainer.save()
    trainer.save()
    assert _answers(sidecar.visit()) == [(20, "resumable")]
    trainer.save(zero=True)
    trainer.save()
    assert _answers(sidecar.visit()) == [(30, "not resumable"), (40, "resumable")]
    (alarm,) = watchman.judge()
    assert (alarm.step, alarm.data["last_good"]) == (30, 20)
    standing, (passed,) = with_passed([alarm], [], Journal.of(sidecar.store.path).read())
    assert (standing, passed.data["passed"]) == ([], 40)
    assert sidecar.store.audited() == []
    assert _answers(sidecar.visit()) == []


def test_of_many_checkpoints_between_two_visits_the_last_few_are_judged(watched):
    trainer, sidecar, _ = watched
    trainer.save()
    sidecar.visit()
    for _ in range(11):
        trainer.save()
    assert [step for step, _ in _answers(sidecar.visit())] == list(range(40, 130, 10))


def test_a_watch_that_starts_again_says_nothing_twice(watched):
    trainer, sidecar, watchman = watched
    trainer.save()
    trainer.save(zero=True)
    sidecar.visit()
    watchman.judge()
    folder = trainer.run
    again = Sidecar(Follower(folder, rest=0), sidecar.store, weight_probes(["baselines"], OPTIONS))
    assert _answers(again.visit()) == []
    assert Watchman(sidecar.store.path).judge() == []


def test_checkpoints_of_weights_alone_have_no_answer(watched):
    trainer, sidecar, watchman = watched
    for _ in range(3):
        trainer.save(state=False)
    assert _answers(sidecar.visit()) == []
    assert watchman.judge() == []


def test_a_state_that_is_gone_with_its_checkpoint_is_no_problem_any_more(watched):
    trainer, sidecar, _ = watched
    trainer.save()
    broken = trainer.save(zero=True)
    sidecar.visit()
    assert [one.fault for one in sidecar.store.audited()] == ["moments-zero"]
    for file in broken.iterdir():
        file.unlink()
    broken.rmdir()
    trainer.save()
    sidecar.visit()
    assert sidecar.store.audited() == []


def test_the_answer_of_a_watch_and_its_page_have_the_answer(tmp_path):
    trainer = _Trainer(tmp_path / "run")
    trainer.save()
    trainer.save(zero=True)
    with Watching(trainer.run, WatchOptions(rest=0, features=("baselines",))) as watching:
        answer = watching.once()
    line = "not resumable from step 20: second moments of all 4 tensors are zero, and were not at step 10; "
    assert not answer.ok
    assert answer.line.startswith(f"alarm: {line}step 10 can be resumed; next: ")
    assert (f"resume: {line}step 10 can be resumed", "") in list(answer.lines)
    assert [one["verdict"] for one in answer.to_dict()["resume"]] == ["not resumable"]
    live = Live(answer.store)
    live.visit()
    assert f"Resuming: {line}" in fragment("audit", live, None)
    assert "Last good step: 10" in fragment("alarms", live, None)


def test_a_plan_says_it_too_and_reads_no_weights_without_a_state(tmp_path, monkeypatch):
    alone = _Trainer(tmp_path / "alone")
    alone.save(state=False)
    trainer = _Trainer(tmp_path / "run")
    trainer.save()
    plan = _plan(trainer.run)
    assert plan.ok
    assert "\nresume (by a sample): can be resumed from step 10: weights, moments" in repr(plan)
    trainer.save(zero=True)
    plan = _plan(trainer.run)
    assert not plan.ok
    assert "\nresume (by a sample): not resumable from step 20: second moments" in repr(plan)
    assert [one["verdict"] for one in plan.as_data()["resume"]] == ["not resumable"]
    monkeypatch.setattr("toposcope.sources.audit.gather", pytest.fail)
    plan = _plan(alone.run)
    assert (plan.ok, plan.resume) == (True, ())


def _plan(run: Path) -> Plan:
    prepared = of_weights(lambda split: open_series(run, split=split), ["baselines"], OPTIONS, TextRequest())
    return Measurement.of(prepared).plan(execution=Execution())


def test_several_runs_are_named():
    events = [
        Event(n, "resume", run, 10, {"of": run, "verdict": "resumable", "sentence": "can be resumed"})
        for n, run in enumerate("ab")
    ]
    assert lines_of_answers(latest_answers(events)) == ["a can be resumed", "b can be resumed"]
