"""A copy of the loss, brought as a third party's probe, is found in every training run there is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from toposcope import Feature, Probe, Store, open_series
from toposcope.study import from_frame, trend_table
from toposcope.study.table import series_table
from toposcope.study.trends.verdicts import Draws, family_table
from toposcope.subjects.base import Measured
from toposcope.subjects.labels import Label
from toposcope.sweep import sweep

COPY = Feature("copy", label="the loss again", primary=True, description="the loss at the checkpoint")
FEW = Draws(20, 20, 100)
FAMILY = 60
"""Rows that Holm's method could run over and the copy still pass."""


@dataclass(frozen=True)
class Copy(Probe):
    """What the log says of the loss at a checkpoint, as if it were measured."""

    name: str = "copy"
    features: tuple[Feature, ...] = (COPY,)
    losses: tuple[tuple[tuple[str, int], float], ...] = ()

    def measure(self, snapshot):  # type: ignore[no-untyped-def]
        at = snapshot.checkpoint
        value = dict(self.losses)[at.run, at.step]
        return Measured(rows=Label("model").rows(at, self.name, {COPY.name: value}))


@pytest.fixture(scope="module")
def runs(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """Return run, step, loss and its copy of the five seed runs, measured into a store."""
    series = open_series(shared_data / "seed_runs")
    store = Store.create(tmp_path_factory.mktemp("copy") / "store", recipe={"made for": "a copy"})
    logs = [(run.run, series.metrics(run.run)) for run in series.runs]
    losses = tuple(
        ((run, int(step)), float(loss))
        for run, log in logs
        for step, loss in zip(log["step"], log["loss"], strict=True)
        if np.isfinite(loss)
    )
    assert not sweep(series, [Copy(losses=losses)], store).failures
    table = series_table(store.features(), store.metrics(), store.runs(), catalogue=store.catalogue())
    return table.values[["run", "step", "loss", "copy/copy"]]


_EVERY = np.arange(0, 5001, 100)


SCHEDULES = {
    "warmup and cosine": lambda u: np.minimum(1.0, 10.0 * u + 0.01) * (1.01 + np.cos(np.pi * u)),
    "decay over the last fifth": lambda u: np.minimum(1.0, (1.0 - u) / 0.2),
    "two drops": lambda u: np.where(u < 0.5, 1.0, np.where(u < 0.8, 0.1, 0.01)),
}


@pytest.mark.slow
@pytest.mark.parametrize("schedule", list(SCHEDULES))
def test_a_known_learning_rate_takes_no_copy_away(runs: pd.DataFrame, schedule: str) -> None:
    mine = runs[runs["step"].isin(_EVERY[::2])]
    table = from_frame(
        mine.assign(learning_rate=SCHEDULES[schedule](mine["step"] / 5000.0)), features=["copy/copy"]
    )
    found = trend_table(table, draws=FEW)
    assert found["verdict"].tolist() == ["adds"] * 5
    assert (found["p"] <= 0.05 / 15).all()
    assert family_table(table).iloc[0]["verdict"] == "adds"


@pytest.mark.parametrize(
    "steps", [_EVERY, _EVERY[::2], _EVERY[:26], _EVERY[-26:]], ids=["51", "26 even", "26 first", "26 last"]
)
def test_a_copy_of_the_loss_adds_in_every_seed_run(runs: pd.DataFrame, steps: np.ndarray) -> None:
    table = from_frame(runs[runs["step"].isin(steps)], features=["copy/copy"])
    found = trend_table(table, draws=FEW)
    assert found["verdict"].tolist() == ["adds"] * 5
    assert (found["p"] <= 0.05 / 15).all()  # three primary features in five runs
    over_all = family_table(table).iloc[0]
    assert over_all["verdict"] == "adds"
    assert over_all["runs"] == 5
    assert over_all["p"] <= 0.05 / FAMILY
