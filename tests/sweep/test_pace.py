"""How long a sweep still takes, by what its units cost."""

from __future__ import annotations

import pytest

from toposcope.sweep.pace import Pace
from toposcope.sweep.plan import Task
from toposcope.sweep.worker import Outcome

EACH = {("a", "quick"): 1.0, ("a", "slow"): 50.0}


def outcome(probe: str, worked: int, seconds: float, present: int = 0) -> Outcome:
    return Outcome(units={("a", probe): (worked, present, seconds)})


def test_units_weigh_what_they_are_expected_to_cost() -> None:
    pace = Pace([Task("a", (0, 1), ("quick", "slow"))], EACH, jobs=1)
    assert (pace.done, pace.left) == (0.0, pytest.approx(102.0))
    pace.tell(outcome("quick", 1, 1.0))
    assert (pace.done, pace.left) == (1.0, pytest.approx(101.0))


def test_a_slower_machine_is_noticed_after_the_first_unit() -> None:
    pace = Pace([Task("a", (0, 1), ("quick", "slow"))], EACH, jobs=1)
    pace.tell(outcome("quick", 1, 3.0))
    assert pace.left == pytest.approx(3 * 101.0)


def test_each_probe_goes_on_at_its_own_rate() -> None:
    pace = Pace([Task("a", tuple(range(10)), ("quick", "slow"))], EACH, jobs=1)
    pace.tell(outcome("quick", 1, 4.0))
    pace.tell(outcome("slow", 1, 25.0))
    assert pace.left == pytest.approx(9 * 4.0 + 9 * 25.0)


def test_units_that_were_there_cost_nothing() -> None:
    pace = Pace([Task("a", tuple(range(10)), ("slow",))], EACH, jobs=1)
    pace.tell(outcome("slow", 0, 0.1, present=9))
    assert (pace.done, pace.left) == (0.0, pytest.approx(50.0))


def test_processes_share_the_time() -> None:
    pace = Pace([Task("a", (0, 1, 2, 3), ("slow",))], EACH, jobs=2)
    pace.tell(outcome("slow", 2, 100.0))
    assert (pace.done, pace.left) == (50.0, 50.0)


def test_after_a_tenth_the_rest_is_right_within_two() -> None:
    # True costs a third and three times the expected; checkpoints come one after the other.
    truth = {"quick": 3.0, "slow": 17.0}
    pace = Pace([Task("a", tuple(range(10)), ("quick", "slow"))], EACH, jobs=1)
    for probe, seconds in truth.items():
        pace.tell(outcome(probe, 1, seconds))
    assert 0.5 < pace.left / (9 * 20.0) < 2.0
