"""The pages on adding something: their code runs as it stands there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from toposcope import open_store, read_log
from toposcope.logs import _reading as reading

DOCS = Path(__file__).parents[1] / "docs"


def _run(page: str, folder: Path) -> str:
    text = (DOCS / page).read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.S):
        name = re.match(r"# (\w+\.py)\n", block)
        assert name is not None
        (folder / name[1]).write_text(block, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "use.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(autouse=True)
def _documented() -> None:
    if not DOCS.is_dir():
        pytest.skip("the documentation is not beside the tests")


def test_a_forecaster_is_one_class_and_gets_its_interval_and_its_score(tmp_path: Path) -> None:
    out = _run("add-a-forecaster.md", tmp_path)
    errors = {
        line.rsplit(maxsplit=1)[0].strip(): float(line.split()[-1])
        for line in out.splitlines()
        if line.startswith(("geometric", "last value"))
    }
    assert 0 < errors["geometric"] < 0.5 * errors["last value"]
    assert "status='ok'" in out


def _install_as_shown(folder: Path, name: str, page: str) -> None:
    """Lay the metadata of an installed package beside its module, with the entry point of a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.search(r'entry-points\."([\w.]+)"\]\n(\w+) = "([\w:]+)"', text)
    assert found is not None
    group, point = found[1], f"{found[2]} = {found[3]}"
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(f"[{group}]\n{point}\n", encoding="utf-8")


def _toposcope(folder: Path, *typed: str) -> subprocess.CompletedProcess[str]:
    call = f"import sys; sys.path.insert(0, '.'); from toposcope.cli.main import main; main({list(typed)!r})"
    return subprocess.run([sys.executable, "-c", call], cwd=folder, capture_output=True, text=True)


@pytest.mark.slow
def test_a_figure_is_one_module_and_stands_in_the_card_of_its_question(tmp_path: Path) -> None:
    out = _run("add-a-figure.md", tmp_path)
    assert out.split()[:2] == ["loss_table", "moves_table"]  # the page's chart, then the first answer's
    assert (tmp_path / "moves.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "moves.svg").read_text(encoding="utf-8").startswith("<?xml")
    _install_as_shown(tmp_path, "moves", "add-a-figure.md")
    done = _toposcope(tmp_path, "report", "table.csv", "--out", "installed")
    assert done.returncode == 0, done.stderr
    for page in ("page", "installed"):
        html = (tmp_path / page / "index.html").read_text(encoding="utf-8")
        cards = re.findall(r'<article class="card">(.*?)</article>', html, re.S)
        assert [card for card in cards if 'href="#figure-moves_table"' in card] == [
            card for card in cards if "What changed?" in card
        ]
        assert "Which columns moved further than a random walk does." in html
        assert (tmp_path / page / "figures" / "moves_table.svg").is_file()


def _runs(folder: Path) -> None:
    """Write a run of 30 checkpoints with a log; its outliers grow."""
    for k in range(30):
        g = np.random.default_rng(k)
        weights = g.normal(size=(12, 16)).astype(np.float32)
        weights[0, 0] = 5 + k + g.normal()
        place = folder / "runs" / f"step{10 * k}"
        place.mkdir(parents=True)
        save_file({"fc.weight": weights}, place / "model.safetensors")
    steps = range(0, 300, 10)
    g = np.random.default_rng(99)
    lines = [f"{s},{2 + 3 / (1 + s / 20) + 0.02 * g.normal():.4f}" for s in steps]
    (folder / "log.csv").write_text("\n".join(["step,loss", *lines]), encoding="utf-8")


@pytest.mark.slow
def test_a_subject_is_one_module_and_is_found_in_every_room(tmp_path: Path) -> None:
    _runs(tmp_path)
    _install_as_shown(tmp_path, "outliers", "add-a-subject.md")
    text = (DOCS / "add-a-subject.md").read_text(encoding="utf-8")
    use = re.sub(
        r"(?m)^import toposcope as ts$", "import sys; sys.path.insert(0, '.')\nimport toposcope as ts", text
    )
    blocks = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", use, flags=re.S))
    for name, block in blocks.items():
        (tmp_path / name).write_text(block, encoding="utf-8")
    # Python, the store, the verdict
    done = subprocess.run([sys.executable, "use.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Largest weight / usual weight rose from ")
    # its own table and its own question
    assert re.search(r"(?m)^ +run +min +max\n0 +runs +[\d.]+ +[\d.]+$", done.stdout)
    assert re.search(r"\{'run': 'runs', 'ratio': [\d.]+\}", done.stdout)
    # the command line: its help has the request's field, a bad value is one line
    assert "outliers" in _toposcope(tmp_path, "--help").stdout
    assert "--quantile" in _toposcope(tmp_path, "outliers", "--help").stdout
    refused = _toposcope(tmp_path, "outliers", "runs", "--out", "s", "--quantile", "2")
    assert refused.returncode == 2
    assert "quantile is 2" in refused.stderr
    measured = _toposcope(
        tmp_path, "outliers", "runs", "--out", "s", "--losses", "log.csv", "--quantile", "0.9"
    )
    assert measured.returncode == 0, measured.stderr
    verdict = _toposcope(tmp_path, "analyze", "s", "--table", "extremes", "--json")
    assert verdict.returncode == 0, verdict.stderr
    assert "outlier" in verdict.stdout
    answer = json.loads(verdict.stdout)
    (extremes,) = answer["extremes"]
    (largest,) = (one for one in answer["findings"][0]["answers"] if one["question"] == "largest")
    assert largest["numbers"] == {"run": "runs", "ratio": extremes["max"]}
    said = f"In runs the largest weight is {extremes['max']:.0f} times the usual one."
    assert largest["words"] == said
    printed = _toposcope(tmp_path, "analyze", "s", "--table", "extremes")
    assert "Smallest and largest ratio of each run" in printed.stdout, printed.stderr
    unknown = _toposcope(tmp_path, "analyze", "s", "--table", "extreme")
    assert unknown.returncode == 2
    assert "extremes" in unknown.stderr
    # the page
    page = _toposcope(tmp_path, "report", "s", "--out", "page")
    assert page.returncode == 0, page.stderr
    html = (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    assert "how far the largest weights lie above" in html
    assert "largest weight / usual weight" in html
    assert "figure-leading_outliers" in html
    assert "Where are the largest outliers?" in html
    assert said in html
    assert "Smallest and largest ratio of each run" in html
    assert (tmp_path / "page" / "tables" / "outliers_extremes.csv").is_file()
    # the watch
    watched = _toposcope(tmp_path, "watch", "runs", "--features", "outliers", "--once", "--rest", "0")
    assert watched.returncode in (0, 1), watched.stderr
    assert open_store(tmp_path / "runs-watch").features(feature="outlier")["value"].notna().any()


@pytest.mark.slow
def test_a_format_is_one_class_and_serves_every_command_once_it_is_installed(tmp_path: Path) -> None:
    out = _run("add-a-format.md", tmp_path).splitlines()
    assert out[-2] == "[0, 100, 200]"
    norms = [float(value) for value in out[-1].strip("[]").split(",")]
    assert norms[1] == pytest.approx(2 * norms[0], rel=1e-3)
    _install_as_shown(tmp_path, "listed", "add-a-format.md")
    listed = (tmp_path / "listed.py").read_text(encoding="utf-8").replace("add_format(LISTED)\n", "")
    (tmp_path / "listed.py").write_text(listed, encoding="utf-8")
    done = _toposcope(tmp_path, "audit", "checkpoints", "--json")
    assert done.returncode in (0, 1), done.stderr
    assert '"checkpoints": 3' in done.stdout


@pytest.mark.slow
def test_a_study_is_one_module_and_reproduce_runs_it(tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (DOCS / "add-a-study.md").read_text(encoding="utf-8"), re.S)
    (tmp_path / "thirds.py").write_text(block, encoding="utf-8")
    _install_as_shown(tmp_path, "thirds", "add-a-study.md")
    step = np.arange(1.0, 301.0)
    noise = np.random.default_rng(0).normal(0, 0.01, (3, 300))
    rows = [
        f"run{run},{int(at)},{2 + run / 10 + 3 * at**-0.4 + noise[run, i]:.5f}"
        for run in range(3)
        for i, at in enumerate(step)
    ]
    (tmp_path / "runs.csv").write_text("\n".join(["run,step,loss", *rows]), encoding="utf-8")
    assert "Thirds" in _toposcope(tmp_path, "reproduce").stdout
    done = _toposcope(tmp_path, "reproduce", "thirds", "runs.csv", "--out", "thirds", "--json")
    assert done.returncode == 0, done.stderr
    claims, table = json.loads(done.stdout)["sections"]
    assert claims["rows"][0]["here"].endswith(" of 3")
    assert claims["rows"][0]["judgement"] == "cannot be tested here"  # three runs cannot decide it
    assert len(table["rows"]) == 3
    assert "Thirds, reproduced" in (tmp_path / "thirds" / "thirds.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_rule_is_one_class_and_is_told_wherever_a_log_is_judged(tmp_path: Path) -> None:
    out = _run("add-a-rule.md", tmp_path).splitlines()
    said = "the learning rate is 0.01 after 0.001"
    assert f"told: alarm {said}" in out
    told = {line.partition(": ")[0]: line.partition(": ")[2] for line in out}
    assert told["once"].startswith(f"alarm: {said}")
    advice = "compare the schedule with the plan, and go back to the last good checkpoint"
    assert told["check"].endswith(f"not back yet; {advice}")
    assert "next: compare the schedule with the plan, and go back" in told["once"]
    assert told["page"] == "True"
    assert told["check"].startswith("look: ")
    assert f"learning rate jump at step 151 ({said}), not back yet" in told["check"]
    assert "one expert has at least 74% of the tokens in the last 20 rows" in told["experts"]
    _install_as_shown(tmp_path, "jumps", "add-a-rule.md")
    both = _toposcope(tmp_path, "check", "log.jsonl")  # with the line that is not needed, once all the same
    assert both.stdout.count("learning rate jump") == 1, both.stderr
    alone = (tmp_path / "jumps.py").read_text(encoding="utf-8").replace("@add_rule\n", "")
    (tmp_path / "jumps.py").write_text(alone, encoding="utf-8")
    watch = ("watch", "run", "--out", "new", "--losses", "log.jsonl", "--once", "--rest", "0")
    done = _toposcope(tmp_path, *watch)
    assert done.returncode == 1, done.stderr
    assert f"alarm: run step 151: {said}" in " ".join(done.stdout.split())


@pytest.mark.slow
def test_an_alarm_is_one_class_and_is_told_wherever_alarms_are(tmp_path: Path) -> None:
    out = _run("add-an-alarm.md", tmp_path).splitlines()
    (alarm,) = [line for line in out if line.startswith("told: alarm the update is ")]
    told = {line.partition(": ")[0]: line.partition(": ")[2] for line in out}
    assert told["once"].startswith(alarm.removeprefix("told: ").replace("alarm ", "alarm: ", 1))
    assert "next: compare the data of these steps with those before, and go back to step 300" in told["once"]
    assert told["page"] == "True"
    _install_as_shown(tmp_path, "leaps", "add-an-alarm.md")
    alone = (tmp_path / "leaps.py").read_text(encoding="utf-8").replace("@add_alarm\n", "")
    (tmp_path / "leaps.py").write_text(alone, encoding="utf-8")
    done = _toposcope(
        tmp_path, "watch", "run", "--out", "new", "--features", "updates", "--once", "--rest", "0"
    )
    assert done.returncode == 1, done.stderr
    assert "alarm: run step 400: the update is " in " ".join(done.stdout.split())


@pytest.mark.slow
def test_a_kind_of_directions_is_one_class_and_an_option_of_the_command(tmp_path: Path) -> None:
    out = _run("add-a-direction.md", tmp_path)
    rows = [line.split(maxsplit=2) for line in out.splitlines() if re.match(r"\s*\d ", line)]
    assert rows[0][:2] == ["0", "NaN"]
    assert "no surface: 1 direction along the updates needs 2 checkpoints of the run" in rows[0][2]
    assert [step for step, value, *_ in rows[1:] if float(value) >= 1] == ["2", "4", "6"]
    found = open_store(tmp_path / "store").features()
    assert {"minima_null", "minima_random"} <= set(found["feature"])  # random directions are its null, too
    _install_as_shown(tmp_path, "updates", "add-a-direction.md")
    alone = (tmp_path / "updates.py").read_text(encoding="utf-8").replace("@add_directions\n", "")
    (tmp_path / "updates.py").write_text(alone, encoding="utf-8")
    help_text = " ".join(_toposcope(tmp_path, "landscape", "--help").stdout.split())
    assert "[random|hessian|trajectory|updates]" in help_text
    assert "or updates (the last changes of the weights)." in help_text


def test_a_command_is_one_file_and_one_line(tmp_path: Path) -> None:
    out = _run("add-a-command.md", tmp_path)
    assert out.startswith("mine has 3 checkpoints\n")
    assert json.loads(out.partition("\n")[2]) == {"run": "mine", "checkpoints": 3}
    found = re.search(r'```text\n"(\w+)": "(.+)",\n```', (DOCS / "add-a-command.md").read_text("utf-8"))
    assert found is not None
    name, says = found[1], found[2]
    install = (
        "from toposcope import cli; from toposcope.cli import main as m; cli.__path__.append('.'); "
        f"m.SECTIONS['Read the measurements'][{name!r}] = {says!r}; m.COMMANDS = (*m.COMMANDS, {name!r})"
    )
    for typed, code, printed in (
        (["--help"], 0, f"{name} {says}"),
        ([name, "store"], 0, "mine has 3 checkpoints"),
        ([name, "nowhere"], 2, "toposcope: error:"),
    ):
        call = f"{install}; m.main({typed!r})"
        done = subprocess.run([sys.executable, "-c", call], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        assert printed in " ".join((done.stdout + done.stderr).split())


def test_a_dialect_is_one_module_and_reads_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(r"```python\n(# short_log.py\n.*?)```", (DOCS / "logs.md").read_text(), flags=re.S)
    made: dict[str, Any] = {}
    exec(block, made)
    lines = [f"12:00 it={n}/5000 L={2 + 1 / n:.3f} lr=1e-3" for n in range(1, 9)]
    (tmp_path / "train.log").write_text("begin\n" + "\n".join(lines))
    monkeypatch.setattr(reading, "TEXTS", (made["DIALECT"], *reading.TEXTS))
    log = read_log(tmp_path / "train.log")
    assert log.table["loss"].tolist() == [round(2 + 1 / n, 3) for n in range(1, 9)]
    assert (log.runs[0].planned_steps, set(log.table["learning_rate"])) == (5000, {0.001})
