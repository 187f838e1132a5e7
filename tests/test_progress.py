"""Progress without a terminal is plain lines, and silence for what is quick."""

import itertools
import sys
import time

import numpy as np
import pytest

from toposcope import progress as shown
from toposcope.progress import Outlook, Progress, busy, track


def test_quick_work_says_nothing(capsys):
    assert list(track(range(3), "counting")) == [0, 1, 2]
    assert capsys.readouterr().err == ""


def test_slow_work_says_how_far_it_is(capsys, monkeypatch):
    clock = iter(range(0, 1000, 11))
    monkeypatch.setattr(shown.time, "monotonic", lambda: float(next(clock)))
    with Progress("measuring", 3) as progress:
        progress.advance(note="a")
        progress.advance(failed=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("measuring: 1/3")
    assert "s left" in lines[0]
    assert "(1 failed)" in lines[-1]


def test_quiet_is_silent_whatever_it_takes(capsys, monkeypatch):
    clock = iter(range(0, 1000, 60))
    monkeypatch.setattr(shown.time, "monotonic", lambda: float(next(clock)))
    with Progress("measuring", 2, quiet=True) as progress:
        progress.advance()
    assert capsys.readouterr().err == ""


def test_weighed_progress_moves_between_two_counts(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(shown.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(shown.threading.Thread, "start", lambda self: None)
    with Progress("measuring", 4, weighed=True) as progress:
        progress.expect(Outlook(0.0, 400.0))
        assert progress.standing() == (0.0, 400.0)
        now[0] = 100.0
        assert progress.standing() == (0.25, 300.0)
        progress.advance()
        assert capsys.readouterr().err == "measuring: 25%, 1/4 units, 5 min left\n"
        now[0] = 1000.0  # a unit that takes longer than everything was to take
        share, left = progress.standing()
        assert 0.8 <= share < 1.0
        assert left == 250.0
        now[0] = 2000.0
        assert share < progress.standing()[0] < 1.0


def test_the_share_goes_no_further_than_what_is_under_way(capsys, monkeypatch):
    """While the first unit compiles for minutes the bar stays within that unit, and no time is promised."""
    now = [0.0]
    monkeypatch.setattr(shown.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(shown.threading.Thread, "start", lambda self: None)
    with Progress("measuring", 520, weighed=True) as progress:
        progress.expect(Outlook(0.0, 20.0, under_way=2.0, known=False))
        shares = []
        for now[0] in range(1, 300):
            share, left = progress.standing()
            shares.append(share)
            assert left is None
        assert shares[0] == 0.05
        assert all(after >= before for before, after in itertools.pairwise(shares))
        assert shares[-1] <= 0.1
        progress.advance(0)
        assert capsys.readouterr().err == "measuring: 10%, 0/520 units, time left not known yet\n"
        progress.expect(Outlook(200.0, 2000.0, under_way=200.0))
        assert progress.standing() == (pytest.approx(200.0 / 2200.0, rel=0.11), 2000.0)


def test_a_late_unit_moves_what_comes_after_it(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(shown.time, "monotonic", lambda: now[0])
    with Progress("measuring", 10, quiet=True, weighed=True) as progress:
        progress.expect(Outlook(10.0, 90.0, under_way=10.0))
        now[0] = 5.0
        assert progress.standing() == (0.15, 85.0)
        now[0] = 40.0  # the rest, and a quarter of how late it is
        share, left = progress.standing()
        assert 0.19 < share < 0.2
        assert left == 90.0


def test_the_share_never_falls_and_never_stands_still(monkeypatch):
    """Whatever is learnt about the rest; without units that take longer it is the true share."""
    now = [0.0]
    monkeypatch.setattr(shown.time, "monotonic", lambda: now[0])
    generator = np.random.default_rng(0)
    for _ in range(50):
        now[0] = 0.0
        with Progress("measuring", 4, quiet=True, weighed=True) as progress:
            shares = []
            for _ in range(20):
                left = float(generator.lognormal(4.0, 1.5))
                progress.expect(Outlook(now[0], left, under_way=left * float(generator.uniform())))
                shares.append(progress.standing()[0])
                now[0] += float(generator.exponential(5.0))
                shares.append(progress.standing()[0])
        assert all(0.0 <= share < 1.0 for share in shares)
        assert all(after > before for before, after in zip(shares[::2], shares[1::2], strict=True))
        assert all(after >= before for before, after in itertools.pairwise(shares))


def test_an_estimate_that_grows_leaves_the_share_where_it_was(monkeypatch):
    now = [80.0]
    monkeypatch.setattr(shown.time, "monotonic", lambda: now[0])
    with Progress("measuring", 4, quiet=True, weighed=True) as progress:
        progress.expect(Outlook(80.0, 20.0))
        assert progress.standing() == (0.8, 20.0)
        progress.expect(Outlook(80.0, 40.0))
        assert progress.standing() == (0.8, 40.0)
        now[0] = 100.0
        assert progress.standing() == (pytest.approx(100 / 120), 20.0)
        progress.expect(Outlook(119.0, 1.0))
        assert progress.standing() == (pytest.approx(119 / 120), 1.0)


def test_a_weighed_progress_without_work_is_done():
    with Progress("measuring", 0, quiet=True, weighed=True) as progress:
        progress.expect(Outlook(0.0, 0.0))
        assert progress.standing() == (1.0, 0.0)


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
