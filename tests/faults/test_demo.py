"""`demo`, hurt from outside: it ends, says so in a line, and repeating it goes on to the same store."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.injury import (
    after,
    demo,
    finish,
    hurt,
    hurt_until_interrupted,
    hurt_until_killed,
    measured,
)

pytest.importorskip("torch")

pytestmark = pytest.mark.faults
STEPS = 12


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    out = tmp_path_factory.mktemp("whole") / "out"
    ended = finish(demo(out, steps=STEPS))
    assert ended.code == 0, ended.err
    return measured(out, "store")


@pytest.mark.slow
def test_a_demo_hurt_again_and_again_goes_on_to_the_same_end(whole: list[str], tmp_path: Path) -> None:
    out, store = tmp_path / "out", tmp_path / "out" / "store"
    line = demo(out, steps=STEPS)
    ending, had = hurt(
        line,
        ("SIGSTOP and SIGCONT", lambda: any(out.glob("runs/*/checkpoints/*"))),
        ("a worker killed", lambda: any(out.glob("runs/*/checkpoints/*"))),
        ("SIGTERM", after(store, 1)),
        at_work=True,
    )
    assert len(had) == 3, ending.err
    assert ending.code == 1, ending.err
    assert "Traceback" not in ending.err
    hurt_until_interrupted(line, ("all workers killed", after(store, 1)), ("SIGINT", after(store, 2)))
    hurt_until_killed(line, ("killed", after(store, 3)))
    again = finish(line)
    assert again.code == 0, again.err
    assert measured(out, "store") == whole
    assert (out / "report" / "index.html").is_file()


@pytest.mark.slow
def test_a_disk_that_a_demo_fills(whole: list[str], mount: Callable[[str], Path]) -> None:
    disk = mount("size=512k")
    line = demo(disk / "out", steps=STEPS)
    ended = finish(line)
    assert ended.code == 1
    assert "the disk is full" in ended.err.splitlines()[-1]
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
    again = finish(line)
    assert again.code == 0, again.err
    assert measured(disk / "out", "store") == whole
