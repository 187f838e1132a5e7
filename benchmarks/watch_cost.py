"""What `Monitor.observe` costs a training: its own time, and blocks with and without it within one run.

    python -m benchmarks.watch_cost [--steps 800] [--model xl-97k]

Trains a demo model on one core. Blocks of 50 steps with and without `observe` take turns, the first 10 steps
of each left out; the ratio of step times comes with a bootstrap interval over pairs of blocks. Times are
processor times of the training thread, which other work on the machine does not stretch; the background
thread's work shows in the process's time, printed beside.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from toposcope.monitor.inside import Monitor
from toposcope.seeding import rng
from toposcope.train import train
from toposcope.train.loop import TrainingStep

BLOCK, WARM = 50, 10


class Alternating:
    """Observes every other block of steps, and times every step and every call."""

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor
        self.steps: list[tuple[int, float, float]] = []
        self.calls: list[tuple[int, float]] = []
        self._last = (time.thread_time(), time.process_time())

    def __call__(self, event: TrainingStep) -> None:
        """Take one step."""
        now = time.thread_time(), time.process_time()
        self.steps.append((event.step, now[0] - self._last[0], now[1] - self._last[1]))
        self._last = now
        if event.step // BLOCK % 2:
            self.monitor.observe(
                event.model, event.step, loss=event.loss, grad_norm=event.grad_norm,
                learning_rate=event.learning_rate,
            )  # fmt: skip
            self.calls.append((event.step, time.thread_time() - now[0]))


def ratio(steps: np.ndarray, column: int) -> tuple[float, float, float]:
    """Return on over off, of the medians of neighbouring blocks, with a 95% bootstrap interval."""
    block, inside = steps[:, 0] // BLOCK, steps[:, 0] % BLOCK >= WARM
    whole = np.unique(block[inside])
    middle = {b: np.median(steps[(block == b) & inside, column]) for b in whole}
    pairs = np.array([middle[b + 1] / middle[b] for b in sorted(middle) if b % 2 == 0 and b + 1 in middle])
    draws = rng(run="watch_cost", what="bootstrap").choice(pairs, (4000, len(pairs))).mean(axis=1)
    low, high = np.quantile(draws, (0.025, 0.975))
    return float(pairs.mean()), float(low), float(high)


def main() -> None:
    """Train, and print the cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--model", default="xl-97k")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        Monitor(Path(folder) / "store", every=100_000) as monitor,
    ):
        timed = Alternating(monitor)
        overrides = {"steps": given.steps, "checkpoint_every": given.steps}
        train("demo", Path(folder) / "runs", models=[given.model], overrides=overrides, on_step=timed)
    steps, calls = np.array(timed.steps[1:]), np.array([seconds for step, seconds in timed.calls if step])
    usual = float(np.median(steps[:, 1]))
    print(
        f"observe: median {np.median(calls) * 1e6:.0f} us, p99 {np.quantile(calls, 0.99) * 1e6:.0f} us, "
        f"worst {calls.max() * 1e6:.0f} us over {len(calls)} calls; "
        f"{np.mean(calls) / usual:.3%} of a step of {usual * 1e3:.1f} ms"
    )
    for name, column in (("training thread", 1), ("whole process", 2)):
        middle, low, high = ratio(steps, column)
        print(f"{name}: with over without {middle:.4f} [{low:.4f}, {high:.4f}]")


if __name__ == "__main__":
    main()
