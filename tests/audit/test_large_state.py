"""Plans of a model of 7 billion weights with Adam's state: headers and a few rows of sparse files."""

from __future__ import annotations

import dataclasses
import tracemalloc
from pathlib import Path

import pytest

pytest.importorskip("torch")

from benchmarks.large_state import FORMS, Hole, steps_of, write_dcp, write_series, write_transformers
from benchmarks.llm_size import LLAMA_7B
from tests.cli.test_plan import call
from toposcope.api.measurement import Measurement
from toposcope.api.plans import Plan
from toposcope.sources import open_series
from toposcope.sources.optimizer.resumption import RESUMABLE
from toposcope.subjects.roster import subject_of
from toposcope.sweep import Execution

WIDE = dataclasses.replace(LLAMA_7B, layers=1)
"""One layer of a model of 7 billion weights, and its embeddings: 464 million."""
_MOST = 100 * 2**20
"""No plan may hold more: one tensor of the embedding's moments is 524 MB."""


def _plan(run: Path) -> tuple[Plan, int]:
    """Return the plan of the subject `optimizer`, and the most bytes that it held at once."""
    subject = subject_of("optimizer")
    found = Measurement(open_series(str(run)), subject.probes(), subject.recipe())
    tracemalloc.start()
    try:
        plan = found.plan(execution=Execution())
        return plan, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("form", FORMS)
def test_a_plan_of_wide_layers_reads_headers_and_rows(form: str, tmp_path: Path) -> None:
    write_series(form, tmp_path / "run", WIDE)
    plan, held = _plan(tmp_path / "run")
    assert held < _MOST
    assert plan.ok
    assert [one.verdict for one in plan.resume] == [RESUMABLE]
    (line,) = plan.beside
    assert "both moments of 9 matrices" in line
    assert line.endswith("(3.7 GB)")


@pytest.mark.slow
def test_a_plan_of_all_layers_holds_no_more(tmp_path: Path) -> None:
    write_series("mastered", tmp_path / "run")
    plan, held = _plan(tmp_path / "run")
    assert held < _MOST
    assert [one.verdict for one in plan.resume] == [RESUMABLE]
    assert plan.beside[0].endswith("(53.9 GB)")


def test_a_typed_plan_says_what_cannot_be_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, now = steps_of(WIDE, mastered=False)
    for fields in now.state.values():
        fields["exp_avg_sq"] = Hole(fields["exp_avg_sq"].shape, fields["exp_avg_sq"].dtype)
    for step, one in ((1000, before), (1100, now)):
        write_transformers(tmp_path / "run" / f"checkpoint-{step}", step, one)
    code, out, err = call(capsys, "weights", tmp_path / "run", "--plan")
    assert (code, err) == (1, "")
    assert "resume (by a sample): not resumable from step 1,100: second moments of all 11 tensors" in out
    assert "both moments of 9 matrices" in out


def test_a_plan_names_no_option_that_the_command_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toposcope.sweep.expect._LONG", 1.0)
    write_series("transformers", tmp_path / "run", WIDE)
    code, out, _ = call(capsys, "optimizer", tmp_path / "run", "--plan")
    assert code == 0
    assert " of it for moments and" in out
    assert "--features" not in out
    line = ("weights", tmp_path / "run", "--features", "rips,baselines", "--plan")
    assert "(leave it out with --features)" in call(capsys, *line)[1]


def test_a_plan_says_where_no_state_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for step, one in zip((1000, 1100), steps_of(WIDE, mastered=False), strict=True):
        state = one.state if step == 1100 else {}
        write_dcp(tmp_path / "run" / f"step-{step}", step, dataclasses.replace(one, state=state))
    code, out, _ = call(capsys, "optimizer", tmp_path / "run", "--plan")
    assert "1 of 2 checkpoints have no row of moments" in out
    assert code == 0
