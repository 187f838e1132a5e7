"""What the page says before there is an answer: what was looked at, what is being done, when more comes."""

from __future__ import annotations

import asyncio

import pytest

from tests.watch.page.conftest import Growing
from toposcope import forecasting
from toposcope.core.types import Feature, Kind, Row
from toposcope.core.wording import typed_options
from toposcope.rules.judgement import judge
from toposcope.rules.registry import assess
from toposcope.rules.replaying import replay
from toposcope.store import Result, Unit
from toposcope.watch.page._background import Background
from toposcope.watch.page.answers import named_rules, stages
from toposcope.watch.page.doing import Work, going
from toposcope.watch.page.live import Live
from toposcope.watch.page.show import fragment, page


@pytest.fixture
def young(tmp_path):
    made = Growing(tmp_path / "study")
    made.journal.append("started", folder="/runs/here")
    return made


def _live(store):
    live = Live(store.path)
    live.visit()
    return live


def test_an_empty_store_says_what_is_waited_for(young):
    text = page(Live(young.path), None)
    assert "The store is being read" in text
    assert "0 runs" not in text
    text = page(_live(young), None)
    assert "Nothing is measured yet: a checkpoint in /runs/here is measured once it is complete." in text
    assert "No loss is logged yet" in text
    assert "0 measured checkpoints" in text


def test_the_first_answer_needs_no_computing(young):
    young.runs("a", steps=400)
    young.losses("a", 200)
    for step in (100, 200):
        young.checkpoint("a", step)
    live, work = _live(young), Work()
    work.begin()
    text = fragment("answer", live, None, work)
    assert "No alarm so far in 2 checkpoints of 1 run." in text
    assert "The findings are being computed (since " in text
    assert going(live) == [("a", 200, 400)]
    assert "no run is" not in fragment("forecasts", live, None, work).lower()


def test_what_was_true_of_fewer_checkpoints_is_not_said_of_more(young):
    (_, first, second) = stages(young.path, named_rules(""))
    assert (first["seen"], first["trouble"]) == (0, [])
    young.runs("a", steps=400)
    young.losses("a", 200)
    for step in range(0, 201, 20):
        young.checkpoint("a", step)
    live = _live(young)
    for name in ("answer", "findings", "forecasts"):
        text = fragment(name, live, second)
        assert "no measured features" not in text
        assert "No run is known to be unfinished" not in text
    assert "step 200 of 400" in fragment("forecasts", live, second)
    stale = {"seen": 1, "trouble": ["no findings yet: the store has no measured features"]}
    assert "no measured features" not in fragment("answer", live, stale)


def test_a_run_whose_losses_come_first_does_not_count_as_ended(young):
    *_, second = stages(young.path, named_rules(""))
    young.losses("b", 200)
    text = fragment("forecasts", _live(young), second)
    assert "No forecast yet: the plan of b is read with the first checkpoint." in text
    assert "No run is known to be unfinished" not in text


def test_the_findings_come_before_the_forecasts_and_say_of_what_they_are(young):
    young.runs("a", steps=400)
    young.losses("a", 200)
    for step in range(0, 201, 20):
        young.checkpoint("a", step)
    _, first, second = (dict(one) for one in stages(young.path, named_rules("")))
    assert first["seen"] == 11
    assert first["parts"]
    assert second["forecasts"]
    young.checkpoint("a", 220)
    text = fragment("answer", _live(young), second)
    assert "The findings cover 11 checkpoints; 1 more since then." in text


def test_each_run_is_forecast_once_for_the_findings_and_the_cones(young, monkeypatch):
    names = ("a", "b", "c")
    young.runs(*names, steps=400)
    for run in names:
        young.losses(run, 200)
        for step in range(0, 201, 20):
            young.checkpoint(run, step)
    asked = []
    made = forecasting.forecast

    def counted(method, curve, siblings, **named):
        asked.append(curve.run)
        return made(method, curve, siblings, **named)

    monkeypatch.setattr("toposcope.runs.log_results.forecast", counted)
    *_, last = stages(young.path, named_rules(""))
    assert [one["run"] for one in last["forecasts"]] == list(names)
    assert "is expected to end" in str(last["parts"])
    assert sorted(asked) == list(names)


@pytest.mark.parametrize("typed", [True, False])
def test_the_answer_names_options_as_the_reader_of_the_page_does(young, monkeypatch, typed):
    """The answer is computed in a process of its own, which has to be told."""
    asked = []

    async def begun(*command, **_):
        asked.append(command)
        raise OSError("no process")

    monkeypatch.setattr("asyncio.create_subprocess_exec", begun)
    with typed_options(typed), pytest.raises(OSError, match="no process"):
        asyncio.run(Background(Live(young.path))._answer())
    assert (asked[0][-1] == "typed") == typed


def test_a_run_without_a_plan_is_not_said_to_have_ended(young):
    young.store.write_runs([])
    young.losses("b", 200)
    live = _live(young)
    assert going(live) == []
    text = fragment("forecasts", live, {"seen": 0, "trouble": [], "forecasts": []})
    assert "A run that states no plan counts as ended" in text


def test_what_the_watch_cannot_look_at_stands_in_the_first_line_until_it_can(young):
    young.runs("a")
    young.checkpoint("a", 100)
    young.journal.append("unseen", place="/runs/here/b", why="/runs/here/b: is a link that leads nowhere")
    live = _live(young)
    assert "1 not checked: /runs/here/b: is a link" in fragment("answer", live, None)
    assert "/runs/here/b: not checked" in fragment("alarms", live, None)
    young.journal.append("unseen", place="/runs/here/b", why="")
    live.visit()
    assert "not checked" not in fragment("answer", live, None)


def test_one_answer_assesses_and_replays_each_log_once(young, monkeypatch):
    """The store has two subjects, and the run "short" too few losses for a curve."""
    mine = Feature("mine", label="my number", kind=Kind.BASELINE, primary=True, about="mine")
    young.store.write_catalogue("my probe", (mine,))
    young.runs("a", "b", "short", steps=400)
    for run, last in (("a", 400), ("b", 200), ("short", 10)):
        young.losses(run, last)
        for step in range(0, last + 1, 20):
            young.checkpoint(run, step)
            row = Row(run, step, "my probe", "mine", float(step), name="model")
            young.store.write_results(
                [Result(Unit(run, step, "my probe", 1, f"{run}{step}"), (row,), ())], keep_diagrams=False
            )
    assessed, judged, replayed = [], [], []

    def counted(metrics, **given):
        assessed.extend(metrics["run"].unique())
        return assess(metrics, **given)

    def judged_log(*given, **named):
        judged.append(named["losses"])
        return judge(*given, **named)

    monkeypatch.setattr("toposcope.runs.log_results.assess", counted)

    def replayed_log(table, **given):
        replayed.append(len(table))
        return replay(table, **given)

    monkeypatch.setattr("toposcope.rules.replaying.replay", replayed_log)
    monkeypatch.setattr("toposcope.runs.judging.judge", judged_log)
    *_, last = stages(young.path, named_rules(""))
    assert len(last["parts"]) == 2
    assert sorted(assessed) == ["a", "b", "short"]
    assert sorted(replayed) == [2, 21, 41]
    assert sorted(judged) == [2, 2, 21, 21, 41, 41], "with the audit for the first line, and for the findings"
