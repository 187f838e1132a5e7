"""Workers whose parent is killed: they end with it, and say nothing, whatever they were doing."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator

import pytest

from tests.faults.injury import workers

pytestmark = pytest.mark.faults

SWEEP = """
from toposcope.core.processes import spread

def make(shared):
    def act(task, say):
        for _ in range(20):
            say(shared)
        return shared
    return act

print("begun", flush=True)
for event in spread(make, b"x" * {bytes}, list(range(10_000)), workers=2):
    pass
"""
FIGURES = """
from toposcope.core.drawing.style import new_figure
from toposcope.core.drawing.rendering import begin_rendering

figures = [new_figure(2.0)[0] for _ in range(200)]
print("begun", flush=True)
begin_rendering(figures)()
"""
KEEPS_SENDING = 2**20
"""Bytes of a message: far above what a channel holds, so that a parent is killed in the middle of one."""


def start(script: str) -> subprocess.Popen[str]:
    """Start a script that does its work at its top level; return it once its work has begun."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


@pytest.fixture
def load() -> Iterator[None]:
    """Keep every core busy, twice over."""
    loops = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(2 * len(os.sched_getaffinity(0)))
    ]
    yield
    for loop in loops:
        loop.kill()
        loop.wait()


def hired(process: subprocess.Popen[str]) -> list[int]:
    """Return the workers of a process as soon as it has any."""
    while not (found := workers(process.pid)):
        assert process.poll() is None, "it ended without a worker"
        time.sleep(0.001)
    return found


def silent_end(process: subprocess.Popen[str]) -> None:
    """Kill a process: it and its workers, which hold its standard error, end without a word."""
    process.kill()
    _, err = process.communicate(timeout=60)  # returns once nobody holds the other end
    assert err == ""


@pytest.mark.parametrize("size", [10, KEEPS_SENDING])
@pytest.mark.parametrize("after", [0.0, 0.05, 0.4])
def test_a_killed_parent_of_a_sweep(size: int, after: float, load: None) -> None:
    process = start(SWEEP.format(bytes=size))
    time.sleep(after)
    silent_end(process)


def test_a_parent_killed_while_its_worker_waits_for_half_of_what_it_needs() -> None:
    """The worker is stopped until the parent is blocked in the middle of sending to it, then goes on."""
    process = start(SWEEP.format(bytes=KEEPS_SENDING))
    held = hired(process)
    for worker in held:
        os.kill(worker, signal.SIGSTOP)
    time.sleep(0.2)
    process.kill()
    for worker in held:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGCONT)
    _, err = process.communicate(timeout=60)
    assert err == ""


@pytest.mark.parametrize("after", [0.0, 1.0])
def test_a_killed_parent_of_a_second_process_that_draws(after: float, load: None) -> None:
    process = start(FIGURES)
    time.sleep(after)
    silent_end(process)


def test_ctrl_c_in_a_terminal_reaches_workers_that_still_start() -> None:
    """A terminal sends it to all: the parent says so, workers in the middle of their imports say nothing."""
    script = SWEEP.format(bytes=10)
    process = subprocess.Popen(
        [sys.executable, "-c", "import signal; signal.signal(2, signal.default_int_handler)" + script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    hired(process)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert err.count("Traceback") == 1, err  # the parent's own
    assert err.rstrip().endswith("KeyboardInterrupt")
