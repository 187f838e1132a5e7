"""Progress without a terminal is plain lines, and silence for what is quick."""

import sys
import time

import pytest

from toposcope.core import progress as shown
from toposcope.core.progress import Progress, busy, progress_reported_to, track


class Clock:
    """A clock that the test sets."""

    now = 0.0


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(shown.time, "monotonic", lambda: float(made.now))
    monkeypatch.setattr(shown.threading.Thread, "start", lambda self: None)
    return made


def test_quick_work_says_nothing(capsys):
    assert list(track(range(3), "counting")) == [0, 1, 2]
    assert capsys.readouterr().err == ""


def test_slow_work_says_how_far_it_is(capsys, clock):
    with Progress("measuring", 4) as progress:
        for clock.now in (11, 22):
            progress.advance(note="a")
        clock.now = 33
        progress.advance(failed=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("measuring: 1/4, 11 s so far")
    assert lines[1].startswith("measuring: 2/4, 22 s left")
    assert "(1 failed)" in lines[-1]


def test_units_that_took_no_time_promise_nothing_of_one_that_takes_long(capsys, clock):
    with Progress("measuring", 4) as progress:
        for clock.now in (1, 2):
            progress.advance()
        clock.now = 30
        progress._show()
        clock.now = 60
        progress.advance()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("measuring: 2/4, 30 s so far")
    assert "left" in lines[1]


def test_quiet_is_silent_whatever_it_takes(capsys, clock):
    with Progress("measuring", 2, quiet=True) as progress:
        clock.now = 60
        progress.advance()
    assert capsys.readouterr().err == ""


def test_what_is_shown_is_what_was_counted(clock, capsys):
    """While the first unit compiles for minutes nothing is done, and no time is promised."""
    with Progress("measuring", 20, work=40.0) as progress:
        for clock.now in range(1, 660):
            progress.advance(0)
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) > 50
        assert all(line.startswith("measuring: 0/20, ") for line in lines)
        assert not any("%" in line or "left" in line for line in lines)
        assert "11 min so far" in lines[-1]


def test_what_is_done_says_how_long_it_took(clock, capsys):
    with Progress("auditing", 8) as progress:
        for clock.now in range(20, 180, 20):
            progress.advance()
    assert capsys.readouterr().err.splitlines()[-1] == "auditing: 8/8, in 3 min"


def test_a_unit_says_how_far_it_is(clock, capsys):
    with Progress("measuring", 2) as progress:

        def hear(label, done, total):
            progress.inside(f"{label} {done}/{total}")

        with progress_reported_to(hear):
            inner = Progress("tiles", 4, quiet=True)
            for _ in range(3):
                inner.advance()
        clock.now = 11.0
        progress.advance(0)
        assert capsys.readouterr().err.rstrip().endswith("; tiles 3/4")
        clock.now = 22.0
        progress.advance()
        assert "tiles" not in capsys.readouterr().err


def test_a_progress_outside_is_not_a_part_of_its_own(clock):
    heard = []
    outer = Progress("measuring", 2, quiet=True)
    with progress_reported_to(lambda *said: heard.append(said)):
        outer.advance()
        list(track("ab", "reading", quiet=True))
    assert heard == [("reading", 1, 2), ("reading", 2, 2)]


def test_a_progress_without_work_is_done(clock, capsys):
    with Progress("measuring", 0):
        clock.now = 3.0
    assert capsys.readouterr().err == "measuring: 0, in 3 s\n"


def test_compiling_is_not_counted(clock, capsys):
    with Progress("training steps", 1000) as progress:
        clock.now = 30.0  # compiles, then ten steps a second
        progress.advance()
        assert "left" not in capsys.readouterr().err
        for step in range(1, 200):
            clock.now = 30.0 + step * 0.1
            progress.advance()
        first, *_ = capsys.readouterr().err.splitlines()
    assert first.startswith("training steps: 102/1000, 90 s left")


def test_steps_done_before_a_resumed_run_are_not_counted(clock, capsys):
    with Progress("training steps", 1000) as progress:
        clock.now = 1.0
        progress.advance(500)
        for clock.now in range(2, 102):
            progress.advance()
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("training steps: 600/1000, 7 min left")


def test_units_that_were_there_are_no_work(clock, capsys):
    with Progress("measuring", 100, work=200.0) as progress:
        for _ in range(60):
            progress.advance(work=0.0, there=2.0)
        for clock.now in (11, 22):
            progress.advance(work=2.0)
    assert capsys.readouterr().err.splitlines()[-1].startswith("measuring: 62/100, 7 min left")


def test_steps_of_a_large_model_count_more(clock, capsys):
    """Two runs of 100 steps, the dear one first: its pace is not taken for that of the cheap one."""
    with Progress("training steps", 200, work=100 * 9.0 + 100) as progress:
        for step in range(100):
            clock.now = 9.0 * step
            progress.advance(work=9.0)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("training steps: 100/200, 2 min left")


def test_a_terminal_has_a_bar_with_the_time_left(clock, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Progress("measuring", 10) as progress:
        for clock.now in (60, 120):
            progress.advance(note="a step 7")
    said = capsys.readouterr().err
    assert "measuring" in said
    assert "2/10" in said
    assert "a step 7" in said
    assert "0:08:00" in said


@pytest.mark.parametrize("terminal", [True, False])
def test_work_of_unknown_length_says_that_it_goes_on(monkeypatch, capsys, terminal):
    monkeypatch.setattr(shown, "_PLAIN_EVERY_SECONDS", 0.02)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    heard = ""
    with busy("writing the report"):
        while "writing the report" not in heard:
            time.sleep(0.01)
            heard += capsys.readouterr().err
    assert ("writing the report: 1 s so far" in heard) != terminal
    capsys.readouterr()
    monkeypatch.setattr(shown, "duration", lambda seconds: "6 min")
    with busy("writing the report"):
        time.sleep(0.2)
    assert capsys.readouterr().err.count("6 min so far") <= 1
    with busy("writing the report", quiet=True):
        time.sleep(0.1)
    assert capsys.readouterr().err == ""
