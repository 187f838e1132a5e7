"""Progress without a terminal is plain lines, and silence for what is quick."""

from toposcope import progress as shown
from toposcope.progress import Progress, track


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
