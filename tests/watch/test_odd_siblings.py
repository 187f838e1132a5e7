"""Which of several runs in one folder is odd: watch, page, check and audit name the same one, or none."""

from __future__ import annotations

import json
import re
from html import unescape
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

import toposcope as ts
from toposcope.cli.main import main
from toposcope.runs.odd_members import members_of
from toposcope.store import Store
from toposcope.study.odd_measured import matrices_changed, odd_of_store
from toposcope.study.published import NOTHING
from toposcope.watch.loss_health import HealthWatch
from toposcope.watch.page._picture import HEIGHT, lines
from toposcope.watch.page.answers import answers, losses
from toposcope.watch.page.live import Live
from toposcope.watch.page.show import fragment
from toposcope.watch.watching import Watching, WatchOptions

STEPS = np.arange(10, 410, 10)
SAVED = (100, 200, 300, 400)


def siblings(folder: Path, *, apart: str = "", frozen: str = "", everywhere: str = "", runs: int = 5) -> Path:
    """Write runs s0, s1, ...; `apart` has another rate and loss, `frozen` a matrix that it does not train."""
    for i in range(runs):
        g, name = np.random.default_rng(i), f"s{i}"
        place = folder / name
        place.mkdir(parents=True)
        fixed = {
            "layers.0.mlp.fc1.weight": g.standard_normal((8, 8)),
            "wte.weight": g.standard_normal((8, 4)),
        }
        for step in SAVED:
            there = {
                key: value + (0 if (name == frozen and "fc1" in key) or key == everywhere else 0.01 * step)
                for key, value in fixed.items()
            }
            save_file(
                {key: value.astype(np.float32) for key, value in there.items()},
                place / f"step_{step:06d}.safetensors",
            )
        loss = (2 + 4 * STEPS**-0.4) * (1 + 0.005 * g.standard_normal()) + 0.01 * g.standard_normal(
            len(STEPS)
        )
        loss = loss * (1.15 if name == apart else 1.0)
        log = [{"step": int(s), "loss": float(v)} for s, v in zip(STEPS, loss, strict=True)]
        (place / "training_log.json").write_text(json.dumps(log))
        rate = 0.006 if name == apart else 0.001
        (place / "config.json").write_text(json.dumps({"learning_rate": rate, "seed": i}))
    return folder


def once(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, object]]:
    """What `watch` answers, and its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(["watch", str(folder), "--once", "--rest", "0", "--json", "--features", "updates,baselines"])
    assert isinstance(ended.value.code, int)
    return ended.value.code, json.loads(capsys.readouterr().out)


def test_a_watch_its_page_check_and_audit_name_one_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = siblings(tmp_path / "runs", apart="s3")
    code, told = once(folder, capsys)
    assert code == 1
    (odd,) = told["odd"]  # type: ignore[misc]
    assert odd["run"] == "s3"
    assert odd["differs"] == ["learning rate is 6 x theirs"]
    assert "s3 is not like its 4 siblings: loss " in str(told["answer"])
    (audited,) = ts.audit(folder).odd
    (checked,) = [
        ground.sentence
        for run in ts.check(folder).runs
        for ground in run.judgement.grounds
        if ground.kind == "odd run"
    ]
    store = Store.open(tmp_path / "runs-watch")
    (watched,) = odd_of_store(store).found
    assert watched.sentence == audited.sentence == checked
    live, page = Live(store.path), losses(store)
    live.visit()
    assert f"s3 is {checked}" in fragment("alarms", live, page)
    assert 'class="headline alarm">s3 is not like' in fragment("answer", live, page)


def test_every_curve_of_the_page_has_a_name_and_its_own_colour() -> None:
    traces = [
        {"run": f"s{i}", "kind": "value", "group": i, "x": [1, 2], "y": [3.0, 2.0 + 0.001 * i]}
        for i in range(5)
    ]
    drawn = lines({"title": "loss", "traces": traces}, ["s3"])
    names = re.findall(r'<text class="tick f(\d)" x="\d+" y="(\d+)">([^<]+)</text>', drawn)
    assert {name for *_, name in names} == {"s0", "s1", "s2", "s3 (odd)", "s4"}
    assert len({colour for colour, *_ in names}) == 5
    places = sorted(int(y) for _, y, _ in names)
    assert all(below - above >= 12 for above, below in pairwise(places))
    assert 0 < places[0] < places[-1] < HEIGHT
    many = [{**traces[0], "run": f"run{i}", "y": [3.0, 2.0 + 0.01 * i]} for i in range(60)]
    drawn = lines({"title": "loss", "traces": many}, ["run7"])
    assert "run7 (odd)" in drawn
    assert " more</text>" in drawn


def test_the_page_has_the_four_checks_of_the_first_screen(tmp_path: Path) -> None:
    folder = siblings(tmp_path / "runs", apart="s3")
    with Watching(folder, WatchOptions(features=["baselines"], rest=0)) as watching:
        watching.once()
    made = answers(watching.store.path, NOTHING)
    screens = [found.first.as_data() for found in ts.analyze(watching.store.path).all_findings]
    assert [part["screen"] for part in made["parts"]] == screens
    live = Live(watching.store.path)
    live.visit()
    painted = fragment("answer", live, made)
    assert all(str(check["text"]) in unescape(painted) for check in screens[0]["checks"])  # type: ignore[attr-defined]
    assert painted.count("Next: ") == len({screen["next"] for screen in screens})


def test_healthy_siblings_and_a_matrix_that_nobody_trains_are_not_odd(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = siblings(tmp_path / "runs", everywhere="wte.weight")
    code, told = once(folder, capsys)
    assert (code, told["odd"]) == (0, [])
    assert ts.audit(folder).odd == ()
    assert losses(Store.open(tmp_path / "runs-watch"))["odd"] == []


def test_a_frozen_layer_is_named_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = siblings(tmp_path / "runs", frozen="s2")
    code, told = once(folder, capsys)
    assert code == 1
    sentence = "not like its 4 siblings: layers.0.mlp.fc1.weight never changed (theirs did)"
    (odd,) = told["odd"]  # type: ignore[misc]
    assert (odd["run"], odd["frozen"], odd["p"]) == ("s2", ["layers.0.mlp.fc1.weight"], None)
    assert told["problems"] == [f"s2 is {sentence}"]
    assert [(one.run, one.sentence) for one in ts.audit(folder).odd] == [("s2", sentence)]
    grounds = [
        (run.run, one.sentence, one.remedy)
        for run in ts.check(folder).runs
        for one in run.judgement.grounds
        if one.kind == "odd run"
    ]
    assert grounds == [("s2", sentence, "check which parameters it trains, or leave it out: `without='s2'`")]
    stored = ts.check(tmp_path / "runs-watch")
    assert [one.run for one in stored.runs if any(g.kind == "odd run" for g in one.judgement.grounds)] == [
        "s2"
    ]
    found = ts.analyze(tmp_path / "runs-watch").findings
    assert found.headline.startswith(f"Run s2 is {sentence}")
    screen = found.first.as_text(width=400)
    assert "1 of 5 runs is unlike its siblings: s2 (1 of its matrices never changed)" in screen
    assert "Check which parameters s2 trains" in screen or "check which parameters s2 trains" in screen


def test_three_siblings_and_two_checkpoints_say_nothing(tmp_path: Path) -> None:
    assert ts.audit(siblings(tmp_path / "three", frozen="s2", runs=3)).odd == ()
    folder = siblings(tmp_path / "short", frozen="s2")
    for place in folder.iterdir():
        for step in SAVED[:2]:
            (place / f"step_{step:06d}.safetensors").unlink()
    assert ts.audit(folder).odd == ()


def test_a_watch_that_goes_on_tells_it_once_and_when_it_is_gone(tmp_path: Path) -> None:
    folder = siblings(tmp_path / "runs", apart="s3")
    options = WatchOptions(features=["updates"], rest=0)
    told: list[str] = []
    with Watching(folder, options) as watching:
        watching.go_on(lambda events: told.extend(f"{one.kind} {one.run}" for one in events), 0.0, passes=1)
        store = watching.store
    assert told.count("odd run s3") == 1
    now = [0.0]
    watch = HealthWatch(store, clock=lambda: now[0])
    assert [one.run for one in watch.visit([]) if one.kind == "odd run"] == ["s3"]
    assert [one.run for one in watch.visit([]) if one.kind == "odd run"] == []
    metrics = store.metrics()
    mine = metrics["run"] == "s3"
    store.write_metrics(metrics.assign(loss=metrics["loss"].where(~mine, metrics["loss"] / 1.15)))
    assert [one.data["sentence"] for one in watch.visit([]) if one.kind == "odd run"] == [
        "like its siblings again"
    ]


def test_a_run_that_went_back_is_one_member() -> None:
    rows = [("a", step, 3.0) for step in (1, 2, 3, 4)] + [("a~2", step, 2.0) for step in (3, 4, 5)]
    metrics = pd.DataFrame([*rows, ("b", 1, 3.0)], columns=["run", "step", "loss"])
    one, other = members_of(metrics, pd.DataFrame({"run": ["a", "a~2", "b"]}))
    assert (one.run, other.run) == ("a~2", "b")
    assert one.losses["loss"].tolist() == [3.0, 3.0, 2.0, 2.0, 2.0]


def test_a_matrix_that_turns_at_one_norm_did_change() -> None:
    rows = [
        {"run": "a", "step": step, "probe": probe, "scope": "matrix", "name": "q", "filtration": "seed004",
         "feature": feature, "value": value}
        for step in (0, 1, 2)
        for probe, feature, value in (
            ("baselines", "frobenius_norm", 1.0), ("neural_persistence", "neural_persistence", 0.1 * step)
        )
    ]  # fmt: skip
    assert matrices_changed(pd.DataFrame(rows)) == {"a": {"q": True}}
    assert matrices_changed(pd.DataFrame(rows[:4])) == {}
    assert matrices_changed(pd.DataFrame(rows[::2])) == {"a": {"q": False}}
