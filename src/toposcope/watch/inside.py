"""Watch from inside a training loop: copy weights at intervals, measure them in the background."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from toposcope.core.errors import InputError
from toposcope.core.types import Checkpoint, RunRecord
from toposcope.core.wording import recommended
from toposcope.logs.metrics import tidy
from toposcope.sources.discover import Source
from toposcope.sources.memory import in_memory
from toposcope.store import Store, inside
from toposcope.subjects.base import Probe
from toposcope.subjects.registry import chosen
from toposcope.subjects.weights.features import BASELINES, UPDATES
from toposcope.subjects.weights.options import WeightOptions
from toposcope.watch._live_weights import bytes_of, copied, placeholder, tensors_of, why_refused
from toposcope.watch.growing import GrowingSeries, Measurer, Turn, take_turn
from toposcope.watch.journal import FOLDER, Journal
from toposcope.watch.lock import locked
from toposcope.watch.losses import CompanionCopy, LossCopy
from toposcope.watch.watchman import Watchman

_LOG = logging.getLogger("toposcope")


class Monitor:
    """Watches a model while it trains in this process.

    At most steps `observe` costs microseconds. Every `every` steps it copies at most `bytes_per_step` of the
    weights (if there are more, tensors take turns), and a background thread measures the copy. If the last
    copy is still being measured, the new one is skipped, and the skip is recorded. Weights that are sharded
    over processes cannot be copied; then only the losses are judged. The monitor never raises an error into
    the training loop: it logs each error once and writes it to the journal.

    Parameters
    ----------
    out : path
        The store; `toposcope watch` and `toposcope report` open it.
    run : str or RunRecord
        The run's name, or a `Run` with its facts.
    every : int
        Steps between two copies of the weights.
    bytes_per_step : int
        Largest number of bytes to copy at once.
    features : sequence of str
        Names of probes, as for `toposcope weights`; probes that read all earlier checkpoints are left out.
    options : WeightOptions, optional
        Settings of the probes.

    In distributed training, rank 0 watches; on the other ranks every method returns at once.

    Raises
    ------
    InputError
        When a setting is impossible or `out` is not a store.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> with Monitor(tempfile.mkdtemp() + "/store", every=10, features=["baselines"]) as monitor:
    ...     for step in range(11):
    ...         monitor.observe({"layers.0.mlp.fc1.weight": np.eye(4, dtype=np.float32)}, step, loss=2.0)
    ...         _ = monitor.wait() if step == 0 else None
    >>> monitor.counts["measured"], monitor.counts["observed"]
    (2, 11)
    """

    def __init__(
        self,
        out: str | Path,
        *,
        run: str | RunRecord = "run",
        every: int = 100,
        bytes_per_step: int = 64 * 2**20,
        features: Sequence[str] = (BASELINES, UPDATES),
        options: WeightOptions | None = None,
    ) -> None:
        for name, value in (("every", every), ("bytes_per_step", bytes_per_step)):
            if value < 1:
                raise InputError("it must be at least 1", argument=name, value=value)
        self.counts = {"observed": 0, "measured": 0, "skipped": 0}
        self.rank = process_rank()
        """This process's rank in distributed training; only rank 0 watches and writes."""
        if self.rank:
            return
        self.run = run if isinstance(run, RunRecord) else RunRecord(run)
        measured = chosen(list(features), options)
        self.store = Store.create(out, recipe=measured.recipe)
        self.journal = Journal.of(self.store.path)
        self.refused = ""
        """Why nothing is measured in this process; empty if it is measured."""
        self._every, self._budget = every, bytes_per_step
        self._turn = ""
        self._history = _History(self.store.path / FOLDER / f"{self.run.run}.metrics.jsonl")
        self._work: queue.Queue[_Copy | None] = queue.Queue(maxsize=1)
        self._lock = threading.Lock()
        self._background = _Background(self, measured.probes, measured.split, self._history)
        self._thread = threading.Thread(target=self._background.run, name="toposcope", daemon=True)
        self._thread.start()
        self._place = contextlib.ExitStack()
        self._begun = False

    def observe(self, model: Any, step: int, **metrics: float) -> None:
        """Record the metrics of one step and, every `every` steps, copy the model's weights.

        `model` is a module or a mapping of arrays; `metrics` are those of the store (loss, heldout_loss,
        learning_rate, grad_norm, tokens, ...), as numbers or one-element tensors.
        """
        if self._elsewhere():
            return
        try:
            self._begin()
            self.counts["observed"] += 1
            if metrics:
                self._history.add(step, metrics)
            if step % self._every == 0:
                self._copy(model, step)
        except Exception as error:
            self._complain(f"step {step:,}: {type(error).__name__}: {error}")

    def record(self, step: int, **metrics: float) -> None:
        """Record metrics of a step without its weights."""
        if self._elsewhere():
            return
        try:
            self._begin()
            self._history.add(step, metrics)
        except Exception as error:
            self._complain(f"step {step:,}: {type(error).__name__}: {error}")

    def wait(self, timeout: float = 60.0) -> bool:
        """Wait until everything copied so far is measured; return whether it is."""
        if self.rank:
            return True
        limit = time.monotonic() + timeout
        while self._work.unfinished_tasks and time.monotonic() < limit:
            time.sleep(0.005)
        return not self._work.unfinished_tasks

    def close(self, timeout: float = 60.0) -> None:
        """Finish measuring the copies, write the metrics, and end the background thread."""
        if not self.rank and self._thread.is_alive():
            self.wait(timeout)
            self._work.put(None)
            self._thread.join(timeout)
            self._place.close()
            self._history.close()

    def _begin(self) -> None:
        """Open the store at the first step: only then is it known whether the training is distributed."""
        if self._begun:
            return
        self._begun = True
        with contextlib.suppress(InputError):  # a second monitor of a store continues without it
            self._place.enter_context(locked(self.store.path))
        self.journal.append("started", self.run.run, process=os.getpid(), inside=True)

    def _elsewhere(self) -> bool:
        """Return whether another rank watches; training may have become distributed since the start."""
        if not self.rank and (rank := process_rank()):
            self.close()
            self.rank = rank
        return self.rank > 0

    def __enter__(self) -> Monitor:
        """Return the monitor."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def skip(self, step: int, why: str) -> None:
        """Record that the weights of a step are not measured."""
        with self._lock:
            self.counts["skipped"] += 1
            self.journal.append("skipped", self.run.run, step, why=why, inside=True)

    def tell(self, kind: str, step: int, **data: Any) -> None:
        """Write an event of this run to the journal."""
        with self._lock:
            self.journal.append(kind, self.run.run, step, **data)

    def _copy(self, model: Any, step: int) -> None:
        if not self.refused and (why := why_refused(model)):
            self.refused = (
                f"{why}; watch it from another process: {recommended('watch', 'CHECKPOINT_FOLDER')}"
            )
            self._complain(self.refused)
        if self.refused:
            if not self._work.unfinished_tasks:
                self._work.put_nowait(_NO_WEIGHTS)
            return
        if self._work.full() or self._work.unfinished_tasks:
            self.skip(step, "the previous copy is still being measured")
            return
        tensors = tensors_of(model)
        sizes = [(name, bytes_of(tensor)) for name, tensor in tensors.items() if len(tensor.shape) > 1]
        turn = take_turn(sizes, self._budget, self._turn)
        self._turn = turn.start
        held = {
            name: copied(tensor) if _read_now(turn, name, tensor) else placeholder(tensor)
            for name, tensor in tensors.items()
        }
        config: dict[str, Any] = getattr(getattr(model, "config", None), "to_dict", dict)()
        self._work.put_nowait(_Copy(step, held, turn, config))

    def _complain(self, what: str) -> None:
        """Log each error once; even a full disk must not stop the training."""
        if not getattr(self, "_complained", False):
            self._complained = True
            _LOG.warning("toposcope.Monitor: %s", what)
        try:
            self.tell("notice", -1, test="inside", sentence=what)
        except OSError:
            return


@dataclasses.dataclass(frozen=True, slots=True)
class _Copy:
    step: int
    tensors: Mapping[str, Any]
    turn: Turn
    config: Mapping[str, Any]


_NO_WEIGHTS = _Copy(-1, {}, Turn(None), {})
"""Stands for a copy if the weights cannot be copied: the losses are still judged."""


class _History:
    """Metrics of each step; one write puts them on disk before `observe` returns."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        if path.stat().st_size and not inside.whole(path).endswith(b"\n"):
            os.write(self._handle, b"\n")  # a kill left an incomplete line
        self._taken = 0
        """Bytes whose lines the store has."""

    def add(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Append one line; do nothing after the file is closed."""
        if self._handle < 0:
            return
        row = {"step": int(step)} | {name: float(value) for name, value in metrics.items()}
        os.write(self._handle, (json.dumps(row) + "\n").encode())

    def close(self) -> None:
        """Close the file."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def new(self) -> tuple[list[dict[str, Any]], int]:
        """Return the complete lines that the store does not have yet, and the byte at which they end."""
        content = inside.after(self.path, self._taken)
        content = content[: content.rfind(b"\n") + 1]
        rows = []
        for line in content.splitlines():
            try:
                rows.append(json.loads(line))
            except ValueError:
                continue  # torn by a kill
        return rows, self._taken + len(content)

    def take(self, end: int) -> None:
        """Mark the lines up to a byte as stored."""
        self._taken = end


class _Background:
    """The work of the background thread: measure copies, copy the metrics, judge."""

    def __init__(self, monitor: Monitor, probes: Sequence[Probe], split: str, known: _History) -> None:
        self._monitor, self._history = monitor, known
        self._series = GrowingSeries(split=split)
        self._measurer = Measurer(monitor.store, probes)
        self._losses, self._companions = LossCopy(monitor.store), CompanionCopy(monitor.store)
        self._beside: Any = None
        """The columns with a direction that were logged so far, under the names they came with."""
        self._watchman = Watchman(monitor.store.path)
        self._last: Checkpoint | None = None
        self._begun = False

    def run(self) -> None:
        """Work until None comes."""
        while True:
            copy = self._monitor._work.get()
            try:
                if copy is not None and copy is not _NO_WEIGHTS:
                    self._measure(copy)
                self._judge(copy)
            except Exception as error:
                self._monitor._complain(f"{type(error).__name__}: {error}")
            finally:
                self._monitor._work.task_done()
            if copy is None:
                return

    def _measure(self, copy: _Copy) -> None:
        run, turn = self._monitor.run, copy.turn
        source = _source(run, copy)
        at = source.entries[0].checkpoint
        self._series.add(at, source, source.entries[0])
        if not self._begun:
            described = dataclasses.replace(self._series.describe(at), run=run.run)
            self._monitor.store.write_runs([described])
            self._begun = True
        before = self._last if turn.names is None else None
        self._series.only = turn.names
        outcome = self._measurer.measure(
            self._series, at, before, first=self._last is None, partly=turn.names is not None
        )
        self._series.only = None
        if self._last is not None:
            self._series.drop(self._last)
        self._last = at
        self._monitor.counts["measured"] += 1
        self._monitor.tell(
            "measured", at.step, units=outcome.done, inside=True, sampled=turn.names,
            problems=[*outcome.sentences(), *(failure.note for failure in outcome.failures)],
        )  # fmt: skip

    def _judge(self, copy: _Copy | None) -> None:
        run = self._monitor.run.run
        rows, end = self._history.new()
        self._copy_companions(rows, run)
        span = self._losses.copy(tidy(rows, run), run, after=-1)
        self._history.take(end)
        if span is not None:
            self._monitor.tell("metrics", span[1], first=span[0], last=span[1])
        with self._monitor._lock:
            self._watchman.journal = self._monitor.journal
            self._watchman.judge()

    def _copy_companions(self, rows: list[dict[str, Any]], run: str) -> None:
        """Copy what was logged beside the loss, such as a reward; the store's copy is replaced as a whole."""
        import pandas as pd

        from toposcope.logs.objective import with_direction

        new = pd.DataFrame(rows)
        names = with_direction(new)
        if not names:
            return  # nothing is kept of a run without such columns
        frames = [] if self._beside is None else [self._beside]
        self._beside = pd.concat([*frames, new[["step", *names]]], ignore_index=True)
        self._companions.copy(self._beside, run, after=-1)


def _source(run: RunRecord, copy: _Copy) -> Source:
    source = in_memory({run.run: {copy.step: dict(copy.tensors)}})[0]
    entry = source.entries[0]
    if copy.turn.names is not None:  # a part has no hash of the whole; this identifies it instead
        identity = {"inside": f"{run.run} {copy.step} {time.time_ns()}"}
        entry = dataclasses.replace(entry, identity=lambda: identity)
    record = dataclasses.replace(run, config=run.config or copy.config)
    return dataclasses.replace(source, run=record, entries=(entry,), config=record.config)


def process_rank() -> int:
    """Return this process's rank in distributed training; 0 otherwise.

    It comes from torch.distributed if initialised, and otherwise from the launchers' environment variables:
    RANK with WORLD_SIZE (torchrun, accelerate, DeepSpeed), or OMPI_COMM_WORLD_RANK (mpirun).
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    name = "RANK" if "WORLD_SIZE" in os.environ else "OMPI_COMM_WORLD_RANK"
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else 0


def _read_now(turn: Turn, name: str, tensor: Any) -> bool:
    """Return whether a tensor is copied at this step: matrices take turns; norms and biases always are."""
    return turn.names is None or name in turn.names or len(tensor.shape) < 2
