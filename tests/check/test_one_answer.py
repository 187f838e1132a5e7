"""One log has one answer: check, forecast, its advice, watch, live page, analysis and Python agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from safetensors.numpy import save_file

import toposcope as ts
from tests.check.dialects import STATES, TRAINERS
from toposcope.cli.main import main
from toposcope.watch.page.answers import forecasts

SIZE = ("--parameters", "1000000", "--tokens-per-step", "1000", "--advise", "--budget", "1e13")


class Answers(NamedTuple):
    """What every way of asking says of one log: its verdict, exit code and forecast, by the way."""

    verdicts: dict[str, str]
    codes: dict[str, int]
    forecasts: dict[str, tuple[float, ...] | None]


def typed(capsys, *words) -> tuple[int, dict[str, Any]]:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words), "--json"])
    captured = capsys.readouterr()
    assert captured.out, captured.err
    return ended.value.code, json.loads(captured.out)


def bounds(made) -> tuple[float, ...] | None:
    return None if made is None else tuple(float(made[name]) for name in ("final_loss", "low", "high"))


def asked(log: Path, folder: Path, capsys) -> Answers:
    """Ask about a log in every way."""
    verdicts, codes, ends = {}, {}, {}
    codes["check"], found = typed(capsys, "check", log)
    verdicts["check"], ends["check"] = found["level"], bounds(found["runs"][0]["forecast"])
    codes["forecast"], found = typed(capsys, "forecast", log)
    verdicts["forecast"] = found["verdict"]
    ends["forecast"] = bounds(next((one for one in found["forecasts"] if one["method"] == "auto"), None))
    codes["advice"], found = typed(capsys, "forecast", log, *SIZE)
    verdicts["advice"] = found["verdict"]
    if found["verdict"] != "all right" and "advice" in found:
        assert found["advice"][0]["action"] == found["verdict"]
    codes["watch"], found, ends["page"] = watched(log, folder, capsys)
    verdicts["watch"] = found["verdict"]
    made = ts.analyze(str(log))
    verdicts["analysis"] = made.verdict
    codes["analyze"], found = typed(capsys, "analyze", log)
    verdicts["analyze"] = found["verdict"]
    return Answers(verdicts, codes, ends)


def watched(log: Path, folder: Path, capsys) -> tuple[int, dict[str, Any], tuple[float, ...] | None]:
    """Return exit code and answer of a watch over one checkpoint and the log, and the page's forecast."""
    run, store = folder / "run", folder / "store"
    run.mkdir()
    weights = np.random.default_rng(0).normal(size=(12, 10)).astype(np.float32)
    save_file({"layers.0.mlp.fc1.weight": weights}, run / "step_000010.safetensors")
    code, found = typed(
        capsys, "watch", run, "--losses", log, "--once", "--rest", 0, "--out", store, "--features", "updates"
    )
    shown = forecasts(store)
    return code, found, bounds({**shown[0], "final_loss": shown[0]["final"]} if shown else None)


def agree(found: Answers, verdict: str) -> None:
    """Assert that every way says one thing."""
    assert found.verdicts == dict.fromkeys(found.verdicts, verdict)
    assert found.codes == dict.fromkeys(found.codes, int(verdict != "all right"))
    first = found.forecasts["check"]
    for way, bounds_there in found.forecasts.items():
        assert (bounds_there is None) == (first is None), way
        if first is not None:
            assert bounds_there == pytest.approx(first, rel=1e-9), way


def written_by(trainer: str, state: str, folder: Path) -> Path:
    """Write the log of a run in a state as a trainer prints it, the plan where this trainer keeps it."""
    name, text = TRAINERS[trainer]
    made = STATES[state]
    log = folder / "logs" / name
    log.parent.mkdir()
    log.write_text(text(made.loss, made.plan))
    if trainer in ("nanoGPT", "LitGPT", "verl"):
        (log.parent / "config.json").write_text(json.dumps({"max_steps": made.plan}))
    if trainer == "Lightning":
        (log.parent / "hparams.yaml").write_text(f"max_steps: {made.plan}\n")
    return log


QUICK = {("Megatron-LM", "healthy and unfinished"), ("torchtitan", "healthy and finished"),
         ("nanoGPT", "diverging"), ("transformers", "a spike on its way back")}  # fmt: skip
EVERY = [
    pytest.param(trainer, state, marks=() if (trainer, state) in QUICK else pytest.mark.slow)
    for trainer in TRAINERS
    for state in STATES
]


@pytest.mark.parametrize(("trainer", "state"), EVERY)
def test_a_log_of_any_trainer_has_one_answer(trainer, state, tmp_path, capsys):
    log = written_by(trainer, state, tmp_path)
    found = asked(log, tmp_path, capsys)
    agree(found, STATES[state].verdict)
    assert (found.forecasts["check"] is None) == (state == "healthy and finished")


def test_python_says_what_the_commands_say(tmp_path, capsys):
    log = written_by("llm.c", "a spike on its way back", tmp_path)
    found = asked(log, tmp_path, capsys)
    checked, made = ts.check(str(log)), ts.forecast(str(log))
    assert checked.level == made.verdict == ts.analyze(str(log)).verdict == found.verdicts["check"] == "look"
    row = made.table.iloc[0]
    assert found.forecasts["check"] == tuple(map(float, (row["final_loss"], row["low"], row["high"])))
    one = checked.runs[0].forecast
    assert (one.final, one.low, one.high) == found.forecasts["check"]
    assert repr(made).startswith("look: ")


@pytest.mark.slow
@pytest.mark.parametrize("state", list(STATES))
def test_a_report_says_first_what_the_check_says(state, tmp_path):
    log = written_by("Megatron-LM", state, tmp_path)
    page = ts.report(str(log), tmp_path / "report").page.with_name("report.md").read_text()
    (checked,) = ts.check(str(log)).runs
    first = page.split("\n## ")[0]
    assert all(ground.sentence in first for ground in checked.judgement.grounds[:1])
    if checked.level == "all right":
        assert "never diverged, spiked or stalled" in first


@pytest.mark.slow
@pytest.mark.parametrize("which", range(10))
def test_a_real_log_has_one_answer(which, shared_data, tmp_path, capsys):
    log = sorted((shared_data / "logs" / "parameter_golf").iterdir())[4 * which]
    if len(ts.check(str(log)).runs) != 1:
        pytest.skip("several runs in one file: a watch follows one")
    found = asked(log, tmp_path, capsys)
    agree(found, found.verdicts["check"])
