"""The pages on adding something: their code runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.slow
def test_a_figure_is_one_function_of_a_table(tmp_path: Path) -> None:
    _run("add-a-figure.md", tmp_path)
    assert (tmp_path / "margins.png").read_bytes().startswith(b"\x89PNG")
    svg = (tmp_path / "margins.svg").read_text(encoding="utf-8")
    assert svg.startswith("<?xml")


@pytest.mark.slow
def test_a_format_is_one_class_and_serves_every_command_once_it_is_installed(tmp_path: Path) -> None:
    out = _run("add-a-format.md", tmp_path).splitlines()
    assert out[-2] == "[0, 100, 200]"
    norms = [float(value) for value in out[-1].strip("[]").split(",")]
    assert norms[1] == pytest.approx(2 * norms[0], rel=1e-3)
    text = (DOCS / "add-a-format.md").read_text(encoding="utf-8")
    found = re.search(r'entry-points\."([\w.]+)"\]\n(\w+) = "([\w:]+)"', text)
    assert found is not None
    about = tmp_path / "listed-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: listed\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(f"[{found[1]}]\n{found[2]} = {found[3]}\n", encoding="utf-8")
    call = (
        "import sys; sys.path.insert(0, '.'); from toposcope.cli.main import main; "
        "main(['audit', 'checkpoints', '--json'])"
    )
    listed = (tmp_path / "listed.py").read_text(encoding="utf-8").replace("add_format(LISTED)\n", "")
    (tmp_path / "listed.py").write_text(listed, encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", call], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    assert '"checkpoints": 3' in done.stdout


@pytest.mark.slow
def test_an_alarm_is_one_class_and_is_told_wherever_alarms_are(tmp_path: Path) -> None:
    out = _run("add-an-alarm.md", tmp_path).splitlines()
    said = "the learning rate is 0.01 after 0.001"
    assert f"told: alarm {said}" in out
    told = {line.partition(": ")[0]: line.partition(": ")[2] for line in out}
    assert told["once"].startswith(f"alarm: {said}")
    assert "next: compare the schedule with the plan, and go back" in told["once"]
    assert told["page"] == "True"
    assert told["check"].startswith("look: ")
    assert f"learning rate jump at step 151 ({said}), not back yet" in told["check"]
    text = (DOCS / "add-an-alarm.md").read_text(encoding="utf-8")
    found = re.search(r'entry-points\."([\w.]+)"\]\n(\w+) = "([\w:]+)"', text)
    assert found is not None
    about = tmp_path / "jumps-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: jumps\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(f"[{found[1]}]\n{found[2]} = {found[3]}\n", encoding="utf-8")
    alone = (tmp_path / "jumps.py").read_text(encoding="utf-8").replace("@add_alarm\n", "")
    (tmp_path / "jumps.py").write_text(alone, encoding="utf-8")
    words = ["watch", "run", "--out", "new", "--losses", "log.jsonl", "--once", "--rest", "0"]
    call = f"import sys; sys.path.insert(0, '.'); from toposcope.cli.main import main; main({words})"
    done = subprocess.run([sys.executable, "-c", call], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert f"alarm: run step 151: {said}" in " ".join(done.stdout.split())
