"""What watching costs: `Monitor.observe` in a training, the command and the page over many updates.

    python -m benchmarks.watch_cost inside [--steps 2400] [--model xl-97k] [--batch 16] [--block 1]
    python -m benchmarks.watch_cost updates [--updates 10000] [--viewers 5] [--together 1]
    python -m benchmarks.watch_cost requests [--requests 20000] [--checkpoints 60]
    python -m benchmarks.watch_cost share [--seconds 60]

`inside` trains a demo model on one core. Blocks of steps without, with, with and without `observe` follow one
another, so that a drift of the machine cancels. The first fifth of a block is left out, and the median of the
other steps counts. The ratio of on to off, and the extra time of a step, are means of the middle half of all
neighbouring pairs with 95% bootstrap intervals. They are given for the processor time of the training thread,
for that of the process (with the background thread), and for wall time. The machine's speed changes within
seconds, so pairs of single steps (`--block 1`) are the most precise. The second line compares the 20%
quantile of the steps of 40 neighbouring blocks, on over off: slow single steps do not enter it.

`updates` gives a watch one checkpoint after the other, as a trainer with rotation writes them, while a
real server shows the store to viewers that hold its stream open. It prints processor time of an update and
resident memory, of the watch and of the server, over the last 100 updates before 1%, 10%, 20%, 50% and all
of them. With `--together N`, N checkpoints come at once between those stretches: the same state, sooner.

`requests` asks a real server for every address of the page in turn, for what does not exist, and for streams
that are closed after their first line, and prints its processor time and resident memory on the way.

`share` lets the command measure checkpoints endlessly, and prints the share of one core that it took.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from scipy.stats import trim_mean

from tests.faults.injury import workers
from toposcope.core.seeding import rng
from toposcope.core.threads import one_thread
from toposcope.store import Store
from toposcope.subjects.registry import weight_probes
from toposcope.subjects.weights.options import WeightOptions
from toposcope.training import train
from toposcope.training.loop import TrainingStep
from toposcope.watch._sidecar import Sidecar
from toposcope.watch.follow import Follower
from toposcope.watch.inside import Monitor
from toposcope.watch.journal import Journal
from toposcope.watch.page.serve import beside
from toposcope.watch.watchman import Watchman

STRETCH = 100
"""Updates that are measured one by one."""


class Alternating:
    """Observes every other block of steps, and times every step and every call."""

    def __init__(self, monitor: Monitor, block: int) -> None:
        self.monitor, self.block = monitor, block
        self.steps: list[tuple[float, ...]] = []
        self.calls: list[tuple[int, float]] = []
        self._step, self._last = -1, _clocks()

    def __call__(self, event: TrainingStep) -> None:
        """Take one step."""
        now = _clocks()
        self.steps.append((self._step, *(new - old for new, old in zip(now, self._last, strict=True))))
        self._step, self._last = event.step, now
        if _watched(event.step // self.block):
            self.monitor.observe(
                event.model, event.step, loss=event.loss, grad_norm=event.grad_norm,
                learning_rate=event.learning_rate,
            )  # fmt: skip
            self.calls.append((event.step, time.thread_time() - now[0]))


def _clocks() -> tuple[float, float, float]:
    return time.thread_time(), time.process_time(), time.perf_counter()


def _watched(block: np.ndarray | int) -> np.ndarray | bool:
    """Return whether a block is observed: off, on, on, off."""
    return (block % 4 == 1) | (block % 4 == 2)


def pairs(steps: np.ndarray, column: int, size: int) -> np.ndarray:
    """Return the seconds of a step (n, 2), off and on, of neighbouring blocks: medians of what is counted."""
    block, counted = steps[:, 0].astype(int) // size, steps[:, 0] % size >= size // 5
    middle = [np.median(steps[(block == b) & counted, column]) for b in range(block.max())]
    whole = np.array(middle[: len(middle) // 4 * 4]).reshape(-1, 4)
    return np.concatenate([whole[:, [0, 1]], whole[:, [3, 2]]])


def fast(steps: np.ndarray, column: int, size: int) -> np.ndarray:
    """Return the seconds of a step (n, 2), off and on, of every 40 blocks: the fastest fifth's slowest."""
    block, counted = steps[:, 0].astype(int) // size, steps[:, 0] % size >= size // 5
    on = _watched(block)
    return np.array(
        [
            [
                np.quantile(steps[(block // 40 == w) & counted & (on == chosen), column], 0.2)
                for chosen in (0, 1)
            ]
            for w in range(block.max() // 40)
        ]
    )


def interval(values: np.ndarray) -> tuple[float, float, float]:
    """Return the mean of the middle half of some values, with its 95% bootstrap interval."""
    draws = rng(run="watch_cost", what="bootstrap").choice(values, (4000, len(values)))
    low, high = np.quantile(trim_mean(draws, 0.25, axis=1), (0.025, 0.975))
    return float(trim_mean(values, 0.25)), float(low), float(high)


def inside(steps: int, model: str, batch: int, block: int) -> None:
    """Train with and without `observe`, and print the cost."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Monitor(Path(folder) / "store", every=100_000_000) as monitor,
    ):
        timed = Alternating(monitor, block)
        overrides = {"steps": steps, "checkpoint_every": steps, "batch_size": batch, "warmup_steps": 50}
        train("demo", Path(folder) / "runs", models=[model], overrides=overrides, on_step=timed)
    timings, calls = np.array(timed.steps[1:]), np.array([seconds for _, seconds in timed.calls])
    usual = float(np.median(timings[:, 1]))
    print(
        f"observe: median {np.median(calls) * 1e6:.0f} us, p99 {np.quantile(calls, 0.99) * 1e6:.0f} us, "
        f"worst {calls.max() * 1e6:.0f} us over {len(calls)} calls; "
        f"{np.mean(calls) / usual:.3%} of a step of {usual * 1e3:.1f} ms"
    )
    for name, column in (("training thread", 1), ("whole process", 2), ("wall", 3)):
        for kind, read in (("neighbouring blocks", pairs), ("fastest fifth of 40 blocks", fast)):
            found = read(timings, column, block)
            middle, low, high = interval(found[:, 1] / found[:, 0])
            more, least, most = interval(1e6 * (found[:, 1] - found[:, 0]))
            print(
                f"{name}, {kind}: on over off {middle:.4f} [{low:.4f}, {high:.4f}], {more:+.0f} us a step "
                f"[{least:+.0f}, {most:+.0f}]; {len(found)} pairs, blocks of {block} steps"
            )


class Trainer:
    """Writes checkpoints with two matrices as transformers does, and keeps the last `kept`."""

    def __init__(self, folder: Path, kept: int = 3) -> None:
        self.folder, self.kept, self._random = folder, kept, rng(run="watch_cost", what="weights")
        self._log: list[dict[str, float]] = []
        names = ("layers.0.mlp.fc1.weight", "layers.1.mlp.fc1.weight")
        self._state = {name: self._random.standard_normal((32, 16)).astype(np.float32) for name in names}

    def save(self, step: int) -> None:
        """Write the checkpoint of a step, with the loss of the last ten."""
        self._state = {
            name: value + 0.01 * self._random.standard_normal(value.shape).astype(np.float32)
            for name, value in self._state.items()
        }
        path = self.folder / f"checkpoint-{10 * step}"
        path.mkdir(parents=True)
        save_file(self._state, path / "model.safetensors")
        loss = 3.0 + 5.0 / (step + 10) + 0.01 * self._random.standard_normal()
        self._log = [*self._log, {"step": 10 * step, "loss": loss}][-self.kept :]
        (path / "trainer_state.json").write_text(
            json.dumps({"global_step": 10 * step, "log_history": self._log})
        )
        shutil.rmtree(self.folder / f"checkpoint-{10 * (step - self.kept)}", ignore_errors=True)


class Viewer(threading.Thread):
    """Holds the stream of the page open and counts what comes."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._address, self.points, self.bytes = address, 0, 0

    def run(self) -> None:
        """Read until the server ends."""
        asked = f"{self._address}events?since=0&panel=c:metrics///loss"
        try:
            with urllib.request.urlopen(asked) as stream:
                for line in stream:
                    self.bytes += len(line)
                    if line.startswith(b"data:") and b'"traces"' in line:
                        traces = json.loads(line[5:])["traces"]
                        self.points += sum(len(trace["x"]) for trace in traces.values())
        except OSError:
            return


def taken(process: int) -> tuple[float, float]:
    """Return processor seconds and resident megabytes of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def page_process() -> int:
    """Return the process that serves the page beside this one, once it has begun."""
    while not (found := workers(os.getpid())):
        time.sleep(0.01)
    return found[0]


def stretch(last: int, marks: np.ndarray) -> str:
    """Return the line of one stretch of updates: watch's ms and MB, server's seconds so far and MB."""
    server = 1e3 * (marks[-1, 2] - marks[0, 2]) / max(len(marks) - 1, 1)
    return (
        f"{last - len(marks) + 1:6}-{last:6} {1e3 * marks[:, 0].mean():12.1f} "
        f"{1e3 * np.quantile(marks[:, 0], 0.99):8.1f} {marks[-1, 1]:6.0f} {server:14.1f} {marks[-1, 3]:6.0f}"
    )


def measured_one_by_one(number: int) -> list[range]:
    """Return the stretches of updates that are measured."""
    ends = [round(share * number) for share in (0.01, 0.1, 0.2, 0.5, 1.0)]
    return [range(max(end - STRETCH, 0) + 1, end + 1) for end in ends]


def updates(number: int, viewers: int, together: int) -> None:
    """Let a watch take in checkpoints, with viewers, and print what the stretches took."""
    with tempfile.TemporaryDirectory() as made:
        folder, place = Path(made) / "run", Path(made) / "store"
        options = WeightOptions()
        store = Store.create(place, recipe=options.recipe())
        probes = weight_probes(["updates"], options)
        one_thread()  # as the command does
        sidecar, watchman = Sidecar(Follower(folder, rest=0), store, probes), Watchman(place)
        trainer = Trainer(folder, kept=together + 2)
        trainer.save(0)
        sidecar.visit()
        alone = {step for one in measured_one_by_one(number) for step in one}
        with beside(place, 0) as address:
            server = page_process()
            readers = [Viewer(address) for _ in range(viewers)]
            for reader in readers:
                reader.start()
            marks: list[tuple[float, ...]] = []
            print("updates        watch: ms each, p99, MB     server: ms each, MB")
            for step in range(1, number + 1):
                trainer.save(step)
                if step % together and step not in alone and step + 1 not in alone:
                    continue  # more come before the next look
                began = time.process_time()
                sidecar.visit()
                watchman.judge()
                spent = time.process_time() - began
                if step not in alone:
                    continue
                marks.append((spent, taken(os.getpid())[1], *taken(server)))
                if step + 1 not in alone:
                    print(stretch(step, np.array(marks)), flush=True)
                    marks = []
            time.sleep(3)
            seen = [(reader.points, reader.bytes) for reader in readers]
        alarms = sum(event.kind == "alarm" for event in watchman.journal.read())
    least, most = min(points for points, _ in seen), max(points for points, _ in seen)
    print(f"{viewers} viewers got {least} to {most} of {number} points, {max(b for _, b in seen)} bytes each")
    print(f"{alarms} alarms")


ADDRESSES = (
    "", "fragment/alarms", "fragment/answer", "panel/index", "panel/curves", "panel/curves?from=100&to=300",
    "panel/heat", "panel/heat?run=run", "panel/clouds", "panel/diagram?step=10", "csv", "static/live.js",
    "events?since=0&panel=c:metrics///loss", "events?since=5", "?token=wrong", "panel/heat?key=nothing",
    "fragment/none", "static/../../etc/passwd", "nothing", "csv?key=%00&run=%ff",
)  # fmt: skip
"""What a viewer asks for, and what nobody should."""


def asked(address: str) -> int:
    """Return the status of a request; of a stream, its first line is read."""
    try:
        with urllib.request.urlopen(address) as answer:
            answer.readline() if "/events" in address else answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.read()
        return error.code


def requests(number: int, checkpoints: int) -> None:
    """Ask a server for all addresses again and again, and print what it took."""
    with tempfile.TemporaryDirectory() as made:
        folder, place = Path(made) / "run", Path(made) / "store"
        options = WeightOptions()
        sidecar = Sidecar(
            Follower(folder, rest=0),
            Store.create(place, recipe=options.recipe()),
            weight_probes(["updates"], options),
        )
        trainer = Trainer(folder, kept=checkpoints + 1)
        for step in range(checkpoints):
            trainer.save(step)
        sidecar.visit()
        marks = {max(round(share * number), 1) for share in (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)}
        counts: Counter[int] = Counter()
        with beside(place, 0) as address:
            server = page_process()
            print("requests   server: processor s, MB, open files")
            for count in range(1, number + 1):
                counts[asked(address + ADDRESSES[count % len(ADDRESSES)])] += 1
                if count in marks:
                    spent, memory = taken(server)
                    files = len(list(Path(f"/proc/{server}/fd").iterdir()))
                    print(f"{count:8} {spent:20.1f} {memory:5.0f} {files:4}", flush=True)
    print("statuses: " + ", ".join(f"{status}: {count}" for status, count in sorted(counts.items())))


def measured(journal: Journal) -> int:
    """Return how many checkpoints a watch has measured."""
    return sum(event.kind == "measured" for event in journal.read())


def share(seconds: float) -> None:
    """Run the command beside a trainer that saves as fast as it can, and print the share of one core."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "run"
        trainer, step = Trainer(folder), 0
        trainer.save(step)
        words = ["watch", str(folder), "--every", "0.1", "--rest", "0", "--cpu-share", "0.25"]
        code = "from toposcope.cli.main import main; main()"
        child = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.DEVNULL)
        try:
            journal = Journal.of(folder.with_name("run-watch"))
            while measured(journal) < 3:  # imports and compiled kernels are there
                trainer.save(step := step + 1)
                time.sleep(0.2)
            begun, at, known = taken(child.pid)[0], time.monotonic(), measured(journal)
            while time.monotonic() < at + seconds:
                trainer.save(step := step + 1)
                time.sleep(0.2)
            spent, passed = taken(child.pid)[0] - begun, time.monotonic() - at
            more = measured(journal) - known
        finally:
            child.kill()
            child.wait()
    print(
        f"{spent:.1f} s of processor time in {passed:.1f} s: {spent / passed:.1%} of one core where 25% is "
        f"allowed; {more} checkpoints measured"
    )


def main() -> None:
    """Print the cost that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["inside", "updates", "requests", "share"])
    parser.add_argument("--steps", type=int, default=2400)
    parser.add_argument("--model", default="xl-97k")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--block", type=int, default=1)
    parser.add_argument("--updates", type=int, default=10_000)
    parser.add_argument("--viewers", type=int, default=5)
    parser.add_argument("--together", type=int, default=1)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--checkpoints", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    if given.part == "inside":
        inside(given.steps, given.model, given.batch, given.block)
    elif given.part == "updates":
        updates(given.updates, given.viewers, given.together)
    elif given.part == "requests":
        requests(given.requests, given.checkpoints)
    else:
        share(given.seconds)


if __name__ == "__main__":
    main()
