"""The table of half and double of each limit is about the limits as they stand."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from benchmarks.limits import HEADING, ROOMS, rows_of, scaled

TABLE = Path(__file__).parents[1] / "docs" / "evidence" / "benchmarks-limits.csv"


def printed(limit: str, value: object, factor: float) -> str:
    shown = scaled(limit, value, factor)
    return "; ".join(f"{each:.3g}" for each in (shown if isinstance(shown, tuple) else (shown,)))


def test_the_table_has_half_and_double_of_every_limit_as_it_stands() -> None:
    """A limit that is changed turns this red: make the table again, and read what a docstring says of it."""
    with TABLE.open(newline="", encoding="utf-8") as handle:
        heading, *rows = csv.reader(handle)
    assert tuple(heading) == HEADING
    values = {(room, limit, taken): value for room, limit, taken, value, *_ in rows if limit != "all"}
    assert values == {
        (name, limit, taken): printed(limit, getattr(room.module, limit), factor)
        for name, room in ROOMS.items()
        for limit in room.limits
        for taken, factor in (("half", 0.5), ("double", 2.0))
    }


def test_a_limit_stands_again_after_it_was_halved_and_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    room = ROOMS["jumps"]
    given = {limit: getattr(room.module, limit) for limit in room.limits}
    seen = []

    def judge() -> tuple[int, int, int, int]:
        seen.append(room.module.JUMP / given["JUMP"])
        return (seen[-1] < 1, 5, 4 - (seen[-1] > 1), 5)

    monkeypatch.setitem(ROOMS, "jumps", type(room)(room.module, ("JUMP",), judge))
    rows = list(rows_of("jumps"))
    assert seen == [1.0, 0.5, 2.0]
    assert [row[-1] for row in rows] == ["", "worse", "worse"]
    assert {limit: getattr(room.module, limit) for limit in room.limits} == given


def test_shares_and_ratios_are_halved_and_doubled_in_what_is_left() -> None:
    assert scaled("_MOST", 0.75, 2.0) == 0.5
    assert scaled("_SAME_RATIO", 1.1, 0.5) == pytest.approx(1.05)
    assert scaled("FEWEST", 3, 0.1) == 1
    assert scaled("LAGS", (4, 8), 2.0) == (8, 16)
