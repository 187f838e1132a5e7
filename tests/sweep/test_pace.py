"""How long a sweep still takes, by what its units cost and by the clock."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from toposcope.sweep import pace as paced
from toposcope.sweep.pace import Pace
from toposcope.sweep.plan import Task
from toposcope.sweep.worker import Failure, Outcome

EACH = {("a", "quick"): 1.0, ("a", "slow"): 50.0, ("b", "quick"): 1.0, ("b", "slow"): 50.0}
TEN = Task("a", tuple(range(10)), ("quick", "slow"))


@dataclass
class Clock:
    """A clock that goes on when it is told to."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(paced.time, "monotonic", made)
    return made


def outcome(probe: str, worked: int, seconds: float, present: int = 0, run: str = "a") -> Outcome:
    return Outcome(done=worked, skipped=present, units={(run, probe): (worked, present, seconds)})


def measure(pace: Pace, clock: Clock, probe: str, worked: int, seconds: float, run: str = "a") -> None:
    """Let one process measure for so long."""
    clock.now += seconds
    pace.tell(outcome(probe, worked, seconds, run=run))


def test_units_weigh_what_they_are_expected_to_cost(clock: Clock) -> None:
    pace = Pace([Task("a", (0, 1), ("quick", "slow"))], EACH, jobs=1, together=1)
    before = pace.outlook
    assert (before.left, before.under_way) == (pytest.approx(102.0), 50.0)
    assert not before.known
    measure(pace, clock, "quick", 1, 1.0)
    assert pace.outlook.left == pytest.approx(101.0)


def test_a_time_is_said_after_ten_seconds_or_a_fiftieth(clock: Clock) -> None:
    pace = Pace([Task("a", tuple(range(1000)), ("quick",))], EACH, jobs=1, together=1)
    measure(pace, clock, "quick", 9, 9.0)
    assert not pace.outlook.known
    measure(pace, clock, "quick", 1, 1.0)
    assert pace.outlook.known
    few = Pace([Task("a", tuple(range(100)), ("quick",))], EACH, jobs=1, together=1)
    measure(few, clock, "quick", 1, 1.0)
    assert not few.outlook.known
    measure(few, clock, "quick", 1, 1.0)
    assert few.outlook.known


def test_a_slower_machine_is_noticed_after_the_first_unit(clock: Clock) -> None:
    pace = Pace([Task("a", (0, 1), ("quick", "slow"))], EACH, jobs=1, together=1)
    measure(pace, clock, "quick", 1, 3.0)
    assert pace.outlook.left == pytest.approx(3 * 101.0)


def test_each_probe_goes_on_at_its_own_rate_and_in_each_run(clock: Clock) -> None:
    pace = Pace([TEN, Task("b", (0,), ("quick",))], EACH, jobs=1, together=1)
    measure(pace, clock, "quick", 1, 4.0)
    measure(pace, clock, "slow", 1, 25.0)
    assert pace.outlook.left == pytest.approx(9 * 4.0 + 9 * 25.0 + 4.0)
    measure(pace, clock, "quick", 1, 8.0, run="b")
    assert pace.outlook.left == pytest.approx(9 * 4.0 + 9 * 25.0)


def test_units_that_were_there_cost_nothing(clock: Clock) -> None:
    pace = Pace([Task("a", tuple(range(10)), ("slow",))], EACH, jobs=1, together=1)
    pace.tell(outcome("slow", 0, 0.1, present=9))
    assert pace.outlook.left == pytest.approx(50.0)


def test_processes_share_the_time(clock: Clock) -> None:
    pace = Pace([Task("a", (k,), ("slow",)) for k in range(40)], EACH, jobs=2, together=1)
    for _ in range(10):
        clock.now += 50.0
        pace.tell(outcome("slow", 1, 50.0))
        pace.tell(outcome("slow", 1, 50.0))
    assert pace.outlook.left == pytest.approx(500.0)


def test_a_task_is_ended_by_one_process(clock: Clock) -> None:
    few = [Task("a", tuple(range(10)), ("slow",)), Task("b", (0,), ("quick",))]
    assert Pace(few, EACH, jobs=2, together=1).outlook.left == pytest.approx(10 * 50.0)


def test_the_time_until_the_processes_begin_is_no_share_of_the_units(clock: Clock) -> None:
    pace = Pace([Task("a", (k,), ("slow",)) for k in range(4)], EACH, jobs=2, together=1, start=6.0)
    first = pace.outlook
    assert (first.left, first.known) == (pytest.approx(106.0), False)
    assert first.after(1.0) is None
    clock.now += 8.0
    pace.tell(Outcome())
    begun = pace.outlook
    assert (begun.left, begun.under_way) == (pytest.approx(100.0), 50.0)
    measure(pace, clock, "slow", 1, 50.0)
    measure(pace, clock, "slow", 1, 0.0)
    assert pace.outlook.known


def test_more_processes_than_were_said_are_learnt_from_the_clock(clock: Clock) -> None:
    """A cluster has as many as it has."""
    pace = Pace([Task("a", (k,), ("slow",)) for k in range(800)], EACH, jobs=1)
    for _ in range(10):
        clock.now += 50.0
        for _ in range(8):
            pace.tell(outcome("slow", 1, 50.0))
    assert pace.outlook.left == pytest.approx(720 / 8 * 50.0, rel=0.5)


def test_what_passes_beside_the_units_is_learnt_from_the_clock(clock: Clock) -> None:
    pace = Pace([Task("a", tuple(range(100)), ("slow",))], EACH, jobs=1, together=1)
    for _ in range(10):
        clock.now += 100.0
        pace.tell(outcome("slow", 1, 50.0))
    assert pace.outlook.left == pytest.approx(90 * 100.0, rel=0.2)


def test_what_is_under_way_is_the_dearest_step_left(clock: Clock) -> None:
    assert Pace([TEN], EACH, jobs=1, together=4).outlook.under_way == 4 * 50.0
    assert Pace([TEN], EACH, jobs=1).outlook.under_way == 10 * 51.0


def test_a_process_that_was_lost_takes_its_units_back(clock: Clock) -> None:
    pace = Pace([TEN], EACH, jobs=1, together=1)
    measure(pace, clock, "quick", 1, 4.0)
    was = pace.outlook
    said = outcome("slow", 2, 25.0, present=1)
    said.failures.append(Failure("a", 3, 30, "slow", "why"))
    pace.tell(said)
    undone = said.undone()
    assert undone.done == -4
    pace.tell(undone)
    assert pace.outlook.left == pytest.approx(was.left)


def test_after_a_tenth_the_rest_is_right_within_two(clock: Clock) -> None:
    # True costs a third and three times the expected; checkpoints come one after the other.
    truth = {"quick": 3.0, "slow": 17.0}
    pace = Pace([TEN], EACH, jobs=1, together=1)
    for probe, seconds in truth.items():
        measure(pace, clock, probe, 1, seconds)
    assert 0.5 < pace.outlook.left / (9 * 20.0) < 2.0
