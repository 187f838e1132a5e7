"""Progress without a terminal is plain lines, and silence for what is quick."""

import sys
import time

import pytest

from toposcope.core import progress as shown
from toposcope.core.progress import Outlook, Progress, busy, parts_heard_by, track


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
    with Progress("measuring", 3) as progress:
        clock.now = 11
        progress.advance(note="a")
        clock.now = 22
        progress.advance(failed=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("measuring: 1/3")
    assert "22 s left" in lines[0]
    assert "(1 failed)" in lines[-1]


def test_quiet_is_silent_whatever_it_takes(capsys, clock):
    with Progress("measuring", 2, quiet=True) as progress:
        clock.now = 60
        progress.advance()
    assert capsys.readouterr().err == ""


def test_what_is_shown_is_what_was_counted(clock, capsys):
    """While the first unit compiles for minutes nothing is done, and no time is promised."""
    with Progress("measuring", 20) as progress:
        progress.expect(Outlook(20.0, under_way=2.0, known=False))
        for clock.now in range(1, 660):
            assert progress.left() is None
            progress.advance(0)
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) > 50
        assert all(line.startswith("measuring: 0/20 units") for line in lines)
        assert not any("%" in line or " left," in line or line.endswith(" left") for line in lines)
        assert "11 min so far" in lines[-1]


def test_the_time_left_is_withheld_while_a_unit_is_late(clock):
    with Progress("measuring", 10, quiet=True) as progress:
        progress.expect(Outlook(90.0, under_way=10.0))
        clock.now = 5.0
        assert progress.left() == 85.0
        clock.now = 15.0
        assert progress.left() == 80.0  # what comes after the unit that is late
        clock.now = 21.0
        assert progress.left() is None
        progress.advance()
        progress.expect(Outlook(160.0, under_way=20.0))
        assert progress.left() == 160.0


def test_a_plain_count_promises_nothing_while_it_is_late(clock):
    with Progress("measuring", 4, quiet=True) as progress:
        clock.now = 10.0
        progress.advance()
        assert progress.left() == 30.0
        clock.now = 31.0
        assert progress.left() is None


@pytest.mark.parametrize(("seconds", "each"), [(100.0, "2 min each"), (20.0, "20 s each"), (2.0, "0.5/s")])
def test_slow_counts_have_seconds_each(clock, capsys, seconds, each):
    with Progress("auditing", 8) as progress:
        for clock.now in [seconds * (1 + count) for count in range(8)]:
            progress.advance()
    lines = capsys.readouterr().err.splitlines()
    assert each in lines[0]
    assert not any("0.0/s" in line for line in lines)
    assert lines[-1].startswith("auditing: 8/8, in ")


def test_a_unit_says_how_far_it_is(clock, capsys):
    with Progress("measuring", 2) as progress:
        progress.expect(Outlook(100.0, known=False))

        def hear(label, done, total):
            progress.inside(f"{label} {done}/{total}")

        with parts_heard_by(hear):
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
    with parts_heard_by(lambda *said: heard.append(said)):
        outer.advance()
        list(track("ab", "reading", quiet=True))
    assert heard == [("reading", 1, 2), ("reading", 2, 2)]


def test_a_progress_without_work_is_done(clock):
    with Progress("measuring", 0, quiet=True) as progress:
        progress.expect(Outlook(0.0))
        assert progress.left() == 0.0


def test_compiling_is_not_counted(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(shown.time, "monotonic", lambda: now[0])
    with Progress("training steps", 1000, warms_up=True) as progress:
        now[0] = 30.0  # compiles, then ten steps a second
        progress.advance()
        assert "left" not in capsys.readouterr().err
        for step in range(199):
            now[0] = 30.1 + step * 0.1
            progress.advance()
        first, *_ = capsys.readouterr().err.splitlines()
    assert first.startswith("training steps: 102/1000, 10.0/s, 90 s left")


def test_steps_done_before_a_resumed_run_are_not_counted(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(shown.time, "monotonic", lambda: now[0])
    with Progress("training steps", 1000, warms_up=True) as progress:
        now[0] = 1.0
        progress.advance(500)
        for step in range(100):
            now[0] = 2.0 + step
            progress.advance()
    lines = capsys.readouterr().err.splitlines()
    assert "left" not in lines[0]
    assert lines[-1].startswith("training steps: 600/1000, 1.0/s, 7 min left")


def test_counts_that_come_all_at_once_are_no_rate_of_their_own(capsys, monkeypatch):
    """Workers tell their steps in bursts: the rate is taken over half of the time, never over an instant."""
    now = [0.0]
    monkeypatch.setattr(shown.time, "monotonic", lambda: now[0])
    with Progress("training steps", 1000, warms_up=True) as progress:
        for burst in range(9):
            for step in range(100):
                now[0] = 100.0 * burst + step * 1e-6
                progress.advance()
        rates = [line.split(", ")[1] for line in capsys.readouterr().err.splitlines() if "/s" in line]
    assert len(rates) > 5
    assert all(float(rate.removesuffix("/s")) <= 2.1 for rate in rates)


def test_steps_of_a_large_model_count_more(capsys, monkeypatch):
    """Two runs of 100 steps, the dear one first: its pace is not taken for that of the cheap one."""
    now = [0.0]
    monkeypatch.setattr(shown.time, "monotonic", lambda: now[0])
    with Progress("training steps", 200, warms_up=True, work=100 * 9.0 + 100) as progress:
        for step in range(100):
            now[0] = 9.0 * step
            progress.advance(weight=9.0)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("training steps: 100/200, 2 min left")
    assert "/s" not in lines[-1]


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
    with busy("writing the report", quiet=True):
        time.sleep(0.1)
    assert capsys.readouterr().err == ""
