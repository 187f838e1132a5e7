"""Commands that are hurt from outside while they run, and inputs for them that take a second or two."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from tests.patience import PATIENCE, hears_ctrl_c

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
        "import functools, toposcope.studies.demo as demo",
        f"demo.run_demo = functools.partial(demo.run_demo, overrides={few})",
        "from toposcope.cli.main import main",
        "main()",
    )
    return [sys.executable, "-c", "\n".join(lines), "demo", "--out", str(out), "--jobs", "2"]


SLOW_DISK = """
import os, time
_replace = os.replace

def replace(source, target, **options):
    _replace(source, target, **options)
    if "/features/" in str(target):
        time.sleep(0.25)

os.replace = replace
"""
"""What Python runs at its start where each part takes a quarter of a second: faults have time to strike."""


_WORKERS = ("import begin_child",)
"""What is in the command line of a process that measures, trains, draws figures or serves a page."""


def workers(parent: int) -> list[int]:
    """Return the process ids of the workers that a command has started."""
    found = []
    for task in _listed(f"/proc/{parent}/task"):
        for child in _text(f"/proc/{parent}/task/{task}/children").split():
            if any(mark in _text(f"/proc/{child}/cmdline") for mark in _WORKERS):
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


Strike = tuple[str, Callable[[], bool]]
"""A fault, and what says that its moment has come."""


def hurt(
    line: Sequence[str],
    *strikes: Strike,
    limit: float = PATIENCE,
    at_work: bool = False,
    environment: dict[str, str] | None = None,
) -> tuple[Ending, list[int]]:
    """Start a command, hurt it by one strike after the other, each when it is ready, and wait for its end.

    With `at_work` a strike waits for a worker, too: those that were killed may not be replaced yet. Return
    how it ended, and how many workers it had at each strike that found it running.
    """
    start = time.monotonic()
    process = subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=hears_ctrl_c,
        env=environment,
    )
    had = []
    for fault, ready in strikes:
        while not (ready() and (workers(process.pid) or not at_work)):
            if process.poll() is not None or time.monotonic() - start >= limit:
                break
            time.sleep(0.01)
        if process.poll() is None:
            had.append(len(workers(process.pid)))
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


def _hurt_on_a_slow_disk(line: Sequence[str], *strikes: Strike) -> tuple[Ending, list[int]]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sitecustomize.py").write_text(SLOW_DISK)
        paths = [folder, *filter(None, [os.environ.get("PYTHONPATH")])]
        slow = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        return hurt(line, *strikes, at_work=True, environment=slow)


def hurt_until_interrupted(line: Sequence[str], *strikes: Strike) -> None:
    """Hurt a command whose last strike interrupts it: it ends at once, with one line that says so."""
    ending, had = _hurt_on_a_slow_disk(line, *strikes)
    assert len(had) == len(strikes), f"{strikes[len(had)][0]} came after the end"
    assert all(had)
    assert ending.code == 1, ending.err
    assert "interrupted; finished work is saved" in ending.err.splitlines()[-1]
    assert "Traceback" not in ending.err


def hurt_until_killed(line: Sequence[str], *strikes: Strike) -> None:
    """Hurt a command whose last strike kills it: nothing is said then, and its workers end with it."""
    ending, had = _hurt_on_a_slow_disk(line, *strikes)
    assert len(had) == len(strikes), f"{strikes[len(had)][0]} came after the end"
    assert all(had)
    assert ending.code == -signal.SIGKILL, ending.err
    assert "Traceback" not in ending.err


def measured(out: Path, *stores: str) -> list[str]:
    """Return the rows of stores under `out`, without the seconds that they took."""
    from toposcope.store import Store

    tables = (Store.open(out / name).features() for name in stores or ("",))
    return [table.drop(columns="seconds").to_csv(index=False) for table in tables]


def after(store: Path, files: int) -> Callable[[], bool]:
    """Return what says that a store has so many files of rows."""
    return lambda: len(list(store.glob("features/*"))) >= files


def finish(line: Sequence[str], *, limit: float = PATIENCE) -> Ending:
    """Run a command to its end."""
    start = time.monotonic()
    done = subprocess.run(line, capture_output=True, text=True, timeout=limit, check=False)
    return Ending(done.returncode, done.stdout, done.stderr, time.monotonic() - start)


def write_paper_runs(folder: Path) -> Path:
    """Train the smallest model of the weight-space paper for a few steps; return the folder of its run."""
    folder.mkdir(parents=True)
    corpus = folder / "text.txt"
    corpus.write_text("the persistence of a diagram is its death minus its birth\n" * 200)
    settings = ("steps=40", "checkpoint_every=5", "batch_size=2", "warmup_steps=5", "heldout_batches=1")
    line = command(
        "train", "--recipe", "seed004", "--models", "tiny-3k", "--corpus", corpus, "--jobs", 1,
        *(word for setting in settings for word in ("--set", setting)), "--out", folder / "runs",
    )  # fmt: skip
    ended = finish(line, limit=600.0)
    if ended.code != 0:
        raise RuntimeError(ended.err)
    return folder / "runs"


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
