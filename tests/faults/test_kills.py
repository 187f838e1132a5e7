"""A watch and a report that are killed at random moments: the next one ends as if nothing had been."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.faults.injury import contents, measured, write_series

pytestmark = pytest.mark.faults

ROUNDS, WATCHES, REPORTS = 5, 12, 8
"""A hundred kills, in rounds that two cores can share: some three minutes on idle ones."""

FORKS = """
import json, os, signal, sys, time
import toposcope.api, toposcope.page, toposcope.watch.watching
from toposcope.cli.main import main

def begin(words, out):
    to = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(to, 1), os.dup2(to, 2)
    try:
        main(words)
    except SystemExit as ended:
        os._exit(int(ended.code or 0))

for line in sys.stdin:
    words, seconds, out = json.loads(line)
    began = time.monotonic()
    child = os.fork()
    if not child:
        try:
            begin(words, out)
        finally:
            os._exit(70)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    print(json.dumps([os.waitstatus_to_exitcode(status), time.monotonic() - began]), flush=True)
"""
"""Begins commands in forks of itself: each would import for seconds before it could be hurt."""


class Commands:
    """Runs commands to their end, or until they are killed."""

    def __init__(self, folder: Path) -> None:
        self._out = folder / "said.txt"
        self._forks = subprocess.Popen(
            [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, words: list[object], seconds: float | None = None) -> tuple[int, float, str]:
        """Return the exit code of a command, how long it took, and what it said."""
        assert self._forks.stdin is not None
        assert self._forks.stdout is not None
        self._forks.stdin.write(json.dumps([[str(word) for word in words], seconds, str(self._out)]) + "\n")
        self._forks.stdin.flush()
        code, took = json.loads(self._forks.stdout.readline())
        return code, took, self._out.read_text()

    def close(self) -> None:
        """End the process that begins them."""
        self._forks.kill()
        self._forks.communicate()


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    begun = Commands(tmp_path_factory.mktemp("commands"))
    yield begun
    begun.close()


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_series(tmp_path_factory.mktemp("series") / "runs", runs=2, steps=3)


def watching(series: Path, out: Path) -> list[object]:
    return ["watch", series, "--out", out, "--once", "--rest", 0, "--features", "updates", "--json",
            "--cpu-share", 1]  # fmt: skip


def answered(said: str) -> object:
    """Return the answer of a watch: all but what it did and how long that took."""
    answer = json.loads(said[said.index("{") :])
    return {name: value for name, value in answer.items() if name not in ("events", "store", "next")}


def whole_parts(store: Path) -> None:
    """Check that each part that has its name can be read, whatever was killed."""
    for part in store.rglob("*.parquet"):
        if not part.name.startswith("."):
            pq.read_table(part)


def files(store: Path) -> list[str]:
    """Return the kinds of files in each folder of a store.

    Left out are copies of checkpoints, and what is hidden: ledgers, one a writer, and what was written aside.
    """
    paths = [path.relative_to(store) for path in store.rglob("*")]
    return sorted(
        f"{path.parent.as_posix()} {path.suffix}"
        for path in paths
        if "held" not in path.parts and not any(part.startswith(".") for part in path.parts)
    )


@pytest.mark.parametrize("number", range(ROUNDS))
def test_killed_watches(number: int, series: Path, commands: Commands, tmp_path: Path) -> None:
    code, lasted, said = commands.run(watching(series, tmp_path / "whole"))
    assert code == 0, said
    rows, answer, names = measured(tmp_path / "whole"), answered(said), files(tmp_path / "whole")
    chance, killed = random.Random(number), 0
    while killed < WATCHES:
        store = tmp_path / f"killed{killed}"
        code, _, _ = commands.run(watching(series, store), lasted * chance.uniform(0.02, 1.0))
        if code != -9:
            continue  # it came after the end
        killed += 1
        whole_parts(store)
        code, _, said = commands.run(watching(series, store))
        assert code == 0, said
        assert answered(said) == answer
        assert measured(store) == rows
        assert files(store) == names


@pytest.mark.parametrize("number", range(ROUNDS))
def test_killed_reports(number: int, series: Path, commands: Commands, tmp_path: Path) -> None:
    assert commands.run(watching(series, tmp_path / "store"))[0] == 0
    code, lasted, said = commands.run(["report", tmp_path / "store", "--out", tmp_path / "whole"])
    assert code == 0, said
    page, chance, killed = contents(tmp_path / "whole"), random.Random(100 + number), 0
    store = contents(tmp_path / "store")
    while killed < REPORTS:
        out = tmp_path / f"killed{killed}"
        code, _, _ = commands.run(
            ["report", tmp_path / "store", "--out", out], lasted * chance.uniform(0.02, 1.0)
        )
        if code != -9:
            continue
        killed += 1
        assert not out.exists() or contents(out) == page
        code, _, said = commands.run(["report", tmp_path / "store", "--out", out])
        assert code == 0, said
        assert contents(out) == page
        assert contents(tmp_path / "store") == store
        assert not list(tmp_path.glob(f".{out.name}.*"))
