"""What a killed writer of a page leaves beside it is removed by the next one, and a moved page comes back."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from toposcope.page import page as pages


def left(out: Path, end: str) -> Path:
    """Leave what a writer that was killed leaves: its folder, and its lock that nobody holds."""
    folder = out.parent / f".{out.name}.00ff00ff.{end}"
    folder.mkdir(parents=True)
    (folder / "index.html").write_text("before")
    folder.with_suffix(".lock").touch()
    return folder


def written(out: Path) -> None:
    pages._replace(out, lambda folder: (folder / "index.html").write_text("now") and None)


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    out = tmp_path / "report"
    stale, of_another = left(out, "partial"), left(tmp_path / "other", "partial")
    written(out)
    assert (out / "index.html").read_text() == "now"
    assert not stale.exists()
    assert of_another.exists()


def test_what_a_living_writer_holds_is_left_alone(tmp_path: Path) -> None:
    held = left(tmp_path / "report", "partial")
    with held.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        written(tmp_path / "report")
    assert held.exists()


def test_a_page_that_a_killed_writer_had_moved_away_comes_back(tmp_path: Path) -> None:
    out = tmp_path / "report"
    left(out, "old")

    def fails(folder: Path) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        pages._replace(out, fails)
    assert (out / "index.html").read_text() == "before"
    assert [one.name for one in tmp_path.iterdir()] == ["report"]
