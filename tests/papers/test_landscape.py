"""`reproduce landscape` on a run of four checkpoints: which the test refuses to judge, with the reason."""

from __future__ import annotations

import pytest

from tests.landscape.test_probes import SMALL, run_folder
from toposcope.papers.landscape import QUESTIONS, log_steps, measure, sections


def test_steps_are_spread_over_log_step_with_both_ends() -> None:
    chosen = log_steps(list(range(0, 5001, 100)), 14)
    assert (len(chosen), chosen[0], chosen[-1]) == (14, 0, 5000)
    assert chosen == sorted(set(chosen))
    assert sum(step <= 1000 for step in chosen) >= 8
    assert log_steps([5, 1, 3], 14) == [1, 3, 5]


def test_the_study_answers_and_says_what_the_design_cannot(tmp_path) -> None:
    run = run_folder(tmp_path / "run", tmp_path)
    store = measure(str(run), tmp_path / "store", options=SMALL)
    answer, surfaces, moved = sections(store)
    assert "cannot tell" in answer.title
    assert [row[0] for row in answer.rows] == [label for _, label in QUESTIONS]
    assert all("the test needs 12" in str(row[-1]) for row in answer.rows)
    shares = {row[0]: row for row in surfaces.rows}
    assert shares["full range"][1] == 4 * SMALL.surfaces
    assert 0.0 <= float(shares["full range"][2]) <= 1.0
    assert {row[0] for row in moved.rows} == {label for _, label in QUESTIONS}
    assert measure(str(run), tmp_path / "store", options=SMALL).path == store.path


@pytest.mark.parametrize("count", [1, 2, 5])
def test_no_step_is_taken_twice(count: int) -> None:
    assert len(set(log_steps(list(range(30)), count))) == count
