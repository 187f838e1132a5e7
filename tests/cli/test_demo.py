"""The demo, made small: from nothing to a page, and again from where it was stopped."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from toposcope.api import analyze, report
from toposcope.cli.demo import command
from toposcope.core.errors import InputError
from toposcope.store import Store
from toposcope.studies.demo import run_demo

pytest.importorskip("torch", reason="the demo trains models: install toposcope[train]")

pytestmark = pytest.mark.slow
SMALL = {"steps": 6, "checkpoint_every": 2, "models": ["tiny-3k", "small-7k"]}


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    said = []
    out = tmp_path_factory.mktemp("demo") / "out"
    return run_demo(out, jobs=1, overrides=SMALL, quiet=True, say=said.append), said


@pytest.mark.slow
def test_the_demo_ends_with_a_page_about_its_own_runs(demo):
    done, said = demo
    assert [line[:3] for line in said] == ["1/3", "2/3", "3/3"]
    assert done.problems == ()
    text = done.page.read_text()
    assert "2 runs of 2 model sizes (2.9K to 7.4K parameters) with 4 checkpoints each were measured" in text
    assert "unknown whether the topology of the weights says more than the held-out loss" in text


def test_the_store_has_every_checkpoint_and_probe(demo):
    features = Store.open(demo[0].store).features()
    assert set(features["step"]) == {0, 2, 4, 6}
    assert set(features["probe"]) == {"neural_persistence", "rips", "baselines", "trajectory"}
    assert set(features["status"]) <= {"ok", "subsampled"}


@pytest.mark.slow
def test_a_demo_that_was_stopped_goes_on(demo):
    done, _ = demo
    kept = {path: path.stat().st_mtime_ns for path in done.runs.rglob("*.safetensors")}
    before = done.page.read_bytes()
    done.page.unlink()
    done.page.with_name("report.md").unlink()
    for leftover in (done.page.parent / "figures", done.page.parent / "tables"):
        for path in leftover.iterdir():
            path.unlink()
        leftover.rmdir()
    again = run_demo(done.runs.parent, jobs=1, overrides=SMALL, quiet=True, say=lambda _: None)
    assert {path: path.stat().st_mtime_ns for path in done.runs.rglob("*.safetensors")} == kept
    assert again.page.read_bytes() == before


def test_the_command_answers_and_prints_the_page_to_open(monkeypatch, demo, tmp_path):
    monkeypatch.setattr("toposcope.studies.demo.run_demo", lambda *_, **__: demo[0])
    result = CliRunner().invoke(command, ["--out", str(tmp_path / "x")], standalone_mode=False)
    assert result.return_value == 0
    title, *_, last = result.stdout.splitlines()
    assert title == demo[0].analysis.line[: len(title)]
    checks = [
        line[:3]
        for line in result.stdout.splitlines()
        if line[:3].strip() and line[4:].startswith(("meas", "trai", "odd", "topo"))  # no wrapped line
    ]
    assert checks == ["OK ", "OK ", "-- ", "-- "]
    assert result.stdout.count("Next: ") == 1
    assert last == f"open {demo[0].page}"
    result = CliRunner().invoke(command, ["--out", str(tmp_path / "x"), "--json"], standalone_mode=False)
    assert json.loads(result.stdout)["page"] == str(demo[0].page)


def test_analyze_and_report_of_its_store_name_the_next_step_of_its_page(demo, tmp_path):
    first = demo[0].analysis.findings.first
    assert first.next == "Now your own run: toposcope.check('train.log')"
    store = str(demo[0].store)
    assert analyze(store).findings.first.next == first.next
    page = report(store, tmp_path / "report", quiet=True).page
    assert "own run" in page.with_name("report.md").read_text()


def test_a_folder_in_the_way_is_refused_before_anything_is_trained(tmp_path):
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "mine.txt").write_text("keep")
    with pytest.raises(InputError, match="contains files that are not a report"):
        run_demo(tmp_path, jobs=1, overrides=SMALL, quiet=True)
    assert not (tmp_path / "runs").exists()
