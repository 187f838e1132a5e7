"""A small store that grows, and a server of its page on the loopback."""

from __future__ import annotations

import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from toposcope.core.types import Diagram, Feature, Kind, Role, Row, RunRecord, Scope
from toposcope.store import KeptDiagram, Result, Store, Unit
from toposcope.subjects.weights.features import PERSISTENCE
from toposcope.watch.journal import Journal
from toposcope.watch.page.serve import HOST, bound, server

HOSTILE = '<img src=x onerror="alert(1)">'
"""A run's name that is markup, and stays text."""

PROBE = "neural_persistence"
MEASURED = Feature(
    PROBE, label="neural persistence", kind=Kind.TOPOLOGY, primary=True, leads=PERSISTENCE.leads
)
DECLARED = (MEASURED, Feature(f"{PROBE}_shuffled", label="its null", kind=Kind.NULL, null_of=MEASURED))


@dataclass
class Growing:
    """A store that a test appends to."""

    path: Path

    def __post_init__(self):
        self.store = Store.create(self.path, recipe={"points": 10})
        self.store.write_catalogue(PROBE, DECLARED)
        self.journal = Journal.of(self.path)

    def runs(self, *names, steps=4000):
        config = {"steps": steps}
        self.store.write_runs(
            RunRecord(name, family="gpt", parameters=1000 * (1 + i // 2), seed=i % 2, config=config)
            for i, name in enumerate(names)
        )

    def losses(self, run, last, every=10):
        steps = np.arange(0, last + 1, every)
        loss = 5 * (steps + 100.0) ** -0.15 + 0.01 * np.sin(steps)
        columns = {"run": run, "step": steps, "tokens": 64 * steps, "loss": loss, "seconds": 0.25 * steps}
        self.store.write_metrics(pd.DataFrame(columns))

    def checkpoint(self, run, step, *, layers=4, diagrams=False):
        at = {"run": run, "step": step, "probe": PROBE, "filtration": "seed004"}
        level = np.log1p(step)
        rows = [Row(**at, feature=PROBE, value=level, name="model")]
        rows += [
            Row(**at, feature=f"{PROBE}_shuffled", value=level * 0.7 + 0.1 * draw, name="model", draw=draw)
            for draw in range(3)
        ]
        rows += [
            Row(
                **at, feature=PROBE, value=0.1 * layer + level, name=f"layers.{layer}.mlp.weight",
                role=Role.MLP if layer else Role.ATTENTION, layer=layer, scope=Scope.MATRIX,
            )
            for layer in range(layers)
        ]  # fmt: skip
        kept = [
            KeptDiagram(
                Diagram(dim, np.linspace(0, 1, 6), np.array([2, 3, 2.5, 4, 3, np.inf]), "seed004"),
                "layers.0.mlp.weight", Role.MLP, 0, scope=Scope.MATRIX,
            )
            for dim in (0, 1)
        ]  # fmt: skip
        unit = Unit(run=run, step=step, probe=PROBE, version=1, content_hash=f"{run}{step}")
        self.store.write_results([Result(unit, tuple(rows), tuple(kept))], keep_diagrams=diagrams)

    def alarm(self, run, step, culprit="layers.2.mlp.weight"):
        told = {"name": culprit, "head": None, "feature": "x", "sentence": "norm 1 -> 9 (+8.0 of its own)"}
        return self.journal.append(
            "alarm", run, step, test="loss spike", sentence="loss is 9 where 2 was expected",
            last_good=step - 100, culprits=[told],
        )  # fmt: skip


@pytest.fixture
def growing(tmp_path):
    made = Growing(tmp_path / "study")
    made.runs("small-seed0", "small-seed1", HOSTILE)
    for run in ("small-seed0", "small-seed1", HOSTILE):
        made.losses(run, 2000)
        for step in range(0, 2001, 200):
            made.checkpoint(run, step, diagrams=step % 400 == 0)
    return made


@pytest.fixture
def served(growing):
    """Serve the growing store, and give its address."""
    serving = server(growing.path, every=0.05, answer_every=3600)
    listening = bound(HOST, 0)
    thread = threading.Thread(target=serving.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not serving.started:
        assert thread.is_alive()
        time.sleep(0.01)
    address = f"http://{HOST}:{listening.getsockname()[1]}"
    for _ in range(600):  # a slow machine takes its time to take the store in
        with urllib.request.urlopen(address) as answer:
            if b"small-seed0" in answer.read():
                break
        time.sleep(0.05)
    yield address
    serving.should_exit = True
    thread.join(10)
