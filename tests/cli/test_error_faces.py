"""What is typed wrong: one line with a remedy that works, as JSON too, and no traceback from any input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import toposcope as ts
from toposcope.cli.main import main

STEP = np.arange(1, 61)
LOSS = 2 + 5 * STEP**-0.5
LOG = pd.DataFrame({"step": STEP, "loss": LOSS})


def ended(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    printed = capsys.readouterr()
    return int(left.value.code or 0), printed.out, printed.err


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a log in the working folder and return its name."""
    monkeypatch.chdir(tmp_path)
    lines = (f"step {n} loss {loss:.4f}" for n, loss in zip(STEP, LOSS, strict=True))
    Path("train.log").write_text("\n".join(lines))
    return "train.log"


@pytest.mark.parametrize("command", ["check", "forecast", "compare"])
@pytest.mark.parametrize("horizon", ["400", 10**20, 1e20, float("nan"), -1, 2.5, [400]])
def test_an_impossible_end_is_one_line(command: str, horizon: object) -> None:
    call: Callable[..., object] = getattr(ts, command)
    given = (LOG, LOG) if command == "compare" else (LOG,)
    with pytest.raises(ts.InputError, match=r"horizon.*: no run can end there; give the step"):
        call(*given, horizon=horizon)


def test_an_end_beyond_every_run_is_one_line_at_the_command_line(log: str, capsys) -> None:  # type: ignore[no-untyped-def]
    code, out, err = ended(["check", log, "--horizon", str(10**20)], capsys)
    assert (code, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("command", ["check", "forecast", "analyze", "audit", "read_log", "open_store"])
@pytest.mark.parametrize("given", [5, None, 3.5, b"x", object(), {}, {"a": "train.log"}, [5], [None]])
def test_what_is_no_source_is_one_line_with_a_remedy(command: str, given: object) -> None:
    call: Callable[..., object] = getattr(ts, command)
    with pytest.raises(ts.InputError, match="give ") as refused:
        call(given)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("given", [5, None, object()])
def test_a_comparison_refuses_what_is_no_side(given: object) -> None:
    with pytest.raises(ts.InputError, match="give a path"):
        ts.compare(given, LOG)


def test_columns_by_name_are_a_log() -> None:
    assert ts.check({"step": STEP, "loss": LOSS}).level == ts.check(LOG).level


def test_a_path_in_place_of_a_command_suggests_the_check(log: str, capsys) -> None:  # type: ignore[no-untyped-def]
    code, _, err = ended([log], capsys)
    assert (code, "toposcope check train.log" in err) == (2, True)


def test_an_audit_of_a_log_suggests_the_check(log: str, capsys) -> None:  # type: ignore[no-untyped-def]
    code, _, err = ended(["audit", log], capsys)
    assert (code, err.endswith("is read by: toposcope check train.log\n")) == (2, True)


@pytest.mark.parametrize("arguments", [["check", "absent.log"], ["check"], ["check", "--nothing"], ["chek"]])
def test_with_json_an_error_is_json_on_the_output_and_a_line_beside_it(arguments, capsys) -> None:  # type: ignore[no-untyped-def]
    code, out, err = ended([*arguments, "--json"], capsys)
    answer = json.loads(out)
    assert (code, answer["exit_code"]) == (2, 2)
    assert err == f"toposcope: error: {answer['error']}\n"


def test_a_plan_needs_no_store(tmp_path: Path, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    np.savez("step_10.npz", **{"fc.weight": np.eye(4)})
    code, out, _ = ended(["weights", "step_10.npz", "--plan"], capsys)
    assert (code, "1 checkpoint" in out) == (0, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_10.npz"]
    code, _, err = ended(["weights", "step_10.npz"], capsys)
    assert (code, "Missing option '--out'" in err) == (2, True)


def test_the_json_of_an_analysis_has_the_findings_and_the_tables_that_are_asked_for(
    tmp_path: Path,
    capsys,  # type: ignore[no-untyped-def]
) -> None:
    noise = np.random.default_rng(0).standard_normal((2, len(STEP)))
    LOG.assign(loss=LOSS + 0.01 * noise[0], mine=noise[1]).to_csv(tmp_path / "mine.csv", index=False)
    _, out, _ = ended(["analyze", str(tmp_path / "mine.csv"), "--json"], capsys)
    answer = json.loads(out)
    assert answer["findings"]
    assert "trends" not in answer
    _, out, _ = ended(["analyze", str(tmp_path / "mine.csv"), "--json", "--table", "trends"], capsys)
    assert {"findings", "trends"} <= set(json.loads(out))
