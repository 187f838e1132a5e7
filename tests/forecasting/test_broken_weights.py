"""A forecast of a run whose newest checkpoint is broken says so, as `check` does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import toposcope as ts
from toposcope.cli.main import main
from toposcope.runs import folders
from toposcope.sources import Series
from toposcope.sources.audit import Audited


def run_folder(folder: Path, *, planned: int = 600, broken: bool = True) -> Path:
    """Write a run of 600 steps with its log and seven checkpoints; the last may hold a NaN."""
    folder.mkdir()
    noise = np.random.default_rng(0)
    weights = noise.normal(size=(16, 8)).astype("float32")
    for step in range(0, 601, 100):
        weights = weights + noise.normal(size=weights.shape).astype("float32") * np.float32(0.05)
        values = weights.copy()
        if broken and step == 600:
            values[2, 3] = np.nan
        np.savez(folder / f"step_{step}.npz", **{"fc.weight": values})
    rows = [
        {"step": step, "loss": 2 + 5 * step**-0.5 + 0.01 * float(noise.normal()), "total_steps": planned}
        for step in range(10, 601, 10)
    ]
    (folder / "train.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    return folder


def forecast(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(["forecast", *map(str, words)])
    return int(ended.value.code or 0), capsys.readouterr().out


@pytest.mark.parametrize("planned", [600, 1200])
def test_it_is_said_first_and_is_no_all_right(
    planned: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    run = run_folder(tmp_path / "run", planned=planned)
    code, out = forecast(capsys, run)
    assert code == 1
    assert "all right" not in out
    first = out.splitlines()[0]
    assert first.startswith("stop: run: ")
    assert "checkpoint at step 600: fc.weight holds NaN" in first
    assert "go back to step 500" in first
    code, out = forecast(capsys, run, "--json")
    assert (code, json.loads(out)["verdict"]) == (1, ts.check(run).level)


def test_of_sound_weights_nothing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = forecast(capsys, run_folder(tmp_path / "run", broken=False))
    assert (code, out.startswith("nothing to forecast: run has reached its last step")) == (0, True)


def test_it_is_also_said_where_finished_runs_score_the_methods(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    for i in range(4):
        run_folder(tmp_path / "runs" / f"s{i}", broken=i == 2)
    made = ts.forecast(tmp_path / "runs")
    assert (list(made.grounds), made.verdict) == (["s2"], "stop")


def test_check_and_forecast_make_their_audit_in_one_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audited: list[str] = []
    made = folders.cheap_audit

    def counted(series: Series) -> Audited:
        audited.append(series.uri)
        return made(series)

    monkeypatch.setattr(folders, "cheap_audit", counted)
    run = run_folder(tmp_path / "run", planned=1200)
    told = ts.check(run).runs[0].judgement.grounds
    assert ts.forecast(run).grounds == {"run": list(told)}
    assert audited == [str(run)] * 2
