"""Commands that are hurt from outside while they run, and inputs for them that take a second or two."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

RECIPE = """
name = "small"
corpus = "{corpus}"
vocabulary = 64
context = 16
batch_size = 4
steps = {steps}
checkpoint_every = {every}
heldout_batches = 2
seeds = [7]
warmup_steps = 3
learning_rate = 1e-2

[[models]]
name = "one"
width = 8
layers = 1
heads = 1

[[models]]
name = "two"
width = 12
layers = 2
heads = 2

[[models]]
name = "three"
width = 16
layers = 2
heads = 2
"""


@dataclass(frozen=True)
class Ending:
    """How a command ended; `code` is None when it had to be ended because it hung."""

    code: int | None
    out: str
    err: str
    seconds: float


def command(*arguments: object) -> list[str]:
    """Return the command line of toposcope with these arguments, in this Python."""
    return [sys.executable, "-c", "from toposcope.cli.main import main; main()", *map(str, arguments)]


def demo(out: Path, *, steps: int) -> list[str]:
    """Return the command line of a demo of so few steps: `toposcope demo` itself takes minutes."""
    few = f"{{'steps': {steps}, 'checkpoint_every': {max(steps // 6, 1)}}}"
    lines = (
        "import functools, toposcope.papers.demo as demo",
        f"demo.run_demo = functools.partial(demo.run_demo, overrides={few})",
        "from toposcope.cli.main import main",
        "main()",
    )
    return [sys.executable, "-c", "\n".join(lines), "demo", "--out", str(out), "--jobs", "2"]


def workers(parent: int) -> list[int]:
    """Return the process ids of the workers that a command has started."""
    found = []
    for task in _listed(f"/proc/{parent}/task"):
        for child in _text(f"/proc/{parent}/task/{task}/children").split():
            if "spawn_main" in _text(f"/proc/{child}/cmdline"):
                found.append(int(child))
    return found


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _hit(number: int, targets: Sequence[int]) -> None:
    for target in targets:
        with contextlib.suppress(ProcessLookupError):
            os.kill(target, number)


def _pause(parent: int) -> None:
    everybody = [parent, *workers(parent)]
    _hit(signal.SIGSTOP, everybody)
    time.sleep(0.3)
    _hit(signal.SIGCONT, everybody)


FAULTS: dict[str, Callable[[int], None]] = {
    "a worker killed": lambda parent: _hit(signal.SIGKILL, workers(parent)[:1]),
    "all workers killed": lambda parent: _hit(signal.SIGKILL, workers(parent)),
    "killed": lambda parent: _hit(signal.SIGKILL, [parent]),
    "SIGTERM": lambda parent: _hit(signal.SIGTERM, [parent]),
    "SIGINT": lambda parent: _hit(signal.SIGINT, [parent]),
    "SIGSTOP and SIGCONT": _pause,
}
"""What is done to a running command, given its process id."""


def _hears_ctrl_c() -> None:
    """Undo what a shell does to commands in the background: they are started deaf to Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def hurt(
    line: Sequence[str], fault: str, ready: Callable[[], bool], *, limit: float = 60.0
) -> tuple[Ending, int]:
    """Start a command, hurt it when `ready`, and wait for its end; return it and how many workers it had."""
    start = time.monotonic()
    process = subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_hears_ctrl_c,
    )
    while not ready() and process.poll() is None and time.monotonic() - start < limit:
        time.sleep(0.01)
    had = len(workers(process.pid))
    FAULTS[fault](process.pid)
    code: int | None
    try:
        out, err = process.communicate(timeout=limit)
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        code = None
    return Ending(code, out, err, time.monotonic() - start), had


def finish(line: Sequence[str], *, limit: float = 120.0) -> Ending:
    """Run a command to its end."""
    start = time.monotonic()
    done = subprocess.run(line, capture_output=True, text=True, timeout=limit, check=False)
    return Ending(done.returncode, done.stdout, done.stderr, time.monotonic() - start)


def write_recipe(folder: Path, *, steps: int, every: int) -> Path:
    """Write a recipe of three tiny models and the text that they train on."""
    folder.mkdir(parents=True, exist_ok=True)
    corpus = folder / "text.txt"
    corpus.write_text("the persistence of a diagram is its death minus its birth\n" * 200)
    path = folder / "small.toml"
    path.write_text(RECIPE.format(corpus=corpus, steps=steps, every=every))
    return path


def write_series(folder: Path, *, runs: int = 2, steps: int = 20) -> Path:
    """Write runs of small checkpoints with a loss table each; return the folder."""
    for run in range(runs):
        generator = np.random.default_rng(run)
        first = {f"layers.{i}.mlp.fc1.weight": generator.normal(size=(24, 8)) for i in range(2)}
        place = folder / f"run{run}"
        place.mkdir(parents=True)
        for step in range(0, 10 * steps, 10):
            drifted = {
                name: (w + step / 200 * generator.normal(size=w.shape)).astype(np.float32)
                for name, w in first.items()
            }
            save_file(drifted, place / f"step_{step}.safetensors")
        lines = [f"{step},{4.0 - 0.01 * step + 0.02 * generator.normal():.6f}" for step in range(10 * steps)]
        (place / "loss.csv").write_text("step,loss\n" + "\n".join(lines) + "\n")
    return folder


def contents(folder: Path, *, without: Sequence[str] = ()) -> dict[str, bytes]:
    """Return the bytes of every file under `folder` by its relative path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part in path.as_posix() for part in without)
    }
